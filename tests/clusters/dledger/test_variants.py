"""Planted bugs: each differs from the honest build in its rule; some by a sequence of their own."""

import pytest

from dethrone.clusters.targets.client_api import Append
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.knobs import KNOBS
from dethrone.clusters.targets.dledger.messages import Entry, Noop
from dethrone.clusters.targets.dledger.rules import Rules
from dethrone.clusters.targets.dledger.storage import TermState
from dethrone.clusters.targets.dledger.tally import Campaign
from dethrone.clusters.targets.dledger.target import TARGET
from dethrone.harness.core.machine import Message
from dethrone.harness.core.rng import Rng
from tests.clusters.dledger.spec import World
from tests.clusters.dledger.test_known_weaknesses import old_entry_on_a_majority

HARMLESS = [name for name in TARGET.planted if name.startswith("harmless")]


def tally(**counts):
    one = Campaign(4, 5)
    for name, value in counts.items():
        setattr(one, name, value)
    return one


def load(content, node="A"):
    def call(rules):
        try:
            return rules.load_state(content, node=node)
        except Exception as error:  # noqa: BLE001 - Unreadable is one of the two outcomes compared
            return type(error)

    return call


def several(draw):
    return lambda rules: [draw(rules, Rng(seed)) for seed in range(4)]


VECTORS = {
    "01-vote-not-written": lambda r: r.stored_state(TermState(3, "B")),
    "02-answer-before-persist": lambda r: r.answers_after_persist(),
    "04-ignore-failed-vote-write": lambda r: r.on_persist_error("term"),
    "05-vote-not-synced": lambda r: r.replaces_term_file(),
    "06-delete-then-rename": lambda r: r.replaces_term_file(),
    "07-unreadable-means-fresh": load("unreadable"),
    "10-pushes-unwritten-tail": lambda r: r.push_end(stored=3, in_memory=5),
    "12-grant-without-log-check": lambda r: (r.older_ledger_term(1, 2), r.shorter_ledger(1, 2)),
    "14-last-log-term-is-current": lambda r: r.log_term(2, 5),
    "16-counts-other-campaigns": lambda r: r.of_this_campaign(1, 2),
    "17-counts-higher-term": lambda r: r.is_accept(m.EXPIRED_VOTE_TERM),
    "18-not-ready-is-a-vote": lambda r: r.is_accept(m.TERM_NOT_READY),
    "21-majority-of-responders": lambda r: (r.case_3(tally(valid=2)), r.case_5(tally(valid=2, accepted=2))),
    "22-half-is-enough": lambda r: r.quorum(4),
    "25-term-may-fall": lambda r: r.next_term(5, 3),
    "27-refuses-campaigned-term": lambda r: r.follows_unknown(campaigned=True),
    "28-never-steps-down": lambda r: r.leader_gives_up(10**12),
    "30-sending-is-contact": lambda r: r.success_at(5, 5, majority=False),
    "31-any-request-resets-timers": lambda r: r.renews_on_request(),
    "33-no-jitter": several(lambda r, rng: r.vote_delay(rng)),
    "34-same-seed": several(lambda r, rng: r.vote_delay(r.seed(rng))),
    "39-repeated-request-refused": lambda r: r.vote_left("B", "B"),
    "40-commits-old-terms": lambda r: r.may_commit(2, 4),
    "42-follower-commit-unchecked": lambda r: r.follower_commit(own_end=4, leader_commit=9, committed=2),
    "44-cuts-on-append": lambda r: r.cuts_on_append(),
    "45-acks-after-local-append": lambda r: r.acks_client(committed=False),
    "46-acks-before-sync": lambda r: r.syncs(),
    "plain-writes-term-before": lambda r: r.stored_state(TermState(3, "B")),
    "plain-votes-twice": lambda r: r.vote_left("B", "C"),
    "plain-never-truncates": lambda r: (
        r.truncates_to(3, 7),
        r.entries_equal(Entry(1, 1, Noop()), Entry(1, 2, Noop())),
    ),
    "plain-wants-every-vote": lambda r: r.case_5(tally(valid=5, accepted=4)),
    "harmless-longer-jitter": several(lambda r, rng: r.vote_delay(rng)),
    "harmless-half-heartbeat": lambda r: r.heartbeat_interval(),
    "harmless-eager-commit": lambda r: r.notices_commit_eagerly(),
    "harmless-sooner-resend": lambda r: r.resend_after(),
    "harmless-more-notes": lambda r: r.notes_every_beat(),
}


