"""Knobs: defaults of both profiles, exact scaling, and every way to be wrong."""

import pytest

from dethrone.clusters.targets.raft.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError


def knobs(profile=None, **words):
    return TARGET.knobs(words, profile=profile)


def test_the_profile_raft_has_every_extension_that_the_gate_needs():
    k = knobs()
    assert (k.pre_vote, k.prevote_leader_check, k.check_quorum, k.stickiness, k.noop) == (True,) * 5
    assert (k.reads, k.membership, k.transfer, k.vote_holdoff_after_start) == ("readindex", "static", False, False)
    assert (k.log_check, k.prev_check, k.persist, k.commit_current_term_only) == (True,) * 4
    assert (k.retry_same_term, k.eager_commit_notice, k.max_entries_per_append) == (False, False, 64)


def test_the_profile_raft_paper_has_none_of_them():
    k = knobs("raft-paper")
    assert (k.pre_vote, k.prevote_leader_check, k.check_quorum, k.stickiness, k.noop) == (False,) * 5
    assert k.reads == "local"


def test_default_times_are_those_of_the_specification():
    k = knobs()
    assert (k.election_timeout_min, k.election_timeout_max) == (150 * MS, 300 * MS)
    assert (k.heartbeat_interval, k.rpc_timeout) == (50 * MS, 50 * MS)
    assert (k.check_quorum_window, k.sticky_window) == (300 * MS, 150 * MS)


@pytest.mark.parametrize(("factor", "least"), [("0.1", 15 * MS), ("10", 1500 * MS), ("1", 150 * MS), ("0.3", 45 * MS)])
def test_time_factor_scales_exactly(factor, least):
    assert knobs(time_factor=factor).election_timeout_min == least


def test_windows_follow_the_timeouts_unless_given():
    k = knobs(electionTimeoutMin="200", electionTimeoutMax="500", stickyWindow="250")
    assert (k.check_quorum_window, k.sticky_window) == (500 * MS, 250 * MS)


def test_holdoff_is_on_iff_reads_use_leases():
    assert knobs(reads="lease").vote_holdoff_after_start
    assert not knobs(reads="readindex").vote_holdoff_after_start


def test_safe_reads_is_another_word_for_reads():
    assert knobs("raft-paper", safe_reads="on", noop="on").reads == "readindex"
    assert knobs(safe_reads="off").reads == "local"
    assert knobs(safe_reads="on", reads="log").reads == "log"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"pre_vot": "on"}, "pre_vote"),
        ({"pre_vote": "yes"}, "on|off"),
        ({"time_factor": "fast"}, "number"),
        ({"time_factor": "0"}, "above 0"),
        ({"time_factor": "-1"}, "above 0"),
        ({"reads": "leases"}, "lease"),
        ({"membership": "joint"}, "joint"),
        ({"max_entries_per_append": "1.5"}, "whole"),
        ({"clock_drift_bound": "0.9"}, "at least 1"),
        ({"check_quorum": "off"}, "check_quorum=on"),
        ({"noop": "off"}, "noop=on"),
        ({"reads": "lease", "stickiness": "off"}, "stickiness=on"),
        ({"reads": "lease", "vote_holdoff_after_start": "off"}, "vote_holdoff_after_start=on"),
        ({"reads": "lease", "stickyWindow": "100"}, "sticky_window"),
        ({"pre_vote": "off", "prevote_leader_check": "on"}, "pre_vote=on"),
        ({"membership": "single_server", "noop": "off", "reads": "local"}, "noop=on"),
        ({"config_needs_own_commit": "off"}, "single_server"),
        ({"electionTimeoutMin": "400"}, "election_timeout_max"),
        ({"heartbeatInterval": "100"}, "heartbeat_interval"),
        ({"checkQuorumWindow": "50"}, "check_quorum_window"),
        ({"rpcTimeout": "50", "rpc_timeout_ms": "60"}, "twice"),
        ({"safe_reads": "on", "reads": "local"}, "contradict"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start_and_named(words, says):
    with pytest.raises(ConfigError) as caught:
        knobs(**words)
    assert says in str(caught.value)
    assert caught.value.next_step


def test_an_unknown_profile_names_the_nearest():
    with pytest.raises(ConfigError, match="raft-paper"):
        knobs("raft-papers")


def test_pre_vote_may_be_switched_off_alone():
    assert not knobs(pre_vote="off").pre_vote


def test_a_node_outside_static_members_is_refused():
    with pytest.raises(ConfigError, match="not one of the members"):
        TARGET.core(node="X", members=("A", "B"), knobs=knobs(), variant=None)


def test_members_must_differ():
    with pytest.raises(ConfigError, match="different"):
        TARGET.core(node="A", members=("A", "A"), knobs=knobs(), variant=None)


def test_an_unknown_variant_names_the_nearest():
    with pytest.raises(ConfigError, match="01-vote-not-written"):
        TARGET.core(node="A", members=("A", "B"), knobs=knobs(), variant="01-vote-not-write")


def test_a_variant_without_the_knob_that_shows_it_is_refused():
    with pytest.raises(ConfigError, match="reads=lease"):
        TARGET.core(node="A", members=("A", "B"), knobs=knobs(), variant="49-lease-on-timer")
