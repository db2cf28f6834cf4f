"""A user's own planted bugs: one class that overrides a rule, in a file or behind an entry point.

``path/to/file.py:Class`` names a class in a file; any other name is looked up among the entry points of the group
``dethrone.variants``. The class derives from the ``Rules`` of the protocol that it changes. Guarantees: a class that is
not one of this protocol's rules is refused before anything starts; a file is executed once, and anything but a regular
file is refused without waiting for it; a file for an earlier version finds its imports. Out of scope: the project's own
mistakes (on each protocol's rules), and which files may be executed (``dethrone.harness.engine.run.file_trust``).
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dethrone.harness.core import registry
from dethrone.harness.core.errors import BrokenVariant, ConfigError, HarnessError
from dethrone.harness.core.files import read_regular
from dethrone.harness.core.renamed import with_new_imports

R = TypeVar("R")
GROUP = "dethrone.variants"
SOURCE_MAX = 4 << 20
"""Longest file of a variant."""


def plugged(name: str, base: type[R]) -> type[R] | None:
    """The class of that name, if it is outside the project's lists; None: there is none. Raises ConfigError."""
    found = registry.CODE.fullmatch(name)
    if found is not None:
        chosen = _from_file(str(Path(found["path"]).absolute()), found["name"])
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
        return _content(found["path"], found["name"]), found["name"]
    if name in registry.names(GROUP):
        raise ConfigError(
            f"the variant {name!r} lies in a package that hosts do not have",
            next_step="run it with --on sim, or give it as a file: --variant path/to/file.py:Class",
        )
    return None


@functools.lru_cache(maxsize=32)
def _from_file(path: str, name: str) -> Any:
    content = _content(path, name)
    file = Path(path)
    spec = importlib.util.spec_from_file_location(f"dethrone_variant_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported", where=f"the variant {path}:{name}")
    module = importlib.util.module_from_spec(spec)
    try:
        # What was read, not what the loader would find when it opens the file again.
        code = with_new_imports(content, str(file))
        exec(compile(code, str(file), "exec", dont_inherit=True), vars(module))  # noqa: S102 - the user named it
    except Exception as error:
        raise BrokenVariant(
            f"the variant's file cannot be imported: {type(error).__name__}: {error}", where=path
        ) from error
    if not hasattr(module, name):
        raise ConfigError(f"{path} defines no {name}", next_step=f"it defines {', '.join(_classes(module)) or 'none'}")
    return getattr(module, name)


def _content(path: str, name: str) -> bytes:
    """The source of a variant's file. ConfigError: it is not there, or is nothing to read to its end."""
    try:
        return read_regular(Path(path), most=SOURCE_MAX)
    except FileNotFoundError:
        what = f"there is no file {path}"
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
    raise ConfigError(what, where=f"the variant {path}:{name}", next_step="name a Python file")


def _classes(module: Any) -> list[str]:
    return sorted(
        n for n, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
    )
