"""``corpus add``: a run goes into the corpus exactly once, or not at all with the reason.

Answers: ``stored`` · ``duplicate`` (the same run with the same bytes is there) · ``conflict`` (the same run with other
bytes is there, which stays) · ``refused`` (half written, damaged, of a newer schema). The events are written first, the
manifest last: what a crash leaves is no part of the corpus, and adding again finishes it. Guarantees: nothing of the
run directory is changed; one run in memory at a time. Out of scope: judging.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from dethrone.harness.core import parquet, store
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError, HarnessError, HistoryError
from dethrone.harness.core.events import SCHEMA, Begin, End
from dethrone.harness.core.files import open_regular, read_regular
from dethrone.harness.core.history import Reading, decode_line, line_of
from dethrone.harness.core.history_files import history_at, read_history, segments, stream
from dethrone.harness.core.plan import SCHEMA as PLAN_SCHEMA
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.secrets import without_secrets
from dethrone.harness.pipeline import layout, tables
from dethrone.harness.pipeline.corpus import Corpus, as_json, checksum_of, combined, event_files

Answer = Literal["stored", "duplicate", "conflict", "refused"]
RUN_SCHEMA = 1
"""Of run.json."""

KNOWN = ("run", "content", "path", "bytes", "state")
"""Columns of the manifest that say whether a run is stored."""

DEPTH_MAX = 6
_TAIL = 1 << 16


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one run directory. ``why`` is given for conflicts and refusals."""

    directory: Path
    answer: Answer
    run: str = ""
    events: int = 0
    why: str = ""


