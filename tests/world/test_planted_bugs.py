"""Planted bugs of every protocol: what holds for all of them, and those that random faults show.

Out of scope: bugs that need a sequence of their own (``test_variants`` next to each protocol).
"""

from __future__ import annotations

import copy
import importlib
import inspect
import re
from types import SimpleNamespace
from typing import get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st

from dethrone.clusters.targets.dledger import messages as dledger
from dethrone.clusters.targets.dledger.tally import Campaign
from dethrone.clusters.targets.joyqueue.storage import metadata_bytes
from dethrone.clusters.targets.raft.storage import HardState, vote_bytes
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.rng import Rng
from tests.clusters.joyqueue.spec import metadata_of
from tests.world.chaos import drawn, play
from tests.world.test_safety import LOGS, SLOW
from tests.world.values import PLAIN, of

TARGETS = ("dledger", "joyqueue", "kraft", "master_slave", "nacos", "paxos", "raft", "zk_ephemeral")


def target_of(protocol):
    return importlib.import_module(f"dethrone.clusters.targets.{protocol}.target").TARGET


def variants_of(protocol):
    return target_of(protocol).planted


ALL = [(protocol, name) for protocol in TARGETS for name in variants_of(protocol)]
HARMLESS = [(protocol, name) for protocol, name in ALL if name.startswith("harmless-")]


def words_of(protocol, name):
    """The knobs with which that bug shows."""
    variant = variants_of(protocol)[name]
    outside = {"observers": "D,E", "learners": "E"}
    return {key: outside.get(key, word.split("|")[0]) for key, word in {**variant.needs, **variant.advised}.items()}


@pytest.mark.parametrize("protocol", TARGETS)
def test_every_build_says_what_it_does_and_five_are_harmless(protocol):
    variants = variants_of(protocol)
    assert target_of(protocol).variants() == {name: variant.says for name, variant in variants.items()}
    assert all(variant.says for variant in variants.values())
    assert sum(one == protocol for one, _ in HARMLESS) == 5


@pytest.mark.parametrize(("protocol", "name"), ALL)
def test_a_bug_names_its_checkers_and_a_harmless_build_none(protocol, name):
    variant = variants_of(protocol)[name]
    assert bool(variant.caught_by) != name.startswith(("harmless-", "clients-"))
    assert bool(variant.seen_by) == name.startswith("clients-")


OVERRIDDEN = {
    "dledger": {"12-grant-without-log-check": 2, "21-majority-of-responders": 3, "plain-never-truncates": 2},
    "joyqueue": {"37-pre-vote-terms-compared": 2},
    "kraft": dict.fromkeys(
        (
            *("04-ignore-failed-vote-write", "11-forgets-own-vote", "17-counts-higher-epoch", "23-observers-vote"),
            *("33-no-jitter", "34-same-seed", "plain-votes-twice"),
        ),
        2,
    ),
    "nacos": {"25-term-may-fall": 2},
    "paxos": dict.fromkeys(
        ("21-majority-of-reachable", "22-half-is-enough", "25-promise-may-fall", "44-accepts-any-number"), 2
    ),
    "raft": {"37-pre-vote-terms-compared": 2, "plain-votes-twice": 2},
    "zk_ephemeral": {
        **dict.fromkeys(("04-ignore-failed-write", "12-contends-outside-isr", "plain-two-creators"), 2),
        "25-epoch-may-fall": 3,
    },
}
"""How many rules a bug breaks, where it is not one."""


def honest_of(protocol):
    return importlib.import_module(f"dethrone.clusters.targets.{protocol}.rules").Rules


def overridden(protocol, made):
    """The rules that these are not the honest ones in."""
    broken = type(made).__mro__[: type(made).__mro__.index(honest_of(protocol))]
    return {key for one in broken for key in vars(one) if not key.startswith("_")}


