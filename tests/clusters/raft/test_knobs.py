"""Knobs: defaults of both profiles, exact scaling, and every way to be wrong."""

from dethrone.clusters.targets.raft.target import TARGET
from dethrone.harness.core.clock import MS


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
