"""Knobs: defaults, spellings, scaling, and every way to be wrong; and the names of codes."""

from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.target import TARGET
from dethrone.harness.core.clock import MS


def test_every_code_has_its_name():
    assert m.words(m.SUCCESS) == "200 SUCCESS"
    assert m.words(m.NOT_READY) == "416 TERM_NOT_READY"
    assert {m.EXPIRED_TERM, m.INCONSISTENT_LEADER, m.UNKNOWN_MEMBER, m.UNEXPECTED_MEMBER} == {403, 409, 401, 402}


def knobs(profile=None, **words):
    return TARGET.knobs(words, profile=profile)


def test_defaults_are_those_of_the_specification():
    k = knobs()
    assert (k.heart_beat_interval, k.max_heart_beat_leak) == (2000 * MS, 3)
    assert (k.min_vote_interval, k.max_vote_interval, k.vote_wait, k.loop_period) == (
        300 * MS,
        1000 * MS,
        2000 * MS,
        10 * MS,
    )
    assert (k.max_wait_ack_time, k.max_push_time_out, k.compare_time_out) == (2500 * MS, 1000 * MS, 3000 * MS)
    assert (k.max_pending_requests_num, k.max_in_flight) == (10_000, 1000)
    assert (k.clock, k.persist_mode, k.ledger_end_term, k.flag_handling, k.has_leader_delay, k.fsync) == (
        *("wall", "atomic", "entry", "bump_only", "0", "each"),
    )
    assert (k.count_expired_ledger, k.leader_checks_max_term_first) == (True, False)
    assert (k.commit_own_term_only, k.get_committed_only, k.push_checks_leader) == (True, True, True)
    assert (k.noop_on_elect, k.fail_pending_on_step_down) == (False, True)


def test_the_upstream_profile_is_release_0_2_7():
    k = knobs("dledger-upstream")
    assert (k.persist_mode, k.has_leader_delay, k.fsync) == ("upstream", "leak", "async")
    assert (k.commit_own_term_only, k.get_committed_only, k.push_checks_leader) == (False, False, False)
    assert (k.fail_pending_on_step_down, k.ledger_end_term, k.flag_handling) == (False, "entry", "bump_only")


def test_the_originals_spelling_and_short_names_are_understood():
    assert knobs(heartBeatTimeIntervalMs="500").heart_beat_interval == 500 * MS
    k = knobs(K1="immediate", K2="leak", K3="none", K4="true")
    assert (k.flag_handling, k.has_leader_delay, k.persist_mode) == ("immediate", "leak", "none")
    assert k.leader_checks_max_term_first