@pytest.mark.parametrize(("protocol", "name"), ALL)
def test_a_build_overrides_one_rule_or_turns_one_knob_and_nothing_else(protocol, name):
    knobs = target_of(protocol).knobs(words_of(protocol, name))
    made = variants_of(protocol)[name].rules(knobs)
    if type(made) is honest_of(protocol):
        changed = [one for one in knobs.__struct_fields__ if getattr(knobs, one) != getattr(made.knobs, one)]
        assert len(changed) == 1
        return
    own = overridden(protocol, made)
    assert own <= set(vars(honest_of(protocol)))
    assert len(own) == OVERRIDDEN.get(protocol, {}).get(name, 1)


WORDS = ("A", "B", "vote", "log", "tree", "asked", "Voted", dledger.EXPIRED_VOTE_TERM, dledger.TERM_NOT_READY)
FILES = (b"?", vote_bytes(HardState(3, "A")), metadata_bytes(metadata_of("A", "ABC", 3, "A")))
COUNTS = ("term", "members", "valid", "accepted", "bigger", "not_ready", "max_term")
FEW = {
    **PLAIN,
    int: st.sampled_from((-1, 0, 1, 2, 3, 5, 10**12)),
    str: st.sampled_from(WORDS),
    bytes: st.sampled_from(FILES),
    Rng: st.builds(Rng, st.integers(0, 9)),
    Campaign: st.builds(SimpleNamespace, **dict.fromkeys(COUNTS, st.sampled_from((0, 1, 2, 3, 5)))),
}
"""So few values of a type that they meet by chance."""
OF_OTHER_TYPES = {
    *(("nacos", name) for name in ("07-unreadable-means-fresh", "10-resumes-leadership")),
    *(("paxos", name) for name in ("07-unreadable-means-fresh", "11-forgets-own-acceptances")),
    *(("paxos", name) for name in ("40-counts-across-numbers", "42-learns-from-one")),
    *(("zk_ephemeral", name) for name in ("01-state-not-written", "07-unreadable-means-fresh")),
}
"""Their rules take what cannot be drawn by its type: their protocols' own tests show them."""


def asked(rules, rule, taken, given):
    """What these rules answer; an exception is an answer, too."""
    given = copy.deepcopy(given)
    by_place = [given.pop(one.name) for one in taken if one.kind is not one.KEYWORD_ONLY]
    try:
        return getattr(rules, rule)(*by_place, **given)
    except Exception as error:  # noqa: BLE001 - Unreadable is one of the outcomes compared
        return type(error)


@pytest.mark.parametrize(("protocol", "name"), [one for one in ALL if one not in OF_OTHER_TYPES])
def test_a_build_answers_otherwise_than_the_honest_one_in_each_of_its_rules(protocol, name):
    honest, knobs = honest_of(protocol), target_of(protocol).knobs(words_of(protocol, name))
    made = variants_of(protocol)[name].rules
    for rule in overridden(protocol, made(knobs)):
        if not callable(getattr(honest, rule)):
            assert getattr(honest(knobs), rule) != getattr(made(knobs), rule)
            continue
        taken = list(inspect.signature(getattr(honest, rule)).parameters.values())[1:]
        hints = get_type_hints(getattr(honest, rule))
        find(
            st.fixed_dictionaries({one.name: of(hints[one.name], FEW) for one in taken}),
            lambda given, rule=rule, taken=taken: (
                asked(honest(knobs), rule, taken, given) != asked(made(knobs), rule, taken, given)
            ),
            settings=settings(
                max_examples=2000, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck)
            ),
        )


OTHER = {
    "true": "false",
    "false": "true",
    "on": "off",
    "log": "local",
    "lease": "readindex",
    "readindex": "local",
    "atomic": "none",
    "all": "1",
    "race": "controller",
    "controller": "race",
    "1.0|1.5": "off",
    "SYNC_FLUSH": "ASYNC_FLUSH",
    "SYNC_MASTER": "ASYNC_MASTER",
    "single_server": "static",
    "*": "",
}
"""What a knob needs to be → what it may be instead."""
WITH = {("raft", "check_quorum"): {"stickiness": "off"}, ("raft", "noop"): {"reads": "log"}}
"""What else such a knob allows."""


