"""Where a module of an earlier version is now: the one table from old dotted names to new ones.

Guarantees: a name that is still right is answered as it is, and so is one that is not ours; the longest entry of the
table decides. Out of scope: names within modules, and importing (``of_import`` only says what to write instead).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

PACKAGES = ("harness", "nemesis", "checkers", "workloads", "clusters")
"""What was installed at top level up to 0.1.0."""
MODULES: Mapping[str, str] = {}
"""Module or package of 0.1.0 → what it is called now, both from one of ``PACKAGES`` on."""

_ABOVE = __name__.removesuffix("harness.core.renamed")


def renamed(dotted: str) -> str:
    """The present name of a module, or of ``module:NAME``, that an earlier version stored or imported."""
    path, colon, attribute = dotted.partition(":")
    parts = path.removeprefix(_ABOVE).split(".")
    if parts[0] not in PACKAGES:
        return dotted
    for length in range(len(parts), 0, -1):
        found = MODULES.get(".".join(parts[:length]))
        if found is not None:
            parts = [found, *parts[length:]]
            break
    return f"{_ABOVE}{'.'.join(parts)}{colon}{attribute}"


def of_import(error: ImportError) -> str:
    """What to import instead of a module that is not there under its old name; "" if it is none of ours."""
    name = error.name or ""
    now = renamed(name)
    return "" if now == name else f"{name} is {now} since dethrone 0.2.0: CHANGELOG.md lists the new names"


def with_new_imports(source: bytes, where: str) -> ast.Module:
    """A file's code, with imports of modules by their old names turned into imports of what they are now."""
    tree = ast.parse(source, where)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            node.module = renamed(node.module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                alias.name = renamed(alias.name) if alias.asname else alias.name
    return tree
