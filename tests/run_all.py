"""Run the tests of one level, in parts.

    python tests/run_all.py quick|test|all [arguments of pytest]

``quick`` runs ``make check`` and, at the same time, the tests that only compute and are not slow, on all cores and
with few examples of a property. ``test`` starts with these, while ``make`` prepares what the others need. Then it
runs those that measure times and rates, one after another; meanwhile those on Spark, and, with the processor time that
these and all later ones leave, those that compute slowly. Then come the other ones with processes and namespaces of
their own, two files at a time, and those on Docker and other whole runs, three files at a time, since they mostly wait;
the longest start first, so that none runs on alone at the end. Those that need a quiet machine come last. Of the slow
tests of each part it runs a tenth, drawn by the commit.
``all`` adds the tests marked ``nightly``, the other slow ones and all examples of properties, and runs those with
processes of their own and those on Docker one by one.
The exit code is the worst of all parts; a part without tests is no failure as long as another part ran some.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

QUIET = ("quiet",)
DOCKER = ("docker", "system", "whole_run")
SPARK = ("spark",)
MEASURING = ("measures",)
PROCESSES = ("namespaces", "processes")
KINDS = (*QUIET, *DOCKER, *SPARK, *MEASURING, *PROCESSES, "slow")
"""All markers that parts have: a test with several of them belongs to the part that has the first."""

NEEDS = {"quick": (), "test": ("images", "java", "tools"), "all": ("images-all", "java", "tools")}
"""The levels, and which targets of the Makefile prepare what the tests of each need that do not only compute."""
MAKE = ("make", "--no-print-directory")
SLOWEST = ("--durations=25", "--durations-min=1")
"""What publishes the durations of a part."""

LONGEST = (
    "tests/clusters/ssh/test_runs.py",
    "tests/live/test_runs.py",
    "tests/live/test_again.py",
    "tests/clusters/docker/test_backend.py",
    "tests/live/test_jvm_systems.py",
    "tests/telltale/test_telltale.py",
    "tests/package/test_installed.py",
    "tests/live/test_zookeeper.py",
    "tests/live/test_etcd.py",
    "tests/clusters/attach/test_attach.py",
    "tests/live/test_gallery.py",
)
"""Files of whole runs that take longer than half a minute, the longest first: the order in which they start."""

ONE_OF = 10
"""Of as many slow tests ``make test`` runs one, and all in files that the commit changed (``tests/drawn.py``)."""

INTERRUPTED = 2
NOTHING_RAN = 5
LEAST = 19
"""The niceness of a process that takes no core from any other."""


class Part(NamedTuple):
    """One pytest: the markers of which its tests have one, or none of ``KINDS``, and how it runs."""

    name: str
    some_of: tuple[str, ...] = ()
    workers: int = 0
    """Processes that run test files side by side; 0: one after another."""
    yields: bool = False
    """Whether it takes a core only where no other process wants it, and may last until the end of all stages."""
    never: tuple[str, ...] = ()
    """Markers of tests that this level does not run."""
    words: tuple[str, ...] = ()

    @property
    def none_of(self) -> tuple[str, ...]:
        """Markers of tests that other parts run or none does."""
        first = KINDS.index(self.some_of[0]) if self.some_of else len(KINDS)
        return (*KINDS[:first], *self.never)

    def arguments(self, words: Sequence[str]) -> list[str]:
        """What this pytest gets."""
        terms = [f"({' or '.join(self.some_of)})"] if self.some_of else []
        workers = ["-n", str(self.workers), "--dist", "loadfile", *self._order()] if self.workers else []
        chosen = ["-m", " and ".join([*terms, *(f"not {marker}" for marker in self.none_of)])]
        return [*chosen, *workers, *self.words, *SLOWEST, *words, *self._files(words)]

    def _order(self) -> list[str]:
        """Files start as ``naming`` lists them; where pytest finds them itself, those with the most tests first."""
        return ["--no-loadscope-reorder"] if self.some_of else []

    def _files(self, words: Sequence[str]) -> list[str]:
        """Those that name its markers, unless the user chose files: collecting all of them takes half a minute."""
        chosen = any(Path(word.partition("::")[0]).exists() for word in words)
        return [] if chosen or not self.some_of else [str(file) for file in naming(self.some_of)]


def naming(markers: Sequence[str]) -> list[Path]:
    """The test files that name one of these markers: those of ``LONGEST`` first, the others by their paths."""
    names = re.compile(rf"\bmark\.({'|'.join(markers)})\b")
    root = Path(__file__).parent
    first = {root.parent / name: place for place, name in enumerate(LONGEST)}
    files = sorted(root.rglob("test_*.py"), key=lambda file: (first.get(file, len(first)), file))
    return [file for file in files if names.search(file.read_text())]


def stages(level: str) -> list[list[Part]]:
    """The parts of a level. Those of a stage run at the same time, the first in the foreground; who yields runs on."""
    never = () if level == "all" else ("nightly",)
    words = () if level == "all" else ("--hypothesis-profile=quick",)
    few = () if level == "all" else ("--one-of", str(ONE_OF))
    cores = os.cpu_count() or 1
    computing = Part("computing", workers=cores, never=never, words=words)
    if level == "quick":
        return [[computing]]
    alone = level == "all"
    measuring = Part("measuring", MEASURING, never=never, words=few)
    processes = Part("processes", PROCESSES, workers=0 if alone else 2, never=never, words=few)
    spark = Part("spark", SPARK, never=never, words=few)
    slow = Part("slow", ("slow",), workers=cores, yields=True, never=never, words=few)
    docker = Part("docker", DOCKER, workers=0 if alone else 3, never=never, words=few)
    quiet = Part("quiet", QUIET, never=never, words=few)
    return [[computing], [measuring, spark, slow], [processes], [docker], [quiet]]


def main(level: str, words: Sequence[str]) -> int:
    """Run all parts of this level, even if an earlier part failed; none without lint, types and what they need."""
    codes: list[int] = []
    with contextlib.ExitStack() as stack:
        needs = stack.enter_context(_making(NEEDS[level]))
        checks = ("check", *stack.enter_context(_background([*MAKE, "check"])))
        if "-m" in words:  # the user chose the markers: these tests run one after another
            return _code(needs.wait()) or _ending(*checks) or _foreground([*SLOWEST, *words])
        later = []
        for number, (first, *others) in enumerate(stages(level)):
            running = [(part, stack.enter_context(_pytest_behind(part, words))) for part in others]
            codes.append(_foreground(first.arguments(words)))
            if codes[-1] == INTERRUPTED:
                return INTERRUPTED
            if number == 0 and (code := _ending(*checks) or _code(needs.wait())):
                return code
            codes += [_ending(part.name, *one) for part, one in running if not part.yields]
            later += [(part.name, *one) for part, one in running if part.yields]
        codes += [_ending(*one) for one in later]
    return max((code for code in codes if code != NOTHING_RAN), default=NOTHING_RAN)


@contextlib.contextmanager
def _making(targets: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Make these targets meanwhile, if there are any; an installation that began comes to its end with this block."""
    process = subprocess.Popen([*MAKE, *targets] if targets else ["true"])
    try:
        yield process
    finally:
        process.wait()


