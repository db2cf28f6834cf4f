"""Operations of workloads as requests to targets, and answers as outcomes."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.systems.operations import (
    GUARD_OPERATIONS,
    LOCK_OPERATIONS,
    MEMBER_OPERATIONS,
    TRANSFERS,
    outcome_of,
    request_for,
    unanswered,
)
from dethrone.clusters.targets.client_api import (
    Acquire,
    Append,
    ChangeConfig,
    ClientRequest,
    Holder,
    Learn,
    Ok,
    Propose,
    Refused,
    Release,
    Renew,
    StateRequest,
    Transfer,
    Txn,
    Unknown,
    Use,
)


@pytest.mark.parametrize(
    ("f", "value", "request_"),
    [
        ("acquire", ["l0", "c1", 500], Acquire("l0", "c1", 500)),
        ("renew", ["l0", "c1", 500], Renew("l0", "c1", 500)),
        ("release", ["l0", "c1"], Release("l0", "c1")),
        ("holder", "l0", Holder("l0")),
        ("use", ["l0", 7], Use("l0", 7)),
        ("reconfigure", ["add", "n4"], ChangeConfig(add="n4")),
        ("reconfigure", ["remove", "n4"], ChangeConfig(remove="n4")),
        ("transfer", "n4", Transfer("n4")),
    ],
)
def test_locks_and_members_have_their_requests(f, value, request_):
    assert f in LOCK_OPERATIONS | GUARD_OPERATIONS | MEMBER_OPERATIONS | TRANSFERS
    assert request_for(f, value) == request_


def test_values_are_proposed_by_instance_and_learnt():
    assert request_for("propose", [3, "x"]) == Propose(3, "x")
    assert request_for("propose", [3, None]) is request_for("propose", ["3", "x"]) is None
    assert request_for("learn", 3) == Learn(3)
    assert outcome_of("propose", Ok("x", 3), node="n1").value == "x"
    assert outcome_of("learn", Ok(None), node="n1").value is None
    assert (unanswered("propose", "timeout").status, unanswered("learn", "timeout").status) == ("info", "fail")


def test_an_add_is_an_append_and_tells_no_index():
    assert request_for("add", ["s0", 3]) == Append("s0", 3)
    assert outcome_of("add", Ok(17, 17, 2), node="n1").value is None


def test_a_transaction_is_asked_and_answered_step_by_step():
    steps = [["append", "x0", 1], ["r", "x1", None]]
    request = request_for("txn", steps)
    assert request == Txn((("append", "x0", 1), ("r", "x1", None)))
    assert msgspec.json.decode(msgspec.json.encode(request), type=ClientRequest | StateRequest) == request
    told = [["append", "x0", 1], ["r", "x1", [5]]]
    assert outcome_of("txn", Ok(told, 3, 1), node="n1").value == told
    assert outcome_of("txn", Unknown("stepped down"), node="n1").status == "info"


@pytest.mark.parametrize("steps", [[], "x", [["r", "x0", 1]], [["w", "x0", 1]], [["append", "x0"]], [["append", 1, 1]]])
def test_steps_of_the_wrong_form_make_no_transaction(steps):
    assert request_for("txn", steps) is None


@pytest.mark.parametrize(
    ("f", "value"), [("acquire", ["l0", "c1"]), ("release", ["l0"]), ("reconfigure", ["swap", "n4"]), ("holder", 3)]
)
def test_values_of_the_wrong_form_are_no_request(f, value):
    assert request_for(f, value) is None


@pytest.mark.parametrize("f", ["acquire", "renew", "release", "use"])
def test_a_fencing_token_is_told_and_a_refusal_had_no_effect(f):
    assert outcome_of(f, Ok(17, 17, 2), node="n1").value == 17
    assert outcome_of(f, Refused("held"), node="n1").status == "fail"
    assert outcome_of(f, Unknown("stepped down"), node="n1").status == "info"


def test_asking_for_the_holder_changes_nothing_however_it_ends():
    assert outcome_of("holder", Unknown("stepped down"), node="n1").status == "fail"
    assert outcome_of("holder", Ok(["c1", 17]), node="n1").value == ["c1", 17]
