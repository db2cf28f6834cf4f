from __future__ import annotations

import pytest

from dethrone.clusters.systems.zk_ephemeral import SYSTEM
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.promise import SAFETY

SECOND = 1_000_000_000


def promise(settings=None, profile="race"):
    knobs = SYSTEM.knobs({**SYSTEM.defaults().settings, **(settings or {})}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=4)


def test_safety_stays_promised_except_what_needs_votes():
    made = promise()
    votes = {"one-vote-per-term", "leader-has-majority", "members-only"}
    assert {name for name in SAFETY if not made.owes(name)} == votes
    assert made.leader_bound_to_term
    assert not made.linearizable_reads
    assert promise({"coordinator": "n1"}).exempt["vote-is-durable"].kind == "not observable"


def test_the_known_liveness_weaknesses_are_not_promised_and_say_which_they_are():
    made = promise()
    assert made.owed_in_calm
    assert "ZK-B2" in made.exempt["step-down-without-quorum"].reason
    assert "ZK-B5" in made.exempt["leader-stability"].reason
    assert made.owes("convergence-after-heal")


def test_a_leader_that_steps_down_is_bounded_by_two_thirds_of_the_timeout():
    assert promise(profile="race").step_down_ns is None
    made = promise(profile="race-strict")
    assert 4 * SECOND // 3 < made.step_down_ns < 2 * SECOND


def test_the_bound_covers_the_timeout_a_third_of_it_and_round_trips():
    assert promise().leader_bound_ns >= 2 * SECOND * 4 // 3
    slower = promise({"zookeeper_session_timeout_ms": "6000"})
    assert slower.leader_bound_ns > promise().leader_bound_ns + 4 * SECOND


def test_the_service_does_not_vote():
    knobs = SYSTEM.knobs({}, profile="race", variant=None)
    assert SYSTEM.voters(("n1", "n2", "n3"), knobs, profile="race") == ("n1", "n2")
    named = SYSTEM.knobs({"coordinator": "n1"}, profile="race", variant=None)
    assert SYSTEM.voters(("n1", "n2", "n3"), named, profile="race") == ("n2", "n3")
    with pytest.raises(ConfigError):
        SYSTEM.voters(("n1",), knobs, profile="race")


@pytest.mark.parametrize("profile", ["race", "controller", "race-strict"])
def test_the_words_of_the_knobs_give_the_same_knobs_again(profile):
    settings = {"acks": "all", "zookeeper.session.timeout.ms": "3000", "min_insync_replicas": "2"}
    knobs = SYSTEM.knobs(settings, profile=profile, variant=None)
    assert SYSTEM.typed(knobs, profile=profile) == SYSTEM.target().knobs(settings, profile=profile)