def _foreground(words: Sequence[str]) -> int:
    process = subprocess.Popen([sys.executable, "-m", "pytest", *words])
    try:
        return _code(process.wait())
    except SystemExit:
        process.send_signal(signal.SIGINT)  # a terminal sends it to all of the group, a kill of this process does not
        raise
    finally:
        process.wait()  # it ends what its tests started


def _code(returned: int) -> int:
    """The exit code as shells count it, also after a signal."""
    return 128 - returned if returned < 0 else returned


def _pytest_behind(
    part: Part, words: Sequence[str]
) -> contextlib.AbstractContextManager[tuple[subprocess.Popen[bytes], IO[str]]]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *part.arguments(words)]
    return _background(command, yields=part.yields)


@contextlib.contextmanager
def _background(command: Sequence[str], *, yields: bool = False) -> Iterator[tuple[subprocess.Popen[bytes], IO[str]]]:
    """Start this in a session of its own; yield it and its output. It ends with this block at the latest."""
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
            preexec_fn=_step_back if yields else None,  # noqa: PLW1509 - there are no threads here
        )
        try:
            yield process, printed
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)  # with its workers
                process.wait()


def _ending(name: str, process: subprocess.Popen[bytes], printed: IO[str]) -> int:
    """Wait for what runs in the background, and print its output."""
    code = _code(process.wait())
    printed.seek(0)
    print(f"meanwhile, in the background: {name}\n{printed.read()}", flush=True)
    return code


def _step_back() -> None:
    """Take a core only where no other process wants it: by niceness, also where Linux groups by sessions."""
    os.nice(LEAST)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(LEAST))


def ended(signum: int, _frame: object) -> NoReturn:
    """Leave as an error does, so that what runs is ended on the way."""
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)
    if len(sys.argv) < 2 or sys.argv[1] not in NEEDS:
        sys.exit(f"usage: python tests/run_all.py {'|'.join(NEEDS)} [arguments of pytest]")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
