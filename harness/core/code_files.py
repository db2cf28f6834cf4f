"""What a Python file defines, by ``path/to/file.py:Name``: planted bugs, faults, workloads, checkers, strategies.

Guarantees: a file is executed once; anything but a regular file is refused without waiting for it; a file for an
earlier version finds its imports; a file that cannot be imported is named. Out of scope: which files may be executed
(``dethrone.harness.engine.run.file_trust``), and what their objects are.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from pathlib import Path
from typing import Any

from dethrone.harness.core.errors import BrokenVariant, ConfigError
from dethrone.harness.core.files import read_regular
from dethrone.harness.core.renamed import with_new_imports

SOURCE_MAX = 4 << 20
"""Longest file, in bytes."""


@functools.lru_cache(maxsize=64)
def object_in(path: str, name: str, *, kind: str) -> Any:
    """The object of that name in the file at this absolute path; ``kind``: what it is to be, for messages."""
    content = content_of(path, name, kind=kind)
    file = Path(path)
    spec = importlib.util.spec_from_file_location(f"dethrone_{kind}_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported", where=f"the {kind} {path}:{name}")
    module = importlib.util.module_from_spec(spec)
    try:
        # What was read, not what the loader would find when it opens the file again.
        code = with_new_imports(content, str(file))
        exec(compile(code, str(file), "exec", dont_inherit=True), vars(module))  # noqa: S102 - the user named it
    except Exception as error:
        raise BrokenVariant(
            f"the {kind}'s file cannot be imported: {type(error).__name__}: {error}", where=path
        ) from error
    if not hasattr(module, name):
        raise ConfigError(f"{path} defines no {name}", next_step=f"it defines {', '.join(_classes(module)) or 'none'}")
    return getattr(module, name)


def content_of(path: str, name: str, *, kind: str) -> bytes:
    """The source of that file. ConfigError: it is not there, or is nothing to read to its end."""
    try:
        return read_regular(Path(path), most=SOURCE_MAX)
    except FileNotFoundError:
        what = f"there is no file {path}"
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
    raise ConfigError(what, where=f"the {kind} {path}:{name}", next_step="name a Python file")


def _classes(module: Any) -> list[str]:
    return sorted(
        n for n, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
    )
