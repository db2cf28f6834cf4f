"""The soak: trials one after another until the time is over. ``make soak ARGS="--minutes 480 --seed 1"``.

    python tests/soak/run.py --minutes 60 --seed 1 --out runs/soak [--chaos none | kill-harness,full-disk,…]

Each trial is a run or a campaign of its own process with a state directory of its own, beside a load of up to
``--load``. Whatever came of it, it is healed twice; then nothing may be left, and its history must read to the last
event that it holds. One JSON line a trial stands in ``OUT/rows.jsonl``: called again with the same seed, a soak goes on
behind it, and a trial that was cut short is healed and done anew. Directories are removed but for those of a FAIL and
of whatever else is red. Objects of other programs must stay as they are. ``--chaos engine`` and ``--chaos spark`` must
be asked for. Exit code 1: something was red.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from dethrone.harness.core import ledger, store
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.history_files import Segment, read_history, segments
from tests.load_generator import Load
from tests.run_all import ended
from tests.soak import harm, tally, trials
from tests.soak.strangers import Strangers
from tests.soak.tally import Row, Seen
from tests.soak.trials import Trial

DETHRONE = (sys.executable, "-m", "dethrone.harness.cli")
HEAL_LIMIT_S = 300
END_LIMIT_S = 180
"""How long a run that hangs may take to obey SIGTERM, before SIGKILL."""


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file."""
    options = _parser().parse_args(words)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    _begin(out, seed=options.seed)
    rows = tally.read_rows(out / "rows.jsonl")
    end = time.monotonic() + 60 * options.minutes
    with Strangers(out / "stranger", image=_image()) as strangers:
        print(f"watched, of other programs: {', '.join(strangers.watched)}", flush=True)
        while time.monotonic() < end and (options.trials is None or len(rows) < options.trials):
            rows.append(_row(options, out, len(rows), strangers))
    print(tally.told(rows))
    return 1 if any(row.red for row in rows) else 0


