"""The knobs: defaults of the original, both spellings, exact scaling, and every wrong word refused by name."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.joyqueue.knobs import KNOBS, Deferral


def test_the_defaults_are_the_originals():
    knobs = KNOBS.parse({})
    assert (knobs.election_timeout_ms, knobs.vote_timeout_ms, knobs.heartbeat_timeout_ms) == (5000, 5000, 1000)
    assert (knobs.send_command_timeout_ms, knobs.transfer_leader_timeout_ms) == (5000, 10_000)
    assert (knobs.executor_thread_num_min, knobs.executor_thread_num_max) == (10, 50)
    assert knobs.heartbeat_max_timeout_ms == 0
    assert (knobs.persist_errors, knobs.callback_term_check) == ("refuse", True)
    assert (knobs.fix_missing_return, knobs.sync_flag_reset) == (False, False)


@pytest.mark.parametrize("profile", KNOBS.profiles)
def test_lists_of_nodes_and_of_deferrals_are_read(profile):
    knobs = KNOBS.parse({"defer_task": "n2:vote:800,*:heartbeat:5", "learners": "n4,n5"}, profile=profile)
    assert knobs.profile == profile
    assert knobs.defer_task == (Deferral("n2", "vote", 800), Deferral("*", "heartbeat", 5))
    assert knobs.learners == ("n4", "n5")


def test_the_mended_profile_mends_both_oddities_and_the_starved_one_is_late():
    mended = KNOBS.parse({}, profile="joyqueue-mended")
    assert (mended.fix_missing_return, mended.sync_flag_reset) == (True, True)
    assert KNOBS.parse({}, profile="joyqueue-starved").task_delay_max_ms > 0
