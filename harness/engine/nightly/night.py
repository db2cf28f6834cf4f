"""A night on disk: runs in their own processes, one by one or side by side; stopped at any moment, it resumes there.

    OUT/raised.jsonl               findings of all nights that were reported
    OUT/2026-11-22/night.json      what was decided as the night began: cells and jobs in order
    OUT/2026-11-22/rows.jsonl      a row per finished run
    OUT/2026-11-22/0001-…/         a run directory
    OUT/2026-11-22/ended           no run begins in this night any more

Guarantees: a finished run has its row, fsynced, before anything is done with it, and never runs again; a run that
Ctrl-C, SIGTERM or a ``kill -9`` of the night interrupted is rolled back (``run_process``), set aside and run again, and
no second night begins in ``OUT`` before; what a run left behind is healed before the next; of runs side by side one
that noise spoiled is repeated alone. ``run_order`` orders the runs, ``report.night`` reports, and the command line
feeds a corpus after each row.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import msgspec
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from dethrone.harness.core import registry, store
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign.admission import Admission
from dethrone.harness.engine.campaign.idle_cores import LOOK_EVERY_S, IdleCores
from dethrone.harness.engine.campaign.resumable_tasks import read_kept
from dethrone.harness.engine.nightly.new_findings import Shown, absent, finding_key, raised, tell
from dethrone.harness.engine.nightly.night_file import Night
from dethrone.harness.engine.nightly.night_rows import Drawn, Ended, NightRow, append
from dethrone.harness.engine.nightly.run_order import Cell, Past, cells_of, order
from dethrone.harness.engine.nightly.run_process import TEARDOWN_S, Running, roll_back, row_of, start, wait_for
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_TROUBLE

NIGHT = "night.json"
ROWS = "rows.jsonl"
ENDED = "ended"
_LOCK = ".lock"
_HEAL_S = 300
_FORM = re.compile(r"\d{4}-\d\d-\d\d(\.\d+)?")


OnRow = Callable[[Path, Drawn, Sequence[NightRow]], Sequence[str]]
"""Called with the night's directory and all rows after each run; returns its own trouble."""


def run_night(
    night: Night,
    *,
    version: str,
    base: Path,
    say: Callable[[str], None],
    on_row: OnRow,
    wall_ns: Callable[[], Ns] = time.time_ns,
    command: Sequence[str] = (sys.executable, "-P", "-m", "dethrone.harness.cli"),
) -> Ended:
    """Resume the interrupted night if its budget lasts, else begin one; run until its jobs or its budget are used up.

    ``base``: the directory of the night's file: hooks run there, and systems named by a path are looked for there.
    ConfigError if another night is at work in the same directory.
    """
    night.out.mkdir(parents=True, exist_ok=True)
    with _alone(night.out, say) as lock, _terminated():
        directory, drawn = _opened(night, version, wall_ns())
        gone = absent(seen_before(night.out, drawn.name))
        told = partial(tell, night.on_finding, out=night.out, directory=directory, drawn=drawn, base=base, gone=gone)
        rows = read_kept(directory / ROWS, NightRow, what="the night's")
        trouble = [
            *_healed(command, say),
            *(told(rows=rows) if rows else ()),
        ]
        done = {row.job.number for row in rows}
        todo = [job for job in drawn.jobs if job.number not in done]
        cells = cells_of(drawn.entries)
        begin = partial(start, base=base, lock=lock, wall_ns=wall_ns, command=command, known=night.known)
        say(f"night {drawn.name}: {len(drawn.jobs)} runs of {len(cells)} cells, {len(rows)} done; in {directory}")
        due = Admission(todo, most=night.jobs, alone=lambda job: _alone_on(cells[job.cell]))
        running: list[Running] = []
        cores = IdleCores()
        interrupted = False
        try:
            while True:
                if due.left and _over(night, drawn, wall_ns()):
                    due.stop()
                    say("the budget is used up")
                while job := due.next(room=cores.enough(len(running))):
                    cores.begun()
                    running.append(begin(job, cells[job.cell], directory))
                if not running:
                    break
                one = wait_for(running, look_s=LOOK_EVERY_S if due.left else None)
                if one is None:
                    continue
                running.remove(one)
                at_once = due.running[one.job]
                row = msgspec.structs.replace(row_of(one, wall_ns=wall_ns), at_once=at_once)
                if row.exit_code == EXIT_INTERRUPTED:
                    raise KeyboardInterrupt
                due.ended(one.job, by_noise=row.by_noise, noise_percent=row.noise_percent)
                if row.by_noise and at_once > 1:
                    say(f"{row.job.cell} seed {row.job.seed}: unknown because of noise; repeating it alone")
                    due.again(one.job)
                    continue
                append(directory / ROWS, row)
                rows.append(row)
                if row.exit_code == EXIT_TROUBLE:
                    trouble += _healed(command, say)
                trouble += told(rows=rows)
                trouble += on_row(directory, drawn, rows)
        except KeyboardInterrupt:
            interrupted = True
            say("interrupted; repeat the command to resume")
        finally:
            roll_back(running)
        left = len(drawn.jobs) - len(rows)
        if not interrupted:
            (directory / ENDED).touch()
            trouble += _forget(night, wall_ns(), say)
        new = tuple(one.key for one in raised(night.out) if one.night == drawn.name)
    return Ended(
        directory=directory,
        drawn=drawn,
        rows=tuple(rows),
        left=left,
        interrupted=interrupted,
        new=new,
        trouble=tuple(dict.fromkeys(trouble)),
    )


