"""What ``doctor FILE`` shows of members that change, and of leadership that moves on request."""

from __future__ import annotations

import json

import pytest

from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import Evidence, OpOutcome, Reading
from dethrone.harness.engine.host.membership_check import MembershipCheck


class World:
    """Three nodes, of which ``leads`` leads in ``term``; also the system, its client and every host."""

    def __init__(self, nodes=3):
        self.names = tuple(f"n{number}" for number in range(1, nodes + 1))
        self.leads, self.term, self.moves, self.status = "n1", 3, True, "ok"
        self.others = [{"done": True, "listed": True, "id": "7", "said": '{"7":\n "n2"}'}] * (nodes - 1)
        self.whys, self.states, self.answers = [], [], True

    def ask(self, node):
        role = "leader" if node == self.leads else "follower"
        return Reading(role=role, leads=node == self.leads, term=self.term) if self.answers else None

    def client(self, nodes):
        return self

    def invoke(self, f, value, *, target, timeout_ns):
        assert (f, target) == ("transfer", "n1")
        if self.moves:
            self.leads, self.term = value, self.term + 1
        return OpOutcome(status=self.status, error="no")

    def close(self):
        pass

    def look_at_members(self, node):
        return ("python", "look", node)

    def run(self, argv, *, timeout_ns):
        if not self.others:
            return 1, b"", b"no such file"
        return 0, json.dumps({"others": self.others}).encode(), b""

    def converge(self, want):
        self.states.append(want)
        why = self.whys.pop(0) if self.whys else ""
        return Evidence(host="n2", span=Span(0, 0), state=want, confirmed=not why, why=why)

    @property
    def check(self):
        hosts, nodes = dict.fromkeys(self.names, self), {name: name for name in self.names}
        return MembershipCheck(hosts, nodes, ask=self.ask, limit_ns=1 * MS)

    def changed(self, *, lent=False):
        return list(self.check.changed(self, lent=lent))

    def transferred(self):
        (row,) = self.check.transferred(self)
        return row


def test_a_follower_is_removed_by_the_fault_itself_and_added_again():
    world = World()
    listed, removed = world.changed()
    assert (listed.seen, removed.seen) == ("yes", "yes")
    assert listed.what == 'the others list n2 as a member, 2 of 2, under the id \'7\': {"7": "n2"}'
    assert removed.what.endswith("answers in term 3")
    began, ended = world.states
    assert ([trouble.kind for trouble in began.troubles], began.down, ended) == (["member"], "SIGKILL", HEALTHY)


@pytest.mark.parametrize(
    ("others", "why", "key"),
    [
        ([{"done": False, "listed": False, "id": None, "said": "HTTP 404"}], "HTTP 404", "members"),
        ([{"done": True, "listed": False, "id": None, "said": "[n1, n3]"}], "[n1, n3]", "look at member in"),
        ([], "no such file", "members"),
    ],
)
def test_an_answer_that_lists_no_node_is_shown_and_no_node_removed(others, why, key):
    world = World()
    world.others = others
    (row,) = world.changed()
    assert row.seen == "no"
    assert why in row.why
    assert key in row.what_to_do
    assert world.states == []


@pytest.mark.parametrize(("whys", "key"), [(["refused"], "remove"), (["", *["refused"] * 3], "add")])
def test_a_change_that_does_not_come_about_names_its_key_and_the_node_is_healed(whys, key):
    world = World()
    world.whys = whys
    *_, row = world.changed()
    assert (row.seen, row.why) == ("no", "refused")
    assert row.what_to_do == f"look at {key} in [membership]"
    assert world.states[-1] == HEALTHY


@pytest.mark.parametrize(
    ("nodes", "lent", "why"), [(2, False, "odd number"), (1, False, "no other"), (3, True, "user")]
)
def test_no_node_is_removed_where_that_cannot_or_may_not_be(nodes, lent, why):
    world = World(nodes)
    *_, row = world.changed(lent=lent)
    assert row.seen == "not seen"
    assert why in row.why
    assert world.states == []


def test_leadership_that_moves_is_seen_by_the_probe_whatever_the_answer():
    world = World()
    world.status = "info"
    row = world.transferred()
    assert row.seen == "yes"
    assert row.what == "n1 hands leadership over when asked to: n2 leads term 4 after term 3"


@pytest.mark.parametrize(("status", "why"), [("fail", "fail: no"), ("ok", "the answer was ok, but no other node")])
def test_leadership_that_does_not_move_is_told_with_the_answer(status, why):
    world = World()
    world.moves, world.status = False, status
    row = world.transferred()
    assert row.seen == "no"
    assert row.why.startswith(why)


def test_without_a_leader_nothing_is_tried():
    world = World()
    world.answers = False
    assert [row.seen for row in (world.transferred(), *world.changed())] == ["not seen", "not seen"]
