"""The facts that nights are compared by, read from a corpus: recovery times and faults through Spark.

Guarantees: a violation is counted for the kind of fault that had begun last before its proof was complete; verdicts on
other bytes than the run has now are not counted; a time is counted for faults that hit the leader, and for partitions,
which may have; a time at which the checker ``failover`` charged noise of the hosts (``noisy_faults``) is the machine's,
and not counted. Runs of a planted variant are skipped unless asked for: they are meant to fail. Out of scope:
comparing (``trends``). Of runs whose events were pruned, verdicts count and times do not.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dethrone.harness.pipeline import frames, native
from dethrone.harness.pipeline.corpus import Corpus
from dethrone.harness.pipeline.nights import ANY, STAGES, Facts, Judged, Run, Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PHASES: Mapping[str, str] = {
    "prevote_started": "pre-vote",
    "election_started": "campaign",
    "campaign": "campaign",
    "elected": "led",
}
"""Core note → what the election was at from then on. Before all of them: ``start``."""
OPTIONS = ("faults", "strategy", "nemesis_interval_ns", "rate_per_s", "processes")
"""Of what the user asked for (run.json): what may explain a change and is not in the plan's own words."""


FAILOVER = "failover"
"""The checker whose metrics say which failovers noise touched."""


@dataclass(frozen=True, slots=True)
class Covered:
    """One fault in force: its kind, what the election was at when it began, what a victim was (``nobody``: none)."""

    run: str
    fault: int
    kind: str
    phase: str
    role: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """Facts, and what the faults met."""

    facts: Facts
    covered: tuple[Covered, ...]


def select(corpus: Corpus, *, system: str, variants: bool) -> list[dict[str, Any]]:
    """The rows of the manifest that count."""
    return [row for row in corpus.runs(system=system) if variants or not row["variant"]]


def gather(
    corpus: Corpus, spark: SparkSession, rows: Sequence[Mapping[str, Any]], *, times_of: frozenset[str]
) -> Gathered:
    """Facts of these rows of the manifest. ``times_of``: the nights whose events are read; of other nights, those of
    runs with a violation."""
    contents = {row["run"]: row["content"] for row in rows}
    said = [
        row
        for row in corpus.verdicts("run", "checker", "outcome", "kind", "content", "metrics").to_pylist()
        if contents.get(row["run"]) == row["content"]
    ]
    failed = {row["run"] for row in said if row["outcome"] == "fail"}
    read = [row for row in rows if row["state"] == "stored" and (row["date"] in times_of or row["run"] in failed)]
    events = frames.events(spark, corpus.place, read)
    begun = _begun(events)
    kinds: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for fault in begun:
        kinds[fault["run"]].append((fault["seq"], fault["kind"]))
    runs = {row["run"]: run_of(row, frozenset(kind for _, kind in kinds[row["run"]])) for row in rows}
    facts = Facts(runs=runs, samples=_samples(events, noisy_faults(said)), judged=_judged(corpus, said, kinds))
    return Gathered(facts=facts, covered=tuple(_covered(begun)))


