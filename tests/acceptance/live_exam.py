"""The exam on this machine's real processes: at least a dozen planted bugs, each found within three minutes.

Drawn schedules, triggers from the nodes' own traces. A bug counts only if a checker named for it fails within the time
and the same seed on the build without it passes that checker. Next to a load of six, half of it burning CPU and half of
it syncing, at least nine in ten of these bugs are found again. Of 20 bugs that disks and links alone can show, drawn by
a hash of their names, at least 18 are found within ten minutes each. Rows are kept in ``runs/accept/exam-docker``,
``exam-docker-busy`` and ``exam-disks``; what stands there is not run again. Needs Docker.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from dethrone.harness.core.clock import SECOND
from dethrone.harness.engine.exam.exam_tasks import examinable, tasks_for
from tests.acceptance.simulated import OUT, Item, Unfinished, Until, command
from tests.load_generator import Load

BUDGET_S = 180
LEAST = 12
AGAIN_PERCENT_MIN = 90
"""Of the bugs that are found on a quiet machine, how many must be found on a busy one."""
DISKS_AND_LINKS = "disk,hold,link,powerloss"
DRAWN, DRAWN_LEAST, LONG_BUDGET_S = 20, 18, 600
SHOWN_S = 5
"""CPU time in which simulation must find a bug by these faults alone for it to be drawn."""
LOAD_LIMIT_S = 14_400.0
"""The longest that one sitting may keep the load."""


class Sitting(NamedTuple):
    """Bugs of one system that faults of real hosts can show; ``faults``: kinds to draw from, "" : all."""

    system: str
    bugs: tuple[str, ...]
    faults: str = ""


SITTINGS = (
    Sitting(
        "raft",
        (
            "01-vote-not-written",
            "12-grant-without-log-check",
            "18-pre-votes-are-votes",
            "21-majority-of-responders",
            "23-non-members-vote",
            "28-never-steps-down",
            "30-sending-is-contact",
            "33-no-jitter",
            "35-no-pre-vote",
            "42-follower-commit-unchecked",
            "44-truncates-always",
            "45-acks-after-local-append",
            "54-removed-node-campaigns",
            "plain-never-truncates",
            "plain-votes-twice",
            "plain-wants-every-vote",
            "plain-writes-term-before",
        ),
    ),
    Sitting("raft", ("51-lease-without-recheck",), "partition,pause"),
    Sitting(
        "paxos",
        (
            "01-acceptance-not-written",
            "12-promise-hides-accepted",
            "18-promises-are-acceptances",
            "42-learns-from-one",
        ),
    ),
)


def rows_of(sitting: Sitting, place: str, *, until: Until) -> list[dict[str, Any]]:
    """The rows of one sitting's bugs, kept in ``place``."""
    bugs = [word for bug in sitting.bugs for word in ("--bug", bug)]
    words = ["exam", "--on", "docker", "--system", sitting.system, *bugs, "--budget", f"{BUDGET_S}s"]
    if sitting.faults:
        words += ["--faults", sitting.faults]
    value = command([*words, "--out", OUT / place], until=until)
    if value.get("interrupted"):
        raise Unfinished(f"{sitting.system}: {value.get('found', '?')} found so far")
    rows: list[dict[str, Any]] = value["bugs"]
    return rows


def good(row: dict[str, Any], budget_s: int = BUDGET_S) -> bool:
    """Found in time, and not on the build without it."""
    return bool(row["found"]) and row["base"] == "pass" and row["find_s"] <= budget_s


def item(until: Until) -> tuple[bool, str]:
    """At least a dozen planted bugs are found on real processes within three minutes each."""
    rows = [row for sitting in SITTINGS for row in rows_of(sitting, "exam-docker", until=until)]
    return len([row for row in rows if good(row)]) >= LEAST, _text(rows)


def busy(until: Until) -> tuple[bool, str]:
    """Of these planted bugs, at least 90 % are found next to a load of six, too."""
    quiet = [row for sitting in SITTINGS for row in rows_of(sitting, "exam-docker", until=until)]
    rows = []
    for sitting in SITTINGS:
        with Load(cpu=3, fsync=3, limit_s=LOAD_LIMIT_S):
            rows += rows_of(sitting, "exam-docker-busy", until=until)
    found, before = (len([row for row in some if good(row)]) for some in (rows, quiet))
    return 100 * found >= AGAIN_PERCENT_MIN * before, f"{_text(rows)}; {before} on a quiet machine"


def by_disks_and_links(until: Until) -> tuple[bool, str]:
    """Of 20 planted bugs that disks and links alone show in simulation, at least 18 are found on Docker."""
    drawn, rows = list[tuple[str, str]](), list[dict[str, Any]]()
    for system, bug in sorted(planted(), key=lambda one: hashlib.sha256("/".join(one).encode()).digest()):
        (row,) = _exam(system, bug, ["--budget", f"{SHOWN_S}s"], "exam-disks-sim", until=until)
        if row["found"]:
            drawn.append((system, bug))
        if len(drawn) == DRAWN:
            break
    for system, bug in drawn:
        rows += _exam(system, bug, ["--on", "docker", "--budget", f"{LONG_BUDGET_S}s"], "exam-disks", until=until)
    return len([row for row in rows if good(row, LONG_BUDGET_S)]) >= DRAWN_LEAST, _text(rows, LONG_BUDGET_S)


def planted() -> list[tuple[str, str]]:
    """System and name of each planted bug of a protocol target."""
    tasks = tasks_for(examinable(), strategy="triggered", budget_ns=LONG_BUDGET_S * SECOND)
    return [(task.system, task.planted.name) for task in tasks]


def _exam(system: str, bug: str, words: list[str], place: str, *, until: Until) -> list[dict[str, Any]]:
    one = ["exam", "--system", system, "--bug", bug, "--faults", DISKS_AND_LINKS, *words, "--out", str(OUT / place)]
    value = command(one, until=until)
    if value.get("interrupted"):
        raise Unfinished(f"{system} {bug}: {value.get('trouble')}")
    rows: list[dict[str, Any]] = value["bugs"]
    return rows


def _text(rows: list[dict[str, Any]], budget_s: int = BUDGET_S) -> str:
    found = [row for row in rows if good(row, budget_s)]
    checkers = sorted({row["by"] for row in found})
    lines = [f"{row['system']} {row['bug']} by {row['by']} in {row['find_s']:.0f} s" for row in found]
    missed = [f"{row['system']} {row['bug']}" for row in rows if not good(row, budget_s)]
    text = f"{len(found)} of {len(rows)} within {budget_s} s each, by {len(checkers)} checkers: {'; '.join(lines)}"
    return text + (f"; not: {', '.join(missed)}" if missed else "")


def items() -> dict[str, Item]:
    """All, by name."""
    return {"exam-docker": item, "exam-docker-busy": busy, "exam-disks": by_disks_and_links}
