"""Conditions: what the nodes' own words, the witness, clients and the schedule tell, in one vocabulary."""

from __future__ import annotations

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import FaultEvent, Invoke, NodeProcess, Observed, Return
from dethrone.harness.core.schedule import OnEvent
from tests.nemesis.views import view_of
from tests.traced import traced as an_event

CONDITIONS = registry.load_all(registry.TRIGGERS)

AT = Span(10, 12)


def traced(name, data=None, *, term=3, **more):
    return an_event(name, data, t=12, span=AT, term=term, **more)


def match(name, event, *, asked=None, **fields):
    return CONDITIONS[name].match(event, OnEvent(event=name, within_ns=1, **fields), asked)


SAME = [
    ("elected", traced("elected", {"voters": ["n1", "n2"]}), traced("elected", {"voters": ["n2"]}, source="shell")),
    (
        "vote-granted",
        traced("vote_decision", {"candidate": "n2", "granted": True}),
        traced("vote", {"candidate": "n2"}, source="shell"),
    ),
    (
        "vote-granted",
        traced("vote_decision", {"candidate": "n2", "action": "grant"}),
        traced("vote_decision", {"candidate": "n2", "code": "ACCEPT"}),
    ),
    ("campaign-sent", traced("election_started"), traced("vote", {"candidate": "n1"}, source="shell")),
    ("campaign-sent", traced("campaign"), traced("vote_request_sent", {"peer": "n2"})),
    ("stepped-down", traced("step_down", {"why": "higher_term"}), traced("role_change", {"from": "LEADER", "to": "F"})),
]


@pytest.mark.parametrize(("name", "one", "other"), SAME)
def test_two_lines_that_tell_of_one_happening_have_one_key(name, one, other):
    first, second = match(name, one), match(name, other)
    assert first.key == second.key
    assert first.actor == second.actor == "n1"
    assert first.term == 3
    assert first.span == AT


OTHERS = [
    ("elected", traced("election_started")),
    ("vote-granted", traced("vote_decision", {"candidate": "n2", "granted": False})),
    ("vote-granted", traced("vote", {"candidate": "n1"}, source="shell")),  # its own
    ("campaign-sent", traced("vote", {"candidate": "n2"}, source="shell")),
    ("stepped-down", traced("role_change", {"from": "CANDIDATE", "to": "FOLLOWER"})),
    ("stepped-down", traced("step_down", {"from": "CANDIDATE"})),
    ("pre-vote-granted", traced("prevote_decision", {"candidate": "n2", "row": 2})),
    ("configuration-appended", traced("config", {"what": "committed", "index": 4})),
    ("leader-seen", traced("leader_seen", {"leader": None})),
]


@pytest.mark.parametrize(("name", "event"), OTHERS)
def test_what_only_looks_like_it_is_no_occurrence(name, event):
    assert match(name, event) is None


def test_an_election_names_the_voters_besides_the_elected():
    assert match("elected", traced("elected", {"voters": ["n1", "n2", "n3"]})).roles["voter"] == ("n2", "n3")


def test_a_vote_names_voter_and_candidate():
    found = match("vote-granted", traced("vote", {"candidate": "n2"}, source="shell"))
    assert (found.roles["voter"], found.roles["candidate"]) == (("n1",), ("n2",))


def test_polls_tell_of_leaders_where_nothing_is_traced():
    def seen(*, leads, term=4):
        return Observed(seq=0, t=12, span=AT, node="n2", incarnation=1, role="x", leads=leads, term=term)

    assert match("elected", seen(leads=True)).actor == "n2"
    assert match("elected", seen(leads=True)).key == match("elected", seen(leads=True)).key
    assert match("elected", seen(leads=False)) is None


