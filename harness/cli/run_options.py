"""What the engine is asked to do, out of the merged settings of a run.

Guarantees: a run has one system; what a file that is not the user's own names is executed or reached only with his
trust, and only a flag lifts the protection of the machine. Out of scope: merging (``settings``), and whether names of
systems, faults and knobs exist (the engine).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from dethrone.harness.cli.setting_table import LENDERS
from dethrone.harness.cli.settings import Given
from dethrone.harness.cli.value_readers import client_count
from dethrone.harness.core import registry
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.plan import DataIn
from dethrone.harness.core.verdict import FailOn
from dethrone.harness.engine.run import file_trust, scenario_lookup
from dethrone.harness.engine.run.options import RunOptions


def system_of(named: str | None, given: Mapping[str, Given]) -> str:
    """The system that is run: the one that is named, or the scenario's. ConfigError: none, or two different ones."""
    if "scenario" not in given:
        if named is None:
            raise ConfigError(
                "no system was named", next_step="choose one of `dethrone list systems`, or add --scenario"
            )
        return _absolute(named)
    scenario = scenario_lookup.find(given["scenario"].value)
    if scenario.system is None:
        if named is None:
            raise ConfigError(
                f"the scenario {scenario.name!r} is for any system, and no system was named",
                next_step=f"name one: dethrone run SYSTEM --scenario {scenario.name} (dethrone list systems)",
            )
        return str(Path(named).resolve()) if registry.is_file(named) else named
    if named is None and registry.is_file(scenario.system) and not ("trust" in given and given["trust"].value):
        raise ConfigError(
            f"the scenario names a file that would be executed with your rights: {scenario.system}",
            where=str(given["scenario"].value),
            next_step=f"look at it, then name it yourself: dethrone run {scenario.system} …, or add --trust",
        )
    if named is not None and _absolute(named) != _absolute(scenario.system):
        raise ConfigError(
            f"the scenario {scenario.name!r} belongs to {scenario.system}, not to {named}",
            next_step=f"remove {named} or --scenario",
        )
    return _absolute(scenario.system)


def _absolute(system: str) -> str:
    """The path of a description is in run.json, and a replay may start anywhere; any other name stays."""
    return str(Path(system).resolve()) if registry.is_file(system) else system


def run_options(system: str, given: Mapping[str, Given]) -> RunOptions:
    """The engine's options."""
    value: dict[str, Any] = {key: one.value for key, one in given.items()}

    def ns(key: str) -> int | None:
        return parse_duration(value[key]) if key in value else None

    def path(key: str) -> Path | None:
        return Path(value[key]) if key in value else None

    hosts, host, lent = _lent(given)
    refuse_strangers(given, hosts=hosts, host=host)
    nodes = lent if lent and given["nodes"].origin == "default" else value["nodes"]
    return RunOptions(
        system=system,
        nodes=nodes,
        zones=value.get("zones", ()),
        backend=value["on"],
        faults=tuple(map(registry.absolute_code, value["faults"])) if "faults" in value else None,
        workload=registry.absolute_code(value["workload"]) if "workload" in value else None,
        strategy=registry.absolute_code(value["strategy"]),
        checkers=tuple(map(registry.absolute_code, value.get("checker", ()))),
        time_limit_ns=ns("time-limit"),
        seed=value.get("seed"),
        nemesis_interval_ns=ns("nemesis-interval"),
        settings=value.get("set", {}),
        profile=value.get("profile"),
        variant=value.get("variant"),
        rate_per_s=value.get("rate"),
        processes=client_count(value["concurrency"], nodes=nodes) if "concurrency" in value else None,
        out=path("out"),
        base=value.get("base"),
        keep_cluster=value["keep-cluster"],
        unsafe_root=_unsafe_root(given["unsafe-root"]),
        stop_at_first_failure=value.get("first-failure"),
        schedule=path("schedule"),
        scenario=value.get("scenario"),
        hosts=hosts,
        host=host,
        fail_on=cast("FailOn", value["fail-on"]),
        known=path("known"),
        tags=value.get("tag", {}),
        data_in=None if value.get("data-in", "auto") == "auto" else cast("DataIn", value["data-in"]),
        time_scale=None if value.get("time-scale", "auto") == "auto" else float(value["time-scale"]),
    )


def refuse_strangers(given: Mapping[str, Given], *, hosts: Path | None = None, host: tuple[str, ...] = ()) -> None:
    """ConfigError where a settings file that may be another user's names what a run would execute or reach."""
    doubted = {key: one for key, one in given.items() if one.doubt}
    if not doubted or ("trust" in given and given["trust"].value):
        return
    lent = any(key in doubted for key in LENDERS)
    named = RunOptions(
        system="",
        variant=doubted["variant"].value if "variant" in doubted else None,
        faults=doubted["faults"].value if "faults" in doubted else None,
        workload=doubted["workload"].value if "workload" in doubted else None,
        strategy=doubted["strategy"].value if "strategy" in doubted else "random",
        checkers=doubted["checker"].value if "checker" in doubted else (),
        base=doubted["base"].value if "base" in doubted else None,
        hosts=hosts if lent else None,
        host=host if lent else (),
    )
    one = next(iter(doubted.values()))
    file_trust.refuse_settings(named, where=one.origin, doubt=one.doubt)


def _unsafe_root(given: Given) -> bool:
    """Only a user says so at the moment of the run: a file may be another's."""
    if given.value and given.origin != "flag":
        raise ConfigError(
            "unsafe-root is set by a file or the environment",
            where=given.origin,
            cause="it lets nodes act as root on this machine, which must not be decided by a file "
            "that came with a project",
            next_step="add --unsafe-root to the command line if you trust the system and can afford "
            "to lose the machine",
        )
    return bool(given.value)


def named_hosts(given: Mapping[str, Given]) -> tuple[Path | None, tuple[str, ...]]:
    """The hosts file, and the hosts named one by one."""
    file = Path(given["hosts"].value).absolute() if "hosts" in given else None
    words: tuple[str, ...] = given["host"].value if "host" in given else ()
    words += (f"project={given['project'].value}",) if "project" in given else ()
    words += tuple(f"label={label}" for label in given["label"].value) if "label" in given else ()
    return file, words


def _lent(given: Mapping[str, Given]) -> tuple[Path | None, tuple[str, ...], int]:
    """The hosts file, the hosts named one by one, and how many a run may use (0: not known, or none were named).

    Hosts of a configuration file are for the backend that takes hosts; a run elsewhere leaves them alone.
    """
    named = [given[key] for key in LENDERS if key in given]
    file, words = named_hosts(given)
    if not named:
        return None, (), 0
    backend = registry.load(registry.BACKENDS, given["on"].value)
    lending = backend.traits.lending
    if lending is None:
        asked = any(one.origin == "flag" for one in named)
        return (file, words, 0) if asked else (None, (), 0)
    now = lending.lent(file, words).traits.lending
    return file, words, 0 if now is None else len(now.usable())
