"""The ``chaos`` fixture and marker: a run under faults as an ordinary test.

    def test_my_system_elects_safely(chaos):
        chaos("raft", nodes=5, faults=("partition", "kill"), time_limit="30s").assert_valid()

Several tests can ask for one cluster and its run, each for another property:

    @pytest.mark.chaos(shared=True, time_limit="60s")
    class TestElection:
        def test_is_safe(self, chaos):
            chaos("raft").assert_holds("one-leader-per-term", "leader-completeness")

        def test_is_live(self, chaos):
            chaos("raft").assert_holds("leader-when-owed")

Guarantees: every pytest run loads it, so it imports nothing of the harness before a test asks for ``chaos``; a failed
assertion shows the proof, how to check it again and where its report is. Trouble of the harness is an error of the
test, never a statement about the system. ``dethrone report`` draws the report, as its own program.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dethrone.harness.core.verdict import Outcome, Verdict
    from dethrone.harness.engine.run.judgement import RunResult
    from dethrone.harness.engine.run.options import RunOptions

_REPORT_LIMIT_S = 120
_EVENTS_MAX = 8


class ChaosResult:
    """A run that ended. ``outcome``: pass, unknown or fail; None: nothing could be judged."""

    def __init__(self, result: RunResult, report: Mapping[str, Any], options: RunOptions) -> None:
        self.result = result
        self._report = report
        self._options = options

    @property
    def outcome(self) -> Outcome | None:
        """The verdict of the run."""
        return self.result.judgement.outcome if self.result.judgement else None

    @property
    def run_dir(self) -> Path | None:
        """Where everything of this run lies."""
        return self.result.run_dir

    @property
    def report(self) -> Path | None:
        """The page, where one could be drawn."""
        return Path(self._report["report"]) if self._report.get("report") else None

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Property → verdict, n/a included."""
        return {v.checker: v for v in self.result.judgement.verdicts} if self.result.judgement else {}

    @property
    def excused(self) -> int:
        """How many findings came under faults that the system does not promise to tolerate."""
        return self.result.judgement.excused if self.result.judgement else 0

    def assert_valid(self, *, allow_unknown: bool = False, allow_excused: bool = True) -> ChaosResult:
        """Fail unless every promised property held, with evidence. ``allow_unknown``: too little evidence will do;
        ``allow_excused`` False: findings under faults that the system does not promise to tolerate fail, too.

        Raises AssertionError for what the system did; ClusterError for trouble of the harness; Interrupted.
        """
        __tracebackhide__ = True
        from dethrone.harness.core.errors import ClusterError, Interrupted

        if self.result.interrupted:
            raise Interrupted("the run was interrupted", where=str(self.run_dir))
        if self.result.trouble and self.outcome != "fail":
            raise ClusterError(
                f"trouble of the harness: {self.result.trouble[0]}",
                where=str(self.run_dir),
                next_step="dethrone doctor",
            )
        excused = self.excused and not allow_excused
        if excused or (self.outcome != "pass" and not (allow_unknown and self.outcome == "unknown")):
            pytest.fail(self.explain(), pytrace=False)
        return self

    def assert_holds(self, *names: str) -> ChaosResult:
        """Fail unless each of these properties was judged and held, with evidence; the others do not matter.

        Raises AssertionError; UsageError for a property that no checker of this run judges; as ``assert_valid``.
        """
        __tracebackhide__ = True
        from dethrone.harness.core.errors import Interrupted

        if self.result.interrupted:
            raise Interrupted("the run was interrupted", where=str(self.run_dir))
        verdicts = self.verdicts
        unknown = [name for name in names if name not in verdicts]
        if unknown or not names:
            if self.result.trouble:
                self.assert_valid()
            raise pytest.UsageError(f"no property {unknown} in this run; judged: {', '.join(sorted(verdicts))}")
        wrong = [name for name in names if verdicts[name].outcome != "pass"]
        if wrong and all(verdicts[name].outcome != "fail" for name in wrong) and self.result.trouble:
            self.assert_valid()
        if wrong:
            words = [f"{name}: {verdicts[name].outcome.upper()}: {verdicts[name].reason}" for name in wrong]
            pytest.fail("\n".join([*words, "", self.explain()]), pytrace=False)
        return self

    def explain(self) -> str:
        """Verdict, proof, what to do next: what a failed assertion shows."""
        from dethrone.harness.core.clean import for_output

        judgement = self.result.judgement
        lines = [f"{(self.outcome or 'no verdict').upper()}: {judgement.reason if judgement else 'no verdict'}"]
        if self.excused and self.outcome != "fail":
            lines.append(f"{self.excused} finding(s) under faults that the system does not promise to tolerate")
        told = self._report.get("checkers", {})
        for verdict in judgement.verdicts if judgement else ():
            for number, finding in enumerate(verdict.findings):
                if not finding.fails and self.outcome == "fail":
                    continue
                why = "" if finding.excused is None else f" (excused: {finding.excused})"
                why += f" (known: {finding.known})" if finding.known else ""
                lines += ["", f"{verdict.checker}: {finding.sentence}{why}"]
                lines += [f"  signature: {finding.signature}"] if finding.signature and finding.fails else []
                lines += _events(told, verdict.checker, number) or [f"  proof: events {list(finding.certificate)}"]
        lines += ["", f"seed         {self.result.seed}"]
        if self.run_dir is not None:
            lines.append(f"check again  dethrone check {self.run_dir}")
            lines.append(f"run again    {self.rerun_command()}")
            lines.append(f"replay       dethrone replay {self.run_dir}")
            lines.append(f"report       {self.report or f'dethrone report {self.run_dir}'}")
        lines += [f"trouble      {line}" for line in self.result.trouble]
        return for_output("\n".join(lines))

    def rerun_command(self) -> str:
        """The command that runs the same schedule again."""
        from dethrone.harness.core import registry, secrets

        plan, options = self.result.plan, self._options
        if plan is None:
            return "(no plan found)"
        # of a described system only its file says what it is
        system = os.path.relpath(options.system) if registry.is_file(options.system) else plan.system
        words = ["dethrone", "run", system, "--seed", str(plan.seed), "--nodes", str(len(plan.nodes))]
        words += ["--on", plan.backend, "--profile", plan.profile]
        if plan.zones:
            words += ["--zones", ",".join(plan.zones.get(node, "") for node in plan.nodes)]
        words += ["--variant", plan.variant] if plan.variant else []
        for name, value in options.settings.items():
            words += ["--set", f"{name}={secrets.shown(name, value, plan.secrets)}"]
        return shlex.join([*words, "--schedule", f"{self.run_dir}/schedule.planned.json"])


