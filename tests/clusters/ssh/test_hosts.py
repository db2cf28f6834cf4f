"""The hosts file as data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.ssh.hosts import (
    DEAD_MAN_NS,
    Bastion,
    HostsFile,
    Pattern,
    PidFile,
    Unit,
    hosts_of_flags,
    parse_hosts,
    parse_place,
)
from dethrone.harness.core.errors import ConfigError

FULL = """\
expendable = ["n1", "n2"]
user = "chaos"
bastion = "jump@gate.example:2200"
dead_man = "30s"
faults = ["kill"]

[hosts.n1]
address = "192.0.2.11"
target = { unit = "etcd.service" }

[hosts.n2]
address = "192.0.2.12"
port = 2222
user = "root"
sudo = true
inside = "10.0.0.2"
target = { pid_file = "/run/etcd.pid" }
"""


def parse(text: str) -> HostsFile:
    return parse_hosts(text, source="hosts.toml")


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return caught.value


def test_a_host_has_what_the_top_says_unless_it_says_otherwise():
    file = parse(FULL)
    n1, n2 = file.hosts["n1"], file.hosts["n2"]
    assert (n1.user, n1.port, n1.sudo) == ("chaos", 22, False)
    assert (n2.user, n2.port, n2.sudo, n2.inside) == ("root", 2222, True, "10.0.0.2")
    assert n1.bastion == n2.bastion == Bastion(address="gate.example", port=2200, user="jump")
    assert (n1.target, n2.target) == (Unit("etcd.service"), PidFile("/run/etcd.pid"))
    assert file.expendable == {"n1", "n2"}
    assert file.faults == {"kill"}
    assert file.dead_man_ns == 30_000_000_000


def test_what_is_not_said_allows_nothing():
    file = parse('[hosts.n1]\naddress = "192.0.2.11"\n')
    assert file.expendable == frozenset()
    assert not file.majority
    assert not file.hosts["n1"].settimeofday
    assert not file.hosts["n1"].sudo
    assert file.dead_man_ns == DEAD_MAN_NS
    assert not file.faults & {"wipe", "damage", "powerloss", "disk"}


@pytest.mark.parametrize(
    ("before", "after", "line", "nearest"),
    [
        ('user = "root"', 'usr = "root"', 14, "'user'"),
        ("dead_man =", "dead_mann =", 4, "'dead_man'"),
        ("sudo = true", "sudos = true", 15, "'sudo'"),
        ("pid_file", "pidfile", 17, "'pid_file'"),
        ('["n1", "n2"]', '["n1", "n22"]', 1, "'n2'"),
    ],
)
def test_an_unknown_key_is_refused_with_its_line_and_the_nearest_one(before, after, line, nearest):
    error = refusal(FULL.replace(before, after))
    assert error.where == f"hosts.toml:{line}"
    assert nearest in error.next_step


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("port = 2222", "port = 70000", 13),
        ("port = 2222", 'port = "22"', 13),
        ("port = 2222", "port = true", 13),
        ("sudo = true", 'sudo = "yes"', 15),
        ('user = "chaos"', 'user = "-oProxyCommand=sh"', 2),
        ('address = "192.0.2.12"', 'address = "192.0.2.12:22"', 12),
        ('address = "192.0.2.12"', 'address = "-x"', 12),
        ('address = "192.0.2.12"\n', "", 11),
        ('dead_man = "30s"', 'dead_man = "30"', 4),
        ('dead_man = "30s"', 'dead_man = "1s"', 4),
        ('dead_man = "30s"', 'state_dir = "/"', 4),
        ('dead_man = "30s"', 'state_dir = "/var/../etc"', 4),
        ('faults = ["kill"]', 'faults = "kill"', 5),
        ('unit = "etcd.service"', 'unit = "-H evil"', 9),
        ('unit = "etcd.service"', 'pattern = "("', 9),
        ('unit = "etcd.service"', 'pattern = ".*"', 9),
        ('unit = "etcd.service"', 'unit = "a", pattern = "b"', 9),
        ('pid_file = "/run/etcd.pid"', 'pid_file = "etcd.pid"', 17),
    ],
)
def test_a_wrong_value_is_refused_at_its_line(before, after, line):
    assert before in FULL
    assert refusal(FULL.replace(before, after, 1)).where == f"hosts.toml:{line}"


def test_two_names_for_one_machine_are_refused():
    error = refusal('[hosts.a]\naddress = "192.0.2.1"\n[hosts.b]\naddress = "192.0.2.1"\n')
    assert "a and b are the same machine" in error.what


def test_a_file_that_is_no_toml_or_names_no_host_is_refused():
    assert "not TOML" in refusal("hosts = [").what
    assert "names no host" in refusal('user = "root"').what


def test_a_pattern_is_kept_as_it_was_written():
    file = parse('[hosts.n1]\naddress = "a"\ntarget = { pattern = "etcd --name n1" }\n')
    assert file.hosts["n1"].target == Pattern("etcd --name n1")


def test_flags_change_places_but_never_what_is_allowed():
    file = hosts_of_flags(["n2=other@192.0.2.99:23", "n3=192.0.2.13"], file=parse(FULL))
    assert (file.hosts["n2"].address, file.hosts["n2"].user, file.hosts["n2"].port) == ("192.0.2.99", "other", 23)
    assert file.hosts["n2"].sudo
    assert file.hosts["n3"].user is None
    assert file.expendable == {"n1", "n2"}


@pytest.mark.parametrize(
    "words", [["n1"], ["=192.0.2.1"], ["n1=a", "n1=b"], ["a=192.0.2.1", "b=192.0.2.1"], ["n1=a:b"]]
)
def test_a_flag_that_names_no_host_is_refused(words):
    with pytest.raises(ConfigError):
        hosts_of_flags(words)


@given(
    user=st.none() | st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True),
    address=st.ip_addresses().map(str) | st.from_regex(r"[a-z][a-z0-9.]{0,8}[a-z]", fullmatch=True),
    port=st.none() | st.integers(1, 65535),
)
def test_a_place_that_is_written_down_is_read_back(user, address, port):
    shown = f"[{address}]" if ":" in address else address
    text = (f"{user}@" if user else "") + shown + (f":{port}" if port else "")
    assert parse_place(text, where="") == (user, address, port)


@given(st.text(max_size=80))
def test_no_text_at_all_breaks_the_reader(text):
    with pytest.raises(ConfigError, match="hosts") as caught:
        parse(text)
    assert caught.value.where.startswith("hosts.toml")
