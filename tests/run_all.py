"""All tests in three parts: first those that only compute, on all cores; then those with processes, hosts, Spark or
real systems, one after another, for they watch clocks and would disturb each other; and beside these, for they mostly
wait, the ones that simulate for many minutes, with what the others leave of the cores.

    python tests/run_all.py [arguments of pytest]

Exits as pytest does, with the worst of all; a part of which no test was asked for is no failure as long as another ran
some.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn

APART = "docker or spark or system or namespaces or processes"
"""Markers of tests that are run one after another."""

BESIDE = "beside"
"""Marker of tests that are run at the same time as those, in the background."""

INTERRUPTED = 2
NOTHING_RAN = 5
LEAST = 19
"""The niceness of what takes no core from anybody."""


def main(words: Sequence[str]) -> int:
    """Run all parts, whatever came of the ones before."""
    if "-m" in words:
        return _pytest(words)  # who chooses markers gets these, one after another
    workers = str(os.cpu_count() or 1)
    codes = [_pytest(["-m", f"not ({APART} or {BESIDE})", "-n", workers, "--dist", "loadfile", *words])]
    if codes[-1] != INTERRUPTED:
        with _background(["-m", BESIDE, "-p", "no:cacheprovider", *words]) as (beside, said):
            codes.append(_pytest(["-m", APART, *words]))
            if codes[-1] != INTERRUPTED:
                print("the tests that ran beside these:", flush=True)
                codes.append(_code(beside.wait()))
                said.seek(0)
                print(said.read(), flush=True)
    return max((code for code in codes if code != NOTHING_RAN), default=NOTHING_RAN)


def _pytest(words: Sequence[str]) -> int:
    process = subprocess.Popen([sys.executable, "-m", "pytest", *words])
    try:
        return _code(process.wait())
    except SystemExit:
        process.send_signal(signal.SIGINT)  # a terminal tells it by itself, who ends this process alone does not
        raise
    finally:
        process.wait()  # it ends what its tests started


def _code(returned: int) -> int:
    """As shells count: whoever was killed by a signal did not do well."""
    return 128 - returned if returned < 0 else returned


@contextlib.contextmanager
def _background(words: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[str]]]:
    """A pytest in a session of its own, and the file of what it says. Ended with this block if it is not over yet."""
    command = [sys.executable, "-m", "pytest", *words]
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            preexec_fn=_step_back,  # noqa: PLW1509 - there are no threads here
        )
        try:
            yield process, said
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # with its workers
                process.wait()


def _step_back() -> None:
    """Take a core only where nobody else wants it: by niceness, also among sessions where Linux groups by these."""
    os.nice(LEAST)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(LEAST))


def _ended(signum: int, _frame: object) -> NoReturn:
    """Leave as an error does: what runs is ended on the way."""
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _ended)
    sys.exit(main(sys.argv[1:]))
