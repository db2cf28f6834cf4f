"""Descriptions: what is wrong is said with its table and the nearest right word; nothing is assumed."""

import contextlib
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.processes import FirstTable, ProcessTable, ReadyTable, SetupTable
from dethrone.clusters.own.spec import LogTable, NodeTable, OpTable, ProbeTable, PromiseTable, SystemTable, TraceTable
from dethrone.clusters.own.system import OwnSystem
from dethrone.clusters.own.versions import VersionTable
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import TEXT, described


def refused(*changes):
    with pytest.raises(ConfigError) as error:
        described(*changes)
    return error.value


@pytest.mark.parametrize(
    ("change", "where", "nearest"),
    [
        (('http = "/status"', 'htp = "/status"'), "[probe]", "'http'"),
        (("leader_within", "leader_witin"), "[promise]", "'leader_within'"),
        (("put =", "putt ="), "[ops]", "'put'"),
        (("[node]", '[node]\nfirsts = { command = "init" }'), "[node]", "'first'"),
        (("[probe]", "[prob]"), "my.toml", "'probe'"),
        (("ports =", "prots ="), "[node]", "'ports'"),
        (('"vote_granted"', '"vote_grant"'), "[trace]", "'vote_granted'"),
        (("{members}", "{member}"), "command", "'{members}'"),
        (("PUT /kv/{key}", "PUT /kv/{kee}"), "put", "'{key}'"),
        (('http = "/status"', 'http = "/status"\nport = "htp"'), "[probe]", "'http'"),
    ],
)
def test_an_unknown_word_is_refused_with_its_table_and_the_nearest_known_one(change, where, nearest):
    error = refused(change)
    assert where in error.where
    assert f"did you mean {nearest}" in error.next_step


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('name = "mine"', 'name = "Mine!"'), "no name of a system"),
        (('name = "mine"', 'name = "mine"\ndebian = "12 or so"'), "no release of Debian"),
        (('name = "mine"', 'name = "mine"\ndebian = "sid"\nimage = "mine:1"'), "both image and debian"),
        (('name = "mine"', "name = 3"), "wrong form"),
        (('election_timeout = "1s"', 'election_timeout = "1"'), "not a duration"),
        (('election_timeout = "1s"', 'election_timeout = "0s"'), "longer than nothing"),
        (
            ('election_timeout = "1s"', 'election_timeout = "1s"\nstall_max = "200ms"'),
            "200ms' is too long",
        ),
        (('tolerates = ["partition", "kill"]', ""), "wrong form"),
        (('http = "/status"', 'http = "/status"\nmetrics = "/metrics"'), "exactly one"),
        (('http = "/status"', 'http = "status"'), "no path of a URL"),
        (('term = "raft.term"', ""), "role or whether it leads"),
        (('put = "PUT', 'put = "put'), "is no request"),
        (("http = 8000", "http = 80000"), "no port"),
        (("http = 8000", "name = 8000"), "no name of a port"),
        (("x y'", "x y"), "cannot be split"),
        (("[promise]", "[promise]\nfoo = ["), "not TOML"),
        (("ports =", 'files = { "prog" = "prog" }\nports ='), "no absolute path"),
        (('"committed"]', '"committed"]\nvoters = 1'), "wrong form"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_before_anything_is_started(change, said):
    assert said in str(refused(change))


@pytest.mark.parametrize("table", ["system", "node", "probe", "promise"])
def test_a_table_that_is_needed_and_missing_is_named(table):
    start = TEXT.index(f"[{table}]")
    end = TEXT.find("\n[", start)
    text = TEXT[:start] + (TEXT[end:] if end >= 0 else "")
    with pytest.raises(ConfigError, match=rf"has no \[{table}\]"):
        described(text=text)


def test_inline_tables_say_the_same_as_headed_ones():
    inline = 'system = { name = "mine" }\n' + TEXT.replace('[system]\nname = "mine"\n', "")
    assert described(text=inline) == described()


def test_a_node_asks_for_a_user_capabilities_and_what_it_reads_of_this_machine():
    node = described(("[node]", '[node]\nuser = "root"\ncapabilities = ["cap_net_raw"]\nshows = ["/srv/app"]')).node
    assert (node.user, node.capabilities, node.shows) == ("root", ("cap_net_raw",), ("/srv/app",))
    assert described().node.user is None
    assert "no user" in str(refused(("[node]", '[node]\nuser = "a b"')))
    assert "NET_ADMIN" in str(refused(("[node]", '[node]\ncapabilities = ["NET_ADMN"]')))
    for path in ("app", "/", "/srv/../root"):
        assert "cannot be shown" in str(refused(("[node]", f'[node]\nshows = ["{path}"]')))


def test_what_all_operations_share_stands_once_and_one_may_differ():
    ops = described(
        ("[ops]", "[ops]\nfail = [503]"), ('get = "GET /kv/{key}"', 'get = { request = "GET /k/{key}", fail = [409] }')
    ).ops
    assert (ops["put"].fail, ops["get"].fail) == ((503,), (409,))


def test_a_log_probe_needs_patterns_that_tell_a_term():
    probe = (
        'http = "/status"\nrole = "raft.state"\nterm = "raft.term"\nleader = "raft.leader"\ncommit = "raft.commit"',
    )
    good = "log = \"{log_dir}/node.log\"\nbecame = { leader = 'lead (?P<term>\\d+)', follower = 'follow' }"
    assert described((probe[0], good)).probe.log == "{log_dir}/node.log"
    assert "no group" not in str(described((probe[0], good)))
    assert "(?P<term>" in str(refused((probe[0], good.replace("(?P<term>\\d+)", "now"))))
    assert "is no pattern" in str(refused((probe[0], good.replace("'follow'", "'('"))))


@given(st.text(max_size=300))
def test_any_text_is_a_description_or_a_configuration_error(text):
    with contextlib.suppress(ConfigError):
        assert described(text=text).system.name


@given(st.data())
def test_a_description_with_any_line_lost_or_doubled_is_one_or_a_configuration_error(data):
    lines = TEXT.strip().split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    changed = lines[:at] + lines[at + 1 :] if data.draw(st.booleans()) else [*lines[:at], lines[at], *lines[at:]]
    with contextlib.suppress(ConfigError):
        assert described(text="\n".join(changed)).system.name == "mine"


def test_a_probe_by_command_or_log_knows_the_words_of_its_place():
    http = 'http = "/status"\nrole = "raft.state"\nterm = "raft.term"\nleader = "raft.leader"\ncommit = "raft.commit"'
    asked = 'command = "ctl --at {address}:{http} {data_dir}"\nrole = "role"\nterm = "term"'
    assert described((http, asked)).probe.command == "ctl --at {address}:{http} {data_dir}"
    assert "{adress}" in str(refused((http, asked.replace("{address}", "{adress}"))))
    lasting = described((http, asked + "\nlasting = true")).probe
    assert lasting.lasting
    assert "`lasting` belongs to" in str(refused(("[probe]", "[probe]\nlasting = true")))
    log = "log = \"{logs}/x\"\nbecame = { leader = 'lead (?P<term>\\d+)', follower = 'follow' }"
    assert "{logs}" in str(refused((http, log)))


def test_groups_are_looked_for_in_json_only_and_named_by_their_field():
    assert described(("[probe]", '[probe]\ngroups = "shards"\ngroup = "id"')).probe.group == "id"
    assert "`group` without `groups`" in str(refused(("[probe]", '[probe]\ngroup = "id"')))
    http = 'http = "/status"\nrole = "raft.state"\nterm = "raft.term"\nleader = "raft.leader"\ncommit = "raft.commit"'
    metrics = 'metrics = "/metrics"\nleads = "leads"\nterm = "term"\ngroups = "shards"'
    assert "in JSON only" in str(refused((http, metrics)))
    by_pattern = 'command = "ctl"\npattern = \'(?P<role>\\w+) (?P<term>\\d+)\'\ngroups = "shards"'
    assert "in JSON only" in str(refused((http, by_pattern)))


@pytest.mark.parametrize("term", ["a + ", " + a", "a * * b", "1 + 2", "2 * 3"])
def test_a_term_that_is_no_sum_of_places_is_refused(term):
    assert "no place and no sum of places" in str(refused(('term = "raft.term"', f'term = "{term}"')))


def test_the_reference_shows_a_whole_description_that_is_right():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(\[(?:system|probe|ops|promise|trace)\].*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = parse("\n".join(blocks), path="page", read=lambda _: FileRead(b"", executable=True))
    assert (found.system.name, found.knobs, found.ops["cas"].refused) == ("keep", {"quick": "false", "dsn": ""}, (409,))
    assert found.trace is not None
    assert found.promise.pre_vote


def test_the_reference_names_every_key():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    tables = (SystemTable, NodeTable, ProbeTable, TraceTable, OpTable, PromiseTable)
    tables += (ProcessTable, ReadyTable, FirstTable, SetupTable, VersionTable)
    keys = {field.name for table in tables for field in msgspec.structs.fields(table)} - {"request"}
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", page)] == []


@pytest.mark.parametrize("limit", ['memory = "2"', 'memory = "1m"', 'memory = "-1g"', "pids = 0", "pids = -5"])
def test_a_limit_on_a_host_that_is_none_is_refused(limit):
    said = str(refused(("[node]", f"[node]\n{limit}")))
    assert "no size of memory" in said or "is out of range" in said


def test_limits_on_a_host_reach_its_deployment():
    text = TEXT.replace("[node]", '[node]\nmemory = "512m"\npids = 300')
    defaults = OwnSystem(parse(text, path="a.toml", read=lambda _: FileRead(b"", False))).defaults()
    assert (defaults.memory_bytes, defaults.pids) == (512 << 20, 300)


LOG = '[log]\nfatal = ["panic:", "DATA RACE"]\nfile = "{log_dir}/app.log"\nexits_ok = [3, -15]\n\n[promise]'


def test_fatal_texts_and_harmless_exit_codes_are_read():
    log = described(("[promise]", LOG)).log
    assert (log.fatal, log.file, log.exits_ok) == (("panic:", "DATA RACE"), "{log_dir}/app.log", (3, -15))
    assert described().log == LogTable()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"panic:"', '"p"', "no fatal text"),
        ('"panic:"', '"a\\nb"', "no fatal text"),
        ('"panic:"', '"' + "x" * 201 + '"', "no fatal text"),
        ("[3, -15]", "[300]", "no exit code"),
        ("[3, -15]", '["3"]', "wrong form"),
        ("{log_dir}/app.log", "app.log", "no absolute path"),
        ("fatal =", "fatall =", "unknown key"),
    ],
)
def test_a_log_table_that_cannot_be_meant_is_refused(old, new, said):
    error = refused(("[promise]", LOG.replace(old, new)))
    assert said in error.what
    assert "[log]" in error.where
