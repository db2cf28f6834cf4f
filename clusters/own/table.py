"""One table of a description: how its text becomes a struct.

Guarantees: pure; an unknown key or a value of the wrong form is a ConfigError that names the table and, for an unknown
key, the nearest one. Out of scope: what the keys mean together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

Words = str | tuple[str, ...]
"""A command: a line as a shell splits it, or its words."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file."""


T = TypeVar("T", bound=Table)


def read_table(kind: type[T], raw: Mapping[str, Any], *, where: str, besides: Collection[str] = ()) -> T:
    """The table as a struct of this kind. ``besides``: keys that are read elsewhere. ConfigError."""
    fields = [*besides, *(field.name for field in msgspec.structs.fields(kind))]
    for key in raw:
        if key not in fields:
            raise placed(unknown_name("key", key, fields), where)
    try:
        return msgspec.convert({key: value for key, value in raw.items() if key not in besides}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"a value has the wrong form: {error}", where=where, next_step="docs/own-system.md shows each key's form"
        ) from error


def placed(error: ConfigError, where: str) -> ConfigError:
    """The same error, of this place in the file."""
    return ConfigError(error.what, where=where, next_step=error.next_step)


def split(words: Words, *, where: str) -> tuple[str, ...]:
    """A command as its words. ConfigError: none, or quotes that do not end."""
    try:
        out = tuple(shlex.split(words)) if isinstance(words, str) else words
    except ValueError as error:
        raise ConfigError(f"the command cannot be split into words: {error}", where=where) from error
    if not out:
        raise ConfigError("the command is empty", where=where)
    return out


def duration(text: str, *, where: str) -> Ns:
    """A duration such as ``250ms``. ConfigError."""
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise ConfigError(error.what, where=where, cause=error.cause, next_step=error.next_step) from error


def check_regex(text: str, key: str, *, where: str) -> None:
    """Raise ConfigError for a ``key`` that is no regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"{key} is no regular expression: {error}", where=where) from error
