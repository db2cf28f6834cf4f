"""The agent as the one file that runs on hosts, made of the modules of ``dethrone.clusters.agent.host``.

    python -m dethrone.clusters.agent.bundle > agent.py

Guarantees: the same modules give the same bytes; the file is plain Python: one set of imports, then the modules in
``ORDER``; a name that two modules define is refused, and so is an import from a module that does not come earlier. Out
of scope: what the file does, and how it reaches a host.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

PACKAGE = "dethrone.clusters.agent.host"
NAME = "agent.py"
"""The file's name on every host; command lines of agents are recognized by it."""
ORDER = (
    *(
        "common",
        "requests",
        "placing",
        "confinement",
        "processes",
        "commands",
        "damage",
        "unsynced",
        "file_nodes",
        "file_tree",
        "durable_names",
        "volume",
        "fuse_server",
        "mounts",
        "groups",
        "cpu_limit",
        "memory_limit",
        "disk_helper",
        "disks",
        "addresses",
        "firewall",
        "nfqueue",
        "shaping",
        "shaper",
        "qualities",
        "messages",
        "bursts",
        "probes",
        "knocks",
        "clocks",
        "news",
        "tails",
    ),
    *("noise", "gauge", "threads", "asked", "patterns", "frames", "pages", "sightings"),
    *("vdso", "tracing", "waits", "hand", "vdso_clock", "told_clock"),
    *("node", "adopted", "node_clocks", "convergence"),
    *("connections", "healing", "verbs", "lost_rules", "server", "main"),
)
"""All modules; each imports only earlier ones."""

_FUTURE = "from __future__ import annotations"
_WIDTH = 120
_PARSING = threading.Lock()
"""Python 3.11 cannot parse in two threads at once (SystemError: recursion depth), and hosts come up at once."""


@functools.cache
def agent() -> bytes:
    """The file, built from the modules that are installed here."""
    return bundled_package(PACKAGE, ORDER)


def bundled_package(package: str, order: Iterable[str]) -> bytes:
    """The file that the modules of another package make, in this order."""
    files = resources.files(package)
    texts = {name: files.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in ("__init__", *order)}
    with _PARSING:
        return bundled(texts, package).encode()


def bundled(texts: Mapping[str, str], package: str = PACKAGE) -> str:
    """One file from modules (name → text) in this order; its docstring is that of ``__init__``.

    Raises ValueError if they cannot be one file.
    """
    bound: dict[str, str] = {}
    parts = []
    for module, text in texts.items():
        tree = ast.parse(text)
        gone: set[int] = set()
        for number, node in enumerate(tree.body):
            for name, by in _bindings(node, module, package):
                if by == package and name not in bound:
                    raise ValueError(f"{module} imports {name}, which no earlier module defines")
                if by != package and bound.setdefault(name, by) != by:
                    raise ValueError(f"{name} means two things: {bound[name]} and {by}")
            if number == 0 or isinstance(node, ast.Import | ast.ImportFrom):
                gone.update(range(node.lineno, (node.end_lineno or 0) + 1))
        body = "\n".join(line for number, line in enumerate(text.splitlines(), start=1) if number not in gone)
        said = ast.get_docstring(tree) or ""
        if module == "__init__":
            parts.append(f'"""{said}\n"""\n\n{_FUTURE}\n\n')
        else:
            heading = f"# --- {module} ".ljust(_WIDTH, "-")
            parts.append("\n".join([heading, *(f"# {line}".rstrip() for line in said.splitlines()), "", body.strip()]))
    parts[0] += "\n".join(sorted({by for by in bound.values() if " " in by}, key=lambda line: (line[0] == "f", line)))
    return "\n\n\n".join(parts) + "\n"


def _bindings(node: ast.stmt, module: str, package: str) -> Iterator[tuple[str, str]]:
    """The names that a statement binds, each with its source: the module, the package, or the line that imports."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name, module
    elif not isinstance(node, ast.Import | ast.ImportFrom):
        for found in ast.walk(node):
            if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store):
                yield found.id, module
    elif ast.unparse(node) != _FUTURE:
        source = f"from {'.' * node.level}{node.module} " if isinstance(node, ast.ImportFrom) else ""
        ours = source.startswith(f"from {package}.")
        for alias in node.names:
            strange = source.startswith(("from .", "from dethrone")) or alias.name.startswith("dethrone")
            if alias.asname or "." in alias.name or (strange and not ours):
                raise ValueError(f"{module} has an import that one file cannot have: {ast.unparse(node)}")
            yield alias.name, package if ours else f"{source}import {alias.name}"


def put(directory: Path) -> Path:
    """Write the file into a directory, whole or not at all, unless it is already there; returns its path."""
    path = directory / NAME
    with contextlib.suppress(OSError):
        if path.read_bytes() == agent():
            return path
    directory.mkdir(parents=True, exist_ok=True)
    staged = directory / f".{NAME}-{os.getpid()}-{threading.get_ident()}"
    staged.write_bytes(agent())
    staged.replace(path)
    return path


if __name__ == "__main__":
    sys.stdout.buffer.write(agent())
