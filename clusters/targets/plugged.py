"""A user's own planted bugs: one class that overrides a rule, in a file or behind an entry point.

``path/to/file.py:Class`` names a class in a file; any other name is looked up among the entry points of the group
``dethrone.variants``. The class derives from the ``Rules`` of the protocol that it changes. Guarantees: a class that is
not one of this protocol's rules is refused before anything starts. Out of scope: the project's own mistakes (on each
protocol's rules), reading the file (``dethrone.harness.core.code_files``), and which files may be executed
(``dethrone.harness.engine.run.file_trust``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dethrone.harness.core import registry
from dethrone.harness.core.code_files import content_of, object_in
from dethrone.harness.core.errors import BrokenVariant, ConfigError, HarnessError

R = TypeVar("R")
GROUP = "dethrone.variants"


def plugged(name: str, base: type[R]) -> type[R] | None:
    """The class of that name, if it is outside the project's lists; None: there is none. Raises ConfigError."""
    found = registry.CODE.fullmatch(name)
    if found is not None:
        chosen = object_in(str(Path(found["path"]).absolute()), found["name"], kind="variant")
    elif name in registry.names(GROUP):
        chosen = registry.load(GROUP, name)
    else:
        return None
    if not (inspect.isclass(chosen) and issubclass(chosen, base)):
        raise ConfigError(
            f"the variant {name!r} is no class of rules of this protocol",
            cause=f"it must derive from {base.__module__}.{base.__qualname__}",
            next_step="override one method of that class",
        )
    return chosen


def made(chosen: Callable[[Any], R], knobs: Any) -> R:
    """An object of that class under these knobs. BrokenVariant: its constructor raised."""
    try:
        return chosen(knobs)
    except HarnessError:
        raise
    except Exception as error:
        raise BrokenVariant(
            f"the variant cannot be made: {type(error).__name__}: {error}",
            where=getattr(chosen, "__qualname__", str(chosen)),
            next_step="call its constructor with the knobs of the protocol, and mend what raises",
        ) from error


def is_outside(name: str) -> bool:
    """Whether a variant is in a file or behind an entry point, not in a protocol's own list."""
    return registry.CODE.fullmatch(name) is not None or name in registry.names(GROUP)


def shipped_file(name: str | None) -> tuple[bytes, str] | None:
    """What a host needs to load this variant: the file's content and the class' name; None: nothing.

    Raises ConfigError for a variant behind an entry point, whose package hosts do not have.
    """
    if name is None:
        return None
    found = registry.CODE.fullmatch(name)
    if found is not None:
        return content_of(found["path"], found["name"], kind="variant"), found["name"]
    if name in registry.names(GROUP):
        raise ConfigError(
            f"the variant {name!r} lies in a package that hosts do not have",
            next_step="run it with --on sim, or give it as a file: --variant path/to/file.py:Class",
        )
    return None