def _events(checkers: Mapping[str, Any], name: str, number: int) -> list[str]:
    """The proving events in the words of ``dethrone report --json``; empty if it could not be asked."""
    try:
        events = checkers[name]["findings"][number]["events"]
        return [f"  {event['at']:>11}  {event['text']}" for event in events[:_EVENTS_MAX]]
    except (KeyError, IndexError, TypeError):
        return []


class Chaos:
    """What the ``chaos`` fixture is: call it to run a system under faults. One run directory a call."""

    def __init__(
        self,
        *,
        directory: Path,
        seed: int | None,
        defaults: Mapping[str, Any],
        shared: dict[str, ChaosResult],
        shared_directory: Path,
        known: Path | None = None,
    ) -> None:
        self._directory = directory
        self._seed = seed
        self._defaults = defaults
        self._shared = shared
        self._shared_directory = shared_directory
        self._known = known

    def __call__(
        self,
        system: str,
        *,
        nodes: int | None = None,
        zones: Iterable[str] | None = None,
        faults: Iterable[str] | None = None,
        time_limit: str | None = None,
        seed: int | None = None,
        on: str | None = None,
        settings: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        profile: str | None = None,
        variant: str | None = None,
        workload: str | None = None,
        strategy: str | None = None,
        checkers: Iterable[str] | None = None,
        nemesis_interval: str | None = None,
        rate: int | None = None,
        processes: int | None = None,
        first_failure: bool | None = None,
        schedule: str | Path | None = None,
        hosts: str | Path | None = None,
        known: str | Path | None = None,
        time_scale: float | None = None,
        shared: bool | None = None,
    ) -> ChaosResult:
        """Run ``system``; arguments as the flags of ``dethrone run``. Omitted ones come from the test's
        ``@pytest.mark.chaos(...)``, else: 5 nodes, 30 s, docker, the system's own faults and workload.

        ``shared``: tests of this process that ask for the same run get one cluster and one run, made by the first.
        """
        given = {
            name: value for name, value in locals().items() if name not in ("self", "system") and value is not None
        }
        unknown = set(self._defaults) - _KEYS
        if unknown:
            raise pytest.UsageError(f"@pytest.mark.chaos does not know {sorted(unknown)}; known: {sorted(_KEYS)}")
        merged = {"nodes": 5, "time_limit": "30s", "on": "docker", "known": self._known, **self._defaults, **given}
        if self._seed is not None:
            merged["seed"] = self._seed
        if merged.pop("shared", False):
            return self._share(system, merged)
        return _run(_options(system, merged, _free(self._directory)))

    def _share(self, system: str, merged: Mapping[str, Any]) -> ChaosResult:
        key = repr((system, sorted(merged.items(), key=lambda item: item[0])))
        if key not in self._shared:
            self._shared[key] = _run(_options(system, merged, _free(self._shared_directory)))
        return self._shared[key]


_KEYS = frozenset(Chaos.__call__.__annotations__) - {"system", "return"}


def _free(directory: Path) -> Path:
    """The first run directory in it that is not taken: with ``--chaos-out`` those of earlier sessions stay."""
    return next(path for number in itertools.count(1) if not (path := directory / f"run-{number}").exists())


