"""Names of faults, workloads, strategies and checkers that are files: taken into this process before anything is drawn.

Guarantees: a schedule, a plan and a history hold the name that an object has, never a path, so that only options can
name what is executed, and ``file_trust`` has to look at nothing else. Out of scope: whether the file may be executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.engine.run.options import RunOptions


def settled(options: RunOptions) -> RunOptions:
    """The same options with the names that these objects have. Executes the files; ConfigError."""
    if not code_in(options):
        return options
    return msgspec.structs.replace(
        options,
        faults=None if options.faults is None else tuple(_name(registry.FAULTS, one) for one in options.faults),
        workload=None if options.workload is None else _name(registry.WORKLOADS, options.workload),
        strategy=_name(registry.STRATEGIES, options.strategy),
    )


def code_in(options: RunOptions) -> list[tuple[str, str]]:
    """What it is, and the path: of each name that is a file."""
    rows = [("fault", one) for one in options.faults or ()]
    rows += [("workload", options.workload or ""), ("strategy", options.strategy)]
    rows += [("checker", one) for one in options.checkers]
    return [(kind, one) for kind, one in rows if registry.is_code(one)]


def _name(group: str, name: str) -> str:
    return registry.plug(group, name) if registry.is_code(name) else name


def chosen_checkers(names: Sequence[str]) -> Mapping[str, Checker]:
    """The checkers that judge: all that are installed and those of files; if others are named, only the named ones."""
    filed = [_name(registry.CHECKERS, name) for name in names if registry.is_code(name)]
    wanted = [name for name in names if not registry.is_code(name)] or list(registry.names(registry.CHECKERS))
    return {name: registry.load(registry.CHECKERS, name) for name in dict.fromkeys((*wanted, *filed))}


def limited(names: Sequence[str]) -> bool:
    """Whether not all installed checkers judge."""
    return any(not registry.is_code(name) for name in names)