def test_only_an_acknowledged_write_is_one():
    write = Invoke(seq=0, t=1, op=7, process=0, f="append", value=["k", 1], target="n1")
    read = Invoke(seq=0, t=1, op=7, process=0, f="read", value="k", target="n1")

    def back(status, node="n3"):
        return Return(seq=1, t=9, op=7, status=status, node=node)

    found = match("write-acked", back("ok"), asked=write)
    assert (found.actor, found.span) == ("n3", Span(9, 9))
    assert match("write-acked", back("ok", None), asked=write).actor == "n1"
    assert match("write-acked", back("info"), asked=write) is None
    assert match("write-acked", back("ok"), asked=read) is None
    assert match("write-acked", back("ok"), asked=None) is None


def test_faults_and_processes_trigger_too():
    def fault(outcome):
        return FaultEvent(
            seq=0, t=9, fault=4, step=0, kind="kill", phase="end", span=AT, victims=("n2",), outcome=outcome,
            evidence={"name": "base"},
        )  # fmt: skip

    assert match("healed", fault("healed"), where={"fault": "base"}).actor == "n2"
    assert match("healed", fault("healed"), where={"kind": "pause"}) is None
    assert match("healed", fault("installed")) is None
    assert match("fault-begun", fault("installed")).key == (4,)
    ended = NodeProcess(seq=0, t=9, span=AT, node="n1", incarnation=2, phase="exited", asked=False)
    assert match("exited", ended, where={"asked": False}).actor == "n1"
    assert match("ready", ended) is None


def test_where_compares_terms_sources_and_data():
    event = traced("elected", {"why": "x"}, term=5)
    assert match("elected", event, where={"term": 5, "source": "core", "why": "x"})
    assert match("elected", event, where={"term_min": 5})
    for where in ({"term": 4}, {"term_min": 6}, {"source": "shell"}, {"why": "y"}, {"absent": 1}):
        assert match("elected", event, where=where) is None
    assert match("term-reached", traced("anything", term=6), where={"term_min": 6}).term == 6
    assert match("traced", traced("leader_set"), where={"name": "leader_set"})
    assert match("traced", traced("other"), where={"name": "leader_set"}) is None


def test_by_says_whose_doing_counts():
    view = view_of(3, leader="n1")
    hit = {"a": ("n1",), "b": ("n3",)}
    view = type(view)(nodes=view.nodes, leader="n1", roles={}, terms={}, state=view.state, hit=hit)

    def concerns(by, node):
        trigger = OnEvent(event="elected", within_ns=1, by=by)
        return CONDITIONS["elected"].concerns(trigger, match("elected", traced("elected", node=node)), view)

    assert concerns("leader", "n1")
    assert not concerns("leader", "n2")
    assert concerns("follower", "n2")
    assert concerns("node:n2,n3", "n3")
    assert concerns("hit-by:a,b", "n3")
    assert not concerns("hit-by:a", "n3")
    assert concerns("spared-by:a", "n2")
    assert not concerns("spared-by:a,b", "n1")
    assert not concerns("spared-by:unknown", "n2")
    assert concerns("all", "n2")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"event": "write-acked", "where": {"term": 3}}, "field of the trigger"),
        ({"event": "term-reached"}, "needs a where with term"),
        ({"event": "traced"}, "needs a where with name"),
        ({"event": "elected", "by": "random"}, "does not say by whom"),
        ({"event": "elected", "by": "node:n9"}, "no node"),
        ({"event": "elected", "by": "nobody"}, "unknown selector"),
        ({"event": "healed", "where": {"victim": "n1"}}, "field of the trigger"),
    ],
)
def test_a_trigger_that_makes_no_sense_is_refused(fields, words):
    trigger = OnEvent(within_ns=SECOND, **fields)
    with pytest.raises(ConfigError, match=words):
        CONDITIONS[trigger.event].check(trigger, nodes=3)


def test_every_condition_comes_through_its_entry_point_and_says_what_it_is():
    assert registry.load_all(registry.TRIGGERS) == dict(CONDITIONS)
    for condition in CONDITIONS.values():
        assert condition.summary()
        assert condition.roles()[0] == "actor"
        assert condition.hears()
