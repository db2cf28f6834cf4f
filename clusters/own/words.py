"""Words in braces, ``{address}``, in commands, files and requests: what they stand for.

Guarantees: only a lower-case name in braces is a word, so JSON's own braces stay as they are; an undefined word is a
ConfigError that names the nearest one. Pure. Out of scope: which words hold where: the caller defines them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.registry import unknown_name

PLACES = ("run_dir", "data_dir", "log_dir")
"""Directories of a node on its host."""
MEMBER_WORDS = ("name", "number", "address")
"""Words of every member, besides its ports."""
NODE_WORDS = (
    *(*MEMBER_WORDS, "members", "others", "voters", "observers", "role", "first", "nodes"),
    *("incarnation", "seed", "python", *PLACES),
)
"""Words of every node, besides its ports and the knobs."""
_WORD = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with every known word replaced, once; others stay.

    >>> fill('--id {name} {"a": {b}}', {"name": "n1"})
    '--id n1 {"a": {b}}'
    """
    return fill_with(text, values, str)


def fill_with(text: str, values: Mapping[str, object], show: Callable[[object], str]) -> str:
    """The same with ``show`` making text of each value."""
    return _WORD.sub(lambda match: show(values[match[1]]) if match[1] in values else match[0], text)


def words_in(text: str) -> tuple[str, ...]:
    """The words of a text, in order."""
    return tuple(_WORD.findall(text))


def check_words(texts: Iterable[str], known: Collection[str], *, where: str) -> None:
    """Raise ConfigError for a word that stands for nothing here."""
    for text in texts:
        for word in words_in(text):
            if word not in known:
                error = unknown_name("word", f"{{{word}}}", [f"{{{one}}}" for one in known])
                raise ConfigError(error.what, where=where, cause=f"in {text!r:.120}", next_step=error.next_step)
