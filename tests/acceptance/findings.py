"""What was found in released systems, found again: three runs each, and the picture of one in docs/findings.md.

An item a finding: the command that shows it, with seeds of its own. Each run is kept below ``runs/accept/findings`` and
not done again.

    .venv/bin/python tests/accept.py found-pysyncobj-terms     run it (resumable)
    cd tests && ../.venv/bin/python -m acceptance.findings     write what is kept into docs/findings.md

Promises: a finding counts only where the checker named here has it with a certificate; the item holds when two of three
runs have one. Leaves out why it happens, which docs/findings.md explains.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from dethrone.harness.core.history_files import history_at, read_history
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.store import PLAN, read_json
from dethrone.harness.report.snippet import picture
from tests.acceptance import kept
from tests.acceptance.simulated import OUT, ROOT, Item, Until
from tests.acceptance.tables import Block

KEPT = OUT / "findings"
PAGE = ROOT / "docs" / "findings.md"
RUNS, ENOUGH = 3, 2
ROWS = 18


class Known(NamedTuple):
    """A finding. ``words``: of the run that shows it; ``checkers``: of which one must have it; ``excused``: it counts
    also where the promise does not cover the fault; ``seeds``: of the runs."""

    name: str
    words: tuple[str, ...]
    checkers: tuple[str, ...]
    excused: bool = False
    seeds: tuple[int, ...] = (1, 2, 3)

    def place(self, seed: int) -> Path:
        """Where the run of this seed lies."""
        return KEPT / f"{self.name}-{seed}"


_TRIO = ("--nodes", "3")
_COMMITS = ("commit-never-regresses", "log-matching", "acknowledged-survives", "log")
_IN_TURN = ("--schedule", "tests/live/leaders_lost_in_turn.json", "--time-limit", "120s", "--concurrency", "100")
_POWER = (*_TRIO, "--schedule", "tests/live/power_of_all.toml", "--time-limit", "160s")
KNOWN = (
    Known(
        "dledger-compare",
        (
            *("rocketmq-dledger", *_TRIO, "--faults", "partition,kill,pause,clock"),
            *("--nemesis-interval", "10s", "--time-limit", "60s"),
        ),
        _COMMITS,
    ),
    Known("dledger-resume", ("rocketmq-dledger-0.3.2", *_TRIO, *_IN_TURN), _COMMITS),
    Known(
        "pysyncobj-terms",
        (
            *("pysyncobj-0.3.14", "--on", "local", *_TRIO, "--strategy", "restarts"),
            *("--nemesis-interval", "6s", "--time-limit", "150s"),
        ),
        ("one-leader-per-term", "term-never-decreases"),
        seeds=(0, 1, 2),
    ),
    Known(
        "etcd-young-log",
        (
            *("etcd-rolling", *_TRIO, "--set", "version=3.5", "--schedule", "tests/live/etcd_young_log.toml"),
            *("--time-limit", "40s"),
        ),
        ("crash",),
    ),
    Known(
        "kazoo-busy",
        (
            *("kazoo-election", *_TRIO, "--schedule", "tests/live/leader_cut_off.toml"),
            *("--time-limit", "120s", "--concurrency", "100"),
        ),
        ("step-down-without-quorum",),
    ),
    Known(
        "ratis-append",
        (
            *("ratis-3.2.0", *_TRIO, "--schedule", "tests/live/cut_off_in_turn.toml", "--time-limit", "240s"),
            *("--concurrency", "8", "--rate", "80", "--set", "timeout_min=150", "--set", "timeout_max=300"),
        ),
        ("leader-when-owed", "convergence-after-heal"),
    ),
    Known(
        "ratis-first-leaders",
        (
            *("tests/live/ratis_first_leaders.toml", *_TRIO),
            *("--schedule", "tests/live/leader_killed_once.toml", "--time-limit", "60s"),
        ),
        ("convergence-after-heal", "leader-when-owed"),
    ),
    Known(
        "ratis-reads",
        (
            *("ratis", *_TRIO, "--schedule", "tests/live/leader_cut_off_or_paused.toml", "--time-limit", "90s"),
            *("--concurrency", "16", "--rate", "30"),
        ),
        ("linearizable",),
    ),
    Known(
        "ratis-busy",
        (
            *("ratis", *_TRIO, "--schedule", "tests/live/leader_cut_off.toml"),
            *("--time-limit", "60s", "--concurrency", "40", "--rate", "40"),
        ),
        ("step-down-without-quorum",),
    ),
    Known(
        "nats-again",
        (
            *("nats", *_TRIO, "--schedule", "tests/live/leader_cut_off_again.toml"),
            *("--time-limit", "150s", "--concurrency", "30"),
        ),
        ("leader-when-owed",),
    ),
    Known(
        "jraft-closed",
        (
            *("jraft", *_TRIO, "--schedule", "tests/live/leader_killed_beside_a_pause.toml", "--workload", "log"),
            *("--time-limit", "180s", "--concurrency", "12", "--rate", "300"),
        ),
        ("leader-when-owed",),
    ),
    Known("nats-power", ("nats", *_POWER), ("acknowledged-survives",), excused=True),
)


class Shown(NamedTuple):
    """What one run has of it; ``finding`` None: nothing."""

    seed: int
    checker: str = ""
    finding: dict[str, Any] | None = None


def shown_by(known: Known, seed: int, judgement: dict[str, Any]) -> Shown:
    """The first finding of these checkers that counts and has a certificate."""
    verdicts = {verdict["checker"]: verdict for verdict in judgement["verdicts"]}
    for checker in known.checkers:
        for finding in verdicts.get(checker, {}).get("findings", ()):
            if finding["certificate"] and (known.excused or not finding["excused"]):
                return Shown(seed, checker, finding)
    return Shown(seed)


def kept_of(known: Known) -> list[Shown]:
    """What is kept of its runs."""
    done = [seed for seed in known.seeds if known.place(seed).with_name(f"{known.name}-{seed}.json").is_file()]
    return [
        shown_by(known, seed, json.loads((known.place(seed) / "verdict.json").read_text())["judgement"])
        for seed in done
    ]


def drawn(run: Path, certificate: list[int]) -> list[str]:
    """The picture of what proves it."""
    plan = read_json(run / PLAN, Plan)
    return [text.rstrip() for text in picture(read_history(history_at(run)), plan.nodes, certificate, rows_max=ROWS)]


def block(known: Known, found: list[Shown], *, day: str, lines: list[str]) -> list[str]:
    """What stands on the page: the first run that shows it, how many do, and the command."""
    hits = [one for one in found if one.finding is not None]
    told = f"Found again in {len(hits)} of {len(found)} runs (seeds {', '.join(str(one.seed) for one in found)}; {day})"
    command = f"dethrone run {' '.join(known.words)} --seed {hits[0].seed if hits else known.seeds[0]}"
    if not hits or hits[0].finding is None:
        return [f"{told}: `{command}`."]
    return ["```", f"{hits[0].checker}: {hits[0].finding['sentence']}", *lines, "```", "", f"{told}: `{command}`."]


def page_with(page: str, known: Known) -> str:
    """The page with what is kept of this finding, if anything is."""
    found = kept_of(known)
    if not found:
        return page
    began = json.loads((known.place(found[-1].seed) / "run.json").read_text(encoding="utf-8"))["started_at"]
    hit = next((one for one in found if one.finding is not None), None)
    certificate = [] if hit is None or hit.finding is None else hit.finding["certificate"]
    lines = [] if hit is None else drawn(known.place(hit.seed), certificate)
    return Block(known.name).put(page, block(known, found, day=str(began)[:10], lines=lines))


def item_of(known: Known) -> Item:
    """Three runs of it."""

    def item(until: Until) -> tuple[bool, str]:
        trouble: list[str] = []
        for seed in known.seeds:
            trouble += kept.run(known.place(seed), [*known.words, "--seed", str(seed)], until=until)["trouble"]
        hits = [one for one in kept_of(known) if one.finding is not None]
        parts = [f"{len(hits)} of {RUNS}", *(str((one.finding or {}).get("sentence")) for one in hits[:1]), *trouble]
        return len(hits) >= ENOUGH and not trouble, "; ".join(parts)

    item.__doc__ = f"{known.name}: found again in {ENOUGH} of {RUNS} runs by {' or '.join(known.checkers)}."
    return item


def items() -> dict[str, Item]:
    """By name."""
    return {f"found-{known.name}": item_of(known) for known in KNOWN}


def main() -> int:
    """Write the page."""
    page = PAGE.read_text(encoding="utf-8")
    for known in KNOWN:
        page = page_with(page, known)
    PAGE.write_text(page, encoding="utf-8")
    print(f"{PAGE.name}: {sum(bool(kept_of(known)) for known in KNOWN)} of {len(KNOWN)} findings", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
