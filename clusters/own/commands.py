"""Client operations by a command: its words are filled in, it runs at the client, and its output says how it ended.

    put = { command = "ctl --at {address}:{http} put {key} {value}", ok_pattern = "^OK", fail_pattern = "not leader" }

Guarantees: no shell; a command that outlives the operation's time is killed with its group; output beyond
``OUTPUT_MAX`` is not looked at; an output that the description does not name leaves a changing operation ``info``, as
silence does. Out of scope: HTTP (``client``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from dethrone.clusters.own.spec import OpTable
from dethrone.clusters.own.table import split
from dethrone.clusters.own.words import fill
from dethrone.clusters.systems.operations import unanswered, unsent
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.interfaces import OpOutcome

OUTPUT_MAX = 64 << 10
SHOWN = 120


def carry_out(f: str, op: OpTable, words: Mapping[str, str], *, node: str, timeout_ns: Ns) -> OpOutcome:
    """Run the command of this operation with these words, against ``node``."""
    argv = [fill(word, words) for word in split(op.command or "", where="[ops]")]
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except OSError as error:
        return unsent(f"{argv[0]} cannot be started: {error.strerror}")
    with child:
        try:
            output, _ = child.communicate(timeout=timeout_ns / SECOND)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
            return unanswered(f, "the command did not end in time", node=None)
    return understand(f, op, child.returncode, output[:OUTPUT_MAX].decode("utf-8", "replace"), node=node)


def understand(f: str, op: OpTable, code: int, output: str, *, node: str) -> OpOutcome:
    """How the operation ended, by what its command printed. Doubt is ``info``."""
    if _says(op.fail_pattern, output):
        return OpOutcome(status="fail", error=_shown(output), node=node)
    if f == "cas" and (_says(op.refused_pattern, output) or _says(op.absent_pattern, output)):
        return OpOutcome(status="ok", value=False, node=node)
    if f in {"get", "read"} and _says(op.absent_pattern, output):
        return OpOutcome(status="ok", value=[] if f == "read" else None, node=node)
    found = re.search(op.ok_pattern or "", output, re.MULTILINE)
    if found is None or code != 0:
        return unanswered(f, f"exit code {code}: {_shown(output)}", node=node)
    groups = found.groupdict()
    if f in {"put", "add", "cas", "transfer"}:
        return OpOutcome(status="ok", value=True if f == "cas" else None, node=node)
    if f == "append":
        place = {name: groups.get(name) or "" for name in ("index", "term")}
        told = all(word.isdecimal() for word in place.values())
        return OpOutcome(
            status="ok", value={name: int(word) for name, word in place.items()} if told else None, node=node
        )
    value = (groups.get("value") if "value" in groups else output) or ""
    return OpOutcome(status="ok", value=_several(value) if f == "read" else single(value.strip()), node=node)


def _says(pattern: str | None, output: str) -> bool:
    return pattern is not None and re.search(pattern, output, re.MULTILINE) is not None


def single(word: str) -> Any:
    """A number as such, anything else as the text that it is; without a JSON string's quotes."""
    try:
        value = json.loads(word)
    except ValueError:
        return word
    return value if type(value) in (int, str) else word


def _several(text: str) -> list[Any]:
    """A JSON list, or words with blanks or commas between them."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if isinstance(values, list) and all(type(one) in (int, str) for one in values):
        return values
    return [single(word) for word in re.split(r"[\s,]+", text) if word]


def _shown(output: str) -> str:
    return " ".join(output.split())[:SHOWN]
