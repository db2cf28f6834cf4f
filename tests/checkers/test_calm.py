"""Logs replayed out of columns, calm stretches at once, against the same events replayed one by one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers import calm, replicas
from dethrone.checkers.rolled import rolled
from dethrone.harness.core import parquet
from dethrone.harness.core.chunks import Chunk, EventChunk
from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import Traced
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.rolling import number, roll

NODES = ("n1", "n2", "n3")
ODDITIES = (
    "truncate",
    "restart",
    "elect",
    "differ",
    "gap",
    "malformed",
    "back",
    "beyond",
    "early",
    "wipe",
    "again",
    "kept",
)


class Story:
    """Three nodes that store one log, and what goes wrong. ``late_percent``: how often a leader commits what it has not
    stored yet."""

    def __init__(self, seed: int, odd_percent: int, late_percent: int = 0) -> None:
        self.rng, self.odd_percent, self.late_percent = Rng(seed), odd_percent, late_percent
        self.events: list[Traced] = []
        self.log: list[tuple[int, int, Any]] = []
        self.term, self.leader = 1, "n1"
        self.ends = dict.fromkeys(NODES, 0)
        self.commits = dict.fromkeys(NODES, 0)
        self.lives = dict.fromkeys(NODES, 1)
        self.numbers = dict.fromkeys(NODES, 0)
        self.say(self.leader, "elected", {"voters": list(NODES)})

    def say(self, node: str, name: str, data: dict[str, Any], source: str = "shell") -> None:
        seq = len(self.events)
        self.numbers[node] += 1
        self.events.append(
            Traced(
                seq=seq,
                t=seq,
                group="",
                span=Span(seq, seq),
                node=node,
                incarnation=self.lives[node],
                n=self.numbers[node],
                name=name,
                term=self.term,
                role="LEADER" if node == self.leader else "FOLLOWER",
                source=source,  # type: ignore[arg-type]
                data=data,
            )
        )

    def append(self, node: str, end: int) -> None:
        entries = [list(entry) for entry in self.log[self.ends[node] : end]]
        if entries:
            self.say(node, "log_append", {"from": entries[0][0], "entries": entries})
            self.ends[node] = end

    def commit(self, node: str, index: int, by: str) -> None:
        if by == "shell":
            self.say(node, "commit", {"index": index})
        else:
            self.say(node, "commit", {"old": self.commits[node], "new": index, "entry_term": self.term}, "core")
        self.commits[node] = index

    def step(self) -> None:
        rng = self.rng
        for _ in range(rng.choice((1, 1, 1, 3))):
            payload = rng.choice((f"v{len(self.log)}", len(self.log)))
            self.log.append((len(self.log) + 1, self.term, payload))
        if rng.chance(self.odd_percent, 100):
            self.strange(rng.choice(ODDITIES), rng.choice(NODES))
        followers = [node for node in NODES if node != self.leader and rng.chance(9, 10)]
        late = bool(self.late_percent) and rng.chance(self.late_percent, 100)
        for node in [self.leader, *rng.sample(followers, len(followers))]:
            if node != self.leader or not late:
                self.append(node, len(self.log))
            if node != self.leader:
                self.say(node, "acked", {"index": self.ends[node], "leader": self.leader})
        for node in [self.leader, *followers]:
            self.commit(node, len(self.log) if node == self.leader else self.ends[node], by="core")
            if late and node == self.leader and rng.chance(1, 2):
                self.append(node, len(self.log) - rng.choice((0, 1)))
            if rng.chance(3, 10):
                self.commit(node, self.ends[node], by="shell")
            if rng.chance(1, 10):
                self.say(node, "persisted", {"term": self.term})

    def strange(self, what: str, node: str) -> None:
        end = self.ends[node]
        match what:
            case "truncate":
                self.ends[node] = max(0, end - self.rng.choice((0, 1, 3)))
                self.say(node, "log_truncate", {"from": self.ends[node] + 1})
            case "restart" | "wipe":
                self.lives[node], self.numbers[node] = self.lives[node] + 1, 0
                if what == "wipe":
                    self.ends[node] = self.commits[node] = 0
            case "kept":
                self.lives[node], self.numbers[node] = self.lives[node] + 1, 0
                known = 0
                for _, term, payload in self.log[:end]:
                    known = roll(known, term, number(payload))
                self.say(node, "log_kept", {"count": end, "hash": self.rng.choice((f"{known:016x}", "lost"))})
            case "elect":
                self.term, self.leader = self.term + 1, node
                self.append(node, len(self.log))
                self.say(node, "elected", {"voters": list(NODES)}, self.rng.choice(("core", "shell")))
            case "differ":
                self.say(node, "log_append", {"from": end + 1, "entries": [[end + 1, self.term, "other"]]})
                self.ends[node] = end + 1
            case "gap":
                self.say(node, "log_append", {"from": end + 5, "entries": [[end + 5, self.term, "gap"]]})
            case "malformed":
                entries = self.rng.choice(([[end + 1, 1.0, "x"]], [[end + 1, True, "x"], 5], "none", [[0, 1, "x"]], []))
                self.say(node, "log_append", {"entries": entries})
                self.say(node, "commit", self.rng.choice(({"new": 2.0}, {}, {"index": -3}, {"new": None, "commit": 1})))
            case "back":
                self.commit(node, max(0, self.commits[node] - 2), by="core")
            case "beyond":
                self.commit(node, end + 3, by="core")
            case "early":
                self.commit(self.leader, len(self.log), by="core")
            case "again":
                self.ends[node] = max(0, end - 2)


def told(seed: int, odd_percent: int, steps: int, late_percent: int = 0) -> list[Traced]:
    story = Story(seed, odd_percent, late_percent)
    for _ in range(steps):
        story.step()
    return story.events


def state_of(chunks: Iterable[Chunk]) -> Any:
    """What a replay of these holds."""
    one = replicas._Replayer()
    for chunk in chunks:
        one.take(chunk)
    return held(one)


def held(one: replicas._Replayer) -> Any:
    """All that a replay holds, as values."""
    state = one.state
    logs = {
        who: (log.offset, log.end, log.last, log._starts, log._terms, log._own)
        for who, log in ((who, replica.log) for who, replica in one._replicas.items())
    }
    memory = {
        who: (it.known, it.led, it.told, it.pinned, it.pin_seq, it.own_term, _waiting(it.pending), _waiting(it.leading))
        for who, it in one._replicas.items()
    }
    rows = {
        group: {term: [dense.get(index) for index in range(1, 400)] for term, dense in prefixes._terms.items()}
        for group, prefixes in one._groups.items()
    }
    committed = {group: [dense.get(index) for index in range(1, 400)] for group, dense in state.committed.items()}
    known = sorted(state.known.furthest(), key=str), state.known.count
    return (
        one.result(),
        logs,
        memory,
        rows,
        committed,
        known,
        {who: dict(acks) for who, acks in state.acks.items()},
        dict(state.own),
    )


def _waiting(one: tuple[int, Any] | None) -> Any:
    return None if one is None else (one[0], one[1].seq, one[1].term)


def stored(events: list[Traced], place: Path) -> list[Chunk]:
    path = place / "some.parquet"
    parquet.write_events(events, path)
    return list(parquet.chunks_of(path))


@given(
    seed=st.integers(0, 2**32),
    odd_percent=st.sampled_from((0, 2, 10, 50)),
    late_percent=st.sampled_from((0, 20, 80)),
    batch=st.sampled_from((64, 16_384)),
)
def test_columns_and_events_of_one_history_are_replayed_alike(
    tmp_path_factory: pytest.TempPathFactory, seed: int, odd_percent: int, late_percent: int, batch: int
) -> None:
    events = told(seed, odd_percent, 60, late_percent)
    with mock.patch.object(parquet, "BATCH", batch), mock.patch.object(calm, "LEAST", 8):
        found = state_of(stored(events, tmp_path_factory.mktemp("calm")))
    assert found == state_of([EventChunk(events)])


@pytest.mark.parametrize("late_percent", [0, 50])
def test_a_history_without_incidents_is_taken_at_once(tmp_path: Path, late_percent: int) -> None:
    taken: list[int] = []
    take = calm.Calm.take

    def counted(self: calm.Calm, first: int, end: int) -> bool:
        done = take(self, first, end)
        taken.append((end - first) * done)
        return done

    events = told(5, 0, 100, late_percent)
    with mock.patch.object(calm.Calm, "take", counted):
        state_of(stored(events, tmp_path))
    assert sum(taken) > 0.9 * len(events)


@pytest.mark.parametrize("what", ["differ", "gap", "beyond", "back", "again"])
def test_a_stretch_with_an_incident_is_refused_and_changes_nothing(tmp_path: Path, what: str) -> None:
    story = Story(3, 0)
    for _ in range(20):
        story.step()
    quiet, story.odd_percent = len(story.events), 100
    with mock.patch.dict(globals(), ODDITIES=(what,)):
        story.step()
    (chunk,) = stored(story.events, tmp_path)
    columns = chunk.logs(replicas.LOGS | calm.OWN_TERM)
    assert columns is not None
    one = replicas._Replayer()
    one.take(EventChunk(story.events[:quiet]))
    before = str(held(one))
    assert not calm.Calm(one.state, columns, one._replicas).take(quiet, len(columns))
    assert str(held(one)) == before


@given(
    before=st.integers(0, 2**63 - 1),
    entries=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=3) | st.integers(0, 9)), max_size=40),
)
def test_hashes_of_many_prefixes_are_those_of_entry_after_entry(
    before: int, entries: list[tuple[int, str | int]]
) -> None:
    hashes, last = [], before
    for term, payload in entries:
        last = roll(last, term, number(payload))
        hashes.append(last)
    terms = np.array([term for term, _ in entries], dtype=np.int64)
    payloads = np.array([number(payload) for _, payload in entries], dtype=np.int64)
    assert rolled(before, terms, payloads).tolist() == hashes
