"""The wire of every protocol: whatever a node or a client sends comes back as it was, under the original's names."""

from __future__ import annotations

import importlib
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets import client_api as api
from dethrone.clusters.targets.dledger import messages as dledger
from dethrone.clusters.targets.joyqueue import messages as joyqueue
from dethrone.clusters.targets.kraft import messages as kraft
from dethrone.clusters.targets.raft import messages as raft
from tests.world.values import of

TARGETS = ("bully", "dledger", "joyqueue", "kraft", "master_slave", "nacos", "paxos", "raft", "zab", "zk_ephemeral")
WIRES = {
    **{
        name: importlib.import_module(f"dethrone.clusters.targets.{name}.target").TARGET.message_type
        for name in TARGETS
    },
    "requests": api.ClientRequest | api.InstanceRequest | api.StateRequest,
    "replies": api.ClientReply,
}


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
@given(st.data())
def test_whatever_is_sent_comes_back_as_it_was(wire, data):
    for kind in get_args(wire):
        body = data.draw(of(kind))
        assert msgspec.json.decode(msgspec.json.encode(body), type=wire) == body


CALL, GROUP = "group localId remoteId leaderId term opaque", "topicPartitionGroup term"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (raft.RequestVote, "term candidateId lastLogIndex lastLogTerm force"),
        (raft.AppendEntries, "term leaderId prevLogIndex prevLogTerm entries leaderCommit seq"),
        (
            kraft.VoteRequest,
            "correlationId clusterId partitionIndex candidateEpoch candidateId lastOffsetEpoch lastOffset",
        ),
        (dledger.VoteRequest, f"{CALL} ledgerEndIndex ledgerEndTerm code"),
        (dledger.PushEntryResponse, f"{CALL} code index count beginIndex endIndex"),
        (joyqueue.VoteRequest, f"{GROUP} candidateId lastLogTerm lastLogPos preVote id"),
        (joyqueue.VoteResponse, f"{GROUP} candidateId voteNodeId voteGranted id"),
        (
            joyqueue.AppendEntriesRequest,
            f"{GROUP} leaderId prevPosition prevTerm startPosition commitPosition leftPosition entriesTerm entries id",
        ),
        (joyqueue.AppendEntriesResponse, f"{GROUP} success nextPosition writePosition replicaId entriesTerm id"),
    ],
)
def test_fields_have_the_names_of_the_original(kind, fields):
    assert list(kind.__struct_encode_fields__) == fields.split()


@pytest.mark.parametrize("bad", [{"candidateEpoch": 2**31}, {"lastOffset": 2**63}, {"partitionIndex": "0"}])
def test_numbers_beyond_kafkas_width_are_no_message(bad):
    words = {**msgspec.to_builtins(kraft.VoteRequest(1, "c", 0, 5, 2, 4, 9)), **bad}
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(words), type=kraft.KraftMessage)
