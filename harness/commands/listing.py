"""What is installed: systems, faults, checkers … as tables of words, plug-ins of others included.

Guarantees: a plug-in that cannot be loaded is a row that says why, never absent and never the end of the list.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from dethrone.harness.commands import system_row
from dethrone.harness.core import registry
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.interfaces import No
from dethrone.harness.engine.host import fault_support
from dethrone.harness.engine.host.fault_support import Support
from dethrone.harness.report.scenario_outcome import expectation

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def _rows(group: str, columns: int, describe: Callable[[str, Any], Sequence[Sequence[str]]]) -> list[tuple[str, ...]]:
    """A row (or several) a plug-in: its name, ``columns`` of words, its origin."""
    out: list[tuple[str, ...]] = []
    for name, point in registry.names(group).items():
        try:
            described = describe(name, registry.load(group, name))
        except (HarnessError, AttributeError) as error:
            first = str(error).splitlines()[0]
            described = [(name, *("–" for _ in range(columns - 1)), f"cannot be used: {first}")]
        out += [(*row, registry.origin(point)) for row in described]
    return out


def checked(system: str | None) -> None:
    """Raises ConfigError where no system has this name."""
    if system is not None and system not in registry.names(registry.SYSTEMS):
        raise registry.unknown_name("system", system, registry.names(registry.SYSTEMS))


def systems(system: str | None = None) -> Table:
    """Everything that is known of each without starting it (``system_row``); of one system or of all."""
    checked(system)
    rows = _rows(registry.SYSTEMS, len(system_row.HEADERS), lambda name, found: [system_row.of(name, found)])
    return (*system_row.HEADERS, "from"), [row for row in rows if system in (None, row[0])]


def variants(system: str | None = None) -> Table:
    """Planted bugs, a row each; of one system or of all."""
    checked(system)

    def describe(name: str, found: Any) -> list[tuple[str, ...]]:
        return [(name, variant, text) for variant, text in found.variants().items()]

    rows = _rows(registry.SYSTEMS, 2, describe)
    return ("system", "variant", "what it does wrong", "from"), [row for row in rows if system in (None, row[0])]


def faults(_: str | None = None) -> Table:
    """Kind, what it does, what hosts must be able to do, and of each backend whether they are, as far as is known."""

    def describe(name: str, fault: Any) -> list[tuple[str, ...]]:
        return [(name, fault.summary(), ", ".join(sorted(fault.needs())) or "nothing")]

    columns: dict[str, dict[str, str]] = {}
    for name in registry.names(registry.BACKENDS):
        with contextlib.suppress(HarnessError):  # `list backends` says why one cannot be used
            known = fault_support.known(registry.load(registry.BACKENDS, name))
            columns[name] = {row.fault: _cell(row) for row in known}
    rows = [
        (*said, *(cells[said[0]] for cells in columns.values()), origin)
        for *said, origin in _rows(registry.FAULTS, 2, describe)
    ]
    return ("fault", "what it does", "needs", *columns, "from"), rows


def _cell(row: Support) -> str:
    return row.state + (f" ({row.by})" if row.by else "") + (f": {row.why}" if row.why else "")


def faults_on(backend: str) -> Table:
    """Kind, what it does, whether it can happen on this backend here and now, by what, and why not."""
    rows: list[tuple[str, ...]] = [
        (row.fault, row.does, row.state, row.by, row.why, row.origin) for row in fault_support.probed(backend)
    ]
    return ("fault", "what it does", "here", "by", "why", "from"), rows


def checkers(_: str | None = None) -> Table:
    """Name, kind, event channels of which it needs one."""

    def describe(name: str, checker: Any) -> list[tuple[str, ...]]:
        return [(name, checker.kind, " or ".join(getattr(checker, "channels", ())) or "nothing", first_line(checker))]

    return ("checker", "kind", "needs", "what it proves", "from"), _rows(registry.CHECKERS, 3, describe)


def models(_: str | None = None) -> Table:
    """Name and operations of what histories of other tools are judged by."""

    def describe(name: str, model: Any) -> list[tuple[str, ...]]:
        return [(name, model.summary())]

    return ("model", "operations", "from"), _rows(registry.MODELS, 1, describe)


def workloads(_: str | None = None) -> Table:
    """Name, operations it needs, its default rate."""

    def describe(name: str, workload: Any) -> list[tuple[str, ...]]:
        needs = ", ".join(sorted(workload.needs())) or "none"
        return [(name, needs, f"{workload.processes(5)} clients, {workload.rate_per_s()} ops/s on 5 nodes")]

    return ("workload", "operations", "default", "from"), _rows(registry.WORKLOADS, 2, describe)


def backends(_: str | None = None) -> Table:
    """Name, and whether it can be used here now."""

    def describe(name: str, backend: Any) -> list[tuple[str, ...]]:
        found = backend.available()
        if isinstance(found, No):
            return [(name, "no", ": ".join(part for part in (found.why, found.what_to_do) if part))]
        return [(name, "yes", "")]

    return ("backend", "usable", "why not, and what to do", "from"), _rows(registry.BACKENDS, 2, describe)


def strategies(_: str | None = None) -> Table:
    """Name and one line."""

    def describe(name: str, strategy: Any) -> list[tuple[str, ...]]:
        return [(name, first_line(strategy))]

    return ("strategy", "how it draws", "from"), _rows(registry.STRATEGIES, 1, describe)


def triggers(_: str | None = None) -> Table:
    """Event, what it is, whom its selectors may name, channels of which one is needed."""

    def describe(name: str, condition: Any) -> list[tuple[str, ...]]:
        needs = " or ".join(sorted(condition.channels())) or "nothing"
        return [(name, condition.summary(), ", ".join(condition.roles()), needs)]

    return ("event", "what it is", "names", "needs", "from"), _rows(registry.TRIGGERS, 3, describe)


def scenarios(system: str | None = None) -> Table:
    """Name, system, nodes, what it shows, what must come of it; of one system or of all."""

    def describe(_: str, found: Any) -> list[tuple[str, ...]]:
        return [
            (one.name, one.system or "any", str(one.nodes), one.title, expectation(one.expected))
            for one in found.scenarios()
            if one.system is None or system in (None, one.system)
        ]

    return ("scenario", "system", "nodes", "what it shows", "expected", "from"), _rows(registry.SCENARIOS, 4, describe)


def claims(system: str | None = None) -> Table:
    """What the sources of the protocols claim, a row each, with the test of each and whether there is one."""

    def describe(name: str, found: Any) -> list[tuple[str, ...]]:
        del name
        return list(found.rows())

    rows = _rows(registry.CLAIMS, 8, describe)
    headers = ("claim", "kind", "system", "what it says", "level", "flip", "test", "status", "from")
    return headers, [row for row in rows if system in (None, row[2])]


def first_line(thing: Any) -> str:
    """The first paragraph of its module's docstring: one noun, one module."""
    module = sys.modules.get(type(thing).__module__)
    text = ((module.__doc__ if module else None) or type(thing).__doc__ or "").strip()
    return " ".join(text.split("\n\n")[0].split())


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Of the verdict matrix. ``said``: Y holds, C holds with a setting, X broken by design, – does not apply."""

    column: str
    invariant: str
    said: str
    shown_by: str


def matrix(system: str | None = None) -> Table:
    """The verdict matrix: what is said of each invariant, and the runs that show it. The project's tests run them."""
    cells = msgspec.json.decode((files(__package__) / "matrix.json").read_bytes(), type=list[Cell])
    rows = [msgspec.structs.astuple(cell) for cell in cells if system in (None, cell.column)]
    return ("column", "invariant", "said", "shown by"), rows


KINDS: dict[str, Callable[[str | None], Table]] = {
    "systems": systems,
    "faults": faults,
    "checkers": checkers,
    "models": models,
    "workloads": workloads,
    "backends": backends,
    "variants": variants,
    "strategies": strategies,
    "triggers": triggers,
    "scenarios": scenarios,
    "claims": claims,
    "matrix": matrix,
}