class _Info(msgspec.Struct, kw_only=True):
    """The needed fields of run.json."""

    schema: int
    run_id: str
    started_at: str
    versions: dict[str, str]


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories that these are, or that lie in them (at most six deep). ConfigError: there is none."""
    found = [directory for path in paths for directory in _below(path, DEPTH_MAX)]
    if not found:
        raise ConfigError(
            "no run found here",
            where=", ".join(map(str, paths)),
            next_step="name directories of runs, or a directory that holds some",
        )
    return list(dict.fromkeys(found))


def _below(path: Path, depth: int) -> Iterator[Path]:
    if (path / store.PLAN).is_file() or (path / store.HISTORY).is_dir() or (path / store.LINES).is_file():
        yield path
        return
    if depth:
        try:
            entries = sorted(os.scandir(path), key=lambda one: one.name)
        except OSError as error:
            raise ConfigError(f"cannot look for runs: {error.strerror}", where=str(path)) from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from _below(Path(entry.path), depth - 1)


def add(
    corpus: Corpus,
    directories: Sequence[Path],
    *,
    now_ns: int,
) -> Iterator[Added]:
    """Add these runs, one after another; an answer each. ``now_ns``: since the Unix epoch, as in the rows."""
    with corpus.place.locked():
        known: dict[str, Mapping[str, Any]] = {row["run"]: row for row in corpus.runs(*KNOWN)}
        for number, directory in enumerate(directories):
            try:
                added, row = _add(corpus, directory, known, now_ns=now_ns + number)
            except HarnessError as error:
                why = " · ".join(part for part in (error.what, error.cause, error.next_step) if part)
                added, row = Added(directory=directory, answer="refused", why=why), None
            except OSError as error:
                why = f"cannot read {error.filename or 'it'}: {error.strerror or error}"
                added, row = Added(directory=directory, answer="refused", why=why), None
            if row is not None:
                known[added.run] = row
            yield added


def _add(
    corpus: Corpus, directory: Path, known: Mapping[str, Any], *, now_ns: int
) -> tuple[Added, Mapping[str, Any] | None]:
    info_raw, info, plan = _described(directory)
    history = history_at(directory)
    begin, end = _ends(history)
    if begin.system != plan.system or begin.nodes != plan.nodes or begin.seed != plan.seed:
        raise HistoryError("plan.json and the history are of two different runs")
    content = _content_of(history, end, directory / store.PLAN)
    there = known.get(info.run_id)
    if there is not None:
        told = _told(there, content, directory, info.run_id)
        if told.answer == "conflict" or there["state"] == "pruned" or _there(corpus, there):
            return told, None
        # The row exists and its events were removed. Put back what the row promises.
    started = _started(info.started_at)
    date = started.strftime("%Y-%m-%d")
    whole = end is not None and _true(history)
    with _columns(directory, history, end if whole else None) as files:
        path = layout.events_path(
            date=date, system=plan.system, run=info.run_id, content=content, several=len(files) > 1
        )
        events, schema = _measure(files)
        for file in files:
            _put(corpus, path if len(files) == 1 else f"{path}/{file.name}", file)
        size, checksum = sum(file.stat().st_size for file in files), _content(*files)
    row = {
        "run": info.run_id,
        "date": date,
        "system": plan.system,
        "profile": plan.profile,
        "variant": plan.variant,
        "backend": plan.backend,
        "seed": plan.seed,
        "nodes": len(plan.nodes),
        "started_ns": int(started.timestamp()) * SECOND,
        "events": events,
        "bytes": size,
        "schema": schema,
        "content": content,
        "digest": end.digest if end is not None and whole else "",
        "checksum": checksum,
        "path": path,
        "complete": whole,
        "version": info.versions.get("dethrone", ""),
        "source": directory.name,
        "plan": as_json(without_secrets(msgspec.to_builtins(plan, enc_hook=str))),
        "info": as_json(without_secrets(msgspec.json.decode(info_raw))),
        "state": "stored",
        "written_ns": now_ns,
        "system_version": plan.system_version,
        "tags": as_json(dict(plan.tags)),
    }
    added = Added(directory=directory, answer="stored", run=info.run_id, events=events)
    name = info.run_id if there is None else f"{info.run_id}-again-{now_ns}"
    if not tables.append(corpus.place, layout.RUNS, tables.rows_of(layout.RUNS, [row]), name=name):
        # another writer was faster
        others = {one["run"]: one for one in corpus.runs(*KNOWN)}
        if info.run_id not in others:
            raise HistoryError(f"the manifest has a file {name}.parquet without this run")
        return _told(others[info.run_id], content, directory, info.run_id), None
    return added, row


def _there(corpus: Corpus, row: Mapping[str, Any]) -> bool:
    """Whether the events of this row of the manifest are all there."""
    place = corpus.place
    size: int = row["bytes"]
    return sum(place.size(path) or 0 for path in event_files(place, row["path"])) == size


def _described(directory: Path) -> tuple[str, _Info, Plan]:
    """run.json (as text, and what is needed of it) and plan.json. HistoryError: half written, or newer."""
    there = [name for name in (store.PLAN, store.RUN) if (directory / name).is_file()]
    there += [store.HISTORY] if (directory / store.HISTORY).exists() or (directory / store.LINES).exists() else []
    for name in (store.HISTORY, store.PLAN, store.RUN):
        if name not in there:
            raise HistoryError(
                f"half written: there is no {name}",
                cause="the run still goes, or was killed",
                next_step=f"`dethrone check {directory}` judges what there is",
            )
    info = store.read_json(directory / store.RUN, _Info)
    plan = store.read_json(directory / store.PLAN, Plan)
    for name, version, known in ((store.RUN, info.schema, RUN_SCHEMA), (store.PLAN, plan.schema, PLAN_SCHEMA)):
        if version > known:
            raise HistoryError(f"{name} has schema {version}, this version reads up to {known}; use a newer dethrone")
    for kind, name in (("run", info.run_id), ("system", plan.system)):
        if not layout.usable(name):
            raise HistoryError(f"the {kind} is called {name!r}, which cannot stand in a path")
    raw = msgspec.json.decode(read_regular(directory / store.RUN))
    return as_json(raw), info, plan


def _ends(history: Path) -> tuple[Begin, End | None]:
    """The first and the last record of a history."""
    first, last = _first_and_last(history)
    if type(first) is not Begin:
        raise HistoryError("not a Dethrone history", cause="line 1 is no begin record")
    if first.schema > SCHEMA:
        raise HistoryError(
            f"the history has schema {first.schema}, this version reads up to {SCHEMA}; use a newer dethrone"
        )
    return first, last if type(last) is End else None


def _first_and_last(history: Path) -> tuple[Any, Any]:
    files = [segment.path for segment in segments(history)] if history.is_dir() else [history]
    return _end_of(files[0], first=True), _end_of(files[-1], first=False)


def _end_of(path: Path, *, first: bool) -> Any:
    """The first or the last event of a file; None for a last line that is none."""
    if path.suffix == ".parquet":
        return parquet.event_at(path, 0 if first else -1)
    with open_regular(path) as file:
        if first:
            line = file.readline()
            if not line.strip():
                raise HistoryError("the history is empty", cause="the run ended before its first event")
            return decode_line(line)
        file.seek(max(0, path.stat().st_size - _TAIL))
        last = (file.read().splitlines(keepends=True) or [b""])[-1]
    with contextlib.suppress(HistoryError):
        return decode_line(last) if last.endswith(b"\n") else None
    return None


def _true(history: Path) -> bool:
    """Whether the history is whole, to the end record that fits everything before it."""
    reading = Reading(str(history))
    for _ in stream(history, reading):
        pass
    reading.close()
    return reading.damage is None


def _content_of(history: Path, end: End | None, plan: Path) -> str:
    """One hash of a history and its plan: of a closed one by its end record, which holds the digest of all lines."""
    if not history.is_dir():
        return _content(history, plan)
    if end is None:
        return _content(*(segment.path for segment in segments(history)), plan)
    digest = hashlib.blake2b(line_of(end), digest_size=16)
    digest.update(_content(plan).encode())
    return digest.hexdigest()


def _content(*files: Path) -> str:
    """One hash of all these files."""
    sums = []
    for file in files:
        with open_regular(file) as opened:
            sums.append(checksum_of(opened))
    return combined(sums)


def _told(there: Mapping[str, Any], content: str, directory: Path, run: str) -> Added:
    if there["content"] == content:
        return Added(directory=directory, answer="duplicate", run=run)
    why = f"run {run} is in the corpus with other bytes ({there['content'][:8]}, not {content[:8]}); that one stays"
    return Added(directory=directory, answer="conflict", run=run, why=why)


def _started(text: str) -> datetime:
    """``started_at`` in UTC, from any time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise HistoryError(f"run.json: started_at {text!r} is no moment") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


