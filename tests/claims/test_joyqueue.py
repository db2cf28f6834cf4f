"""The 22 claims of source 2, each on the honest core and, turned red, under its flip."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.joyqueue.messages import AppendEntriesResponse, NullAnswer, VoteRequest
from dethrone.clusters.targets.joyqueue.node import Node
from dethrone.clusters.targets.joyqueue.storage import TOPIC
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.machine import Await, Send
from tests.clusters.joyqueue.spec import One, World
from tests.world.effects import names, note, sent, timers

T = 5 * SECOND


def asked_of(out):
    """Addressee → vote or pre-vote request."""
    return dict(sent(out, VoteRequest))


def wait_for_expiry(one, out):
    """Ring the election timer as often as it is armed, until it expires; the effects of the expiry."""
    for _ in range(10):
        one.now = timers(out)["election"]
        out = one.fire("election")
        if "election_timeout" in names(out):
            return out
    raise AssertionError("the election timer never expires")


@pytest.mark.claim("2-1", flip="flip-2-1")
def test_claim_2_1_the_timer_starts_with_the_service_and_its_expiry_brings_an_election(variant):
    world = World("ABC", variant=variant)
    assert all(box.timers.get("election", (0,))[0] == T for box in world.boxes.values())
    assert world.run(10_000, until=lambda: world.notes("election_timeout"))
    assert world.now >= T
    assert world.run(1000, until=lambda: world.leader() is not None)


def distance_to_uniform(values, lo, hi):
    """The Kolmogorov–Smirnov distance between a sample and the even distribution on [lo, hi)."""
    ordered = sorted(values)
    n = len(ordered)
    far = 0.0
    for position, value in enumerate(ordered):
        expected = (value - lo) / (hi - lo)
        far = max(far, abs(expected - position / n), abs((position + 1) / n - expected))
    return far


@pytest.mark.claim("2-2", flip="flip-2-2")
def test_claim_2_2_the_timeout_is_even_between_t_and_twice_t(variant):
    one = One(variant=variant)
    out, delays = one.booted, []
    for _ in range(500):
        began = one.now
        out = wait_for_expiry(one, out)
        delays.append(one.now - began)
    assert T <= min(delays) <= max(delays) < 2 * T
    assert all(delay % MS == 0 for delay in delays)
    assert distance_to_uniform(delays, T, 2 * T) < 1.63 / 500**0.5  # one honest sample in a hundred is farther


@pytest.mark.claim("2-3", flip="flip-2-3")
def test_claim_2_3_random_timeouts_make_clashes_rare(variant):
    clashes = 0
    for seed in range(60):
        world = World("ABC", seed=seed, variant=variant)
        world.run(11_000, until=lambda w=world: w.leader() is not None)
        stood = [(n.term, name) for name in "ABC" for n in world.notes("elect_self", of=name)]
        clashes += len(stood) > len({term for term, _ in stood})
    assert clashes <= 3


@pytest.mark.claim("2-4", flip="flip-2-4")
def test_claim_2_4_a_reset_cancels_the_pending_timer_first(variant):
    one = One(variant=variant)
    armed = one.booted
    one.now += 4900 * MS
    reset_at = one.now
    out = one.hear_append("B", 0)
    wait_for_expiry(one, out if "election" in timers(out) else armed)
    assert one.now - reset_at >= T


@pytest.mark.claim("2-5", flip="flip-2-5")
def test_claim_2_5_an_expiry_while_stopped_is_an_error(variant):
    one = One(variant=variant)
    one.group.started = False
    out = one.expire()
    assert names(out) == ["error"]
    assert sent(out) == []
    assert timers(out) == {}


@pytest.mark.claim("2-6", flip="flip-2-6")
def test_claim_2_6_a_single_node_becomes_leader_directly(variant):
    one = One(members="A", term=4, variant=variant)
    out = wait_for_expiry(one, one.booted)
    assert (one.group.role, one.group.leader, one.group.term) == ("LEADER", "A", 4)
    assert "elect_self" not in names(out)


@pytest.mark.claim("2-7", flip="flip-2-7")
def test_claim_2_7_an_expiry_at_a_leader_changes_nothing(variant):
    one = One(variant=variant).leading()
    out = one.fire("election")
    assert names(out) == ["election_timeout"]
    assert sent(out) == []
    assert timers(out) == {}
    assert (one.group.role, one.group.leader, one.group.term) == ("LEADER", "A", 1)


@pytest.mark.claim("2-8", flip="flip-2-8")
def test_claim_2_8_any_other_expiry_clears_the_leader_pre_votes_and_arms_the_timer_again(variant, monkeypatch):
    one = One(term=2, variant=variant)
    one.hear_append("B", 2)
    out = one.expire()
    assert one.group.leader is None
    assert len(asked_of(out)) == 2
    assert timers(out)["election"] == one.now + T

    def broken(*_args):
        raise RuntimeError("no more threads")

    monkeypatch.setattr(Node, "submit", broken)
    one.hear_append("B", 2)
    out = one.expire()
    assert one.group.leader is None
    assert "no more threads" in note(out, "error")["what"]
    assert timers(out).get("election") == one.now + T


@pytest.mark.claim("2-9", flip="flip-2-9")
def test_claim_2_9_a_pre_vote_asks_all_others_and_counts_the_own_vote(variant):
    one = One(members="ABCDE", variant=variant)
    asked = asked_of(one.expire())
    assert list(asked) == ["B", "C", "D", "E"]
    one.answer_vote(("B", asked["B"]))
    assert one.group.role == "FOLLOWER"
    one.answer_vote(("C", asked["C"]))
    assert one.group.role == "CANDIDATE"


@pytest.mark.claim("2-10", flip="flip-2-10")
def test_claim_2_10_a_pre_vote_carries_the_unchanged_term_and_changes_neither_term_nor_vote(variant):
    one = One(term=6, voted_for="C", variant=variant)
    before = one.status()
    asked = asked_of(one.expire())
    assert {(body.term, body.pre_vote) for body in asked.values()} == {(6, True)}
    one.answer_vote(("B", asked["B"]), granted=False)
    after = one.status()
    assert (after.term, after.voted_for) == (before.term, before.voted_for) == (6, "C")


@pytest.mark.claim("2-11", flip="flip-2-11")
def test_claim_2_11_pre_vote_answers_are_ignored_unless_follower_and_null_and_foreign_ones_always(variant):
    one = One(variant=variant)
    asked = asked_of(one.expire())
    one.hear("B", NullAnswer(TOPIC, asked["B"].id))
    one.hear(
        "C",
        AppendEntriesResponse(
            TOPIC, 9, success=True, next_position=0, write_position=0, replica_id="C", entries_term=0, id=asked["C"].id
        ),
    )
    assert (one.group.role, one.group.term) == ("FOLLOWER", 0)
    one.campaign()
    asked = asked_of(one.expire())
    assert all(body.pre_vote for body in asked.values())
    one.answer_vote(("B", asked["B"]))
    one.answer_vote(("C", asked["C"]), term=9, granted=False)
    assert (one.group.role, one.group.term) == ("CANDIDATE", 1)
    assert one.group.flags == {"A": True, "B": False, "C": False}


@pytest.mark.claim("2-12", flip="flip-2-12")
def test_claim_2_12_a_higher_term_in_a_pre_vote_answer_deposes_and_does_nothing_else(variant):
    one = One(variant=variant)
    asked = asked_of(one.expire())
    out = one.answer_vote(("C", asked["C"]), term=7, granted=True)
    assert (one.group.role, one.group.term, one.group.voted_for) == ("FOLLOWER", 7, None)
    assert one.group.flags["C"] is False
    assert sent(out) == []


@pytest.mark.claim("2-13", flip="flip-2-13")
def test_claim_2_13_more_than_half_of_the_pre_votes_open_the_election(variant):
    for members in ("AB", "ABC", "ABCD", "ABCDE"):
        one = One(members=members, variant=variant)
        asked = asked_of(one.expire())
        others = members[1:]
        needed = len(members) // 2
        for voter in others[needed:]:
            one.answer_vote((voter, asked[voter]), granted=False)
            assert one.group.role == "FOLLOWER"
        for voter in others[:needed]:
            assert (one.group.role, one.group.term) == ("FOLLOWER", 0)
            one.answer_vote((voter, asked[voter]))
        assert (one.group.role, one.group.term) == ("CANDIDATE", 1)


@pytest.mark.claim("2-14", flip="flip-2-14")
def test_claim_2_14_a_campaign_raises_the_term_by_one_and_votes_for_itself(variant):
    one = One(term=6, voted_for="C", variant=variant).campaigning()
    status = one.status()
    assert (status.role, status.term, status.leader, status.voted_for) == ("CANDIDATE", 7, None, "A")


@pytest.mark.claim("2-15", flip="flip-2-15")
def test_claim_2_15_the_metadata_is_stored_before_any_vote_request_leaves(variant):
    one = One(term=6, variant=variant)
    asked = asked_of(one.expire())
    one.slow = True
    out = one.answer_vote(("B", asked["B"]))
    requests = [position for position, effect in enumerate(out) if isinstance(effect, Send)]
    barriers = [position for position, effect in enumerate(out) if isinstance(effect, Await)]
    assert len(requests) == 2
    assert barriers
    assert barriers[0] < requests[0]
    for prefix in range(12):  # a kill at any moment: whoever was asked in a term is asked by a node that knows it
        world = World("ABC", variant=variant)
        world.run(50)
        world.expire("A")
        world.boxes["A"].crash_in = prefix
        world.run(200)
        asked_in = [event.term for event in world.boxes["B"].notes if event.name == "vote_decision"]
        world.kill("A")
        world.start("A")
        assert world.boxes["A"].group.term >= max(asked_in, default=0)


@pytest.mark.claim("2-16", flip="flip-2-16")
def test_claim_2_16_the_election_is_published_and_the_store_is_offline_during_it(variant):
    one = One(variant=variant)
    one.group.online = True
    asked = asked_of(one.expire())
    out = one.answer_vote(("B", asked["B"]))
    order = names(out)
    assert note(out, "elect_self") == {"term": 1}
    assert one.group.online is False
    assert order.index("store_offline") < order.index("elect_self")
    one.answer_vote(("B", asked_of(out)["B"]))
    assert (one.group.role, one.group.online) == ("LEADER", True)


@pytest.mark.claim("2-17", flip="flip-2-17")
def test_claim_2_17_a_campaign_ends_with_the_vote_timer_and_pre_votes_resume(variant):
    world = World("ABC", variant=variant)
    world.run(50)
    world.hold = lambda _src, _dst, body: isinstance(body, VoteRequest) and not body.pre_vote
    world.expire("A")
    world.run(100, until=lambda: world.boxes["A"].group.role == "CANDIDATE")
    began = world.now
    world.isolate("A")
    world.run(T // MS - 1)
    assert world.boxes["A"].group.role == "CANDIDATE"
    world.run(1)
    a = world.boxes["A"].group
    assert (a.role, a.term, a.voted_for) == ("FOLLOWER", 1, "A")
    before = len(world.notes("prevote_sent", of="A"))
    assert world.run(10_000, until=lambda: len(world.notes("prevote_sent", of="A")) > before)
    assert began + 2 * T <= world.now < began + 3 * T
    assert a.role == "FOLLOWER"


@pytest.mark.claim("2-18", flip="flip-2-18")
def test_claim_2_18_vote_requests_go_to_all_others_with_the_end_of_the_log(variant):
    one = One(members="ABCDE", term=3, log=(1, 3, 3), variant=variant)
    asked = one.campaign(voters="BC")
    assert list(asked) == ["B", "C", "D", "E"]
    assert {(b.pre_vote, b.term, b.candidate_id, b.last_log_term, b.last_log_pos) for b in asked.values()} == {
        (False, 4, "A", 3, 3)
    }


@pytest.mark.claim("2-19", flip="flip-2-19")
def test_claim_2_19_votes_are_ignored_unless_candidate_and_null_and_foreign_ones_always(variant):
    one = One(variant=variant)
    asked = one.campaign()
    one.hear("C", NullAnswer(TOPIC, asked["C"].id))
    assert (one.group.role, one.group.term) == ("CANDIDATE", 1)
    one.hear_append("C", 1)
    assert (one.group.role, one.group.leader) == ("FOLLOWER", "C")
    one.group.flags["A"] = True
    out = one.answer_vote(("B", asked["B"]))
    assert (one.group.role, one.group.leader) == ("FOLLOWER", "C")
    assert names(out) == ["vote_answer_ignored"]


@pytest.mark.claim("2-20", flip="flip-2-20")
def test_claim_2_20_a_higher_term_in_a_vote_answer_deposes_and_the_tally_still_runs(variant):
    one = One(members="ABCDE", variant=variant)
    asked = one.campaign(voters="BC")
    out = one.answer_vote(("D", asked["D"]), term=9, granted=False)
    assert (one.group.role, one.group.term, one.group.voted_for) == ("FOLLOWER", 9, None)
    assert note(out, "vote_answer") == {
        "peer": "D",
        "term": 9,
        "granted": False,
        "counted": False,
        "total": 1,
        "fallthrough": True,
    }


@pytest.mark.claim("2-21", flip="flip-2-21")
def test_claim_2_21_more_than_half_of_the_votes_make_a_leader(variant):
    for members in ("AB", "ABC", "ABCD", "ABCDE"):
        one = One(members=members, variant=variant)
        others = members[1:]
        needed = len(members) // 2
        asked = one.campaign(voters=others[:needed])
        for voter in others[needed:]:
            one.answer_vote((voter, asked[voter]), granted=False)
            assert one.group.role == "CANDIDATE"
        for voter in others[:needed]:
            assert one.group.role == "CANDIDATE"
            one.answer_vote((voter, asked[voter]))
        assert (one.group.role, one.group.term) == ("LEADER", 1)


@pytest.mark.claim("2-22", flip="flip-2-22")
def test_claim_2_22_logs_that_fell_apart_become_one_again(variant):
    world, old = World.with_leader(variant=variant)
    assert world.write(old, 1)
    world.run(2000)
    world.isolate(old)
    for value in (100, 101):
        world.request(old, Append("k", value))
    rest = [name for name in "ABC" if name != old]
    assert world.run(30_000, until=lambda: world.leader() in rest)
    second = world.leader()
    assert all(world.write(second, value) for value in (2, 3))
    world.restart(second)
    assert world.run(60_000, until=lambda: any(name in rest for name in world.leaders_now()))
    world.heal()
    assert world.run(20_000, until=lambda: world.settled() and len(world.leaders_now()) == 1)
    assert world.write(world.leader(), 4)
    world.run(10_000)
    logs = [box.group.log for box in world.boxes.values()]
    assert len({tuple(log.digests) for log in logs}) == 1
    assert [entry.command.value for entry in logs[0].entries] == [1, 2, 3, 4]
    assert world.problems == []
