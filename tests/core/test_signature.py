"""A signature is the cause of a finding: names, numbers and seeds do not change it, and no other cause shares it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import NodeProcess, Traced
from dethrone.harness.core.signature import CHAIN_MAX, chain, fold, signature_of
from dethrone.harness.core.verdict import Finding
from dethrone.harness.engine.run.judge import judge
from tests.checkers.histories import plan
from tests.checkers.stories import STORIES


def traced(seq, node, name, term):
    return Traced(
        seq=seq, t=seq, span=Span(0, 1), node=node, incarnation=1, n=seq, name=name, term=term, role="", source="shell"
    )


def finding(sentence="n1 and n3 both lead in term 4", nodes=("n1", "n3")):
    return Finding(sentence=sentence, certificate=(1, 2), nodes=nodes)


def key(one, events=(), checker="one-leader-per-term", **changes):
    given = msgspec.structs.replace(plan(5), **changes)
    return signature_of(one, checker, events, given).key


def test_names_terms_and_times_make_no_difference():
    here = key(finding(), [traced(1, "n1", "elected", 4), traced(2, "n3", "elected", 4)])
    there = key(
        finding("n5 and n2 both lead in term 17", ("n2", "n5")),
        [traced(7, "n5", "elected", 17), traced(9, "n2", "elected", 17)],
    )
    assert here == there
    assert here.startswith("raft/one-leader-per-term/")
    assert here == key(finding(), [traced(1, "n1", "elected", 4), traced(2, "n3", "elected", 4)], seed=99)
    assert here == key(
        finding(), [traced(1, "n1", "elected", 4), traced(2, "n3", "elected", 4)], settings={"time_factor": "0.5"}
    )


@pytest.mark.parametrize(
    "other",
    [
        key(finding("n1 and n3 both claim to lead in term 4")),
        key(finding(), checker="one-vote-per-term"),
        key(finding(), [traced(1, "n1", "elected", 4)]),
        key(finding(), settings={"persist_mode": "none"}),
        key(finding(), variant="01-vote-not-written"),
        key(finding(), profile="raft-paper"),
        key(finding(), system="kraft"),
    ],
)
def test_another_rule_chain_setting_variant_profile_or_system_is_another_signature(other):
    assert other != key(finding())


def test_what_a_crash_says_is_part_of_its_rule_but_its_addresses_are_not():
    one = key(finding("n2 exited on its own with code 2: panic: index out of range [3] at 0xc0001", ("n2",)))
    assert one == key(finding("n4 exited on its own with code 2: panic: index out of range [7] at 0xc0ffee", ("n4",)))
    assert one != key(finding("n2 exited on its own with code 2: panic: nil map at 0xc0001", ("n2",)))


def test_a_secret_setting_is_not_readable_and_a_variant_of_a_file_is_its_class():
    given = msgspec.structs.replace(plan(3), settings={"password": "hunter2"}, variant="/home/me/bugs.py:Clings")
    said = signature_of(finding(), "log", [], given)
    assert said.settings == ("password=***",)
    assert said.key.startswith("raft:Clings/log/")


def test_repeated_links_of_a_chain_count_once():
    votes = [traced(n, "n1", name, 1) for n, name in enumerate(["vote", "vote", "vote", "elected"])]
    assert chain(votes) == ("vote", "elected")
    pairs = [traced(n, "n1", "vote" if n % 2 else "elected", 1) for n in range(9)]
    assert len(chain(pairs)) <= 3
    exited = NodeProcess(seq=1, t=1, span=Span(0, 1), node="n1", incarnation=1, phase="exited", asked=False)
    assert chain([exited]) == ("exited unasked",)
    assert chain([msgspec.to_builtins(exited)]) == ("exited unasked",), "events of a corpus are plain data"


@given(st.lists(st.sampled_from("abc"), max_size=60))
def test_a_chain_is_bounded_and_folding_it_again_changes_nothing(names):
    found = chain([traced(n, "n1", name, 1) for n, name in enumerate(names)])
    assert len(found) <= CHAIN_MAX
    assert chain([traced(n, "n1", name, 1) for n, name in enumerate(found)]) == found


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_folded_sentence_does_not_depend_on_nodes_and_numbers(one, other, term, ms):
    text = fold(f"n{one} still led term {term}, {ms / 1000} s after n{other} said '{ms}'", (f"n{one}", f"n{other}"))
    assert text == "N still led term #, # after N said '…'"


def test_an_apostrophe_is_no_quotation_mark():
    assert fold("n1's log lacks what n2's log holds at 7", ("n1", "n2")) == "N's log lacks what N's log holds at #"


@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.outcome == "fail"])
def test_every_finding_of_a_judgement_has_its_signature(name):
    story = STORIES[name]
    history = story.tell().end()
    checker = registry.names(registry.CHECKERS)[story.checker].load()
    (verdict,) = judge(history, story.plan(), {story.checker: checker}).verdicts
    assert all(one.signature.startswith(f"raft/{story.checker}/") for one in verdict.findings)
