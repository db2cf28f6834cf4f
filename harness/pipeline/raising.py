"""Which rows of findings are news, and whether they are known. Pure.

Guarantees: the id of a finding does not change when its run is judged again by another version of the checker, when
rows are compacted, or with the words of its sentence; two findings of one run never share one. Out of scope: telling.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harness.core.known import mended
from harness.pipeline.journal import Finding
from harness.pipeline.known import Known, covers
from harness.pipeline.nights import ANY, Cell
from harness.pipeline.trends import Kind, Regression


def identified(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row that is not excused, with its id."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if row["excused"] is not None:
            continue
        key = (row["run"], row["content"], row["checker"], row["term"], *row["nodes"], *row["certificate"])
        place = seen[key, row["written_ns"]]  # two that differ in words only
        seen[key, row["written_ns"]] += 1
        yield id_of(*key, place), row


def id_of(*parts: Any) -> str:
    """A short name for what these parts say together."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=10).hexdigest()


def finding_of(name: str, row: Mapping[str, Any], *, fault: str, known: Sequence[Known], now_ns: int) -> Finding:
    """The news of a row. ``fault``: that had begun last before its proof."""
    return Finding(
        id=name,
        run=row["run"],
        date=row["date"],
        system=row["system"],
        checker=row["checker"],
        version=row["version"],
        sentence=row["sentence"],
        term=row["term"],
        nodes=tuple(row["nodes"]),
        certificate=tuple(row["certificate"]),
        events=tuple(msgspec.json.decode(line) for line in (row["events"] or "").splitlines()),
        fault=fault,
        known=why_known(row, fault=fault, known=known),
        raised_ns=now_ns,
        signature=row.get("signature") or "",
    )


def seen_before(news: Finding, causes: Mapping[str, Mapping[str, str]], days: Sequence[tuple[str, str]]) -> Finding:
    """The same, known if an earlier run showed its cause and it was not mended since. ``causes``: signature → runs that
    showed it, with their dates; ``days``: system and date of each run that was judged."""
    earlier = causes.get(news.signature, {}) if news.signature and not news.known else {}
    if not earlier:
        return news
    last = max(earlier.values())
    clean = sum(system == news.system and last < date < news.date for system, date in days)
    of = sum(system == news.system and date <= last for system, date in days)
    if mended(clean=clean, hits=len(earlier), of=of):
        return news
    return msgspec.structs.replace(news, known=f"the same cause as in {next(iter(earlier))}")


def why_known(row: Mapping[str, Any], *, fault: str, known: Sequence[Known]) -> str:
    """Why somebody knows of it, or "". An entry of kind ``new`` or ``standing`` covers a single finding, too."""
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
