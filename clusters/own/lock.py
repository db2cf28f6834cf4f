"""The file next to a description that pins what it is built from: ``FILE.lock`` of ``FILE.toml``, in blocks.

A block begins with ``# What `KIND` of the description needs`` and, on the next line, what it is for; its further lines
are the kind's own. Guarantees: a block is replaced whole, and others stay; a file that is no such file is never
overwritten. Out of scope: what pins mean (``python_packages``, ``npm_packages``, ``go_programs``, ``maven_jars``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dethrone.harness.core.errors import ConfigError

FOR = "# for: "
_BEGIN = re.compile(r"^(?=# What `\w+` of the description needs)", re.MULTILINE)
_KIND = re.compile(r"# What `(\w+)`")


class Block(msgspec.Struct, frozen=True):
    """What one thing is pinned to. ``text``: the whole block, its first two lines included."""

    kind: str
    wanted: str
    text: str

    @property
    def pins(self) -> str:
        """The lines after the first two."""
        return "".join(line for line in self.text.splitlines(keepends=True) if not line.startswith("#"))


def block(kind: str, wanted: str, note: str, pins: str) -> Block:
    """A new one. ``note``: what the pins are, after the first words of its first line."""
    first = f"# What `{kind}` of the description needs, {note}. Delete it to resolve again."
    return Block(kind, wanted, f"{first}\n{FOR}{wanted}\n{pins.rstrip()}\n")


def lock_file(description: str) -> Path:
    """Where the pins of this description are."""
    return Path(description).with_suffix(".lock")


def blocks(description: str) -> tuple[Block, ...]:
    """All that is pinned. ConfigError: the file is not ours."""
    path = lock_file(description)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return ()
    before, *parts = _BEGIN.split(text)
    out = [_read(part) for part in parts]
    if before.strip() or not out or any(one is None for one in out):
        raise ConfigError(f"{path.name} is not ours", where=str(path), next_step="rename it, or the description")
    return tuple(one for one in out if one is not None)


def found(kind: str, wanted: str, description: str) -> Block | None:
    """The block that pins this. ConfigError."""
    return next((one for one in blocks(description) if (one.kind, one.wanted) == (kind, wanted)), None)


def store(new: Block, description: str, *, keep: Sequence[str] = ()) -> None:
    """Add a block, and drop those of its kind that are for nothing in ``keep``. ConfigError."""
    path = lock_file(description)
    kept = [one for one in blocks(description) if one.kind != new.kind or one.wanted in {*keep} - {new.wanted}]
    try:
        path.write_text("".join(one.text for one in [*kept, new]), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the pins of `{new.kind}` cannot be written: {error.strerror}",
            where=str(path),
            next_step="make the folder of the description writable, or copy the description elsewhere",
        ) from error


def _read(text: str) -> Block | None:
    lines = text.splitlines()
    kind = _KIND.match(text)
    if kind is None or len(lines) < 2 or not lines[1].startswith(FOR):
        return None
    return Block(kind[1], lines[1].removeprefix(FOR), text)