def run_of(row: Mapping[str, Any], faults: frozenset[str]) -> Run:
    """One row of the manifest as comparisons see it."""
    plan, info = msgspec.json.decode(row["plan"]), msgspec.json.decode(row["info"])
    workload = plan.get("workload", {}).get("name", "")
    asked = info.get("options") or {}
    attributes = {f"versions.{key}": value for key, value in info.get("versions", {}).items()}
    attributes |= {f"tags.{key}": value for key, value in plan.get("tags", {}).items()}
    attributes |= {f"knobs.{key}": value for key, value in plan.get("knobs", {}).items()}
    attributes |= {f"backend.{key}": value for key, value in plan.get("backend_settings", {}).items()}
    attributes |= {f"options.{key}": asked[key] for key in OPTIONS if asked.get(key) is not None}
    same = hashlib.blake2b(f"{row['plan']}\n{row['version']}".encode(), digest_size=12).hexdigest()
    return Run(
        run=row["run"],
        night=row["date"],
        system=row["system"],
        setup=" ".join(
            str(part) for part in (row["backend"], row["nodes"], row["profile"], row["variant"], workload) if part
        ),
        faults=faults,
        attributes={key: _word(value) for key, value in attributes.items()},
        same=same,
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def noisy_faults(said: Sequence[Mapping[str, Any]]) -> frozenset[tuple[str, int]]:
    """(run, fault) of the failovers that noise touched, as far as the stored verdicts say so."""
    found = set()
    for row in said:
        if row["checker"] == FAILOVER:
            figures = msgspec.json.decode(row["metrics"] or "{}")
            found |= {(row["run"], int(fault)) for fault in figures.get("noisy_faults", ())}
    return frozenset(found)


def _samples(events: DataFrame, noisy: frozenset[tuple[str, int]]) -> list[Sample]:
    rows = native.failovers(events).filter("leader_hit is null or leader_hit").toArrow().to_pylist()
    return [
        Sample(
            run=row["run"],
            fault=row["kind"],
            stage=stage,
            ns=row[f"{stage}_ns"],
            censored=row[f"{stage}_censored"],
            number=row["fault"],
        )
        for row in sorted(rows, key=lambda row: (row["run"], row["fault"]))
        if (row["run"], row["fault"]) not in noisy
        for stage in STAGES
    ]


def _begun(events: DataFrame) -> list[dict[str, Any]]:
    """run, fault, kind, roles, seq, phase: faults that began and were not skipped, by run and place."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    named = sf.create_map(*[sf.lit(word) for pair in PHASES.items() for word in pair])
    notes = events.filter(sf.col("type") == "traced").filter(sf.col("name").isin(*PHASES))
    notes = notes.select("run", "seq", named[sf.col("name")].alias("phase"))
    began = (
        native.faults(events).filter("outcome != 'skipped'").select("run", "seq", "fault", "kind", "roles", "outcome")
    )
    before = Window.partitionBy("run").orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = notes.unionByName(began, allowMissingColumns=True)
    rows = rows.withColumn("phase", sf.last("phase", ignorenulls=True).over(before)).filter("kind is not null")
    found: list[dict[str, Any]] = rows.withColumn("roles", sf.map_entries("roles")).toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["run"], row["seq"]))


def _covered(begun: Sequence[Mapping[str, Any]]) -> list[Covered]:
    return [
        Covered(run=row["run"], fault=row["fault"], kind=row["kind"], phase=row["phase"] or "start", role=role)
        for row in begun
        if row["outcome"] == "installed"
        for role in sorted({entry["value"].lower() for entry in row["roles"] or ()} or {"nobody"})
    ]


def _judged(
    corpus: Corpus, said: Sequence[Mapping[str, Any]], kinds: Mapping[str, Sequence[tuple[int, str]]]
) -> list[Judged]:
    proofs: dict[tuple[str, str], Mapping[str, Any]] = {}
    signatures: dict[tuple[str, str], set[str]] = {}
    for finding in corpus.findings().to_pylist():
        if not finding["excused"]:
            key = (finding["run"], finding["checker"])
            proofs.setdefault(key, finding)
            signatures.setdefault(key, set()).update([finding["signature"]] if finding.get("signature") else [])
    found = []
    for row in said:
        if row["outcome"] == "n/a":
            continue
        proof = proofs.get((row["run"], row["checker"])) if row["outcome"] == "fail" else None
        seen = max(proof["certificate"], default=None) if proof else None
        before = [kind for seq, kind in kinds.get(row["run"], ()) if seen is not None and seq < seen]
        found.append(
            Judged(
                run=row["run"],
                checker=row["checker"],
                outcome=row["outcome"],
                fault=before[-1] if before else ANY,
                at_ns=_proved_at(proof) if proof else None,
                signatures=tuple(sorted(signatures.get((row["run"], row["checker"]), ()))) if proof else (),
            )
        )
    return sorted(found, key=lambda one: (one.run, one.checker))


def _proved_at(finding: Mapping[str, Any]) -> int | None:
    """When the last event of a proof was written down, if it is among those that the finding keeps."""
    last = max(finding["certificate"], default=None)
    for line in (finding["events"] or "").splitlines():
        event = msgspec.json.decode(line)
        if event.get("seq") == last:
            at = event.get("t")
            return at if isinstance(at, int) else None
    return None