def _path(name: str, merged: Mapping[str, Any]) -> Path | None:
    """A file that a test names by a text or a path. UsageError: by neither, or it is not there."""
    given = merged.get(name)
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise pytest.UsageError(f"chaos({name}=…) is a path, not {given!r}")
    path = Path(given)
    if not path.is_file():
        raise pytest.UsageError(f"chaos({name}=…) names no file: {path} (paths begin at {Path.cwd()})")
    return path


def _options(system: str, merged: Mapping[str, Any], out: Path) -> RunOptions:
    from dethrone.harness.core import registry
    from dethrone.harness.core.duration import parse_duration
    from dethrone.harness.engine.host import shadowing_packages
    from dethrone.harness.engine.run.options import RunOptions

    shadowing_packages.refuse()
    interval = merged.get("nemesis_interval")
    faults = merged.get("faults")
    return RunOptions(
        system=str(Path(system).resolve()) if registry.is_file(system) else system,
        nodes=merged["nodes"],
        zones=tuple(merged.get("zones", ())),
        backend=merged["on"],
        faults=None if faults is None else tuple(faults),
        workload=merged.get("workload"),
        strategy=merged.get("strategy", "random"),
        checkers=tuple(merged.get("checkers") or ()),
        time_limit_ns=parse_duration(merged["time_limit"]),
        seed=merged.get("seed"),
        nemesis_interval_ns=None if interval is None else parse_duration(interval),
        settings={str(name): str(value) for name, value in merged.get("settings", {}).items()},
        profile=merged.get("profile"),
        variant=merged.get("variant"),
        rate_per_s=merged.get("rate"),
        processes=merged.get("processes"),
        out=out,
        stop_at_first_failure=merged.get("first_failure"),
        schedule=_path("schedule", merged),
        hosts=_path("hosts", merged),
        known=_path("known", merged),
        time_scale=merged.get("time_scale"),
        tags={str(name): str(value) for name, value in merged.get("tags", {}).items()},
    )


def _run(options: RunOptions) -> ChaosResult:
    from dethrone.harness.engine.run import runner
    from dethrone.harness.engine.run.listener import Silence

    result = runner.run(options, Silence())
    return ChaosResult(result, _draw_report(result.run_dir), options)


def _draw_report(run_dir: Path | None) -> Mapping[str, Any]:
    """The page, drawn by the program that draws it (the engine stands below the reports); {} if it cannot be."""
    if run_dir is None:
        return {}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dethrone.harness.cli", "report", str(run_dir), "--json"],
            capture_output=True,
            timeout=_REPORT_LIMIT_S,
            check=True,
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--chaos-seed``, ``--chaos-out``."""
    group = parser.getgroup("dethrone", "runs under faults")
    group.addoption(
        "--chaos-seed",
        type=_seed,
        metavar="SEED|commit",
        help="seed of all chaos runs, instead of random ones; `commit`: derive it from the tested commit",
    )
    group.addoption(
        "--chaos-known",
        type=Path,
        metavar="FILE",
        help="known findings of all chaos runs (TOML): matching findings are shown but fail no test (docs/nightly.md)",
    )
    group.addoption("--chaos-out", type=Path, metavar="DIR", help="directory that keeps all run directories")


def _seed(text: str) -> int:
    """A number, or ``commit``: the same for all tests of that commit, another with the next."""
    if text.isdecimal():
        return int(text)
    if text != "commit":
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor `commit`")
    sha = os.environ.get("GITHUB_SHA", "")
    if not sha:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        sha = asked.stdout.strip()
    if not re.fullmatch(r"[0-9a-f]{8,}", sha):
        raise argparse.ArgumentTypeError("`commit` needs a git checkout, or GITHUB_SHA")
    return int(sha[:8], 16)


_SHARED = pytest.StashKey[dict[str, ChaosResult]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; nothing is shared yet."""
    config.stash[_SHARED] = {}
    config.addinivalue_line(
        "markers", "chaos(**arguments): runs a system under faults; the arguments are defaults of the chaos fixture"
    )


@pytest.fixture
def chaos(request: pytest.FixtureRequest) -> Chaos:
    """Call it with a system's name: ``chaos("raft", faults=("partition",)).assert_valid()``."""
    marker = request.node.get_closest_marker("chaos")
    kept: Path | None = request.config.getoption("chaos_out")
    if kept is None:
        directory = request.getfixturevalue("tmp_path") / "chaos"
        common = directory.parent.parent / "chaos-shared"
    else:
        slug = re.sub(r"[^\w.-]+", "-", request.node.nodeid).strip("-")
        directory = kept.resolve() / slug
        common = kept.resolve() / f"shared-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    return Chaos(
        directory=directory,
        seed=request.config.getoption("chaos_seed"),
        defaults=dict(marker.kwargs) if marker else {},
        shared=request.config.stash[_SHARED],
        shared_directory=common,
        known=request.config.getoption("chaos_known"),
    )
