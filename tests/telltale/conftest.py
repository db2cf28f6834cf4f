"""Runs of the tell-tale: in this process, so that the moment is known from which the history counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dethrone.clusters.docker.image import ensure_image
from dethrone.harness.core import registry
from dethrone.harness.core.events import Event
from dethrone.harness.core.history_files import read_history
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run
from tests.clusters.engine import engine_client
from tests.clusters.ssh import field as fields
from tests.telltale.compare import Felt, read_felt
from tests.telltale.theirs import Theirs

TIME_LIMITS_NS = {"cut": 10_000_000_000, "everything": 32_000_000_000, "without_clocks": 48_000_000_000}
"""Of the faults' phase, by schedule; starting somebody else's containers again takes seconds."""


class Quiet:
    """A listener to whom nothing matters."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Told:
    """What a run left: its history, and what its nodes felt."""

    def __init__(self, result: object, events: list[Event], felt: list[Felt]) -> None:
        self.result, self.events, self.felt = result, events, felt


@pytest.fixture
def telltale(tmp_path, monkeypatch) -> Callable[..., Told]:
    """Run the tell-tale with the schedule of this name."""
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "plugin"))  # registers the system, for this test alone
    origin: list[int] = []

    def go(backend: str, schedule: str, *, system: str = "telltale", **more: object) -> Told:
        kind = type(registry.load(registry.BACKENDS, backend))
        deploy = kind.deploy

        def deployed(self, spec, *, origin_ns, news, progress):
            origin.append(origin_ns)
            return deploy(self, spec, origin_ns=origin_ns, news=news, progress=progress)

        monkeypatch.setattr(kind, "deploy", deployed)
        out = tmp_path / f"run-{len(origin)}"
        options = RunOptions(
            system=system,
            nodes=3,
            backend=backend,
            workload="election",
            schedule=Path(__file__).parent / f"{schedule}.json",
            seed=1,
            out=out,
            time_limit_ns=TIME_LIMITS_NS[schedule],
            **more,
        )
        result = run(options, Quiet())
        monkeypatch.setattr(kind, "deploy", deploy)
        (tmp_path / f"{out.name}.origin").write_text(str(origin[-1]))
        events = list(read_history(out / "history"))
        return Told(result, events, read_felt(out, origin_ns=origin[-1]))

    return go


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Machines with SSH."""
    yield from fields.made(tmp_path_factory.mktemp("field"))


@pytest.fixture
def root():
    """Only root may run the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def theirs():
    """Containers that run the tell-tale already."""
    client = engine_client()
    made = Theirs(client, ensure_image(client))
    yield made
    made.close()
    client.close()
