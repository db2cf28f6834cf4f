"""The wire: every message, request and answer survives JSON, under the paper's field names."""

import msgspec
import pytest

from dethrone.clusters.targets import client_api as api
from dethrone.clusters.targets.raft import messages as m
from dethrone.clusters.targets.raft.target import TARGET

COMMANDS = (
    api.Append("k", 1),
    api.Put("k", {"a": [1, None]}),
    api.Get("k"),
    api.Cas("k", 1, "x"),
    api.Acquire("l", "o", 5),
    api.Renew("l", "o", 5),
    api.Release("l", "o"),
    m.Noop(),
    m.Config(("A",), ("B",)),
    m.Expire("l", 4),
)
MESSAGES = (
    m.RequestVote(1, "A", 2, 3, force=True),
    m.VoteReply(1, True),
    m.VoteReply(1, False, "sticky"),
    m.PreVote(1, "A", 2, 3, 4),
    m.PreVoteReply(1, 2, 3, False, 4),
    m.AppendEntries(1, "A", 2, 3, tuple(m.Entry(3 + i, 1, c) for i, c in enumerate(COMMANDS)), 4, 5),
    m.AppendReply(1, True, 2, 0, 3),
    m.TimeoutNow(1, "A"),
)


@pytest.mark.parametrize("body", MESSAGES, ids=lambda body: type(body).__name__)
def test_a_message_survives_the_wire(body):
    assert msgspec.json.decode(msgspec.json.encode(body), type=TARGET.message_type) == body


@pytest.mark.parametrize(
    "body", [*COMMANDS[:7], api.ChangeConfig(add="X"), api.Transfer("B")], ids=lambda body: type(body).__name__
)
def test_a_request_survives_the_wire(body):
    assert msgspec.json.decode(msgspec.json.encode(body), type=TARGET.request_type) == body


@pytest.mark.parametrize(
    "body", [api.Ok([1], 2, 3), api.NotLeader("A"), api.Unknown("w"), api.Failed("w"), api.Refused("w")]
)
def test_an_answer_survives_the_wire(body):
    assert msgspec.json.decode(msgspec.json.encode(body), type=TARGET.reply_type) == body


def test_fields_have_the_names_of_the_paper():
    assert set(msgspec.json.decode(msgspec.json.encode(MESSAGES[0]))) == {
        "type",
        "term",
        "candidateId",
        "lastLogIndex",
        "lastLogTerm",
        "force",
    }
    append = msgspec.json.decode(msgspec.json.encode(MESSAGES[5]))
    assert set(append) == {
        "type",
        "term",
        "leaderId",
        "prevLogIndex",
        "prevLogTerm",
        "entries",
        "leaderCommit",
        "seq",
    }
