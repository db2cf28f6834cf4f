"""Messages on the wire: every one comes back as it was sent, under the original's field names."""

from __future__ import annotations

import json

import msgspec
import pytest

from dethrone.clusters.targets.client_api import Append, Cas, Get, Put
from dethrone.clusters.targets.joyqueue.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    Entry,
    NullAnswer,
    TimeoutNowRequest,
    TimeoutNowResponse,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.joyqueue.target import TARGET

MESSAGES = [
    VoteRequest("topic/0", 4, "n1", 3, 17, pre_vote=True, id=9),
    VoteResponse("topic/0", 4, "n1", "n2", vote_granted=True, id=9),
    AppendEntriesRequest("topic", 4, "n1", -1, 0, 0, 5, 0, 0, (), 2**52),
    AppendEntriesRequest(
        *("topic", 4, "n1", 6, 3, 7, 5, 0, 4),
        (
            Entry(4, Append("k", 1)),
            Entry(4, Put("x", {"a": [1, None]})),
            Entry(4, Cas("x", 1, 2)),
            Entry(4, Get("k")),
        ),
        1,
    ),
    AppendEntriesResponse(
        "topic", 4, success=False, next_position=-1, write_position=3, replica_id="n2", entries_term=4, id=1
    ),
    TimeoutNowRequest("topic", 4, 3),
    TimeoutNowResponse("topic", 5, success=True, id=3),
    NullAnswer("topic", 4),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_comes_back_as_it_was_sent(message):
    assert msgspec.json.decode(msgspec.json.encode(message), type=TARGET.message_type) == message


def test_every_message_of_the_protocol_is_tried():
    assert {type(message) for message in MESSAGES} == set(TARGET.message_type.__args__)


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (MESSAGES[0], "topicPartitionGroup term candidateId lastLogTerm lastLogPos preVote id"),
        (MESSAGES[1], "topicPartitionGroup term candidateId voteNodeId voteGranted id"),
        (
            MESSAGES[2],
            (
                "topicPartitionGroup term leaderId prevPosition prevTerm startPosition commitPosition leftPosition "
                "entriesTerm entries id"
            ),
        ),
        (MESSAGES[4], "topicPartitionGroup term success nextPosition writePosition replicaId entriesTerm id"),
    ],
    ids=["VoteRequest", "VoteResponse", "AppendEntriesRequest", "AppendEntriesResponse"],
)
def test_the_wire_has_the_originals_field_names(message, fields):
    assert list(json.loads(msgspec.json.encode(message))) == ["type", *fields.split()]
