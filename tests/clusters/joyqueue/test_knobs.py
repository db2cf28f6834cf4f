"""The knobs: defaults of the original, both spellings, exact scaling, and every wrong word refused by name."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.joyqueue.knobs import KNOBS, Deferral
from dethrone.clusters.targets.joyqueue.target import TARGET
from dethrone.harness.core.errors import ConfigError


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


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"election_timeout": "1"}, "election_timeout_ms"),
        ({"election_timeout_ms": "0"}, "election_timeout_ms"),
        ({"election_timeout_ms": "-5"}, "election_timeout_ms"),
        ({"election_timeout_ms": "5s"}, "election_timeout_ms"),
        ({"persist_errors": "ignore"}, "refuse"),
        ({"groups": "0"}, "groups"),
        ({"groups": "17"}, "groups"),
        ({"defer_task": "n2:votes:8"}, "defer_task"),
        ({"defer_task": "n2:vote:x"}, "defer_task"),
        ({"time_factor": "0"}, "time_factor"),
        ({"time_factor": "0.0000001"}, "time_factor"),
        ({"time_factor": "nan"}, "time_factor"),
        ({"executor_thread_num_min": "60"}, "executor_thread_num_min"),
        ({"heartbeat_timeout_ms": "5000"}, "heartbeat_timeout_ms"),
    ],
)
def test_a_wrong_word_is_refused_by_name(settings, said):
    with pytest.raises(ConfigError) as error:
        KNOBS.parse(settings)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("members", "settings", "node"),
    [
        (("A", "A"), {}, "A"),
        ((), {}, "A"),
        (("A",), {}, "B"),
        (("A", "B"), {"learners": "C"}, "A"),
        (("A",), {"learners": "A"}, "A"),
    ],
)
def test_a_core_is_refused_members_that_cannot_be(members, settings, node):
    with pytest.raises(ConfigError):
        TARGET.core(node=node, members=members, knobs=TARGET.knobs(settings), variant=None)


def test_a_core_is_refused_the_knobs_of_others():
    with pytest.raises(ConfigError):
        TARGET.core(node="A", members=("A",), knobs=None, variant=None)
