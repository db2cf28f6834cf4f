"""Planted bugs of the mended naming Raft: each breaks its rule and no other, and is refused where it shows nothing."""

from __future__ import annotations

import pytest

from dethrone.clusters.systems.nacos import SYSTEM
from dethrone.clusters.targets.kit.files import Unreadable
from dethrone.clusters.targets.nacos import storage
from dethrone.clusters.targets.nacos.knobs import KNOBS
from dethrone.clusters.targets.nacos.rules import Rules
from dethrone.clusters.targets.nacos.target import TARGET
from dethrone.harness.core.machine import Fsync, Unlink
from dethrone.harness.core.rng import Rng

MENDED = KNOBS.parse({}, profile="nacos-mended")
META = storage.Meta(3, "n1")


def _damaged():
    raise Unreadable("damaged")


def _loads(rules):
    try:
        return rules.loads_meta(_damaged)
    except Unreadable:
        return "halt"


ASKED = {
    "02-answer-before-persist": lambda r: r.waits_for_disk,
    "04-ignore-failed-vote-write": lambda r: r.on_persist_error(),
    "05-vote-not-synced": lambda r: r.syncs,
    "06-delete-then-rename": lambda r: r.deletes_first(),
    "07-unreadable-means-fresh": _loads,
    "10-resumes-leadership": lambda r: r.start_state(META, me="n1"),
    "16-counts-older-term": lambda r: r.counts(2, own_term=3),
    "21-majority-of-responders": lambda r: r.wins(2, peers=5, counted=2),
    "22-half-is-enough": lambda r: r.majority(4),
    "25-term-may-fall": lambda r: r.accepts_term(own_term=5, sender_term=3) and r.term_after_beat(5, 3),
    "28-never-steps-down": lambda r: r.campaigns_as("LEADER"),
    "30-sending-is-contact": lambda r: r.sending_is_contact(),
    "31-any-request-resets-due": lambda r: r.refusal_resets_due(),
    "52-timers-on-wall-clock": lambda r: r.clock(),
    "plain-votes-twice": lambda r: r.grants(candidate_term=3, own_term=3, own_items=0),
    "plain-wants-every-vote": lambda r: r.wins(4, peers=5, counted=5),
}


def test_every_bug_is_asked_for_its_rule():
    assert {name for name, one in TARGET.planted.items() if one.caught_by} == set(ASKED)
    assert len([name for name in TARGET.planted if name.startswith("harmless-")]) == 5


@pytest.mark.parametrize("name", ASKED)
def test_a_bug_breaks_its_rule_and_leaves_the_others(name):
    broken, honest = TARGET.planted[name].rules(MENDED), Rules(MENDED)
    differing = {one for one, ask in ASKED.items() if ask(broken) != ask(honest)}
    related = {"21-majority-of-responders", "22-half-is-enough"} if name.startswith("22") else set()
    assert name in differing
    assert differing - {name} <= related | {"plain-wants-every-vote"}


@pytest.mark.parametrize("name", [name for name in TARGET.planted if name.startswith("harmless-")])
def test_a_harmless_build_breaks_none_of_these_rules(name):
    assert all(ask(TARGET.planted[name].rules(MENDED)) == ask(Rules(MENDED)) for ask in ASKED.values())
    assert TARGET.planted[name].rules(MENDED).leader_due_ms(Rng(3)) >= 15_000


def test_a_file_is_synced_and_never_missing_unless_a_variant_says_so():
    assert not any(isinstance(op, Unlink) for op in storage.write_meta(META))
    assert sum(isinstance(op, Fsync) for op in storage.write_meta(META)) == 2
    assert not any(isinstance(op, Fsync) for op in storage.write_meta(META, sync=False))
    assert storage.write_meta(META, delete_first=True)[0] == Unlink(storage.META)


def test_the_exam_is_of_the_mended_one_and_bears_a_file_that_cannot_be_read():
    plan = SYSTEM.exam()
    assert plan.profile == "nacos-mended"
    made = SYSTEM.promise(SYSTEM.knobs({}, profile=None, variant=None), profile="nacos-mended", voters=3)
    assert made.bears("damage", {"path": storage.META, "how": "unreadable"}) is not None
    assert made.bears("damage", {"path": storage.META, "how": "flipped"}) is None
