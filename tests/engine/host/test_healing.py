"""Healing beside other users and other harnesses: what is not ours to know is not touched."""

from __future__ import annotations

import pytest

from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.interfaces import BackendTraits, No, Owned
from dethrone.harness.core.ledger import Ledger
from dethrone.harness.engine.host import healing as module


class Backend:
    """Has leftovers, and remembers what it was asked to destroy."""

    name = "fake"

    def __init__(self, *owned: tuple[str, str]) -> None:
        self.owned = [
            Owned(backend="fake", kind="container", id=run, name=run, run_id=run, state_dir=directory)
            for run, directory in owned
        ]
        self.destroyed: list[str] = []

    def leftovers(self) -> list[Owned]:
        return self.owned

    def destroy(self, run_id: str) -> None:
        self.destroyed.append(run_id)


@pytest.fixture
def healed(tmp_path, monkeypatch):
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path))

    def heal(backend: Backend):
        monkeypatch.setattr(module, "_usable_backends", lambda *_: [(backend, None)])
        return module.heal(progress=lambda _: None)

    return heal


def test_a_run_whose_ledger_this_user_may_not_read_is_left_alone_and_named(healed, monkeypatch):
    look = module.is_live

    def is_live(directory):
        if str(directory).startswith("/root/"):
            raise PermissionError(13, "Permission denied", str(directory))
        return look(directory)

    monkeypatch.setattr(module, "is_live", is_live)
    backend = Backend(("of-root", "/root/state/runs/of-root"), ("ours", "/nowhere/runs/ours"))
    report = healed(backend)
    assert backend.destroyed == ["ours"]
    assert report.healed == ("ours",)
    assert any("of-root" in line and "as the user who ran it" in line for line in report.left)


@pytest.mark.parametrize("gone", [True, False])
def test_a_run_that_cannot_be_removed_is_left_only_if_something_of_it_is_still_there(healed, gone):
    class Contested(Backend):
        def destroy(self, run_id: str) -> None:
            self.owned = [] if gone else self.owned  # another heal was faster
            raise ClusterError("removal is in progress", where=run_id)

    report = healed(Contested(("r1", "/nowhere/runs/r1")))
    assert report.healed == (("r1",) if gone else ())
    assert bool(report.left) is not gone


def test_a_ledger_without_a_line_needs_no_backend_that_cannot_be_reached(tmp_path, monkeypatch):
    class Away(Backend):
        traits = BackendTraits()

        def available(self) -> No:
            return No(why="no engine answers", what_to_do="start it")

    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(module.registry, "load_all", lambda _: {"away": Away()})
    (tmp_path / "runs" / "r1").mkdir(parents=True)
    report = module.heal(progress=lambda _: None)
    assert report.ledgers == 1
    assert report.left == ()


def test_a_run_is_live_if_any_of_its_things_names_a_ledger_that_is_held(healed, tmp_path):
    ledger = Ledger(tmp_path, "r1")
    try:
        backend = Backend(("r1", str(ledger.directory)), ("r1", "/nowhere/runs/r1"))
        report = healed(backend)
        assert backend.destroyed == []
        assert report.skipped_live == ("r1",)
    finally:
        ledger.close(clean=True)