@pytest.mark.parametrize(
    ("protocol", "name", "knob"), [(one, name, knob) for one, name in ALL for knob in variants_of(one)[name].needs]
)
def test_a_bug_is_refused_without_the_knob_that_shows_it_and_the_knob_is_named(protocol, name, knob):
    target, word = target_of(protocol), variants_of(protocol)[name].needs[knob]
    knobs = target.knobs({**words_of(protocol, name), **WITH.get((protocol, knob), {}), knob: OTHER[word]})
    needed = knob if word == "*" else f"{knob}={word.replace('|', ' or ')}"
    with pytest.raises(ConfigError, match=re.escape(needed)):
        target.core(node="A", members=tuple("ABCDE"), knobs=knobs, variant=name)


@pytest.mark.parametrize("protocol", TARGETS)
def test_an_unknown_build_is_refused_with_the_nearest(protocol):
    target, name = target_of(protocol), next(iter(variants_of(protocol)))
    with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
        target.core(node="A", members=("A", "B", "C"), knobs=target.knobs({}), variant=name[:-1])


# --- random faults ------------------------------------------------------------------------------------------------

SEEDS = {"raft": (60, 80), "kraft": (60, 120), "dledger": (80, 100), "joyqueue": (150, 80)}
"""Protocol → worlds of which one must show a bug, and steps of each."""

