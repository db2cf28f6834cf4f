"""Witnesses in whole worlds: they see what honest cores say of themselves, out of these cores' reach."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from dethrone.clusters.targets.kit.files import append_ops, cut_ops, replace_ops, unsynced
from dethrone.harness.core.rng import Rng
from tests.world.chaos import drawn, play
from tests.world.test_safety import LOGS
from tests.world.test_storage import each, log_of, spec, stored

TARGETS = ("bully", "dledger", "joyqueue", "kraft", "nacos", "paxos", "raft", "zab", "zk_ephemeral")
ALLOWED = {"messages", "storage", "log", "tree", "witness", "files"}


@pytest.mark.parametrize("protocol", TARGETS)
def test_a_witness_knows_neither_rules_nor_core(protocol):
    module = importlib.import_module(f"dethrone.clusters.targets.{protocol}.witness")
    source = Path(module.__file__).read_text("utf-8")
    imported = re.findall(r"^from dethrone\.clusters\.([\w.]+) import ([^(\n]+|\([^)]*\))", source, flags=re.MULTILINE)
    assert imported
    for path, names in imported:
        own = {f"targets.{protocol}", "targets.kit", "targets.zk_ephemeral"}
        if path in own:
            assert {name.split(" as ")[0].strip() for name in names.split(",")} <= ALLOWED
        else:
            assert path.rpartition(".")[0] in own
            assert path.rpartition(".")[2] in ALLOWED


STOOD = {"raft": "election_started", "kraft": "election_started", "joyqueue": "elect_self"}
"""The note of a node that votes for itself, where ``vote_decision`` does not say it."""


@pytest.mark.parametrize(
    ("protocol", "knobs"),
    [
        ("raft", {"profile": "raft"}),
        ("raft", {"profile": "raft-paper"}),
        ("kraft", {"profile": "kraft"}),
        ("dledger", {"profile": "dledger"}),
        ("dledger", {"profile": "dledger-mended"}),
        ("joyqueue", {"groups": 1}),
        ("joyqueue", {"groups": 2}),
    ],
)
@pytest.mark.parametrize("seed", range(8))
def test_on_the_honest_build_witness_and_core_say_the_same(protocol, knobs, seed):
    made = LOGS[protocol]
    world = made("ABC", seed=seed, **knobs)
    play(world, drawn(made, Rng(seed).stream("witness"), "ABC", count=60))
    world.mend()
    world.run(20_000 if protocol == "dledger" else 2000)
    assert any(event.name == "elected" for box in world.boxes.values() for event in box.witnessed)
    for box in world.boxes.values():
        said, seen = Said(box.notes, protocol), Said(box.witnessed, protocol)
        assert seen.terms("elected") <= said.terms("elected")
        if protocol == "raft":
            assert seen.facts("elected", "voters") <= said.facts("elected", "voters")
        stood = {(group, term, box.name) for group, term in said.terms(STOOD.get(protocol, ""))}
        assert seen.facts("vote", "candidate") <= said.grants() | stood
        if protocol not in {"dledger", "kraft"}:
            assert said.persisted() <= seen.facts("persisted", "voted_for")
        if box.alive:
            for group, node in world.parts(box):
                log = seen.log(getattr(node, "label", ""))
                rows = [[i, *world.entry(node, i)] for i in range(1, world.end(node) + 1)]
                assert [list(row) for row in log] == rows[: len(log)], group
                assert len(log) >= world.durable(node)


class Said:
    """What notes or witnessed events say, as facts: (group, term, what)."""

    def __init__(self, events, protocol):
        self.events, self.protocol = events, protocol

    def named(self, name):
        return [(event.data.get("group"), event) for event in self.events if event.name == name]

    def terms(self, name):
        return {(group, event.term) for group, event in self.named(name)}

    def facts(self, name, key):
        found = [(group, event.term, event.data[key]) for group, event in self.named(name)]
        return {(group, term, tuple(what) if isinstance(what, list) else what) for group, term, what in found}

    def grants(self):
        data = [(group, event.data) for group, event in self.named("vote_decision")]
        given = [(group, one) for group, one in data if one.get("granted") or one.get("code") == "ACCEPT"]
        return {(group, one["term"], one["candidate"]) for group, one in given}

    def persisted(self):
        return {(group, event.data["term"], event.data["voted_for"]) for group, event in self.named("persisted")}

    def log(self, group):
        """The entries that batches left."""
        log: list = []
        for event in self.events:
            if event.name in ("log_truncate", "log_append") and event.data.get("group", "") == group:
                del log[event.data["from"] - 1 :]
                log.extend(event.data.get("entries", ()))
        return log


@pytest.mark.parametrize("protocol", LOGS)
def test_a_write_is_witnessed_on_every_disk(protocol):
    world = LOGS[protocol]("ABC")
    leader = world.elect()
    assert world.write(leader, 1)
    world.run(2000)
    for box in world.boxes.values():
        assert any(event.name == "log_append" for event in box.witnessed)
    assert world.read(leader) == [1]


# --- the disk ---------------------------------------------------------------------------------------------------------

FIRST_TERM = {"raft": 0, "kraft": 0, "joyqueue": 0, "dledger": 1}
"""What observers call the term 0."""


def witness_of(protocol):
    return spec(protocol).TARGET.witness(node="A", members=("A", "B", "C"))


def told(events, name):
    return [event for event in events if event.name == name]


@each
def test_logs_are_told_as_they_lie_on_disk_and_as_they_are_appended_to_and_cut(protocol):
    image, path = stored(protocol, 1, 3)
    witness, shift = witness_of(protocol), FIRST_TERM[protocol]
    events = witness.booted(image)
    assert told(events, "log_truncate")[0].data == {"from": 3}
    assert [row[:2] for row in told(events, "log_append")[0].data["entries"]] == [(1, 1 + shift), (2, 3 + shift)]
    more = stored(protocol, 1, 3, 4)[0][path][len(image[path]) :]
    (appended,) = told(witness.synced(append_ops(path, more, len(image[path]))), "log_append")
    assert (appended.term, appended.data["from"], appended.data["entries"][0][:2]) == (4 + shift, 3, (3, 4 + shift))
    (cut,) = told(witness.synced(cut_ops(path, len(stored(protocol, 1)[0][path]))), "log_truncate")
    assert cut.data == {"from": 2}


@each
def test_a_vote_is_persisted_by_its_last_fsync_and_not_before(protocol):
    vote = {"voted": 2} if protocol == "kraft" else {"voted_for": "B"}
    ((path, content),) = spec(protocol).disk(4, **vote).items()
    witness, ops = witness_of(protocol), replace_ops(path, content)
    assert told(witness.synced(ops[:3]), "persisted") == []
    (persisted,) = told(witness.synced(ops), "persisted")
    assert (persisted.term, persisted.data["voted_for"]) == (4 + FIRST_TERM[protocol], "B")
    assert told(witness_of(protocol).synced(unsynced(ops)), "persisted") == []


@each
def test_what_cannot_be_read_does_not_stop_a_witness_and_is_told(protocol):
    (path, _), *_ = spec(protocol).disk(4).items()
    log = log_of(spec(protocol).One(image={})).path
    witness_of(protocol).booted({})
    for content in ("unreadable", b"?"):
        (found,) = told(witness_of(protocol).booted({path: content}), "found")
        assert found.data["file"] == "unreadable"
    for content in ("unreadable", b"garbage" * 9):
        events = witness_of(protocol).booted({log: content})
        assert told(events, "found")[0].data["file"] == "absent"
        assert told(events, "log_append") == []
