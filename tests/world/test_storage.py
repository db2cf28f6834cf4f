"""The bytes on disk of every replicated log: round trips, torn tails, damage, and what a start makes of them.

Out of scope: files that are replaced and records as such (``tests/clusters/kit``), and what only one protocol does.
"""

from __future__ import annotations

import importlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.dledger import storage as dledger
from dethrone.clusters.targets.dledger.messages import Entry as DledgerEntry
from dethrone.clusters.targets.joyqueue import storage as joyqueue
from dethrone.clusters.targets.joyqueue.messages import Entry as JoyQueueEntry
from dethrone.clusters.targets.kraft import storage as kraft
from dethrone.clusters.targets.kraft.messages import Record
from dethrone.clusters.targets.raft import storage as raft
from dethrone.clusters.targets.raft.messages import Entry as RaftEntry
from dethrone.harness.core.machine import Await, Disk, Fired, Fsync, Note, Send, Write
from tests.world.disk import Disk as Files
from tests.world.effects import halted
from tests.world.values import of

PROTOCOLS = ("raft", "kraft", "dledger", "joyqueue")
each = pytest.mark.parametrize("protocol", PROTOCOLS)

ENTRY = {
    "raft": lambda end, term, command: RaftEntry(end + 1, term, command),
    "kraft": Record,
    "dledger": DledgerEntry,
    "joyqueue": lambda _, term, command: JoyQueueEntry(term, command),
}
"""(entries before it, term, command) → an entry."""

ROUND, NAME = st.integers(0, 2**31 - 1), st.none() | st.text("abnz19", min_size=1, max_size=5)
STATES = {
    "raft": (raft.vote_bytes, raft.read_vote, st.builds(raft.HardState, ROUND, NAME)),
    "kraft": (
        kraft.state_bytes,
        kraft.read_state,
        st.builds(kraft.QuorumState, leader_id=ROUND, leader_epoch=ROUND, current_voters=of(tuple[kraft.Voter, ...])),
    ),
    "dledger": (dledger.term_bytes, dledger.read_term, st.builds(dledger.TermState, ROUND, NAME)),
    "joyqueue": (
        joyqueue.metadata_bytes,
        joyqueue.read_metadata,
        st.builds(
            joyqueue.Metadata,
            all_nodes=of(tuple[str, ...]),
            local_node_id=st.text(),
            leader_id=NAME,
            voted_for=NAME,
            current_term=ROUND,
        ),
    ),
}


def part(protocol, name):
    return importlib.import_module(f"dethrone.clusters.targets.{protocol}.{name}")


def spec(protocol):
    return importlib.import_module(f"tests.clusters.{protocol}.spec")


def log_of(one):
    return getattr(one, "group", one.node).log


@each
@given(st.data())
def test_a_stored_state_reads_back(protocol, data):
    written, read, states = STATES[protocol]
    state = data.draw(states)
    assert read(written(state)) == state


@each
@given(st.data())
def test_a_log_on_disk_is_the_one_in_memory_and_a_cut_file_is_the_beginning_of_it(protocol, data):
    commands = of(part(protocol, "messages").Command)
    read = part(protocol, "storage").read_log
    log, files = log_of(spec(protocol).One(image={})), Files()
    for step in data.draw(st.lists(st.integers(-4, 6), max_size=12)):
        if step > 0:
            term = max(log.last_term, 0) + step // 5
            log.append(ENTRY[protocol](log.end, term, data.draw(commands)))
        elif log.end + step >= 0:
            log.cut(log.end + step)
        if step % 2:
            files.carry_out_all(log.take_ops())
    files.carry_out_all(log.take_ops())
    content = files.shown.get(log.path, b"")
    again, whole = log_of(spec(protocol).One(image={})), read(content)
    assert not whole.torn
    again.load(whole)
    for field in ("entries", "digests", "ends", "terms", "starts", "end", "last_term"):
        assert getattr(again, field) == getattr(log, field), field
    cut = data.draw(st.integers(0, len(content)))
    found = read(content[:cut])
    assert found.entries == log.entries[: len(found.entries)]
    assert found.torn == (cut not in (0, *log.ends))


# --- a start --------------------------------------------------------------------------------------------------------


def stored(protocol, *terms):
    """A disk of that log, and the path of the log."""
    disk, path = spec(protocol).disk, log_of(spec(protocol).One(image={})).path
    return disk(5, log=terms), path


@each
def test_a_torn_tail_is_cut_before_anything_is_said(protocol):
    image, path = stored(protocol, 1, 2)
    torn = stored(protocol, 1, 2, 3)[0][path][:-3]
    one = spec(protocol).One(image={**image, path: torn}, slow_start=True)
    assert log_of(one).end == 2
    assert Write(path, b"", offset=len(image[path]), truncate=True) in one.booted[0].ops
    assert [type(effect) for effect in one.booted[:2]] == [Disk, Await]


@each
def test_what_a_start_read_is_synced_again_before_anything_is_said(protocol):
    image, _ = stored(protocol, 1)
    booted = spec(protocol).One(image=image, slow_start=True).booted
    before = list(itertools.takewhile(lambda effect: not isinstance(effect, Note | Send), booted))
    assert type(before[-1]) is Await
    ops = [op for effect in before if isinstance(effect, Disk) for op in effect.ops]
    assert {op.path for op in ops if isinstance(op, Fsync)} >= set(image)


@each
def test_an_unreadable_log_ends_the_node(protocol):
    image, path = stored(protocol, 1)
    one = spec(protocol).One(image={**image, path: "unreadable"})
    assert halted(one.booted)
    assert one.give(Fired("election")) == []


@pytest.mark.parametrize("damage", [lambda _: "unreadable", lambda _: b"", lambda content: content[:-4]])
@pytest.mark.parametrize(
    ("protocol", "path"), [("raft", "vote"), ("dledger", "currterm"), ("joyqueue", "topic/metadata")]
)
def test_a_vote_that_cannot_be_read_ends_the_node(protocol, path, damage):
    image, _ = stored(protocol)
    one = spec(protocol).One(image={path: damage(image[path])})
    assert halted(one.booted)
    assert one.give(Fired("election")) == []