SHOWN = {
    "raft": [
        ("01-vote-not-written", "INV-2", "ABC", {}),
        ("02-answer-before-persist", "INV-2", "ABC", {"sync": (0, 80), "profile": "raft-paper"}),
        ("05-vote-not-synced", "INV-2", "ABC", {}),
        ("11-forgets-own-vote", "INV-2", "ABC", {}),
        ("12-grant-without-log-check", "INV-4", "ABC", {}),
        ("14-last-log-term-is-current", "INV-4", "ABC", {}),
        ("16-counts-older-term", "INV-12", "ABC", {"profile": "raft-paper"}),
        ("17-counts-higher-term", "INV-12", "ABC", {"profile": "raft-paper"}),
        ("18-pre-votes-are-votes", "INV-12", "ABC", {}),
        ("21-majority-of-responders", "INV-12", "ABCDE", {}),
        ("22-half-is-enough", "INV-12", "ABCD", {}),
        ("25-term-may-fall", "INV-3", "ABC", {"profile": "raft-paper"}),
        ("42-follower-commit-unchecked", "INV-5", "ABC", {}),
        ("44-truncates-always", "committed entry was removed", "ABC", {}),
        ("46-acks-before-sync", "INV-4", "ABC", {}),
    ],
    "kraft": [
        ("01-vote-not-written", "INV-2", "ABC", {}),
        ("02-answer-before-persist", "INV-3", "ABC", {}),
        ("05-vote-not-synced", "INV-", "ABC", {}),
        ("06-delete-then-rename", "INV-3", "ABC", {}),
        ("10-resumes-leadership", "a second time", "ABC", {}),
        ("12-grant-without-log-check", "INV-4", "ABC", {}),
        ("14-last-epoch-is-current", "INV-4", "ABC", {}),
        ("16-counts-older-epoch", "INV-12", "ABC", {}),
        ("17-counts-higher-epoch", "INV-1", "ABC", {}),
        ("21-majority-of-responders", "INV-12", "ABCDE", {}),
        ("22-half-is-enough", "INV-12", "ABCD", {}),
        ("23-observers-vote", "INV-12", "ABCDE", {}),
        ("25-epoch-may-fall", "INV-3", "ABC", {}),
        ("40-commits-old-epochs", "INV-5", "ABCDE", {}),
        ("42-follower-hw-unchecked", "INV-5", "ABC", {}),
        ("45-acks-after-local-append", "stale read", "ABC", {}),
        ("46-fetches-before-sync", "INV-4", "ABC", {}),
        ("plain-writes-epoch-before", "INV-", "ABC", {}),
        ("plain-votes-twice", "INV-2", "ABC", {}),
        ("plain-never-diverges", "INV-5", "ABC", {}),
    ],
    "dledger": [
        ("01-vote-not-written", "INV-2", "ABC", {}),
        ("02-answer-before-persist", "INV-2", "ABC", {"sync": (0, 400)}),
        ("05-vote-not-synced", "INV-2", "ABC", {}),
        ("06-delete-then-rename", "INV-", "ABC", {"sync": (0, 400)}),
        ("12-grant-without-log-check", "INV-4", "ABC", {}),
        ("17-counts-higher-term", "INV-12", "ABC", {}),
        ("18-not-ready-is-a-vote", "INV-12", "ABC", {}),
        ("21-majority-of-responders", "INV-12", "ABCDE", {}),
        ("22-half-is-enough", "INV-12", "ABCD", {}),
        ("42-follower-commit-unchecked", "INV-5", "ABC", {}),
        ("44-cuts-on-append", "committed entry is cut off", "ABC", {}),
        ("46-acks-before-sync", "INV-", "ABC", {}),
        ("plain-votes-twice", "INV-2", "ABC", {}),
        ("plain-writes-term-before", "INV-", "ABC", {}),
        ("plain-never-truncates", "INV-5", "ABC", {"noop_on_elect": True}),
    ],
    "joyqueue": [
        ("12-grant-without-log-check", "INV-4", "ABC", {}),
        ("14-last-log-term-is-current", "INV-4", "ABC", {}),
        ("18-pre-votes-are-votes", "INV-12", "ABC", {"profile": "joyqueue-mended"}),
        ("21-majority-of-responders", "INV-12", "ABCDE", {}),
        ("22-half-is-enough", "INV-12", "ABCD", {}),
        ("23-non-members-vote", "INV-12", "ABCE", {}),
        ("25-term-may-fall", "INV-3", "ABC", {}),
        ("42-follower-commit-unchecked", "INV-5", "ABC", {}),
        ("44-truncates-always", "committed entry was removed", "ABC", {}),
        ("45-acks-after-local-append", "stale read", "ABC", {}),
        ("46-acks-before-sync", "INV-4", "ABC", {}),
        ("56-reads-before-own-term", "stale read", "ABC", {}),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "name", "problem", "names", "knobs"),
    [
        pytest.param(protocol, *row, marks=SLOW if protocol == "dledger" else ())
        for protocol, rows in SHOWN.items()
        for row in rows
    ],
)
def test_a_random_world_shows_the_bug_and_the_honest_build_survives_the_same_world(
    protocol, name, problem, names, knobs
):
    made, (seeds, count) = LOGS[protocol], SEEDS[protocol]
    knobs = {**words_of(protocol, name), **knobs}
    for seed in range(seeds):
        schedule = drawn(made, Rng(seed).stream("bug"), names, count=count)
        world = play(made(names, seed=seed, variant=name, **knobs), schedule)
        if any(problem in text for text in world.problems):
            assert play(made(names, seed=seed, **knobs), schedule).problems == []
            return
    pytest.fail(f"{seeds} worlds do not show it")


@pytest.mark.parametrize(("protocol", "name"), [(one, name) for one, name in HARMLESS if one in LOGS])
def test_harmless_builds_stay_safe_and_heal(protocol, name):
    for seed in range(8 if protocol == "kraft" else 6):
        world = LOGS[protocol]("ABC", seed=seed, variant=name)
        play(
            world, drawn(LOGS[protocol], Rng(seed).stream("harmless"), "ABC", count=100 if protocol == "kraft" else 60)
        )
        assert world.recovers()
        assert world.problems == []
