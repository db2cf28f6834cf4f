"""Witnesses in whole worlds: they see what honest cores say of themselves, out of these cores' reach."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from dethrone.harness.core.rng import Rng
from tests.world.chaos import drawn, play
from tests.world.test_safety import LOGS

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


STOOD = {"raft": "election_started", "joyqueue": "elect_self"}
"""The note of a node that votes for itself, where ``vote_decision`` does not say it."""


@pytest.mark.parametrize(
    ("protocol", "knobs"),
    [
        ("raft", {"profile": "raft"}),
        ("raft", {"profile": "raft-paper"}),
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
        if protocol != "dledger":
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