def _row(options: argparse.Namespace, out: Path, number: int, strangers: Strangers) -> Row:
    """The trial of this number, carried out and stored."""
    trial = trials.draw(
        options.seed,
        number,
        systems=options.systems,
        backends=options.backends,
        chaos=trials.CHAOS if options.chaos is None else tuple(options.chaos),
        load_max=options.load,
        spared_percent=options.spared,
    )
    row = carry_out(trial, out, strangers=strangers)
    with (out / "rows.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(row) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    print(f"{row.number:>4} {row.result:<19} {row.took_s:>6.0f} s  {row.what}  {', '.join(row.red)}", flush=True)
    return row


def _image() -> str:
    """Any image that is here, for a container that is not ours; "" without one."""
    if shutil.which("docker") is None:
        return ""
    done = subprocess.run(["docker", "images", "-q"], capture_output=True, text=True, check=False)
    return next(iter(done.stdout.split()), "")


def carry_out(trial: Trial, out: Path, *, command: Sequence[str] = DETHRONE, strangers: Strangers | None = None) -> Row:
    """One trial, healed; its row."""
    place = out / f"trial-{trial.number}"
    state, run = place / "state", place / "run"
    env = {**os.environ, "DETHRONE_STATE_DIR": str(state)}
    if place.exists():  # cut short: what it left is undone first
        _heal(command, env, out / "heal.log")
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    _share_artifacts(state)
    began = time.monotonic()
    with Load(cpu=trial.cpu, fsync=trial.fsync, memory_mib=trial.memory_mib, limit_s=trial.bound_s, directory=out):
        code, struck, hung = _run(trial, [*command, *trial.words(str(run))], place, state, env)
    runs = harm.runs_of(state)
    said = _said(place / "stdout")
    if trial.seeds and struck and not hung:  # a campaign goes on where it was stopped, and loses no seed
        code, _, hung = _run(
            msgspec.structs.replace(trial, chaos=""), [*command, *trial.words(str(run))], place, state, env
        )
        said = _said(place / "stdout")
    heals = tuple(_heal(command, env, place / "heal.log") for _ in range(2))
    seen = Seen(
        code=code,
        said=said,
        struck=bool(struck),
        hung=hung,
        heals=heals,
        leftovers=(*(f"ledger {name}" for name in harm.runs_of(state)), *harm.left_on(runs), *_labelled(runs)),
        touched=strangers.touched() if strangers else (),
        unreadable=_unreadable(run, trial),
    )
    red = tally.red(seen, chaos=trial.chaos)
    if not red:
        shutil.rmtree(place, ignore_errors=True)
    return Row(
        number=trial.number,
        result=tally.result_of(seen, chaos=trial.chaos),
        what=" | ".join(
            (" ".join(trial.words("…")[:-3]), f"load {trial.cpu}+{trial.fsync}", struck or trial.chaos or "spared")
        ),
        code=code,
        struck=bool(struck),
        took_s=round(time.monotonic() - began, 1),
        reason=_reason(seen),
        red=red,
        kept=str(place) if red else "",
    )


def _run(trial: Trial, words: Sequence[str], place: Path, state: Path, env: dict[str, str]) -> tuple[int, str, bool]:
    """Exit code (below 0: killed by that signal), what harm was done, and whether it had to be ended."""
    with (place / "stdout").open("wb") as stdout, (place / "stderr").open("ab") as stderr:
        process = subprocess.Popen(words, env=env, stdout=stdout, stderr=stderr, cwd=place, start_new_session=True)
        struck = ""
        if trial.chaos:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(trial.at_s)
            if process.poll() is None:
                struck = harm.strike(trial.chaos, process.pid, out=place / "run", state=state)
        try:
            return process.wait(trial.bound_s), struck, False
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(END_LIMIT_S), struck, True
        process.kill()
        return process.wait(), struck, True


def _share_artifacts(state: Path) -> None:
    """Give this state directory what the user's own has fetched and built, so that no trial builds it again."""
    kept = ledger.state_dir() / "artifacts"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    state.mkdir()
    (state / "artifacts").symlink_to(kept)


def _heal(command: Sequence[str], env: dict[str, str], log: Path) -> int:
    """Its exit code. ``log``: where what it printed is appended, since a heal that failed is looked into later."""
    try:
        with log.open("ab") as printed:
            return subprocess.run(
                [*command, "heal", "--json"],
                env=env,
                stdout=printed,
                stderr=printed,
                timeout=HEAL_LIMIT_S,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        return 124


def _labelled(runs: Sequence[str]) -> list[str]:
    """Containers and networks of these runs that are still there."""
    if not runs or shutil.which("docker") is None:
        return []
    out = []
    for run in runs:
        for words in (("ps", "-aq"), ("network", "ls", "-q")):
            done = subprocess.run(
                ["docker", *words, "--filter", f"label=dethrone.run={run}"], capture_output=True, text=True, check=False
            )
            out += [f"{words[0]} {one} of {run}" for one in done.stdout.split()]
    return out


def _unreadable(run: Path, trial: Trial) -> str:
    """Why a history is not there to its last whole line; "" : it is, or there is none."""
    if trial.seeds:
        return _rows_missing(run, trial)
    place = run / store.HISTORY
    whole = sum(map(_events, segments(place))) if place.is_dir() else 0
    if not whole:
        return ""  # there is none, or its first event was torn
    try:
        events = len(read_history(place))
    except HarnessError as error:
        return str(error)
    return "" if events == whole else f"{events} events of {whole} lines"


def _events(segment: Segment) -> int:
    """How many whole events a segment holds, counted without reading them."""
    if segment.sealed:
        return int(pq.ParquetFile(segment.path).metadata.num_rows)
    return segment.path.read_bytes().count(b"\n")


def _rows_missing(run: Path, trial: Trial) -> str:
    """A campaign has each seed exactly once."""
    path = run / "rows.jsonl"
    lines = path.read_bytes().splitlines() if path.is_file() else []
    try:
        seeds = sorted(json.loads(line)["seed"] for line in lines)
    except (ValueError, KeyError, TypeError) as error:
        return f"{path}: {error}"
    return "" if seeds == list(range(trial.seeds)) else f"{len(seeds)} rows of {trial.seeds} seeds"


def _said(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes() or b"null")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _reason(seen: Seen) -> str:
    parts = [
        str(seen.said.get("reason", "")),
        *map(str, seen.said.get("trouble") or ()),
        *seen.leftovers,
        *seen.touched,
    ]
    return "; ".join(str(part) for part in (*parts, seen.unreadable) if part)[:500]


def _begin(out: Path, *, seed: int) -> None:
    """Remember the seed of this directory's rows. SystemExit: they are of another."""
    path = out / "soak.json"
    if not path.is_file():
        path.write_text(json.dumps({"seed": seed}), encoding="utf-8")
    elif json.loads(path.read_bytes())["seed"] != seed:
        sys.exit(f"{out} holds a soak of another seed: give it, or another --out")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--trials", type=int, help="stop when so many have a row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    parser.add_argument("--load", type=int, default=8, help="the most load beside a trial")
    parser.add_argument("--systems", type=_names(trials.SYSTEMS), default=trials.SYSTEMS)
    parser.add_argument("--backends", type=_names(trials.BACKENDS), default=trials.BACKENDS)
    parser.add_argument("--spared", type=int, default=trials.SPARED_PERCENT, help="percent of trials without harm")
    known = (*trials.CHAOS, *trials.ASKED_FOR)
    parser.add_argument(
        "--chaos", type=_names(known), help=f"none, or of {', '.join(known)} [default: all but engine, spark]"
    )
    return parser


def _names(known: Sequence[str]):
    def read(text: str) -> tuple[str, ...]:
        names = () if text == "none" else tuple(text.split(","))
        if wrong := sorted(set(names) - set(known)):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(wrong)}; known: {', '.join(known)}")
        return names

    return read


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)  # so that the load ends and the strangers go
    sys.exit(main())