@contextlib.contextmanager
def _columns(directory: Path, history: Path, end: End | None) -> Iterator[list[Path]]:
    """The run's own Parquet files if they hold this history, or one made from it. ``end``: of a whole history."""
    if end is not None:
        own = segments(history) if history.is_dir() else ()
        if own and all(segment.sealed for segment in own):
            yield [segment.path for segment in own]
            return
        if _holds(directory / store.COLUMNS, end):
            yield [directory / store.COLUMNS]
            return
    with tempfile.TemporaryDirectory(prefix="dethrone-corpus-") as temporary:
        made = Path(temporary) / store.COLUMNS
        parquet.write_parquet(read_history(history), made)
        yield [made]


def _holds(path: Path, end: End) -> bool:
    """Whether this is a readable file of the history that ends so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if parquet.version_of(file.schema_arrow.metadata or {}, where=str(path)) < parquet.SCHEMA_VERSION:
                return False
            if file.metadata.num_rows != end.count + 1:
                return False
            # Every page is read: a file that was cut and closed again, or has a bad page, is found now.
            rest: Any = None
            for batch in file.iter_batches(parquet.BATCH):
                rest = batch.column("rest")[-1].as_py()
            return bool(msgspec.json.decode(rest).get("digest") == end.digest)
    except (OSError, pa.ArrowInvalid, HistoryError, msgspec.DecodeError, AttributeError):
        return False


def _measure(files: Sequence[Path]) -> tuple[int, int]:
    """Rows, and the oldest schema version."""
    import pyarrow.parquet as pq

    rows, versions = 0, []
    for file in files:
        with pq.ParquetFile(file) as opened:
            versions.append(parquet.version_of(opened.schema_arrow.metadata or {}, where=str(file)))
            rows += int(opened.metadata.num_rows)
    return rows, min(versions)


def _put(corpus: Corpus, path: str, file: Path) -> None:
    """The events at their place. What an earlier, broken attempt left there is replaced unless it is whole."""
    size = file.stat().st_size
    if corpus.place.create(path, file):
        return
    if corpus.place.size(path) != size:
        corpus.place.delete(path)
        corpus.place.create(path, file)
    if corpus.place.size(path) != size:
        raise HistoryError("the events cannot be stored whole", cause="another process writes the same run")