def nights(out: Path) -> list[Path]:
    """The directories of all nights in ``out``, in order of time."""
    if not out.is_dir():
        return []
    found = [path for path in out.iterdir() if _FORM.fullmatch(path.name) and (path / NIGHT).is_file()]
    return sorted(found, key=lambda path: (path.name[:10], int(path.name[11:] or 1)))


def past_of(out: Path) -> dict[str, Past]:
    """What the nights in ``out`` know of each cell: its last night counts."""
    past: dict[str, Past] = {}
    for directory in nights(out):
        drawn = store.read_json(directory / NIGHT, Drawn)
        cells = cells_of(drawn.entries)
        rows: dict[str, list[NightRow]] = {}
        for row in read_kept(directory / ROWS, NightRow, what="the night's"):
            rows.setdefault(row.job.cell, []).append(row)
        for key, some in rows.items():
            failed = tuple(row.job.seed for row in some if row.outcome == "fail")
            past[key] = Past(
                night=directory.name,
                outcome="fail" if failed else some[-1].outcome,
                fingerprint=cells[key].fingerprint(drawn.version) if key in cells else "",
                failed_seeds=failed,
            )
    return past


def seen_before(out: Path, name: str) -> list[Shown]:
    """What each judged run of the nights before this one showed, in their order."""
    shown = []
    for directory in nights(out):
        if directory.name == name:
            break
        cells = cells_of(store.read_json(directory / NIGHT, Drawn).entries)
        for row in read_kept(directory / ROWS, NightRow, what="the night's"):
            if row.outcome in {"pass", "fail"} and row.job.cell in cells:
                keys = frozenset(finding_key(cells[row.job.cell], one) for one in (*row.findings, *row.known))
                shown.append(Shown(cell=row.job.cell, keys=keys))
    return shown


def _opened(night: Night, version: str, now_ns: Ns) -> tuple[Path, Drawn]:
    known = nights(night.out)
    if known and not (known[-1] / ENDED).exists():
        drawn = store.read_json(known[-1] / NIGHT, Drawn)
        if not _over(night, drawn, now_ns):
            return known[-1], drawn
        (known[-1] / ENDED).touch()
    date = dt.datetime.fromtimestamp(now_ns / SECOND, dt.UTC).date().isoformat()
    same = sum(path.name.startswith(date) for path in known)
    name = f"{date}.{same + 1}" if same else date
    cells = cells_of(night.entries)
    jobs = order(cells, past_of(night.out), night=name, version=version)
    drawn = Drawn(name=name, began_ns=now_ns, version=version, entries=night.entries, jobs=tuple(jobs))
    directory = night.out / name
    directory.mkdir(exist_ok=True)
    store.write_json(directory / NIGHT, drawn)
    return directory, drawn


def _alone_on(cell: Cell) -> bool:
    """Whether its hosts belong to the user: there is one set of them."""
    return registry.load(registry.BACKENDS, cell.entry.on).traits.lending is not None


def _over(night: Night, drawn: Drawn, now_ns: Ns) -> bool:
    return night.budget_ns is not None and now_ns - drawn.began_ns >= night.budget_ns


def _healed(command: Sequence[str], say: Callable[[str], None]) -> list[str]:
    """Heal what earlier runs left; return what could not be healed, as trouble."""
    try:
        done = subprocess.run([*command, "heal", "--json"], capture_output=True, timeout=_HEAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"heal did not end: {error}"]
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return [f"heal ended with {done.returncode} and printed no result"]
    if told.get("healed"):
        say(f"healed leftovers: {', '.join(told['healed'])}")
    return [f"not healed, see `dethrone heal`: {line}" for line in told.get("left", ())]


def _forget(night: Night, now_ns: Ns, say: Callable[[str], None]) -> list[str]:
    """Histories and logs of old runs that did not fail; their rows, plans, verdicts and reports stay."""
    if night.keep_ns is None:
        return []
    gone = 0
    for directory in nights(night.out):
        for row in read_kept(directory / ROWS, NightRow, what="the night's"):
            if row.outcome == "fail" or now_ns - row.began_ns < night.keep_ns:
                continue
            run = directory / row.run_dir
            bulky = [run / name for name in store.BULKY if (run / name).exists()]
            try:
                for path in bulky:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            except OSError as error:
                return [f"cannot forget {run}: {error.strerror}"]
            gone += bool(bulky)
    if gone:
        say(f"histories and logs of {gone} old passing runs were removed (keep)")
    return []


@contextmanager
def _alone(out: Path, say: Callable[[str], None]) -> Iterator[int]:
    """The lock of ``out``. A run inherits it: what a killed night left running holds it until it has rolled back."""
    with (out / _LOCK).open("ab") as file:
        if not _locked(file):
            say(
                f"the directory is locked by another night; waiting up to {TEARDOWN_S} s for an "
                "interrupted run to roll back"
            )
            try:
                for attempt in Retrying(
                    retry=retry_if_exception_type(BlockingIOError),
                    stop=stop_after_delay(TEARDOWN_S),
                    wait=wait_fixed(0.2),
                ):
                    with attempt:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except RetryError as error:
                raise ConfigError(
                    "another night is using this directory",
                    where=str(out),
                    cause="its lock is held",
                    next_step="wait for it, or give this night another `out`",
                ) from error
        yield file.fileno()


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM (systemd's stop) ends a night as Ctrl-C does."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
