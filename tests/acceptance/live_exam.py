"""The exam on this machine's real processes: at least a dozen planted bugs, each found within three minutes.

Drawn schedules, triggers from the nodes' own traces. A bug counts only if a checker named for it fails within the time
and the same seed on the build without it passes that checker. Next to a load of six, half of it burning CPU and half of
it syncing, at least nine in ten of these bugs are found again. Rows are kept in ``runs/accept/exam-docker`` and
``exam-docker-busy``; what stands there is not run again. Needs Docker.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.acceptance.simulated import OUT, Item, Unfinished, Until, command
from tests.load_generator import Load

BUDGET_S = 180
LEAST = 12
AGAIN_PERCENT_MIN = 90
"""Of the bugs that are found on a quiet machine, how many must be found on a busy one."""
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


def good(row: dict[str, Any]) -> bool:
    """Found in time, and not on the build without it."""
    return bool(row["found"]) and row["base"] == "pass" and row["find_s"] <= BUDGET_S


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


def _text(rows: list[dict[str, Any]]) -> str:
    found = [row for row in rows if good(row)]
    checkers = sorted({row["by"] for row in found})
    lines = [f"{row['system']} {row['bug']} by {row['by']} in {row['find_s']:.0f} s" for row in found]
    missed = [f"{row['system']} {row['bug']}" for row in rows if not good(row)]
    text = f"{len(found)} of {len(rows)} within {BUDGET_S} s each, by {len(checkers)} checkers: {'; '.join(lines)}"
    return text + (f"; not: {', '.join(missed)}" if missed else "")


def items() -> dict[str, Item]:
    """All, by name."""
    return {"exam-docker": item, "exam-docker-busy": busy}
