"""Copies logs, traces and journals of the nodes from the hosts into the run directory.

Guarantees: a host that does not answer costs its files and one line of trouble, nothing else. The copied size is
bounded: of a larger file only the end is copied, and ``cut.txt`` next to it says what is missing; the last free space
of the disk stays free. In a copied log a line of ours marks where each incarnation of the node begins. The history is
out of scope.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.interfaces import Host, NodeSpec, System

TAIL_BYTES = 4000
LIST_BOUND_NS = 5 * SECOND
FREE_MIN = 256 << 20
"""Bytes that a run leaves free on the disk of its directory."""
FILE_BYTES_MAX = 64 << 20
NODE_BYTES_MAX = 160 << 20
FILES_MAX = 100
CUT = "cut.txt"
STARTS = ".starts"
"""The ending of the file in which an agent notes where in the log each incarnation begins: ``NUMBER OFFSET`` lines."""
OFFSET_DIGITS_MAX = 18


class Collected(msgspec.Struct, frozen=True):
    """``trouble``: hosts whose files are lost. ``cut``: files that were copied in part, or not at all."""

    trouble: list[str]
    cut: list[str]


def free_bytes(path: Path) -> int:
    """Free space on the disk of ``path``; -1 where that cannot be known."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return -1


def too_full(path: Path, *, more: int = 0) -> bool:
    """Whether writing ``more`` bytes there would take the last free space."""
    free = free_bytes(path)
    return free >= 0 and free - more < FREE_MIN


def collect(system: System, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec], run_dir: Path) -> Collected:
    """Copy every file of the log directory and the trace of each host, up to the limits."""
    one_writes = threading.Lock()  # else each thread sees the space that the others are about to take
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(
            pool.map(lambda name: _collect_one(system, hosts[name], nodes[name], run_dir, one_writes), hosts)
        )
    return Collected(
        trouble=[answer for answer, _ in answers if answer], cut=[line for _, lines in answers for line in lines]
    )


def _collect_one(
    system: System, host: Host, node: NodeSpec, run_dir: Path, one_writes: threading.Lock
) -> tuple[str, list[str]]:
    target = run_dir / store.NODES / node.name
    cut: list[str] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        paths = _paths(system, host, node)
        left = NODE_BYTES_MAX
        for path in paths[:FILES_MAX]:
            most = min(left, FILE_BYTES_MAX)
            if most <= 0:
                cut.append(f"{node.name}: {path}: not copied, {NODE_BYTES_MAX >> 20} MiB of this node were")
                continue
            with one_writes:
                if too_full(run_dir, more=most):
                    cut.append(f"{node.name}: {path}: not copied, the disk has too little free space")
                    continue
                try:
                    content = host.read_file(path, most=most)
                except HarnessError:
                    continue  # a node that never started has no log; its absence is seen in the directory
                (target / Path(path).name).write_bytes(content)
            left -= len(content)
            if len(content) == most:
                cut.append(f"{node.name}: {path}: only the last {most >> 20} MiB were copied")
        for starts in target.glob(f"*{STARTS}"):
            _mark_starts(target / starts.name.removesuffix(STARTS), starts, whole=not cut)
        if len(paths) > FILES_MAX:
            cut.append(f"{node.name}: {len(paths) - FILES_MAX} of {len(paths)} files were not copied")
        if cut:
            (target / CUT).write_text("\n".join(cut) + "\n")
    except (HarnessError, OSError) as error:
        return f"the files of {node.name} could not be collected: {error}", cut
    return "", cut


def _mark_starts(log: Path, starts: Path, *, whole: bool) -> None:
    """Mark the incarnations in a copied log. One of which only the end was copied has no known offsets."""
    if not whole or not log.is_file() or not starts.is_file():
        return
    content, out, done = log.read_bytes(), [], 0
    for line in starts.read_bytes().splitlines():
        number, _, offset = line.partition(b" ")
        at = int(offset) if offset.isdigit() and len(offset) <= OFFSET_DIGITS_MAX else -1
        if number.isdigit() and done <= at <= len(content):
            broken = b"" if at == 0 or content[at - 1 : at] == b"\n" else b"\n"
            out += [content[done:at], broken, b"=== incarnation " + number + b" starts ===\n"]
            done = at
    log.write_bytes(b"".join([*out, content[done:]]))


def _paths(system: System, host: Host, node: NodeSpec) -> list[str]:
    """The files to copy: the node's log and its trace first, then regular files of the log directory by name."""
    first = [f"{node.log_dir}/node.log"]
    trace = system.trace_path(node)
    if trace:
        first.append(trace)
    code, listing, _ = host.run(["find", node.log_dir, "-type", "f"], timeout_ns=LIST_BOUND_NS)
    rest = sorted(set(listing.decode("utf-8", "surrogateescape").split("\n")) - {""}) if code == 0 else []
    return list(dict.fromkeys([*first, *rest]))


def log_tail(run_dir: Path, node: str) -> str:
    """The last lines of a node's log, for an error message; empty if there is none."""
    path = run_dir / store.NODES / node / "node.log"
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