def test_every_variant_has_a_vector():
    assert set(VECTORS) == set(TARGET.planted)
    assert set(TARGET.variants()) == set(TARGET.planted)
    assert len(HARMLESS) == 5


@pytest.mark.parametrize("name", TARGET.planted)
def test_a_variant_differs_from_the_honest_build_in_its_rule(name):
    knobs = KNOBS.parse(TARGET.planted[name].needs)
    assert VECTORS[name](Rules(knobs)) != VECTORS[name](TARGET.planted[name].rules(knobs))


def test_10_a_tail_that_was_pushed_before_it_was_written_gets_another_content():
    for variant, matches in (("10-pushes-unwritten-tail", False), (None, True)):
        world = World("ABC", variant=variant, sync=(100, 100))
        leader = world.elect()
        assert world.write(leader, 1, ms=2000)
        world.run(3000)
        others = [name for name in "ABC" if name != leader]
        world.sever(leader, others[1])
        world.request(leader, Append("k", "x"))
        world.run(20)
        box = world.boxes[leader]
        box.batches.clear()  # the machine dies before its disk did anything
        world.kill(leader)
        world.run(200)
        world.heal()
        world.isolate(others[0])
        world.start(leader)
        world.run(5000)
        assert world.leader() == leader
        world.request(leader, Append("k", "y"))
        world.run(1000)
        assert world.judge.logs_match() == matches


@pytest.mark.parametrize(("variant", "leader"), [("14-last-log-term-is-current", "C"), (None, "B")])
def test_14_a_longer_log_of_an_older_term_leads_without_committed_entries(variant, leader):
    world = World("ABC", asleep="ABC", variant=variant)
    for name, log in (("B", (0, 3)), ("C", (0, 1, 1, 1))):
        world.prepare(name, term=3, log=log)
        world.start(name)
    world.run(30_000, until=lambda: world.leader() is not None)
    assert world.leader() == leader


def test_40_an_old_entry_that_was_committed_by_counting_is_overwritten():
    world, committed = old_entry_on_a_majority(variant="40-commits-old-terms")
    assert committed == 1
    assert any("INV-4" in text for text in world.problems)


@pytest.mark.parametrize(("variant", "leads"), [("16-counts-other-campaigns", True), (None, False)])
def test_16_a_vote_of_an_earlier_campaign_makes_a_leader_of_a_later_term(variant, leads):
    world = World("ABC", asleep="C", variant=variant, refuse=False)
    world.boxes["B"].node.next_vote = 1 << 62
    world.hold = lambda src, dst, body: type(body) is m.VoteResponse
    world.run(100)
    (late,) = [held for held in world.held_messages if held[2].vote_result == m.ACCEPT]
    assert late[0] == "B"
    node = world.boxes["A"].node
    world.run(3000)  # nobody answered in time
    node.last_result = "WAIT_TO_VOTE_NEXT"
    assert world.run(5000, until=lambda: node.waits is not None and node.waits.term == 1)
    world.arrive(world.boxes["A"], Message(late[0], late[2]))
    world.run(50)
    assert (node.role == "LEADER") == leads
    assert any("INV-12" in text for text in world.problems) == leads


@pytest.mark.parametrize(("variant", "survives"), [("45-acks-after-local-append", False), (None, True)])
def test_45_a_write_that_only_its_leader_has_is_acknowledged_and_lost(variant, survives):
    world = World("ABC", variant=variant)
    leader = world.elect()
    assert world.write(leader, 1)
    world.run(3000)
    world.isolate(leader)
    acknowledged = world.write(leader, 2)
    assert acknowledged != survives
    world.run(20_000)
    assert world.write(world.leader(), 3)
    world.heal()
    world.run(20_000)
    assert world.boxes[world.leader()].node.machine.read("k") == [1, 3]


def vote_request(candidate, *, term):
    return m.VoteRequest(
        group="",
        local_id=candidate,
        remote_id="A",
        leader_id=candidate,
        term=term,
        opaque=1,
        ledger_end_index=-1,
        ledger_end_term=-1,
    )
