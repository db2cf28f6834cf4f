"""Probes that take role and term at two moments: named where something rests on it, and no other probe is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.moments import WHAT, clients, doubts
from dethrone.clusters.own.system import described as of_file
from tests.clusters.own.described import TEXT, described

HTTP = 'http = "/status"\nrole = "raft.state"\nterm = "raft.term"\nleader = "raft.leader"\ncommit = "raft.commit"'
TWICE = 'command = ["/bin/sh", "-c", "ctl role; ctl term"]\nrole = "role"\nterm = "term"'
METRICS = 'metrics = "/metrics"\nleads = \'state{is="leader"}\'\nterm = "term"\nport = "http"'
LOG = "log = \"{log_dir}/node.log\"\nbecame = { leader = 'lead', follower = 'follows in (?P<term>\\d+)' }"
ATOMIC = ("[trace]", "atomic = true\n[trace]")
BOUND = ("[promise]", "[promise]\nleader_bound_to_term = true")
UNBOUNDED = ('leader_within = "5s"\n', "")


def whys(probe, *changes):
    found = doubts(described((HTTP, probe), *changes))
    assert [what for what, _ in found] in ([], [WHAT])
    assert all(doubt.what_to_do for _, doubt in found)
    return "".join(doubt.why for _, doubt in found)


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ("ctl status --json", ["ctl"]),
        ("ctl info | grep role | cut -d: -f2", ["ctl"]),
        ("redis-cli role; redis-cli -p 26379 sentinel masters", ["redis-cli", "redis-cli"]),
        ("/usr/bin/etcdctl a && curl -s b | jq .x", ["curl", "etcdctl"]),
        ('role=$(ctl role 2>&1)\nterm=`ctl term`\necho "$role $term"', ["ctl", "ctl"]),
        ("echo $(ctl a | awk '{print $(NF)}')", ["ctl"]),
        ("timeout 1 nice -n 5 ctl a & ctl b", ["ctl", "ctl"]),
        ("# ctl a; ctl b\nif ctl up; then echo up; fi", ["ctl"]),
        ("ctl status || ctl-old status || exit 1", ["ctl"]),
        ("A=1 ctl a >/dev/null; (ctl b)", ["ctl", "ctl"]),
        ("while read -r line; do ctl status; done", ["ctl"]),
    ],
)
def test_a_script_asks_by_its_programs_not_by_what_takes_their_output_apart(script, asked):
    assert sorted(clients(script)) == asked


@given(st.text(alphabet="ab$()`'\"|&;#\n <>=-1{}!"))
def test_any_script_has_an_end(script):
    assert len(list(clients(script))) <= len(script)


def test_a_shell_that_asks_twice_is_named_where_anything_rests_on_it():
    why = whys(TWICE, UNBOUNDED, ATOMIC)
    assert "asks several times, one after the other (ctl 2 times)" in why
    assert why.endswith("atomic = true in [probe] rests on it")
    claims = ("atomic = true in [probe]", "leader_bound_to_term = true in [promise]", "leader_within in [promise]")
    assert whys(TWICE, ATOMIC, BOUND).endswith(f"{' and '.join(claims)} rest on it")
    assert whys(TWICE).endswith("leader_within in [promise] rests on it")
    assert whys(TWICE, UNBOUNDED) == ""


def test_a_shell_that_asks_once_and_a_program_of_ones_own_are_left_alone():
    assert whys(TWICE.replace("ctl role; ctl term", "ctl status | grep -v x"), ATOMIC) == ""
    assert whys(TWICE.replace('["/bin/sh", "-c", "ctl role; ctl term"]', '"{python} status.py"'), ATOMIC) == ""


@pytest.mark.parametrize("command", ["/bin/sh {run_dir}/probe.sh", "{run_dir}/probe.sh"])
def test_a_script_that_the_description_brings_is_read(command):
    texts = '[node.texts]\n"{run_dir}/probe.sh" = """#!/bin/sh\nctl role\nctl term\n"""\n[probe]'
    probe = TWICE.replace('["/bin/sh", "-c", "ctl role; ctl term"]', f'"{command}"')
    assert "ctl 2 times" in whys(probe, ("[probe]", texts), ATOMIC)


@pytest.mark.parametrize("claim", [ATOMIC, BOUND])
def test_metrics_are_of_one_moment_only_where_nobody_claims_it(claim):
    assert "two metrics" in whys(METRICS, claim)
    assert whys(METRICS) == ""


def test_a_line_of_a_leader_without_a_term_has_that_of_an_earlier_line():
    assert "`leader` has no group" in whys(LOG, ATOMIC)
    assert "`leader` has no group" in whys(LOG, BOUND)
    sound = LOG.replace("'lead'", "'lead (?P<term>\\d+)'")
    assert whys(sound, ATOMIC) == ""
    mixed = sound.replace("follows in (?P<term>\\d+)", "follows")
    assert "`follower` has no group" in whys(mixed, ATOMIC)
    assert whys(mixed, BOUND) == ""


def test_an_answer_over_http_and_the_whole_gallery_are_left_alone():
    assert doubts(described(ATOMIC, BOUND)) == []
    files = sorted((Path(__file__).parents[3] / "clusters" / "gallery").glob("*/*.toml"))
    assert len(files) > 10
    assert [file.name for file in files if of_file(file).doubts()] == []


def test_the_reference_shows_the_trap():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(# of two moments.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ports = ("ports = { peer = 7000, http = 8000 }", "ports = { redis = 6379, sentinel = 26379, http = 8000 }")
    text = TEXT.replace(f"[probe]\n{HTTP}\n", block)
    ((_, doubt),) = doubts(described(ports, text=text))
    assert "(redis-cli 2 times)" in doubt.why
