"""The exam on this machine's real processes: at least a dozen planted bugs, each found within three minutes.

Drawn schedules, triggers from the nodes' own traces. A bug counts only if a checker named for it fails within the time
and the same seed on the build without it passes that checker. Rows are kept in ``runs/accept/exam-docker``; what stands
there is not run again. Needs Docker.
"""

from __future__ import annotations

from typing import Any

from acceptance.simulated import OUT, Unfinished, Until, command

BUDGET_S = 180
LEAST = 12

BUGS: dict[str, tuple[str, ...]] = {
    "raft": (
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
    "paxos": (
        "01-acceptance-not-written",
        "12-promise-hides-accepted",
        "18-promises-are-acceptances",
        "42-learns-from-one",
    ),
}
"""System → bugs that faults of real hosts can show; ``dethrone list variants`` explains them."""


def rows_of(system: str, *, until: Until) -> list[dict[str, Any]]:
    """The rows of one system's bugs."""
    bugs = [word for bug in BUGS[system] for word in ("--bug", bug)]
    words = ["exam", "--on", "docker", "--system", system, *bugs, "--budget", f"{BUDGET_S}s"]
    value = command([*words, "--out", OUT / "exam-docker"], until=until)
    if value.get("interrupted"):
        raise Unfinished(f"{system}: {value.get('found', '?')} found so far")
    rows: list[dict[str, Any]] = value["bugs"]
    return rows


def good(row: dict[str, Any]) -> bool:
    """Found in time, and not on the build without it."""
    return bool(row["found"]) and row["base"] == "pass" and row["find_s"] <= BUDGET_S


def item(until: Until) -> tuple[bool, str]:
    """At least a dozen planted bugs are found on real processes within three minutes each."""
    rows = [row for system in BUGS for row in rows_of(system, until=until)]
    found = [row for row in rows if good(row)]
    checkers = sorted({row["by"] for row in found})
    lines = [f"{row['system']} {row['bug']} by {row['by']} in {row['find_s']:.0f} s" for row in found]
    missed = [f"{row['system']} {row['bug']}" for row in rows if not good(row)]
    text = f"{len(found)} of {len(rows)} within {BUDGET_S} s each, by {len(checkers)} checkers: {'; '.join(lines)}"
    return len(found) >= LEAST, text + (f"; not: {', '.join(missed)}" if missed else "")
