"""The demonstration: ``raft`` under four kinds of faults must pass, ``nacos`` under a drawn schedule must not.

Where no backend is named, it runs on the first of ``BACKENDS`` that can do it here, and says why not on those before.
Guarantees: nothing is scripted; a run that did not go as announced ends with exit code 1, trouble of the harness with
exit code 3, and both are printed. A run whose only doubt is a noisy host is repeated once with its seed; a nacos run
without a finding is followed by the next drawn seed, ``TRIES`` in all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from dethrone.harness.commands.run import Done, run_and_report
from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.interfaces import Backend, No, Yes
from dethrone.harness.core.rng import Rng
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_PASS, EXIT_TROUBLE, EXIT_VIOLATION
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import needs_of
from dethrone.harness.report import json_objects
from dethrone.harness.report.terminal import Screen

TRIES = 3
RAFT_LIMIT_NS = 45 * SECOND
NACOS_LIMIT_NS = 75 * SECOND
FAULTS = ("partition", "kill", "pause", "clock")
BACKENDS = ("docker", "local", "sim")
PROOFS = ("one-leader-per-term", "one-vote-per-term")


def show(screen: Screen, *, seed: int | None, out: Path | None, backend: str, base: str | None) -> dict[str, Any]:
    """Both runs and their results, as the ``--json`` object."""
    seed = secrets.randbelow(2**31) if seed is None else seed
    rng = Rng(seed)
    say = _sayer(screen)
    say(f"Part 1 of 2: raft under partitions, kills, pauses and clock steps. It must pass. (demo seed {seed})")
    safe = RunOptions(
        system="raft",
        backend=backend,
        base=base,
        faults=FAULTS,
        time_limit_ns=RAFT_LIMIT_NS,
        seed=rng.stream("raft").below(2**31),
        out=None if out is None else out / "raft",
    )
    raft = run_and_report(safe, screen)
    if raft.result.exit_code != EXIT_TROUBLE and raft.result.judgement and raft.result.judgement.host_noise:
        say("This machine was too noisy to judge the run; repeating it with the same seed.")
        raft = run_and_report(_again(safe, out, "raft-again"), screen)
    parts = [_part("raft", "pass", raft, as_told=_passed(raft))]
    if raft.result.exit_code not in (EXIT_TROUBLE, EXIT_INTERRUPTED):
        parts.append(_nacos(screen, say, rng.stream("nacos"), out=out, backend=backend, base=base))
    return _close(say, seed, parts)


def backend_here(screen: Screen) -> str:
    """The first backend that can run the demo on this machine; the reasons against those before it are printed."""
    faults = [registry.load(registry.FAULTS, name) for name in FAULTS]
    raft = registry.load(registry.SYSTEMS, "raft")
    for name in BACKENDS[:-1]:
        backend: Backend = registry.load(registry.BACKENDS, name)
        answer = backend.available()
        lacking = (
            needs_of(faults, raft, backend) - backend.traits.capabilities
            if isinstance(answer, Yes)
            else frozenset[str]()
        )
        if isinstance(answer, Yes) and not lacking:
            return name
        why = answer.why if isinstance(answer, No) else f"this machine lacks {', '.join(sorted(lacking))}"
        screen.say(Text(f"The demo cannot run on {name}: {why}", style="dim"), level=-1)
    screen.say("It runs in simulation: virtual time, and no process or packet of this machine.", level=-1)
    return BACKENDS[-1]


def _nacos(
    screen: Screen, say: Callable[[str], None], rng: Rng, *, out: Path | None, backend: str, base: str | None
) -> dict[str, Any]:
    say("Part 2 of 2: nacos, its default run, up to the first certified finding. It must fail.")
    for attempt in range(1, TRIES + 1):
        options = RunOptions(
            system="nacos",
            backend=backend,
            base=base,
            time_limit_ns=NACOS_LIMIT_NS,
            seed=rng.below(2**31),
            stop_at_first_failure=True,
            out=None if out is None else out / f"nacos-{attempt}",
        )
        done = run_and_report(options, screen)
        if _proven(done):
            return _part("nacos", "fail", done, as_told=True)
        if done.result.exit_code in (EXIT_TROUBLE, EXIT_INTERRUPTED) or attempt == TRIES:
            break
        say(f"Seed {done.result.seed} ended without a finding (try {attempt} of {TRIES}); drawing the next seed.")
    return _part("nacos", "fail", done, as_told=False)


def _passed(done: Done) -> bool:
    return done.result.exit_code == EXIT_PASS


def _proven(done: Done) -> bool:
    judgement = done.result.judgement
    return judgement is not None and any(
        verdict.checker in PROOFS and verdict.outcome == "fail" for verdict in judgement.verdicts
    )


def _again(options: RunOptions, out: Path | None, name: str) -> RunOptions:
    return msgspec.structs.replace(options, out=None if out is None else out / name)


def _part(system: str, told: str, done: Done, *, as_told: bool) -> dict[str, Any]:
    return {
        "told": told,
        "as_told": as_told,
        "system": system,
        **json_objects.run_object(done.result, done.files, report=done.report),
    }


def _close(say: Callable[[str], None], seed: int, parts: list[dict[str, Any]]) -> dict[str, Any]:
    codes = {part["exit_code"] for part in parts}
    as_told = len(parts) == 2 and all(part["as_told"] for part in parts)
    trouble = [line for part in parts for line in part["trouble"]]
    if EXIT_TROUBLE in codes:
        code = EXIT_TROUBLE
        say("The harness itself was in trouble; the result proves nothing about either system:")
        for line in trouble:
            say(f"  {line}")
    elif EXIT_INTERRUPTED in codes:
        code = EXIT_INTERRUPTED
        say("Interrupted.")
    else:
        code = EXIT_PASS if as_told else EXIT_VIOLATION
        say("Both runs ended as announced." if as_told else "NOT both runs ended as announced:")
    for part in parts:
        say(
            f"  {part['system']:<6} announced {part['told']}, verdict {part['verdict']}  seed {part['seed']}  "
            f"report {part['report'] or 'none'}"
        )
    return {
        "schema": JSON_SCHEMA,
        "command": "demo",
        "verdict": "pass" if code == EXIT_PASS else None if code != EXIT_VIOLATION else "fail",
        "trouble": trouble,
        "checkers": {},
        "run_dir": None,
        "seed": seed,
        "exit_code": code,
        "runs": parts,
    }


def _sayer(screen: Screen) -> Callable[[str], None]:
    def say(line: str) -> None:
        screen.say(Text(line, style="bold"), level=-1)

    return say
