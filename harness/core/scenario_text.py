"""A scenario as the TOML that reads back as the same scenario: to be looked at, kept and committed.

Guarantees: ``parse_scenario`` of what is written gives the value that was written; times are exact. Out of scope:
reading (``dethrone.harness.core.scenario``, ``dethrone.harness.core.schedule_text``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, SECOND, US, Ns
from dethrone.harness.core.scenario import Scenario
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step, StepBegin, When

_UNITS = ((SECOND, "s"), (MS, "ms"), (US, "us"), (1, "ns"))


def scenario_toml(scenario: Scenario, *, comment: str = "") -> str:
    """The whole file. ``comment``: lines before everything else."""
    out = [f"# {line}" for line in comment.splitlines()]
    out += [f"source = {_word(scenario.source)}", f"title = {_word(scenario.title)}", f"text = {_word(scenario.text)}"]
    plain = msgspec.to_builtins(scenario)
    defaults = {
        field.name: field.default
        for field in msgspec.structs.fields(Scenario)
        if field.default is not msgspec.NODEFAULT
    }
    for name in ("system", "profile", "variant", "nodes", "workload", "rate_per_s", "processes"):
        value = plain[name]
        if value is not None and (name == "nodes" or value != defaults.get(name)):
            out.append(f"{name} = {_word(value)}")
    out.append(f"time_limit = {_time(scenario.time_limit_ns)}")
    if scenario.settings:
        out.append(f"settings = {_word(dict(scenario.settings))}")
    schedule = scenario.schedule
    if schedule.health_bound_ns is not None:
        out.append(f"health_bound = {_time(schedule.health_bound_ns)}")
    if schedule.obligations:
        out.append(f"obligations = {_word(list(schedule.obligations))}")
    if not schedule.steps:
        out.append("step = []")
    expected = scenario.expected
    out += ["", "[expected]", f"verdict = {_word(expected.verdict)}"]
    for name, checkers in (("fails", expected.fails), ("may_fail", expected.may_fail), ("holds", expected.holds)):
        if checkers:
            out.append(f"{name} = {_word(list(checkers))}")
    if expected.untouched:
        out.append("untouched = true")
    return "\n".join([*out, *steps_toml(schedule)]) + "\n"


def steps_toml(schedule: Schedule) -> list[str]:
    """The lines of the steps."""
    out: list[str] = []
    for step in schedule.steps:
        out += _step(step)
    return out


def _step(step: Step) -> list[str]:
    out = ["", "[[step]]", f"gap = {_time(step.gap_ns)}"]
    if not isinstance(step.when, StepBegin):
        out.append(f"when = {_when(step.when)}")
    for fault in step.faults:
        out += _fault(fault)
    return out


def _fault(fault: PlannedFault) -> list[str]:
    out = ["[[step.fault]]"]
    if fault.name:
        out.append(f"name = {_word(fault.name)}")
    out += [f"kind = {_word(fault.kind)}", f"victims = {_word(fault.victims)}"]
    if fault.params:
        out.append(f"params = {_word({_key(k, v): _param(k, v) for k, v in fault.params.items()})}")
    if fault.delay_ns:
        out.append(f"delay = {_time(fault.delay_ns)}")
    out.append(f"hold = {_time(fault.hold_ns)}")
    if not isinstance(fault.when, StepBegin):
        out.append(f"when = {_when(fault.when)}")
    if fault.until is not None:
        out.append(f"until = {_when(fault.until)}")
    return out


def _when(when: When) -> str:
    if isinstance(when, AfterFault):
        return f"{{ after = {_word(when.fault)} }}"
    if not isinstance(when, OnEvent):
        raise TypeError("the start of a step cannot be written")
    parts = [f"event = {_word(when.event)}"]
    if when.by != OnEvent.__struct_defaults__[1]:
        parts.append(f"by = {_word(when.by)}")
    if when.where:
        parts.append(f"where = {_word(dict(when.where))}")
    if when.count != 1:
        parts.append(f"count = {when.count}")
    if when.after:
        parts.append(f"after = {_word(when.after)}")
    return "{ " + ", ".join([*parts, f"within = {_time(when.within_ns)}"]) + " }"


def _is_time(key: str, value: Any) -> bool:
    return key.endswith("_ns") and isinstance(value, int) and value >= 0


def _key(key: str, value: Any) -> str:
    return key.removesuffix("_ns") if _is_time(key, value) else key


def _param(key: str, value: Any) -> Any:
    return _plain_time(value) if _is_time(key, value) else value


def _time(ns: Ns) -> str:
    return _word(_plain_time(ns))


def _plain_time(ns: Ns) -> str:
    """The largest unit that divides it."""
    if ns == 0:
        return "0s"
    size, unit = next((size, unit) for size, unit in _UNITS if ns % size == 0)
    return f"{ns // size}{unit}"


def _word(value: Any) -> str:
    """A value of TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        lines = value.replace("\n", "")
        if lines != value and lines.isprintable() and not {"\\", '"'} & set(lines):
            return f'"""\n{value}"""'
        return _basic(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_word(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_name(key)} = {_word(item)}" for key, item in value.items()) + " }"
    return str(value)


def _name(key: str) -> str:
    bare = key.replace("-", "a").replace("_", "a")
    return key if bare.isascii() and bare.isalnum() else _basic(key)


def _basic(value: str) -> str:
    """A string of TOML within one line: JSON's, which leaves one control character in it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
