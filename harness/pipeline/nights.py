"""The input of comparisons of nights: runs, recovery times, verdicts; flakes and time to find. Pure.

Guarantees: nothing is guessed: a run that no checker judged is in no rate, a stage that was not reached is a time that
was cut off. Out of scope: where it comes from (``gathering``) and what is worse than before (``trends``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

STAGES = ("detect", "elect", "write")
ANY = "any"
"""In place of a fault: everything that happened in the run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``setup``: what must be equal for runs to be comparable. ``faults``: the kinds that took place.
    ``attributes``: what may have changed (versions, knobs …). ``same``: equal for runs of one plan and one version."""

    run: str
    night: str
    system: str
    setup: str
    faults: frozenset[str]
    attributes: Mapping[str, str]
    same: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One stage of the recovery from one fault. ``fault``: its kind; ``number``: which of the run's."""

    run: str
    fault: str
    stage: str
    ns: int
    censored: bool
    number: int = 0


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of one checker on one run. ``fault``: the kind that had begun last before the proof of a violation;
    ``at_ns``: when the proof was complete, since the run began."""

    run: str
    checker: str
    outcome: str
    fault: str = ANY
    at_ns: int | None = None
    signatures: tuple[str, ...] = ()
    """Of a violation: those of its findings (``dethrone.harness.core.signature``); none in rows of older versions."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of comparisons."""

    runs: Mapping[str, Run]
    samples: Sequence[Sample]
    judged: Sequence[Judged]

    def nights(self) -> list[str]:
        """Every night with a run, in order."""
        return sorted({run.night for run in self.runs.values()})


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """What is compared: written ``raft/kill/elect``."""

    system: str
    fault: str
    metric: str

    def __str__(self) -> str:
        """As a user names it."""
        return f"{self.system}/{self.fault}/{self.metric}"


def version_of(run: Run) -> str:
    """Of what the run depends on, without the machine: ``dethrone 0.1.0``."""
    told = {
        key.removeprefix("versions."): value for key, value in run.attributes.items() if key.startswith("versions.")
    }
    return ", ".join(f"{key} {value}" for key, value in sorted(told.items()) if key not in {"python", "kernel"})


def exposed(run: Run, fault: str) -> bool:
    """Whether a run had this kind of fault."""
    return fault == ANY or fault in run.faults


def fault_of(one: Judged) -> str:
    """The kind of fault that an outcome is counted for. What is unknown is unknown of the whole run."""
    return one.fault if one.outcome == "fail" else ANY


def flakes(facts: Facts) -> list[tuple[str, str, tuple[str, ...]]]:
    """(system, checker, runs): runs of one plan, seed and version of which some passed and some failed."""
    seen: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in facts.judged:
        run = facts.runs[one.run]
        if run.same and one.outcome in {"pass", "fail"}:
            seen[run.system, one.checker, run.same][one.outcome].append(one.run)
    found = [
        (system, checker, tuple(sorted(name for names in by_outcome.values() for name in names)))
        for (system, checker, _), by_outcome in seen.items()
        if len(by_outcome) > 1
    ]
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Found:
    """How long a violation took to be found: ``runs`` of the night until the first that showed it (0: none did), and
    when its proof was complete in there."""

    system: str
    checker: str
    night: str
    first: str
    runs: int
    of: int
    at_ns: int | None


def time_to_find(facts: Facts) -> list[Found]:
    """For each system, checker and night with a violation: how many runs it took, in the order of their names."""
    judged: dict[tuple[str, str, str], list[Judged]] = defaultdict(list)
    for one in facts.judged:
        run = facts.runs[one.run]
        judged[run.system, one.checker, run.night].append(one)
    found = []
    for (system, checker, when), rows in sorted(judged.items()):
        ordered = sorted(rows, key=lambda one: one.run)
        place = next((index for index, one in enumerate(ordered) if one.outcome == "fail"), None)
        if place is not None:
            hit = ordered[place]
            found.append(Found(system, checker, when, hit.run, place + 1, len(ordered), hit.at_ns))
    return found
