"""Keeping a corpus tidy: ``compact``, ``verify``, ``prune``.

Guarantees: what is current stays current at every moment, so a crash in the middle costs nothing; ``verify`` changes
nothing; verdicts and findings are never pruned, and neither are runs that no checker has judged yet. Out of scope:
repairing: ``corpus add`` puts back the events of a run whose directory is still there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.pipeline import layout, tables
from dethrone.harness.pipeline.corpus import Corpus, checksum_of_all, event_files, said_by


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """Files before and after, by table; and leftovers of broken writers that were removed."""

    before: dict[str, int]
    after: dict[str, int]
    leftovers: int


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be. ``kind``: ``missing``, ``damaged``, ``conflict`` or ``orphan``."""

    kind: str
    path: str
    what: str
    run: str = ""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What ``verify`` read and found."""

    runs: int
    events: int
    damage: tuple[Damage, ...]


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """Runs whose events were removed; runs that are old enough but were never judged, and so stay."""

    before: str
    runs: tuple[str, ...]
    unjudged: tuple[str, ...]
    bytes: int


def compact(corpus: Corpus, *, now_ns: int) -> Compacted:
    """Few files instead of many, and no leftovers."""
    place = corpus.place
    with place.locked():
        verdicts = corpus.verdicts("run", "checker", "written_ns")
        before, after = {}, {}
        for table in (layout.FINDINGS, layout.VERDICTS, layout.RUNS, layout.SEEDS, layout.CAMPAIGNS):
            keep = (lambda rows: said_by(verdicts, rows)) if table is layout.FINDINGS else None
            before[table.name], after[table.name] = tables.compact(place, table, stamp=now_ns, keep=keep)
        unowned = _unowned(corpus) if place.locks else []
        for path in unowned:
            place.delete(path)
        leftovers = len(unowned) + place.sweep()
    return Compacted(before=before, after=after, leftovers=leftovers)


def _unowned(corpus: Corpus) -> list[str]:
    """Events that no run of the manifest owns. Call only while no other process can add runs."""
    owned = {row["path"] for row in corpus.runs("path", stored=True)}
    return [entry.path for entry in corpus.place.files(layout.EVENTS) if not _owned(entry.path, owned)]


def _owned(path: str, owned: Collection[str]) -> bool:
    """Whether a file is a run's, or one of its segments."""
    return path in owned or path.rpartition("/")[0] in owned


def verify(corpus: Corpus, *, progress: Callable[[int, int], None]) -> Verified:
    """Read every byte of every file and compare it with the manifest. ``progress``: runs read, of how many."""
    damage = list(_tables_damage(corpus))
    if any(one.path.startswith(f"{layout.RUNS.name}/") and one.kind == "damaged" for one in damage):
        return Verified(runs=0, events=0, damage=tuple(damage))
    rows = corpus.runs("run", "path", "bytes", "events", "checksum", stored=True)
    events = 0
    for number, row in enumerate(rows):
        progress(number, len(rows))
        what = _events_damage(corpus, row)
        if what is None:
            events += row["events"]
        else:
            damage.append(Damage(kind=what[0], path=row["path"], what=what[1], run=row["run"]))
    progress(len(rows), len(rows))
    owned = {row["path"] for row in rows}
    damage += [
        Damage(kind="orphan", path=entry.path, what="no run of the manifest owns it: an addition was broken off")
        for entry in corpus.place.files(layout.EVENTS)
        if not _owned(entry.path, owned)
    ]
    return Verified(runs=len(rows), events=events, damage=tuple(damage))


def _tables_damage(corpus: Corpus) -> Iterator[Damage]:
    contents: dict[str, set[str]] = {}
    for table in (layout.RUNS, layout.VERDICTS, layout.FINDINGS, layout.SEEDS, layout.CAMPAIGNS):
        for entry in corpus.place.files(table.name):
            try:
                rows = tables.read(corpus.place, table, paths=[entry.path])
            except HistoryError as error:
                yield Damage(kind="damaged", path=entry.path, what=error.what)
                continue
            if table is layout.RUNS:
                for run, content in zip(
                    rows.column("run").to_pylist(), rows.column("content").to_pylist(), strict=True
                ):
                    contents.setdefault(run, set()).add(content)
    for run, seen in contents.items():
        if len(seen) > 1:
            what = f"{len(seen)} different contents were added at the same moment; the newest row counts"
            yield Damage(kind="conflict", path=layout.RUNS.name, what=what, run=run)


def _events_damage(corpus: Corpus, row: dict[str, Any]) -> tuple[str, str] | None:
    place, files = corpus.place, event_files(corpus.place, row["path"])
    size = sum(place.size(path) or 0 for path in files)
    if not files:
        return "missing", "the events are not there; `dethrone corpus add` of the run's directory puts them back"
    if size != row["bytes"]:
        return "damaged", f"{size} bytes, not the {row['bytes']} of the manifest"
    try:
        checksum = checksum_of_all(place, files)
    except (OSError, HistoryError) as error:
        return "damaged", " ".join(str(error).split())[:200]
    if checksum != row["checksum"]:
        return "damaged", "its bytes are not those that were written"
    return None


def prune(corpus: Corpus, *, keep_days: int, now_ns: int) -> Pruned:
    """Remove the events of runs that began more than ``keep_days`` days ago. Their rows, verdicts, findings stay."""
    today = datetime.fromtimestamp(now_ns // SECOND, UTC)
    before = (today - timedelta(days=keep_days)).strftime("%Y-%m-%d")
    with corpus.place.locked():
        old = [row for row in corpus.runs(stored=True) if row["date"] < before]
        judged = Counter(corpus.verdicts("run").column("run").to_pylist())
        gone = [row for row in old if judged[row["run"]]]
        if gone:
            rows = tables.rows_of(layout.RUNS, [{**row, "state": "pruned", "written_ns": now_ns} for row in gone])
            tables.append(corpus.place, layout.RUNS, rows, name=f"pruned-{now_ns}")
        for row in gone:  # after their rows: a file that is not there must not be promised
            for path in event_files(corpus.place, row["path"]):
                corpus.place.delete(path)
    return Pruned(
        before=before,
        runs=tuple(row["run"] for row in gone),
        unjudged=tuple(row["run"] for row in old if not judged[row["run"]]),
        bytes=sum(row["bytes"] for row in gone),
    )
