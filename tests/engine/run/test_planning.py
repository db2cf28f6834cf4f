"""What a plan demands of the hosts it is made for."""

import pytest

from dethrone.clusters.local import backend
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.interfaces import OF_MOUNTS
from dethrone.harness.engine.run.disk_needs import disk_model
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft, needs_of

RESTART = """
[[step]]
[[step.fault]]
kind = "restart"
victims = "follower"
"""


@pytest.fixture
def without_faketime(monkeypatch):
    monkeypatch.setattr(backend, "find_faketime", lambda: None)


@pytest.fixture
def without_clocks(without_faketime, monkeypatch):
    monkeypatch.setattr(backend, "why_no_vdso", lambda: "not on this machine")


def options(**more):
    return RunOptions(system="raft", backend="local", nodes=3, time_limit_ns=60 * SECOND, **more)


def test_faults_that_a_machine_cannot_do_are_refused_with_what_to_install(without_clocks):
    with pytest.raises(MissingCapability, match=r"'clock' cannot happen on 'local': its hosts lack faketime") as told:
        draft(options(), seed=1)
    assert "install libfaketime" in str(told.value)
    assert "without clock" in str(told.value)


def test_where_no_library_can_be_preloaded_clocks_are_skewed_in_the_vdso_of_any_system(without_faketime, monkeypatch):
    monkeypatch.setattr(backend, "why_no_vdso", lambda: "")
    drafted = draft(options(faults=("clock",)), seed=1)
    assert needs_of(drafted.faults.values(), drafted.system, drafted.backend) == {"vdso"}


def test_a_written_schedule_needs_nothing_but_what_its_own_faults_need(without_faketime, tmp_path):
    schedule = tmp_path / "restart.toml"
    schedule.write_text(RESTART)
    assert set(draft(options(schedule=schedule), seed=1).faults) == {"restart"}


def test_a_written_schedule_whose_faults_need_what_the_machine_lacks_is_refused(without_clocks, tmp_path):
    schedule = tmp_path / "clock.toml"
    schedule.write_text('[[step]]\n[[step.fault]]\nkind = "clock"\nvictims = "leader"\nparams = { offset = "1s" }\n')
    with pytest.raises(MissingCapability, match="lack faketime"):
        draft(options(schedule=schedule), seed=1)


@pytest.mark.parametrize(("system", "possible"), [("raft", True), ("nacos", False)])
def test_refused_connections_are_simulated_only_where_there_are_connections(tmp_path, system, possible):
    written = tmp_path / "cut.toml"
    written.write_text(
        '[[step]]\ngap = "1s"\n[[step.fault]]\nkind = "partition"\nvictims = "all"\nhold = "1s"\n'
        'params = { links = [["node:n1", "node:n2"]], way = "new-only" }\n'
    )
    asked = RunOptions(system=system, backend="sim", nodes=3, schedule=written)
    if possible:
        assert draft(asked, seed=1).plan.schedule.kinds == ("partition",)
    else:
        with pytest.raises(ConfigError, match="cannot be refused"):
            draft(asked, seed=1)


def powerlosses(tmp_path, *models):
    """A written schedule with a loss of power by each of these models."""
    written = tmp_path / "power.toml"
    written.write_text(
        "".join(
            f'[[step]]\n[[step.fault]]\nkind = "powerloss"\nvictims = "leader"\nparams = {{ model = "{model}" }}\n'
            for model in models
        )
    )
    return written


@pytest.mark.parametrize("model", ["journal", "posix"])
def test_a_run_has_the_model_of_disks_that_its_losses_of_power_have(tmp_path, monkeypatch, model):
    monkeypatch.setattr(backend, "_capabilities", lambda: OF_MOUNTS)
    drafted = draft(options(schedule=powerlosses(tmp_path, model, model)), seed=1)
    assert disk_model(drafted.plan.schedule, drafted.faults) == model
    assert drafted.plan.promise.bears("powerloss", {"model": model}) == ("powerloss" if model == "journal" else None)


def test_two_models_of_disks_in_one_run_are_refused(tmp_path):
    asked = RunOptions(system="raft", backend="sim", nodes=3, schedule=powerlosses(tmp_path, "journal", "posix"))
    with pytest.raises(ConfigError, match="different models: journal, posix"):
        draft(asked, seed=1)


def test_names_that_no_sync_made_durable_are_lost_on_real_hosts_only(tmp_path):
    def drafted(model):
        return draft(RunOptions(system="raft", backend="sim", nodes=3, schedule=powerlosses(tmp_path, model)), seed=1)

    assert drafted("journal").plan.schedule.kinds == ("powerloss",)
    with pytest.raises(ConfigError, match="cannot happen in simulation"):
        drafted("posix")
