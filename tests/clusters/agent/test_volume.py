"""A directory that can lose power: against models that copy everything, 10,000 random sequences of each."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from dethrone.clusters.agent.host.durable_names import Entries, Journal
from dethrone.clusters.agent.host.file_tree import STASH
from dethrone.clusters.agent.host.unsynced import Unsynced
from dethrone.clusters.agent.host.volume import Volume
from dethrone.harness.core.rng import Rng

from .volume_models import JournalModel, PosixModel

MODELS = {"journal": JournalModel, "posix": PosixModel}


class Direct:
    """The same steps on a volume, without a kernel in between."""

    def __init__(self, place: Path, model):
        self.place, self.model = place, model
        (place / "d").mkdir(parents=True)
        self.on()

    def on(self):
        self.fd = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        self.volume = Volume(self.fd, self.model)

    def node(self, name):
        node = self.volume.tree.root
        for part in filter(None, name.split(b"/")):
            node = self.volume.lookup(node, part)[0]
        return node

    def parent(self, name):
        place, _, last = name.rpartition(b"/")
        return self.node(place), last

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

    def sync_names(self, name):
        self.volume.sync_names(self.node(name))

    def make(self, name):
        self.volume.make(*self.parent(name), stat.S_IFDIR | 0o700, (os.geteuid(), os.getegid()))

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
    """All files and directories below, by name; of directories None."""
    return {
        str(path.relative_to(place)).encode(): path.read_bytes() if path.is_file() else None
        for path in place.rglob("*")
        if STASH.decode() not in path.parts
    }


def play(rng, model, real, place):
    """A sequence with its losses of power, each step compared with the model."""
    said = []
    for _ in range(model.STEPS):
        step = model.step(rng)
        if step is not None:
            said.append(step)
            do(step, model, real)
            assert image(place) == model.image(), "\n".join(map(str, said))
    do(("lose_power",), model, real)
    assert image(place) == model.image(), "\n".join(map(str, said))


def do(step, *sides):
    verb, *words = step
    for side in sides:
        getattr(side, verb)(*words)


def play_many(tmp_path, name, numbers):
    for number in numbers:
        place = tmp_path / "volume"
        real = Direct(place, name)
        play(Rng(number), MODELS[name](), real, place)
        real.end()
        shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("name", MODELS)
def test_a_loss_of_power_loses_exactly_what_is_not_synced(tmp_path, name, part):
    play_many(tmp_path, name, range(part * 10_000, part * 10_000 + 20))


@pytest.mark.slow
@pytest.mark.nightly("10,000 random sequences take minutes")
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("name", MODELS)
def test_a_loss_of_power_loses_exactly_what_is_not_synced_of_many_sequences(tmp_path, name, part):
    play_many(tmp_path, name, range(part * 10_000, part * 10_000 + 500))


@pytest.mark.parametrize(
    ("name", "owner", "rule"),
    [
        ("journal", Unsynced, "writing"),
        ("journal", Unsynced, "cutting"),
        ("journal", Unsynced, "cut_is_durable"),
        ("journal", Journal, "_commit"),
        ("journal", Journal, "_undo"),
        ("journal", Journal, "_flush"),
        ("posix", Unsynced, "writing"),
        ("posix", Unsynced, "cutting"),
        ("posix", Entries, "_changed"),
        ("posix", Entries, "_settle"),
        ("posix", Entries, "_settle_directories"),
        ("posix", Entries, "_put_back"),
    ],
)
def test_a_volume_without_one_of_its_rules_is_found(tmp_path, monkeypatch, name, owner, rule):
    monkeypatch.setattr(owner, rule, lambda *_: 0)
    with pytest.raises((AssertionError, OSError)):
        play_many(tmp_path, name, range(60))
