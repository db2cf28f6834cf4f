"""Knobs of every target: words and types agree, times scale exactly, both spellings, and what cannot be is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.config import load_target
from dethrone.clusters.targets.bully.knobs import KNOBS as BULLY
from dethrone.clusters.targets.dledger.knobs import KNOBS as DLEDGER
from dethrone.clusters.targets.joyqueue.knobs import KNOBS as JOYQUEUE
from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, scaling, switch, time, whole
from dethrone.clusters.targets.kraft.knobs import KNOBS as KRAFT
from dethrone.clusters.targets.master_slave.knobs import KNOBS as MASTER_SLAVE
from dethrone.clusters.targets.nacos.knobs import KNOBS as NACOS
from dethrone.clusters.targets.paxos.knobs import KNOBS as PAXOS
from dethrone.clusters.targets.raft.knobs import KNOBS as RAFT
from dethrone.clusters.targets.zk_ephemeral.knobs import KNOBS as ZK_EPHEMERAL
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError

TABLES = (BULLY, DLEDGER, JOYQUEUE, KRAFT, MASTER_SLAVE, NACOS, PAXOS, RAFT, ZK_EPHEMERAL)
PROFILES = [pytest.param(table, profile, id=profile) for table in TABLES for profile in table.profiles]
KNOBS = [pytest.param(table, name, id=f"{table.target}-{name}") for table in TABLES for name in table.knobs]
ORIGINALS = [
    pytest.param(table, name, other, id=other)
    for table in TABLES
    for name, knob in table.knobs.items()
    for other in knob.original
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.target)
def test_the_table_names_the_target_and_every_knob_says_what_it_does(table):
    assert load_target(table.target.replace("-", "_")).knobs({}) == table.parse({})
    assert all(knob.says for knob in table.knobs.values())


@pytest.mark.parametrize(("table", "profile"), PROFILES)
def test_a_profile_is_spelled_out_in_full(table, profile):
    words = table.words({}, profile=profile)
    assert list(words) == list(table.knobs)
    assert table.profiles[profile].items() <= words.items()
    assert table.parse({}, profile=profile).profile == profile


@pytest.mark.parametrize(("table", "name"), KNOBS)
def test_a_word_that_no_knob_takes_is_refused_by_name(table, name):
    if table.knobs[name].allowed in {"a name", "last, or a node's name"} or "node names" in table.knobs[name].allowed:
        return
    with pytest.raises(ConfigError) as error:
        table.parse({name: "!"})
    assert f"knob {name} of {table.target} cannot be '!'" in str(error.value)
    assert table.knobs[name].allowed in str(error.value)


@pytest.mark.parametrize(
    ("table", "words", "says"),
    [
        (RAFT, {"clock_drift_bound": "0.9"}, "at least 1"),
        (RAFT, {"check_quorum": "off"}, "check_quorum=on"),
        (RAFT, {"noop": "off"}, "noop=on"),
        (RAFT, {"reads": "lease", "stickiness": "off"}, "stickiness=on"),
        (RAFT, {"reads": "lease", "vote_holdoff_after_start": "off"}, "vote_holdoff_after_start=on"),
        (RAFT, {"reads": "lease", "stickyWindow": "100"}, "sticky_window"),
        (RAFT, {"pre_vote": "off", "prevote_leader_check": "on"}, "pre_vote=on"),
        (RAFT, {"membership": "single_server", "noop": "off", "reads": "local"}, "noop=on"),
        (RAFT, {"config_needs_own_commit": "off"}, "single_server"),
        (RAFT, {"electionTimeoutMin": "400"}, "election_timeout_max"),
        (RAFT, {"heartbeatInterval": "100"}, "heartbeat_interval"),
        (RAFT, {"checkQuorumWindow": "50"}, "check_quorum_window"),
        (RAFT, {"safe_reads": "on", "reads": "local"}, "contradict"),
        (DLEDGER, {"min_vote_interval_ms": "1000"}, "below"),
        (KRAFT, {"observers": "n1,n1"}, "each once"),
        (KRAFT, {"cluster_id": ""}, "a name"),
        (JOYQUEUE, {"groups": "0"}, "groups"),
        (JOYQUEUE, {"groups": "17"}, "groups"),
        (JOYQUEUE, {"defer_task": "n2:votes:8"}, "defer_task"),
        (JOYQUEUE, {"defer_task": "n2:vote:x"}, "defer_task"),
        (JOYQUEUE, {"executor_thread_num_min": "60"}, "executor_thread_num_min"),
        (JOYQUEUE, {"heartbeat_timeout_ms": "5000"}, "heartbeat_timeout_ms"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_remedy(table, words, says):
    with pytest.raises(ConfigError) as caught:
        table.parse(words)
    assert says in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize(("table", "name", "other"), ORIGINALS)
def test_the_originals_name_means_the_same_knob_and_only_one_may_be_given(table, name, other):
    word = table.words({})[name]
    assert table.given({other: word}) == table.given({name: word})
    with pytest.raises(ConfigError, match="twice"):
        table.parse({other: word, name: word})


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.target)
def test_an_unknown_knob_or_profile_names_the_nearest(table):
    with pytest.raises(ConfigError, match="time_factor"):
        table.parse({"time_facto": "1"})
    profile = next(iter(table.profiles))
    with pytest.raises(ConfigError, match=profile):
        table.parse({}, profile=profile[:-1])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.target)
@pytest.mark.parametrize("factor", ["0.1", "0.5", "10"])
def test_the_time_factor_scales_every_time_exactly(table, factor):
    plain, scaled = table.parse({}), table.parse({"time_factor": factor})
    assert scaled.time_factor == Fraction(factor)
    assert scaled.ns(5000) == 5000 * MS * Fraction(factor)
    times = [name for name, knob in table.knobs.items() if knob.allowed == "a number of ms above 0"]
    fields = [name.removesuffix("_ms") for name in times if hasattr(plain, name.removesuffix("_ms"))]
    assert all(getattr(scaled, one) == getattr(plain, one) * Fraction(factor) for one in fields)


# --- a table of our own -----------------------------------------------------------------------------------------


class Toy(Settings, frozen=True, kw_only=True):
    time_factor: Annotated[Fraction, scaling("0.01", "100")]
    eager: Annotated[bool, switch("off")]
    mode: Annotated[str, one_of("a", ("a", "b", "c"))]
    fenced: Annotated[bool, one_of("", {"no": False, "yes": True})]
    pause: Annotated[Ns, time("20", name="long_pause_ms")]
    most: Annotated[int, whole("3", least=2, most=5, original=("max.count",))]

    def contradictions(self):
        if self.mode == "c" and not self.fenced:
            yield "mode c needs a fence", "set fenced"


def _fill(words):
    words["fenced"] = words["fenced"] or ("yes" if words["mode"] == "b" else "no")


class ToyTable(KnobTable):
    def contradictions(self, knobs, given):
        yield from super().contradictions(knobs, given)
        if knobs.eager and "most" in given:
            yield "eager counts nothing", "leave most out"


TOY = ToyTable("toy", Toy, profiles={"toy": {}, "bold": {"eager": "on"}}, fill=_fill)
SPELLED = KnobTable("toy", Toy, profiles={"toy": {}}, fill=_fill, spelled=True)


def test_a_word_of_the_same_meaning_is_shown_as_the_default_is_spelled():
    assert TOY.words({"eager": "true"})["eager"] == "on"


def test_what_follows_another_word_is_filled_in_for_nodes_and_for_readers_where_it_is_spelled_out():
    assert TOY.words({"mode": "b"})["fenced"] == ""
    assert SPELLED.words({"mode": "b"})["fenced"] == "yes"
    assert TOY.parse({"mode": "b"}).fenced
    assert not TOY.parse({"mode": "b", "fenced": "no"}).fenced


def test_a_contradiction_is_told_with_the_target_and_a_remedy():
    with pytest.raises(ConfigError) as error:
        TOY.parse({"most": "4"}, profile="bold")
    assert all(part in str(error.value) for part in ("eager counts nothing", "toy target", "leave most out"))
    assert TOY.parse({}, profile="bold").most == 3
    with pytest.raises(ConfigError, match="mode c needs a fence"):
        TOY.parse({"mode": "c"})


@pytest.mark.parametrize("spelled", ["maxCount", "max.count"])
def test_names_are_found_in_the_originals_spelling(spelled):
    assert TOY.given({"longPause": "5", "Mode": "b"}) == {"long_pause_ms": "5", "mode": "b"}
    if spelled == "max.count":
        assert TOY.parse({spelled: "5"}).most == 5
    else:
        with pytest.raises(ConfigError, match="unknown knob"):
            TOY.parse({spelled: "5"})


@pytest.mark.parametrize("word", ["0.001", "101", "1/3", "0.1234567", "nan", "inf", "-1", "0", "", "x"])
def test_a_factor_out_of_bounds_is_refused(word):
    with pytest.raises(ConfigError, match="time_factor"):
        TOY.parse({"time_factor": word})


@pytest.mark.parametrize(
    ("needs", "missing"),
    [
        ({}, ""),
        ({"mode": "b"}, ""),
        ({"mode": "a|b", "most": "*"}, ""),
        ({"mode": "a|c"}, "mode=a or c"),
        ({"eager": "*"}, "eager other than 'off'"),
        ({"mode": "b", "long_pause_ms": "21"}, "long_pause_ms=21"),
    ],
)
def test_the_first_need_that_is_not_met_is_named(needs, missing):
    assert TOY.unmet(TOY.parse({"mode": "b", "most": "4"}), needs) == missing


@given(st.integers(1, 10**9), st.integers(1, 10**4))
def test_a_time_is_a_whole_number_of_ns_and_never_0(word, hundredths):
    knobs = TOY.parse({"long_pause_ms": str(word), "time_factor": f"{hundredths / 100}"})
    assert knobs.pause == max(1, word * MS * hundredths // 100)
