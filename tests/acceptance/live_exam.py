"""The exam on this machine's real processes: at least a dozen planted bugs, each found within three minutes.

Drawn schedules, triggers from the nodes' own traces. A bug counts only if a checker named for it fails within the time
and the same seed on the build without it passes that checker. Rows are kept in ``runs/accept/exam-docker``; what stands
there is not run again. Needs Docker.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.acceptance.simulated import OUT, Unfinished, Until, command

BUDGET_S = 180
LEAST = 12


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


def rows_of(sitting: Sitting, *, until: Until) -> list[dict[str, Any]]:
    """The rows of one sitting's bugs."""
    bugs = [word for bug in sitting.bugs for word in ("--bug", bug)]
    words = ["exam", "--on", "docker", "--system", sitting.system, *bugs, "--budget", f"{BUDGET_S}s"]
    if sitting.faults:
        words += ["--faults", sitting.faults]
    value = command([*words, "--out", OUT / "exam-docker"], until=until)
    if value.get("interrupted"):
        raise Unfinished(f"{sitting.system}: {value.get('found', '?')} found so far")
    rows: list[dict[str, Any]] = value["bugs"]
    return rows


def good(row: dict[str, Any]) -> bool:
    """Found in time, and not on the build without it."""
    return bool(row["found"]) and row["base"] == "pass" and row["find_s"] <= BUDGET_S


def item(until: Until) -> tuple[bool, str]:
    """At least a dozen planted bugs are found on real processes within three minutes each."""
    rows = [row for sitting in SITTINGS for row in rows_of(sitting, until=until)]
    found = [row for row in rows if good(row)]
    checkers = sorted({row["by"] for row in found})
    lines = [f"{row['system']} {row['bug']} by {row['by']} in {row['find_s']:.0f} s" for row in found]
    missed = [f"{row['system']} {row['bug']}" for row in rows if not good(row)]
    text = f"{len(found)} of {len(rows)} within {BUDGET_S} s each, by {len(checkers)} checkers: {'; '.join(lines)}"
    return len(found) >= LEAST, text + (f"; not: {', '.join(missed)}" if missed else "")
