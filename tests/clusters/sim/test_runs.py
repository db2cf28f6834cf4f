"""Whole runs in virtual time: the same engine, files and verdicts as on real hosts, and the same bytes always."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.sim.world import _by_bytes
from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.events import Converged, FaultEvent, NodeProcess, Observed, Return, Silent, Traced
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.judge import check_path, load_checkers
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.rehearsal import rehearse
from dethrone.harness.engine.run.runner import run

HERE = Path(__file__).parent
ALL = ("partition", "kill", "pause", "clock", "restart", "stop", "powerloss", "disk", "link", "hold", "drift")


def options(**fields):
    return RunOptions(**({"system": "raft", "backend": "sim", "seed": 1, "time_limit_ns": 30 * SECOND} | fields))


@functools.cache
def interpreters():
    """Other Pythons of this machine that have what a run needs."""
    places = [*Path("~/.pyenv/versions").expanduser().glob("3.1[1-9]*/bin/python3")]
    places += [Path(place) for place in os.environ.get("DETHRONE_TEST_PYTHONS", "").split(":") if place]
    found = []
    for place in places:
        asked = subprocess.run(
            [place, "-c", "import msgspec, numpy; from importlib.metadata import version; version('dethrone')"],
            check=False,
            capture_output=True,
        )
        if asked.returncode == 0:
            found.append(str(place))
    return found


def digest(seed, *, hash_seed, faults="partition,kill,pause", system="raft", python=sys.executable):
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(HERE.parents[2])}
    arguments = [python, HERE / "history_of.py", system, str(seed), faults]
    return subprocess.run(arguments, check=True, capture_output=True, env=env, text=True).stdout


RUNS = pytest.mark.parametrize(
    ("system", "faults"), [("raft", ",".join(ALL)), ("nacos", "partition,kill,restart,pause")]
)


@pytest.mark.slow
@RUNS
def test_the_same_seed_gives_the_same_bytes_whatever_the_hash_seed(system, faults):
    first = digest(3, hash_seed=1, faults=faults, system=system)
    assert digest(3, hash_seed=2, faults=faults, system=system) == first


@pytest.mark.nightly("needs other Pythons, which make test-all prepares")
@RUNS
def test_the_same_seed_gives_the_same_bytes_whatever_the_interpreter(system, faults):
    others = interpreters()
    if not others:
        pytest.skip("one Python only: no second interpreter here has what a run needs (make test-all prepares them)")
    first = digest(3, hash_seed=1, faults=faults, system=system)
    for hash_seed, python in enumerate(others, start=2):
        assert digest(3, hash_seed=hash_seed, faults=faults, system=system, python=python) == first, python


@pytest.mark.slow
def test_another_seed_gives_another_history():
    assert digest(3, hash_seed=0) != digest(4, hash_seed=0)


@pytest.mark.slow
def test_a_run_leaves_the_same_files_as_on_real_hosts_and_is_judged_again_alike(tmp_path):
    result = run(options(out=tmp_path / "a", time_limit_ns=60 * SECOND), Silence())
    assert (result.exit_code, result.trouble) == (0, ())
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names >= {
        store.HISTORY,
        store.PLAN,
        store.PLANNED,
        store.REALISED,
        store.RUN,
        store.VERDICT,
    }
    again, plan, history = check_path(tmp_path / "a")
    assert again.verdicts == result.judgement.verdicts
    assert plan.backend == "sim"
    assert plan.backend_settings["latency_us"] == "200..500"
    kinds = {type(event) for event in history.events}
    assert kinds >= {Converged, FaultEvent, NodeProcess, Observed, Return, Silent, Traced}


def test_a_fault_waits_for_an_edge_in_the_polls_of_simulated_nodes(tmp_path):
    (tmp_path / "edge.toml").write_text(
        """
