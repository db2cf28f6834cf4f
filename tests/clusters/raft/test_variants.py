"""Planted bugs: each differs from the honest build in its rule."""

import pytest

from dethrone.clusters.targets.raft.knobs import KNOBS
from dethrone.clusters.targets.raft.messages import Config, VoteReply
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.clusters.targets.raft.storage import HardState, vote_bytes
from dethrone.clusters.targets.raft.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.rng import Rng
from tests.clusters.raft.spec import World

CONFIGS = [(0, Config(("A", "B"))), (3, Config(("A", "C")))]


def vote(term, granted=True, **more):
    found = {"own_term": 5, "candidate": True, "from_voter": True, **more}
    return lambda rules: rules.counts_vote(VoteReply(term, granted), **found)


def several(draw):
    return lambda rules: [draw(rules, Rng(seed)) for seed in range(4)]


def load(content, node="A"):
    def call(rules):
        try:
            return rules.load_state(content, node=node, last_log_term=0)
        except Exception as error:  # noqa: BLE001 - Unreadable is one of the two outcomes compared
            return type(error)

    return call


VECTORS = {
    "01-vote-not-written": lambda r: r.persist_vote(HardState(3, "B")),
    "02-answer-before-persist": lambda r: r.answers_after_persist(),
    "04-ignore-failed-vote-write": lambda r: r.on_persist_error("vote"),
    "05-vote-not-synced": lambda r: r.syncs("vote"),
    "06-delete-then-rename": lambda r: r.replace_file(),
    "07-unreadable-means-fresh": load("unreadable"),
    "10-resumes-leadership": lambda r: r.resumes_leadership(node="A", state=HardState(3, "A"), last_log_term=3),
    "11-forgets-own-vote": load(vote_bytes(HardState(3, "A"))),
    "12-grant-without-log-check": lambda r: r.log_up_to_date((1, 1), (2, 1)),
    "14-last-log-term-is-current": lambda r: r.last_log(2, 7, 5),
    "16-counts-older-term": vote(4),
    "17-counts-higher-term": vote(6, granted=False),
    "18-pre-votes-are-votes": lambda r: r.clears_votes("campaign"),
    "21-majority-of-responders": lambda r: r.is_quorum({"A", "B"}, "ABCDE", {"A", "B"}),
    "22-half-is-enough": lambda r: r.quorum_size(4),
    "23-non-members-vote": lambda r: r.electorate(CONFIGS[-1][1], CONFIGS),
    "25-term-may-fall": lambda r: r.next_term(5, 3),
    "27-refuses-campaigned-term": lambda r: r.accepts_leader(5, 5),
    "28-never-steps-down": lambda r: r.steps_down(10**12),
    "30-sending-is-contact": lambda r: r.refreshes_contact("sent"),
    "31-any-request-resets-deadline": lambda r: r.resets_deadline("asked"),
    "33-no-jitter": several(lambda r, rng: r.deadline(rng)),
    "34-same-seed": several(lambda r, rng: r.deadline(rng)),
    "35-no-pre-vote": lambda r: r.needs_pre_vote(),
    "36-hears-no-leader": lambda r: r.hears_leader(leader="B", silence=1),
    "37-pre-vote-terms-compared": lambda r: r.counts_pre_vote(granted=True, answer_term=2, own_term=5, from_voter=True),
    "39-repeated-request-refused": lambda r: r.grants_vote(voted_for="B", candidate="B", up_to_date=True),
    "40-commits-old-terms": lambda r: r.may_commit(2, 4),
    "42-follower-commit-unchecked": lambda r: r.follower_commit(leader_commit=9, last_new=4, commit=2),
    "44-truncates-always": lambda r: r.truncates(3, 3),
    "45-acks-after-local-append": lambda r: r.acks_client("appended"),
    "46-acks-before-sync": lambda r: r.syncs("log"),
    "47-lease-on-wall-clock": lambda r: r.clock("lease"),
    "49-lease-on-timer": lambda r: r.lease_valid(now=9, end=5, ticked=9, checked=True),
    "51-lease-without-recheck": lambda r: r.lease_valid(now=9, end=5, ticked=2, checked=False),
    "52-election-on-wall-clock": lambda r: r.clock("election"),
    "53-config-on-commit": lambda r: r.config_in_force(CONFIGS, 2),
    "54-removed-node-campaigns": lambda r: r.may_campaign("X", ("A", "B"), leaving=False),
    "56-reads-before-own-term": lambda r: r.announces_leader(own_term_committed=False),
    "58-heartbeats-while-stuck": lambda r: r.heartbeats_while_stuck(),
    "plain-writes-term-before": lambda r: r.persist_vote(HardState(3, "B")),
    "plain-votes-twice": lambda r: r.grants_vote(voted_for="B", candidate="C", up_to_date=True),
    "plain-never-truncates": lambda r: r.truncates(3, 4),
    "plain-wants-every-vote": lambda r: r.is_quorum({"A", "B"}, ("A", "B", "C"), {"A", "B"}),
    "clients-read-unconfirmed": lambda r: r.confirms_reads(),
    "clients-swap-compared-early": lambda r: [r.decides_early(kind) for kind in ("cas", "txn")],
    "clients-transaction-reads-early": lambda r: [r.decides_early(kind) for kind in ("cas", "txn")],
    "clients-proposed-again": lambda r: r.proposes_again(),
    "clients-clock-decides": lambda r: r.clock_decides(),
    "clients-any-token-passes": lambda r: r.accepts_token(3, 4),
    "harmless-longer-jitter": several(lambda r, rng: r.deadline(rng)),
    "harmless-half-heartbeat": lambda r: r.heartbeat_interval(),
    "harmless-more-pre-votes": lambda r: r.pre_vote_repeat_interval(),
    "harmless-silent-sticky": lambda r: r.answers_sticky(),
    "harmless-eager-commit": lambda r: r.notices_commit_eagerly(),
}


def knobs_of(name):
    words = {**TARGET.planted[name].needs, **TARGET.planted[name].advised}
    return KNOBS.parse(words, profile="raft")


def test_every_variant_has_a_vector():
    assert set(VECTORS) == set(TARGET.planted)
    assert set(TARGET.variants()) == set(TARGET.planted)
    assert len([name for name in TARGET.planted if name.startswith("harmless")]) == 5


@pytest.mark.parametrize("name", TARGET.planted)
def test_a_variant_differs_from_the_honest_build_in_its_rule(name):
    knobs = knobs_of(name)
    assert VECTORS[name](Rules(knobs)) != VECTORS[name](TARGET.planted[name].rules(knobs))


def test_51_serves_a_queued_read_after_a_stop_by_the_time_of_before_it():
    for variant, served in (("51-lease-without-recheck", True), (None, False)):
        world = World("ABC", variant=variant, reads="lease")
        leader = world.elect()
        world.run(200)
        node = world.boxes[leader].node
        asked = node.leading.ticked + 200 * MS
        end = max(p.acked_at for p in node.leading.progress.values()) + node.rules.lease_length()
        assert node.leading.ticked > 0
        ok = node.rules.lease_valid(now=asked, end=end, ticked=node.leading.ticked, checked=True)
        assert ok == served
