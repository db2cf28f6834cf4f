"""One corpus: opened or made, and its content.

Guarantees: a directory that is none of ours is never written to; a corpus of a newer version is refused. Out of scope:
adding to it (``ingest``), asking it (``checking``, ``native``) and tidying it (``upkeep``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.pipeline import layout, tables
from dethrone.harness.pipeline.places import Place, place_of, read_bytes

if TYPE_CHECKING:
    import pyarrow as pa


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    corpus: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """An open corpus."""

    place: Place

    def runs(self, *columns: str, since: str = "", system: str = "", stored: bool = False) -> list[dict[str, Any]]:
        """Rows of the manifest, by run. ``since``: a date. ``stored``: whose events are there."""
        wanted = dict.fromkeys((*columns, "date", "system", "state")) if columns else layout.RUNS.columns
        rows = tables.read(self.place, layout.RUNS, tuple(wanted)).to_pylist()
        return [
            row
            for row in rows
            if row["date"] >= since
            and (not system or row["system"] == system)
            and (not stored or row["state"] == "stored")
        ]

    def verdicts(self, *columns: str) -> pa.Table:
        """The latest verdicts, a row per run and checker."""
        return tables.read(self.place, layout.VERDICTS, columns)

    def findings(self) -> pa.Table:
        """The findings behind those verdicts."""
        return said_by(self.verdicts("run", "checker", "written_ns"), tables.read(self.place, layout.FINDINGS))

    def seeds(self, *columns: str) -> pa.Table:
        """The results of simulated campaigns, a row per seed."""
        return tables.read(self.place, layout.SEEDS, columns)

    def campaigns(self, *columns: str) -> pa.Table:
        """Those campaigns."""
        return tables.read(self.place, layout.CAMPAIGNS, columns)


def of_runs(rows: pa.Table, runs: Iterable[str]) -> pa.Table:
    """The rows of these runs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows.column("run"), pa.array(list(runs), pa.string())))


def said_by(verdicts: pa.Table, findings: pa.Table) -> pa.Table:
    """The findings that belong to these verdicts, and not to older ones."""
    import pyarrow as pa

    keys = ["run", "checker", "written_ns"]
    if not findings.num_rows:
        return findings
    numbered = findings.select([*keys, "number"]).append_column("_row", pa.array(range(findings.num_rows), pa.int64()))
    mine = numbered.join(verdicts.select(keys), keys=keys, join_type="left semi")
    order = [("run", "ascending"), ("checker", "ascending"), ("number", "ascending")]
    return findings.take(mine.sort_by(order).column("_row"))


def event_files(place: Place, path: str) -> list[str]:
    """The files of a run's events, in their order, as far as they are there. ``path``: of the manifest."""
    if path.endswith(layout.SUFFIX):
        return [] if place.size(path) is None else [path]
    return [entry.path for entry in place.files(path)]


def open_events(place: Place, path: str) -> list[Any]:
    """What pyarrow can read the events of a run from, in their order. HistoryError: they are not there."""
    files = event_files(place, path)
    if not files:
        raise HistoryError("the events are not there", where=f"{path} in {place.url}")
    return [place.open(file) for file in files]


def open_corpus(at: str | Place, *, make: bool = False) -> Corpus:
    """The corpus at this path, URL or place; ``make``: a new one, if there is nothing yet. ConfigError: none."""
    place = place_of(at) if isinstance(at, str) else at
    if place.size(layout.MARKER) is None:
        if place.files("") and not _only_ours(place):
            raise ConfigError(
                "this is no corpus, and it is not empty",
                where=place.url,
                next_step="name another place with --corpus",
            )
        if not make:
            raise ConfigError(
                "there is no corpus here",
                where=place.url,
                next_step="make one: dethrone corpus add RUN… [--corpus PATH]",
            )
        place.create(layout.MARKER, msgspec.json.encode(_Marker(corpus=layout.CORPUS_VERSION)) + b"\n")
    else:
        _refuse_newer(place)
    return Corpus(place)


def _only_ours(place: Place) -> bool:
    """Whether a process that began to make a corpus here was stopped."""
    return all(entry.path.startswith("_") for entry in place.files(""))


def _refuse_newer(place: Place) -> None:
    raw = read_bytes(place, layout.MARKER)
    try:
        marker = msgspec.json.decode(raw, type=_Marker)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{layout.MARKER} is damaged: {error}", where=place.url) from error
    if marker.corpus > layout.CORPUS_VERSION:
        raise ConfigError(
            f"the corpus has version {marker.corpus}, this dethrone knows up to {layout.CORPUS_VERSION}",
            where=place.url,
            next_step="use a newer dethrone",
        )


def checksum_of(file: Any) -> str:
    """The hash of an open file, from where it stands to its end."""
    digest = hashlib.blake2b(digest_size=16)
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def checksum_of_all(place: Place, paths: Iterable[str]) -> str:
    """The hash of the events of a run."""
    sums = []
    for path in paths:
        source = place.open(path)
        with Path(source).open("rb") if isinstance(source, str) else source as file:
            sums.append(checksum_of(file))
    return combined(sums)


def combined(sums: Sequence[str]) -> str:
    """One hash of the hashes of several files; of one file its own."""
    return sums[0] if len(sums) == 1 else hashlib.blake2b(" ".join(sums).encode(), digest_size=16).hexdigest()


def as_json(value: Mapping[str, Any] | Any) -> str:
    """JSON for a column."""
    return msgspec.json.encode(value, enc_hook=str).decode()
