"""A directory that can lose power: against a model that copies everything, 10,000 random sequences."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dethrone.clusters.agent.host.unsynced import Unsynced
from dethrone.clusters.agent.host.volume import STASH, Volume
from dethrone.harness.core.rng import Rng

NAMES = (b"a", b"b", b"c", b"d/a", b"d/b")
SIZE_MAX = 40


class ModelFile:
    """What a file holds, and what of it is durable."""

    def __init__(self, data=b"", durable=b""):
        self.data, self.durable, self.emptied = data, durable, False


class Model:
    """Names and files, now and after a loss of power. Changes of names, lengths and replaced contents are listed
    until any sync carries all of them out on the durable side, in their order."""

    def __init__(self):
        self.names, self.durable = {}, {}
        self.listed = []

    def write(self, name, at, data):
        file = self.names.get(name)
        if file is None:
            file = self.names[name] = ModelFile()
            self.listed.append(("name", name, file))
        old = file.data.ljust(at, b"\0")
        file.data = old[:at] + data + old[at + len(data) :]

    def cut(self, name, length):
        file = self.names[name]
        if length != len(file.data):
            self.listed.append(("cut", file, length))
        if length == 0 and file.data:
            file.emptied = True
        file.data = file.data[:length].ljust(length, b"\0")
        self.close(file)

    def close(self, file):
        if file.emptied:
            self.listed.append(("flush", file, None))
            file.emptied = False

    def sync(self, name):
        file = self.names[name]
        for what, one, value in self.listed:
            if what == "name":
                self.durable[one] = value
            elif what == "gone":
                del self.durable[one]
            elif what == "cut":
                one.durable = one.durable[:value].ljust(value, b"\0")
        for what, one, _ in self.listed:
            if what == "flush":
                one.durable = one.data
        self.listed.clear()
        file.durable = file.data

    def rename(self, old, new):
        file = self.names.pop(old)
        if new in self.names:
            self.listed.append(("flush", file, None))
        self.names[new] = file
        self.listed += [("name", new, file), ("gone", old, None)]

    def link(self, old, new):
        self.names[new] = self.names[old]
        self.listed.append(("name", new, self.names[old]))

    def unlink(self, name):
        del self.names[name]
        self.listed.append(("gone", name, None))

    def lose_power(self):
        self.names = dict(self.durable)
        self.listed.clear()
        for file in self.names.values():
            file.data, file.emptied = file.durable, False


class Direct:
    """The same steps on a volume, without a kernel in between."""

    def __init__(self, place: Path):
        self.place = place
        (place / "d").mkdir(parents=True)
        self.on()

    def on(self):
        self.fd = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        self.volume = Volume(self.fd)

    def node(self, name):
        node = self.volume.root
        for part in name.split(b"/"):
            node = self.volume.lookup(node, part)[0]
        return node

    def parent(self, name):
        place, _, last = name.rpartition(b"/")
        return (self.node(place) if place else self.volume.root), last

    def write(self, name, at, data):
        node, _, fd = self.volume.create(*self.parent(name), os.O_WRONLY, 0o600, (os.geteuid(), os.getegid()))
        assert self.volume.write(node, fd, at, data) == len(data)
        self.volume.close(node, fd)

    def cut(self, name, length):
        node = self.node(name)
        fd = self.volume.open(node, os.O_WRONLY)
        self.volume.cut(node, length)
        self.volume.close(node, fd)

    def sync(self, name):
        node = self.node(name)
        fd = self.volume.open(node, os.O_RDONLY)
        self.volume.sync(node, fd)
        self.volume.close(node, fd)

    def rename(self, old, new):
        self.volume.rename(*self.parent(old), *self.parent(new), replace=True)

    def link(self, old, new):
        self.volume.link(self.node(old), *self.parent(new))

    def unlink(self, name):
        self.volume.unlink(*self.parent(name))

    def lose_power(self):
        found = self.volume.lose_power()
        os.close(self.fd)
        self.on()
        return found

    def end(self):
        os.close(self.fd)


def image(place):
    """All files below, by name."""
    return {
        str(path.relative_to(place)).encode(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and STASH.decode() not in path.parts
    }


def step(rng, model, real, said):
    """One random step on both."""
    there = sorted(model.names)
    verb = rng.choice(("write", "write", "write", "cut", "sync", "sync", "rename", "link", "unlink", "power"))
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    if verb not in {"write", "power"}:
        if not there:
            return
        name = rng.choice(there)
    words = {
        "write": lambda: (name, rng.below(SIZE_MAX), bytes([65 + rng.below(26)]) * rng.between(1, 12)),
        "cut": lambda: (name, rng.choice((0, rng.below(SIZE_MAX)))),
        "rename": lambda: (name, other),
        "link": lambda: (name, other),
    }.get(verb, lambda: (name,))()
    if (verb == "link" and other in model.names) or (
        verb == "rename" and model.names.get(other) is model.names.get(name)
    ):
        return
    verb, words = ("lose_power", ()) if verb == "power" else (verb, words)
    said.append((verb, *words))
    getattr(model, verb)(*words)
    getattr(real, verb)(*words)


def check(place, model, said):
    wanted = {name: file.data for name, file in model.names.items()}
    found = image(place)
    assert found == wanted, "\n".join(map(str, said))


def play(rng, real, place, steps):
    """A sequence with its losses of power, each compared with the model."""
    model, said = Model(), []
    for _ in range(steps):
        step(rng, model, real, said)
        check(place, model, said)
    said.append("the end")
    model.lose_power()
    real.lose_power()
    check(place, model, said)


def play_many(tmp_path, numbers):
    for number in numbers:
        place = tmp_path / "volume"
        real = Direct(place)
        play(Rng(number), real, place, 25)
        real.end()
        shutil.rmtree(place)


@pytest.mark.parametrize("part", range(20))
def test_a_loss_of_power_loses_exactly_the_unsynced_bytes(tmp_path, part):
    play_many(tmp_path, range(part * 10_000, part * 10_000 + 20))


@pytest.mark.slow
@pytest.mark.nightly("10,000 random sequences take minutes")
@pytest.mark.parametrize("part", range(20))
def test_a_loss_of_power_loses_exactly_the_unsynced_bytes_of_many_sequences(tmp_path, part):
    play_many(tmp_path, range(part * 10_000, part * 10_000 + 500))


@pytest.mark.parametrize(
    ("owner", "rule"),
    [
        (Unsynced, "writing"),
        (Unsynced, "cutting"),
        (Unsynced, "cut_is_durable"),
        (Volume, "_commit"),
        (Volume, "_take_back"),
        (Volume, "_flush"),
    ],
)
def test_a_volume_without_one_of_its_rules_is_found(tmp_path, monkeypatch, owner, rule):
    monkeypatch.setattr(owner, rule, lambda *_: 0)
    with pytest.raises((AssertionError, OSError)):
        play_many(tmp_path, range(60))
