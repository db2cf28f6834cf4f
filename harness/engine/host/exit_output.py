"""What a node that ended by itself printed, as doctor shows it: the lines that name the cause, and what to do next.

Guarantees: pure. Out of scope: reading the output.
"""

from __future__ import annotations

import re

SHORT_LINES = 12
"""Output that is no longer is shown whole."""
FIRST, TELLING, LAST = 2, 6, 3
WIDEST = 240
_TELLING = re.compile(
    r"error|denied|not permitted|no such file|cannot|can't|unable|fail|fatal|panic|terminate called|what\(\)"
    r"|exception|in use|refused|unknown option",
    re.IGNORECASE,
)
_NOT_ALLOWED = re.compile(r"permission denied|operation not permitted|eacces|eperm", re.IGNORECASE)


def excerpt(output: str) -> str:
    """The first lines, the first of those that mention trouble, and the last: some programs name the cause at the
    beginning, and some at the end."""
    lines = [line[:WIDEST] for line in output.strip().splitlines()]
    if len(lines) <= SHORT_LINES:
        return "\n".join(lines) or "(nothing)"
    telling = [number for number, line in enumerate(lines) if _TELLING.search(line)][:TELLING]
    shown = sorted({*range(FIRST), *telling, *range(len(lines) - LAST, len(lines))})
    out: list[str] = []
    for number in shown:
        if out and number - 1 not in shown:
            out.append("…")
        out.append(lines[number])
    return "\n".join(out)


def advice(output: str) -> str:
    """What to do about a node that ended with this output."""
    if _NOT_ALLOWED.search(output):
        return (
            "nodes run as a user of their own, who may write in {run_dir}, {data_dir} and {log_dir} only: have the "
            'program use them, or write user = "root" in [node]'
        )
    return "fix what its output reports"
