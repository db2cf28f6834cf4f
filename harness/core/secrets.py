"""Knobs and environment variables whose values no report, page or corpus may show.

Guarantees: decided by the name alone, so that it holds for systems unknown here, or by the system that marks
it (``marked``); a hidden value is ``***``, however long it was. A run directory holds the values in one file only,
``secrets.json``, which only its owner can read and which a replay needs. Out of scope: logs of nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

HIDDEN = "***"
_SECRET = re.compile(
    r"(?:^|[^a-z])(pass(?:word|wd|phrase)?|secrets?|tokens?|credentials?|api[_.-]?keys?|private[_.-]?keys?|auth)(?:$|[^a-z])",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether the name says that its value is one: ``password``, ``sasl.password``, ``ROOT_PASSWORD``, ``apiKey``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _SECRET.search(words) is not None


def shown(name: str, value: str, marked: Collection[str] = ()) -> str:
    """The value, or ``***``."""
    return HIDDEN if name in marked or is_secret(name) else value


def hidden(words: Mapping[str, str], marked: Collection[str] = ()) -> dict[str, str]:
    """The same words with every secret one hidden."""
    return {name: shown(name, value, marked) for name, value in words.items()}


def only_secret(words: Mapping[str, str], marked: Collection[str] = ()) -> dict[str, str]:
    """Those words that are hidden, with their values."""
    return {name: value for name, value in words.items() if name in marked or is_secret(name)}


def without_secrets(value: Any) -> Any:
    """The same plain data (as decoded from JSON) with every value below a secret's name hidden."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if is_secret(str(name)) and isinstance(one, str) else without_secrets(one)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    return value