[[step]]
[[step.fault]]
name = "lost"
kind = "kill"
victims = "leader"
hold = "4s"
[[step.fault]]
kind = "pause"
victims = "candidate"
hold = "300ms"
when = { event = "status-changed", after = "lost", within = "4s", by = "spared-by:lost", where = { field = "leader" } }
"""
    )
    asked = options(schedule=tmp_path / "edge.toml", time_limit_ns=12 * SECOND, workload="election")
    history = rehearse(asked, {}, seed=1).history
    begun = [event for event in history.events if isinstance(event, FaultEvent) and event.phase == "begin"]
    assert [(event.kind, event.outcome) for event in begun] == [("kill", "installed"), ("pause", "installed")]
    assert begun[1].evidence["trigger"]["latency_ns"] > 0


@pytest.mark.slow
def test_a_rehearsal_gives_the_events_of_the_run(tmp_path):
    asked = options(faults=ALL, conclusive=False)
    run(msgspec.structs.replace(asked, out=tmp_path / "a"), Silence())
    written = read_history(tmp_path / "a" / store.HISTORY).events[:-1]
    assert written == [
        msgspec.json.decode(msgspec.json.encode(event), type=type(event))
        for event in rehearse(asked, {}, seed=1).history.events[:-1]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_honest_build_never_fails_under_everything_that_it_tolerates(seed):
    found = rehearse(
        options(faults=ALL, nemesis_interval_ns=3 * SECOND, time_limit_ns=40 * SECOND), load_checkers(), seed=seed
    )
    assert found.failing() == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wipe", "damage"])
def test_what_is_not_tolerated_is_excused(kind):
    for seed in range(3):
        found = rehearse(options(faults=(kind,)), load_checkers(), seed=seed)
        assert found.failing() == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "checker"),
    [("01-vote-not-written", "vote-is-durable"), ("21-majority-of-responders", "leader-has-majority")],
)
def test_a_planted_bug_is_found(variant, checker):
    failing = {
        name
        for seed in range(8)
        for name in rehearse(
            options(variant=variant, faults=("restart", "partition", "kill")), load_checkers(), seed=seed
        ).failing()
    }
    assert checker in failing


def test_a_target_that_speaks_http_runs_too():
    found = rehearse(options(system="nacos", nodes=3, time_limit_ns=60 * SECOND), load_checkers(), seed=2)
    assert "one-vote-per-term" in found.failing()


@pytest.mark.slow
def test_settings_of_the_simulator_reach_the_plan_and_the_network():
    slow = options(settings={"sim.latency_us": "20000..30000", "sim.client_latency_us": "1000"}, faults=())
    found = rehearse(slow, {}, seed=1)
    assert found.plan.backend_settings["latency_us"] == "20000..30000"
    assert {event.span.hi - event.span.lo for event in found.history.of(Observed)} == {2_000_000}


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"system": "etcd"}, MissingCapability, "cannot be simulated"),
        ({"backend": "docker", "faults": ("drift",)}, MissingCapability, "lack monotonic"),
        ({"backend": "docker", "settings": {"docker.latency_us": "1"}}, ConfigError, "has no settings"),
        ({"settings": {"sim.latenzy_us": "1"}}, ConfigError, "latency_us"),
        ({"settings": {"sim.latency_us": "5..1"}}, ConfigError, "bad latency_us"),
        ({"settings": {"sim.latency_us": "soon"}}, ConfigError, "bad latency_us"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(fields, error, says):
    from dethrone.harness.engine.run.runner import dry_run

    with pytest.raises(error) as caught:
        dry_run(options(**fields))
    assert says in str(caught.value)


def test_a_stored_schedule_with_a_fault_of_simulated_hosts_is_refused_on_real_ones(tmp_path):
    from dethrone.harness.engine.run.runner import dry_run

    plan: Plan = dry_run(options(faults=("drift",)))
    store.write_json(tmp_path / "s.json", plan.schedule)
    with pytest.raises(MissingCapability, match="drift"):
        dry_run(options(backend="docker", schedule=tmp_path / "s.json"))


@pytest.mark.slow
@pytest.mark.parametrize("abilities", [("Steady",), ("Steady", "Direct", "Glancing")])
@pytest.mark.parametrize("variant", [None, "10-resumes-leadership"])
def test_a_core_that_is_told_directly_does_what_it_does_of_events(variant, abilities, monkeypatch):
    class Nobody:
        """Nothing is an instance of this."""

    made = options(
        faults=ALL,
        workload="log",
        strategy="mixed",
        variant=variant,
        nemesis_interval_ns=2 * SECOND,
        conclusive=False,
    )
    directly = rehearse(made, {}, seed=3).history
    for ability in abilities:
        monkeypatch.setattr(f"dethrone.clusters.sim.node.{ability}", Nobody)
    by_events = rehearse(made, {}, seed=3).history
    assert [msgspec.json.encode(event) for event in directly] == [msgspec.json.encode(event) for event in by_events]
    assert len({event.kind for event in directly.of(FaultEvent)}) > 3


@pytest.mark.parametrize(
    "system", ["bully", "dledger", "joyqueue", "kraft", "master-slave", "nacos", "paxos", "zab", "zk-ephemeral"]
)
def test_every_core_does_and_says_the_same_by_the_short_way_as_by_events_and_bytes(system, monkeypatch):
    class Nobody:
        """Nothing is an instance of this."""

    kinds = ("partition", "kill", "pause", "restart")
    made = options(system=system, nodes=4, faults=kinds, nemesis_interval_ns=2 * SECOND, time_limit_ns=15 * SECOND)
    shortly = rehearse(made, {}, seed=5).history
    for ability in ("Direct", "Glancing"):
        monkeypatch.setattr(f"dethrone.clusters.sim.node.{ability}", Nobody)
    monkeypatch.setattr("dethrone.clusters.sim.world._reader", _by_bytes)
    the_long_way = rehearse(made, {}, seed=5).history
    assert [msgspec.json.encode(event) for event in shortly] == [msgspec.json.encode(event) for event in the_long_way]
    assert len(shortly.of(Observed)) > 100
