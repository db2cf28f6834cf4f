"""One event, one node: what it answers, notes and arms, row by row."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Cas, Failed, Get, Learn, Ok, Put, Refused, Transfer, Unknown
from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Ask, Nack, Ping, Pong, Prepare, Propose, Told
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Await, Disk, Send
from tests.clusters.paxos.spec import One, bodies, stored, val
from tests.world.effects import answer, names, note, replies, sent, timers

# --- acceptor ---------------------------------------------------------------------------------------------------


def test_a_promise_says_what_it_was_and_what_it_became():
    one = One(stored(4, 4, "x"))
    told = note(one.prepare(8, src="C"), "promise")
    assert told == {
        "to": "C",
        "id": 8,
        "max_before": 4,
        "max_after": 8,
        "accepted_id": 4,
        "accepted_value": "x",
        "instance": 1,
    }


def test_a_refused_prepare_changes_nothing_and_is_noted():
    one = One(stored(7))
    out = one.prepare(5)
    assert note(out, "nack") == {"to": "B", "id": 5, "max_before": 7, "max_after": 7, "instance": 1}
    assert not [e for e in out if isinstance(e, Disk)]


def test_an_acceptance_says_what_it_replaced():
    one = One(stored(8, 4, "x"))
    told = note(one.proposal(8, "y", src="C"), "accepted")
    assert (told["from"], told["id"], told["value"]) == ("C", 8, "y")
    assert (told["previous_id"], told["previous_value"], told["max_after"]) == (4, "x", 8)


def test_a_refused_proposal_is_noted_and_answered():
    one = One(stored(8))
    out = one.proposal(5, "x")
    assert "refused" in names(out)
    assert answer(out) == Nack(1, 5, 8)


@pytest.mark.parametrize("event", ["prepare", "proposal"])
def test_the_answer_leaves_behind_the_fsync_only(event):
    one = One(stored(5), slow=True)
    out = one.prepare(8) if event == "prepare" else one.proposal(5, "x")
    kinds = [type(e) for e in out]
    assert kinds.index(Disk) < kinds.index(Await) < kinds.index(Send)
    assert out[kinds.index(Await)].token == out[kinds.index(Disk)].token


def test_without_persistence_nothing_is_written():
    one = One(persist="false")
    assert not [e for e in one.prepare(4) + one.proposal(4, "x") if isinstance(e, Disk | Await)]


def test_an_acceptor_tells_a_learner_what_it_accepted_in_a_range():
    one = One(stored(4, 4, "x"), stored(5, instance=2), stored(8, 7, "z", instance=3))
    asked = answer(one.hear("B", Ask(1, 5)))
    assert asked == Told(1, 5, (Accepted(1, 4, val("x")), Accepted(3, 7, val("z"))))
    assert answer(one.hear("B", Ask(9, 9))) == Told(9, 9, ())


def test_a_ping_is_answered():
    assert answer(One().hear("C", Ping())) == Pong()


def test_a_node_that_is_no_acceptor_answers_neither_phase():
    one = One(members="ABCD", node="D", acceptors=3)
    for body in (Prepare(1, 4), Propose(1, 4, val("x")), Ask(1, 1)):
        assert not sent(one.hear("A", body))
    assert [to for to, _ in sent(one.want(), Prepare)] == ["A", "B", "C"]


# --- proposer ---------------------------------------------------------------------------------------------------


def test_a_number_is_the_counter_times_the_nodes_plus_the_own_place():
    for place, node in enumerate("ABCDE"):
        one = One(members="ABCDE", node=node)
        one.want()
        assert one.id() == 5 + place
    plain = One(id_scheme="plain_counter", node="C")
    plain.want()
    assert plain.id() == 1


def test_the_counter_is_stored_with_the_own_promise_before_prepare_leaves():
    one = One(slow=True)
    out = one.want()
    assert [type(e) for e in out if isinstance(e, Disk | Await | Send)] == [Disk, Await, Send, Send]
    assert one.state() == "PREPARING"
    assert one.node.instances[1].attempt.promises == {}, "its own promise counts when it is durable"
    one.done()
    assert set(one.node.instances[1].attempt.promises) == {"A"}


def test_a_refusal_lifts_the_next_number_above_the_one_that_was_promised():
    one = One()
    one.want()
    out = one.nack(3, 31)
    assert note(out, "attempt_abandoned")["cause"] == "nack"
    assert one.state() == "IDLE"
    one.reach()
    one.fire("attempt/1", after_ms=10)
    assert one.id() == 33


def test_a_phase_that_takes_too_long_is_given_up_and_tried_again():
    one = One()
    assert timers(one.want())["attempt/1"] == one.now + 200 * MS
    out = one.fire("attempt/1", after_ms=200)
    assert note(out, "attempt_abandoned") == {"id": 3, "cause": "timeout", "instance": 1}
    wait = timers(out)["attempt/1"] - one.now
    assert 50 * MS <= wait <= 150 * MS
    one.reach()
    assert bodies(one.fire("attempt/1", after_ms=wait // MS), Prepare) == [Prepare(1, 6)]


def test_messages_of_a_number_that_was_given_up_are_ignored():
    one = One()
    one.want()
    one.nack(3, 4)
    assert not sent(one.promise(3))
    assert not names(one.nack(3, 99))
    one.reach()
    one.fire("attempt/1")
    assert not sent(one.promise(3, src="C"), Propose)
    assert sent(one.promise(one.id(), src="C"), Propose)


def test_the_value_is_selected_and_noted():
    one = One()
    one.want("own")
    out = one.promise(3, 2, "theirs")
    told = note(out, "value_selected")
    assert (told["source"], told["accepted_id"], told["value"]) == ("adopted", 2, "theirs")
    two = One()
    two.want("own")
    assert note(two.promise(3), "value_selected")["source"] == "own"


def test_the_client_is_told_what_was_chosen_whoever_proposed_it():
    one = One()
    one.want("own")
    one.promise(3, 2, "theirs")
    out = one.accepted(3, "theirs")
    assert replies(out) == [Ok("theirs", 1)]
    assert note(out, "chosen")["acceptors"] == ["A", "B"]
    assert note(out, "learned")["value"] == "theirs"
    assert one.core.status(one.clocks()).extra["proposer"]["state"] == "DONE"


def test_a_refusal_in_the_second_phase_gives_up_although_the_value_may_be_chosen_yet():
    one = One()
    one.want("own")
    one.promise(3)
    one.nack(3, 4, src="C")
    assert one.state() == "IDLE"
    assert replies(one.accepted(3, "own")) == [Ok("own", 1)], "the learner saw a majority"


def test_patience_ends_with_failed_before_a_proposal_and_unknown_after_it():
    one = One()
    one.want("own")
    assert replies(one.fire("patience", after_ms=2000)) == [Failed("not proposed in time")]
    assert one.state() is None
    two = One()
    two.want("own")
    two.promise(3)
    assert replies(two.fire("patience", after_ms=2000)) == [Unknown("not decided in time")]


def test_the_value_of_a_client_that_gave_up_is_not_proposed_later():
    one = One()
    one.want("first")
    one.now += 1000 * MS
    one.want("second")
    assert replies(one.fire("patience", after_ms=1000)) == [Failed("not proposed in time")]
    assert bodies(one.promise(3), Propose) == [Propose(1, 3, val("second"))]


def test_nothing_comes_after_patience_ended():
    one = One()
    one.want("own")
    one.promise(3)
    one.fire("patience", after_ms=2000)
    assert not replies(one.accepted(3, "own"))
    assert one.chosen() == "own"


def test_what_is_not_served_is_refused():
    one = One()
    for body in (Transfer("B"), Want(0, "x"), Want(-1, "x"), Want(1, None), Learn(0)):
        assert isinstance(replies(one.ask(body))[0], Refused), body


def test_start_needs_one_is_content_with_one_acceptor_besides_itself():
    one = One(alone=True, members="ABCDE", start_needs="one")
    assert not sent(one.want(), Prepare)
    one.reach("B")
    assert one.state() == "PREPARING"
    two = One(alone=True, members="ABCDE")
    two.want()
    two.reach("B")
    assert two.state() == "IDLE"
    two.reach("C")
    assert two.state() == "PREPARING"


def test_who_was_not_heard_of_for_a_phase_is_pinged_first():
    one = One()
    one.now += 201 * MS
    out = one.want()
    assert bodies(out) == [Ping()]
    assert bodies(one.hear("C", Pong()), Prepare) == [Prepare(1, 3)]


def test_a_node_by_itself_decides_at_once():
    one = One(members="A")
    assert replies(one.want("x")) == [Ok("x", 1)]
    assert replies(one.ask(Learn(2))) == [Ok(None)]
    assert replies(one.ask(Append("k", 7))) == [Ok(2, 2)]
    assert replies(one.ask(Get("k"))) == [Ok([7], 3)]


# --- learner ----------------------------------------------------------------------------------------------------


def test_a_learner_that_started_again_asks_and_learns():
    one = One(stored(4, 4, "x"))
    out = one.ask(Learn(1))
    assert sent(out) == [("B", Ask(1, 1)), ("C", Ask(1, 1))]
    assert replies(one.hear("B", Told(1, 1, (Accepted(1, 4, val("x")),)))) == [Ok("x", 1)]


def test_a_majority_that_accepted_nothing_ends_the_question():
    one = One()
    one.ask(Learn(1))
    assert replies(one.hear("B", Told(1, 1, ()))) == [Ok(None)]


def test_answers_without_a_majority_for_one_number_lead_to_an_attempt_without_an_own_value():
    one = One(stored(4, 4, "x"))
    one.ask(Learn(1))
    out = one.hear("B", Told(1, 1, (Accepted(1, 8, val("x")),))) + one.hear("C", Told(1, 1, ()))
    assert not replies(out)
    number = one.id()
    assert number > 8
    assert bodies(one.promise(number, 8, "x"), Propose) == [Propose(1, number, val("x"))]
    assert replies(one.accepted(number, "x")) == [Ok("x", 1)]


def test_a_question_that_nobody_answers_ends_with_not_known():
    one = One()
    one.ask(Learn(1))
    assert replies(one.fire("ask/1", after_ms=200)) == [Ok(None)]


def test_relearning_by_an_attempt_proposes_nothing_of_its_own():
    one = One(relearn="attempt")
    out = one.ask(Learn(1))
    assert bodies(out, Prepare) == [Prepare(1, 3)]
    out = one.promise(3)
    assert replies(out) == [Ok(None)]
    assert not sent(out, Propose)
    assert note(out, "attempt_abandoned")["cause"] == "nothing to propose"


# --- the log ----------------------------------------------------------------------------------------------------


def test_the_log_serves_lists_and_registers():
    one = One(members="A")
    assert [replies(one.ask(body))[0].value for body in (Put("r", 1), Get("r"), Cas("r", 1, 2), Cas("r", 1, 3))] == [
        None,
        1,
        True,
        False,
    ]
    assert replies(one.ask(Cas("r", 2.0, 9)))[0].value is False, "2 and 2.0 are two values"
    assert replies(one.ask(Get("r")))[0].value == 2


def test_a_command_that_lost_its_instance_goes_on_in_the_next():
    one = One()
    out = one.ask(Append("k", 1))
    (body,) = bodies(out, Prepare)
    assert body.instance == 1
    one.promise(body.id, 2, "theirs")
    out = one.accepted(body.id, "theirs")
    assert not replies(out)
    assert [b.instance for b in bodies(out, Prepare)] == [2]


# --- status -----------------------------------------------------------------------------------------------------


def test_the_status_shows_the_three_roles_of_the_latest_instance():
    one = One(stored(4, 4, "x"))
    status = one.core.status(one.clocks())
    assert (status.term, status.leader, status.log_end.term, status.log_end.index) == (1, None, 4, 1)
    assert status.voted_for == "4 accepted 4: 'x'"
    one.accepted(4, "x")
    status = one.core.status(one.clocks())
    assert (status.leader, status.commit) == ("x", 1)
    assert status.extra["learner"] == {"chosen": "x", "id": 4}
    one.want(instance=2)
    status = one.core.status(one.clocks())
    assert (status.term, status.role) == (2, "PREPARING")
    assert status.extra["proposer"]["promises"] == ["A"]
