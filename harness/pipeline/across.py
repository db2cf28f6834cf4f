"""What only several runs together can show: whether runs of one plan and one version gave the same history.

Simulated runs of the same plan, seed and version of dethrone have the same bytes of history. Groups of them are
compared by their digests, which the manifest holds; where they differ, the events of the group are brought together
(``applyInArrow``) and the first difference is reported. Figures, never a judgement: a development version changes its
code without changing its number. The answer is a row ``reproducible`` in the verdicts of each run of such a group,
``n/a``, and stale as soon as the group changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.pipeline.corpus import as_json
from dethrone.harness.pipeline.frames import events
from dethrone.harness.pipeline.places import Place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NAME = "reproducible"
VERSION = "1"
COLUMNS = ("run", "date", "system", "backend", "digest", "version", "plan", "path", "content")
"""Of the manifest."""

_COMPARED = ("seq", "t", "type", "node", "name", "term", "rest")
RUNS_MAX = 8
"""Runs of one group whose events are compared; more would not show more."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one plan and version. ``content``: changes with the group."""

    key: str
    runs: tuple[Mapping[str, Any], ...]
    content: str

    @property
    def same(self) -> bool:
        """Whether all histories are the same."""
        return len({run["digest"] for run in self.runs}) == 1


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Where the events of a group first differ: ``seq``, and what stands there, by run."""

    key: str
    seq: int
    told: Mapping[str, str]


def groups_of(runs: Sequence[Mapping[str, Any]]) -> list[Group]:
    """The groups of at least two whole simulated runs."""
    by_key: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["backend"] == "sim" and run["digest"]:
            by_key.setdefault(_hash(run["system"], run["version"], run["plan"]), []).append(run)
    return [
        Group(
            key=key,
            runs=tuple(sorted(members, key=lambda run: str(run["run"]))),
            content=_hash(*sorted(f"{run['run']} {run['digest']}" for run in members)),
        )
        for key, members in sorted(by_key.items())
        if len(members) > 1
    ]


def compare(spark: SparkSession, place: Place, groups: Sequence[Group]) -> dict[str, Difference]:
    """The first difference of each of these groups, by key."""
    from pyspark.sql import functions as sf

    asked = {run["run"]: (group.key, run) for group in groups for run in _representatives(group)}
    if not asked:
        return {}
    of = spark.createDataFrame([(run, key) for run, (key, _) in asked.items()], "run string, key string")
    rows = (
        events(spark, place, [run for _, run in asked.values()])
        .select("run", *_COMPARED)
        .join(sf.broadcast(of), "run")
        .groupBy("key")
        .applyInArrow(first_difference, "key string, seq bigint, told string")
        .toArrow()
        .to_pylist()
    )
    return {
        row["key"]: Difference(key=row["key"], seq=row["seq"], told=msgspec.json.decode(row["told"])) for row in rows
    }


def _representatives(group: Group) -> Iterator[Mapping[str, Any]]:
    """One run per digest: the others are its twins."""
    by_digest = {run["digest"]: run for run in reversed(group.runs)}
    yield from sorted(by_digest.values(), key=lambda run: str(run["run"]))[:RUNS_MAX]


def first_difference(rows: pa.Table) -> pa.Table:
    """Of all events of one group: the first ``seq`` at which its runs do not all say the same."""
    import pyarrow as pa

    by_run: dict[str, dict[int, str]] = {}
    columns = [rows.column(name).to_pylist() for name in ("run", *_COMPARED)]
    for run, seq, *rest in zip(*columns, strict=True):
        by_run.setdefault(run, {})[seq] = as_json(rest)
    schema = pa.schema([("key", pa.string()), ("seq", pa.int64()), ("told", pa.string())])
    for seq in sorted(set().union(*by_run.values())):
        said = {run: lines.get(seq, "nothing") for run, lines in sorted(by_run.items())}
        if len(set(said.values())) > 1:
            key = rows.column("key")[0].as_py()
            return pa.Table.from_pylist([{"key": key, "seq": seq, "told": as_json(said)}], schema=schema)
    return schema.empty_table()  # the digests differ and the events do not: no difference to report


def rows_for(groups: Sequence[Group], differences: Mapping[str, Difference]) -> list[dict[str, Any]]:
    """The rows of the verdict table, without their moment."""
    rows = []
    for group in groups:
        names = [run["run"] for run in group.runs]
        difference = differences.get(group.key)
        reason = f"{len(names)} runs of this plan and version have the same bytes"
        metrics: dict[str, Any] = {"runs": names, "same": group.same}
        if not group.same:
            reason = f"{len(names)} runs of this plan and version differ"
            if difference is not None:
                reason += f", first at event {difference.seq}"
                metrics |= {"seq": difference.seq, "told": dict(difference.told)}
        rows += [
            {
                "run": run["run"],
                "date": run["date"],
                "system": run["system"],
                "checker": NAME,
                "version": VERSION,
                "kind": "metric",
                "outcome": "n/a",
                "reason": reason,
                "findings": 0,
                "excused": 0,
                "evidence": "{}",
                "metrics": as_json(metrics),
                "content": group.content,
                "settled": True,
                "took_ns": 0,
            }
            for run in group.runs
        ]
    return rows


def stale(groups: Sequence[Group], verdicts: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Groups in which some run lacks this version's answer to the group."""
    known = {row["run"]: row["content"] for row in verdicts if row["checker"] == NAME and row["version"] == VERSION}
    return [group for group in groups if any(known.get(run["run"]) != group.content for run in group.runs)]


def _hash(*words: str) -> str:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=16).hexdigest()
