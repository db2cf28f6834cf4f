"""Which findings of a corpus are new, and handing them to a command: the path of the nights, with their signature.

Guarantees: as in ``dethrone.harness.engine.nightly.new_findings``, a finding is recorded only when the command took it
(exit code 0), so that ``kill -9`` repeats one at most and loses none; one that was mended and returns is new again. Out
of scope: judging (``checking``), and watching for runs (call ``corpus add`` and ``corpus check`` again).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import parquet
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.ledger import state_dir
from dethrone.harness.engine.nightly.new_findings import RAISED, Shown, absent, call_hook, raised
from dethrone.harness.engine.nightly.night_rows import Raised, append
from dethrone.harness.pipeline.corpus import Corpus, open_events
from dethrone.harness.pipeline.known_regressions import Known, covers
from dethrone.harness.pipeline.nights import ANY, Cell
from dethrone.harness.pipeline.places import LocalPlace
from dethrone.harness.pipeline.trends import Kind, Regression

_COLUMNS = ("run", "date", "system", "checker", "version", "sentence", "term", "nodes", "certificate")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The result: keys that the command took, keys that are known, and what went wrong."""

    raised: tuple[str, ...]
    known: tuple[str, ...]
    trouble: tuple[str, ...]


def home(corpus: Corpus) -> Path:
    """The directory of ``raised.jsonl``: the corpus, if it is a directory of this machine."""
    if isinstance(corpus.place, LocalPlace):
        return corpus.place.root
    name = hashlib.blake2b(corpus.place.url.encode(), digest_size=10).hexdigest()
    return state_dir() / "corpora" / name


def raise_new(corpus: Corpus, command: Sequence[str], *, known: Sequence[Known]) -> Told:
    """Hand each new finding of the corpus to the command, once."""
    place = home(corpus)
    place.mkdir(parents=True, exist_ok=True)
    runs = {row["run"]: row for row in corpus.runs("run", "path")}
    rows = [row for row in corpus.findings().to_pylist() if row["excused"] is None]
    before = raised(place)
    last = max((row["date"] for row in runs.values()), default="")
    verdicts = corpus.verdicts("run", "outcome").to_pylist()
    judged = {row["run"] for row in verdicts if row["outcome"] in {"pass", "fail"}}
    gone = absent(_shown([row for row in runs.values() if row["run"] in judged], rows, before=last))
    done = {one.key for one in before if one.key not in gone or one.night == last}
    new, listed, trouble = [], [], []
    for row in sorted(rows, key=lambda row: (row["date"], row["run"])):
        key = key_of(row)
        if key in done or (key in gone and row["date"] != last):
            continue
        fault = _fault_before(corpus, runs.get(row["run"]), row)
        if why_known(row, fault=fault, known=known):
            listed.append(key)
            continue
        events = [msgspec.json.decode(line) for line in (row["events"] or "").splitlines()]
        content = {"key": key, **{name: row[name] for name in _COLUMNS}, "fault": fault, "events": events}
        wrong = call_hook(command, {**content, "signature": row.get("signature") or ""}, Path.cwd())
        if wrong:
            trouble.append(wrong)
            continue
        done.add(key)
        new.append(key)
        append(place / RAISED, Raised(key=key, night=row["date"], run_dir=row["run"]))
    return Told(raised=tuple(new), known=tuple(dict.fromkeys(listed)), trouble=tuple(trouble))


def key_of(row: Mapping[str, Any]) -> str:
    """What makes findings one: the signature; of older versions, which have none, system and checker."""
    return row.get("signature") or f"{row['system']}/{row['checker']}"


def _shown(runs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], *, before: str) -> list[Shown]:
    """What each run of an earlier day showed, in the order of the days."""
    keys: dict[str, set[str]] = {}
    for row in rows:
        keys.setdefault(row["run"], set()).add(key_of(row))
    earlier = sorted((run for run in runs if run["date"] < before), key=lambda run: (run["date"], run["run"]))
    return [Shown(cell=run["system"], keys=frozenset(keys.get(run["run"], ()))) for run in earlier]


def why_known(row: Mapping[str, Any], *, fault: str, known: Sequence[Known]) -> str:
    """The reason of the entry that covers it, or "". An entry of kind ``new`` or ``standing`` covers it, too."""
    cell = Cell(row["system"], fault or ANY, f"fail/{row['checker']}")
    kinds: tuple[Kind, ...] = ("new", "standing")
    for entry in known:
        for kind in kinds:
            regression = Regression(
                kind,
                cell,
                row["date"],
                size="",
                changed=(),
                runs=(row["run"],),
                signature=row.get("signature") or "",
            )
            if covers(entry, regression):
                return entry.why
    return ""


def _fault_before(corpus: Corpus, run: Mapping[str, Any] | None, row: Mapping[str, Any]) -> str:
    """As comparisons count it: the kind that had begun last before the proof was complete."""
    last = max(row["certificate"], default=None)
    if run is None or last is None:
        return ""
    try:
        faults = parquet.faults_begun(*open_events(corpus.place, run["path"]), where=run["path"])
    except (HistoryError, OSError):
        return ""
    before = [kind for seq, kind in faults if seq < last]
    return before[-1] if before else ""
