"""A scenario: one known sequence by name — a system, its settings, a schedule with triggers, and what must come of it.

Guarantees: a value that is read from a file and means the same on every backend. Out of scope: running it, and where
scenarios come from (entry points of ``dethrone.scenarios``, each a ``Scenarios``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.schedule import Schedule
from dethrone.harness.core.schedule_text import durations, parse_schedule
from dethrone.harness.core.verdict import Verdict


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must come of a scenario.

    ``fail``: every checker in ``fails`` must fail, for one finding at least that nothing excuses, and no other safety
    checker but those in ``may_fail``. ``pass``: no safety checker fails, and none in ``holds`` is anything but ``pass``
    or ``n/a``; ``unknown`` of others is allowed, since a scripted sequence leaves little to judge liveness by.
    ``untouched``: no fault changes anything: each was in force and kept the leader, and no finding about safety is
    there, not even an excused one.
    """

    verdict: Literal["pass", "fail"]
    fails: tuple[str, ...] = ()
    may_fail: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    untouched: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for an expectation that says nothing, or both."""
        if (self.verdict == "fail") != bool(self.fails):
            raise ValueError(
                "a scenario must name the checkers that fail if it is expected to fail, and none otherwise"
            )


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``source``: where the sequence is from (``RF-B1``). ``text``: what happens, in a few sentences.

    ``system`` None: any, the user names it. ``workload`` None: the system's default. ``faults`` of the schedule must be
    ones that the system can suffer.
    """

    name: str
    source: str
    title: str
    text: str
    system: str | None = None
    profile: str | None = None
    variant: str | None = None
    nodes: int = 3
    settings: Mapping[str, str] = {}
    workload: str | None = None
    rate_per_s: int | None = None
    processes: int | None = None
    time_limit_ns: Ns = 30 * SECOND
    schedule: Schedule
    expected: Expected


class Scenarios(Protocol):
    """A collection of scenarios."""

    def scenarios(self) -> Sequence[Scenario]:
        """All of them. Raises ConfigError for a file that is none."""


def parse_scenario(table: Mapping[str, Any], *, name: str, where: str) -> Scenario:
    """The scenario that plain values describe, its schedule written as ``dethrone.harness.core.schedule_text`` says."""
    raw = durations(dict(table), "time_limit")
    parts: dict[str, Any] = {
        key: raw.pop(key) for key in ("step", "steps", "health_bound", "obligations") if key in raw
    }
    schedule = parse_schedule({"strategy": f"scenario {name}", **parts}, where=where)
    settings = raw.pop("settings", {})
    if not isinstance(settings, Mapping) or not all(isinstance(value, str) for value in settings.values()):
        raise ConfigError("settings must be words", where=where, next_step='write persist = "off"')
    try:
        return msgspec.convert(
            {**raw, "name": name, "settings": settings, "schedule": msgspec.to_builtins(schedule)}, Scenario
        )
    except msgspec.ValidationError as error:
        raise ConfigError(f"not a scenario: {error}", where=where) from error


def as_expected(expected: Expected, verdicts: Sequence[Verdict]) -> list[str]:
    """What is other than expected, in words; empty: all as expected."""
    found = {verdict.checker: verdict for verdict in verdicts}
    failed = {
        name
        for name, verdict in found.items()
        if verdict.outcome == "fail" and any(finding.excused is None for finding in verdict.findings)
    }
    out = [f"{name} was expected to fail and did not" for name in expected.fails if name not in failed]
    surprising = {name for name in failed if found[name].kind in {"safety", "process"}} - {
        *expected.fails,
        *expected.may_fail,
    }
    out += [f"{name} failed: {found[name].reason}" for name in sorted(surprising)]
    for name in expected.holds:
        verdict = found.get(name)
        if verdict is None or verdict.outcome not in {"pass", "n/a"}:
            out.append(f"{name} was expected to hold: {verdict.reason if verdict else 'no checker judged it'}")
    return [*out, *_touched(found)] if expected.untouched else out


def _touched(found: Mapping[str, Verdict]) -> list[str]:
    """What a fault changed, or may have, where none may change anything."""
    figures = found["failover"].metrics if "failover" in found else {}
    rows = figures.get("leader_under", ())
    out = [] if rows else ["no fault was certainly in force"]
    for row in rows:
        if row["fate"] != "kept":
            shown = "the leader was lost" if row["fate"] == "lost" else f"not shown ({row['fate']})"
            out.append(f"fault {row['fault']} ({row['kind']}): {shown}: {row['why']}")
    for name, verdict in sorted(found.items()):
        if verdict.kind == "safety":
            out += [f"{name}: {one.sentence}" for one in verdict.findings if one.excused is not None]
    return out
