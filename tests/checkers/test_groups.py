"""Which groups a history speaks of: what polls name counts, and what only traces name takes nothing from the polls."""

from __future__ import annotations

from dethrone.checkers.facts import groups
from dethrone.checkers.leader_when_owed import CHECKER as LEADER
from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import Begin, Observed
from dethrone.harness.core.history import History
from tests.checkers.histories import Tale, plan, promise
from tests.traced import traced

BEGIN = Begin(seq=0, t=0, schema=1, system="s", nodes=("n1",), seed=1)


def polled(seq, group):
    return Observed(
        seq=seq, t=seq, group=group, span=Span(seq, seq), node="n1", incarnation=1, role="LEADER", leads=True, term=1
    )


def of_group(seq, group):
    return traced("start", seq=seq, t=seq, group=group, span=Span(seq, seq), n=seq)


def test_where_polls_name_groups_what_names_none_is_of_the_process():
    assert groups(History([BEGIN, polled(1, "a"), polled(2, "b"), of_group(3, "")])) == (
        "a",
        "b",
    )


def test_where_only_traces_name_groups_the_polls_are_judged_all_the_same():
    assert groups(History([BEGIN, polled(1, ""), of_group(2, "a")])) == (
        "",
        "a",
    )


def test_there_is_always_a_group():
    assert groups(History([BEGIN])) == ("",)
    assert groups(History([BEGIN, of_group(1, "a"), of_group(2, "")])) == ("a",)


def test_a_group_without_a_leader_is_found_and_named_though_another_one_is_led():
    tale = Tale(3).up()
    until = tale.now + 3000
    while tale.now < until:
        for node in tale.nodes:
            tale.poll(node, 1, "n1", group="a").poll(node, 1, None, group="b")
        tale.wait(20)
    (finding,) = LEADER.check(tale.end(), promise(), plan(3)).findings
    assert "n1, n2, n3 had no leader of group b for" in finding.sentence
