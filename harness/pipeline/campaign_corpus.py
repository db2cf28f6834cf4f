"""The rows of a simulated campaign on their way into a corpus, and the histories that it kept.

What is in the corpus follows what is in the campaign's own file: rows that a killed campaign could not bring are
brought by the next call. Guarantees: a seed of a campaign is one row of the table ``seeds``, however often it is
brought; a row that names a kept run comes after that run; ``ROWS_MAX`` rows wait at most. Out of scope: simulating
(``campaign``), and the corpus' own duties (``ingest``, ``tables``, ``upkeep``: many files become few by
``corpus compact``).
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.files import read_regular
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.row_file import SeedSet
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.pipeline import ingest, layout, tables
from dethrone.harness.pipeline.corpus import Corpus, as_json

ROWS_MAX = 10_000
"""Rows that are written at once."""

EVERY_NS = 300 * SECOND
"""How long a row waits for others, while rows come."""


class Bringer:
    """Takes the rows of one campaign. Made by ``bringing``. ``trouble``: what could not be brought."""

    def __init__(self, corpus: Corpus, options: RunOptions, *, version: str) -> None:
        self._corpus = corpus
        self._same = _same(options, version)
        self._there = SeedSet()
        self._waiting: list[CampaignRow] = []
        self._since: Ns = 0
        self.brought = 0
        self.trouble: list[str] = []
        for entry in corpus.place.files(layout.SEEDS.name):  # one by one: all together need not fit
            self._remember(tables.read(corpus.place, layout.SEEDS, ("campaign", "seed"), paths=[entry.path]))
        self._options = options
        self._introduced = False

    @property
    def campaign(self) -> str:
        """Its name in the corpus."""
        return str(self._same["campaign"])

    def _remember(self, known: Any) -> None:
        import pyarrow.compute as pc

        mine = known.filter(pc.equal(known.column("campaign"), self.campaign)).column("seed")
        for batch in mine.chunks:
            for seed in batch:
                self._there.add(seed.as_py())

    def _introduce(self) -> None:
        """Store the campaign once: with its first row, as a refused campaign has none."""
        if self._introduced:
            return
        self._introduced = True
        if self.campaign in self._corpus.campaigns("campaign").column("campaign").to_pylist():
            return
        moment = time.time_ns()
        row = {**self._same, "date": _date(moment), "options": _said(self._options), "written_ns": moment}
        table = tables.rows_of(layout.CAMPAIGNS, [row])
        tables.append(self._corpus.place, layout.CAMPAIGNS, table, name=f"campaign-{self.campaign}-{moment}")

    def take(self, row: CampaignRow, new: bool) -> None:  # noqa: FBT001 - called by the engine, in this order
        """A row of the campaign's file; ``new``: by this call."""
        if not new and row.seed in self._there:
            return
        now = time.monotonic_ns()
        if not self._waiting:
            self._since = now
        self._waiting.append(row)
        if len(self._waiting) >= ROWS_MAX or now - self._since >= EVERY_NS:
            self.bring()

    def bring(self) -> None:
        """Write the rows that wait."""
        if not self._waiting:
            return
        self._introduce()
        moment = time.time_ns()
        runs = self._histories(moment)
        rows = [
            {
                **self._same,
                **msgspec.structs.asdict(row),
                "findings": list(row.findings),
                "run": runs.get(row.run_dir),
                "date": _date(moment),
                "written_ns": moment,
            }
            for row in self._waiting
        ]
        table = tables.rows_of(layout.SEEDS, rows)
        if not tables.append(self._corpus.place, layout.SEEDS, table, name=f"campaign-{self.campaign}-{moment}"):
            raise HistoryError("two files of one name", where=self._corpus.place.url, next_step="call it again")
        self.brought += len(rows)
        self._waiting.clear()

    def _histories(self, moment: Ns) -> dict[str, str]:
        """Directory → run, of the histories that were kept and are in the corpus now."""
        kept = [Path(row.run_dir) for row in self._waiting if row.run_dir]
        found = {}
        for added in ingest.add(self._corpus, [path for path in kept if path.is_dir()], now_ns=moment) if kept else ():
            if added.answer in ("stored", "duplicate"):
                found[str(added.directory)] = added.run
            else:
                self.trouble.append(f"{added.directory}: {added.answer}: {added.why}")
        return found


@contextlib.contextmanager
def bringing(corpus: Corpus, options: RunOptions, *, version: str) -> Iterator[Bringer]:
    """A bringer, which brings what is left also where the campaign was interrupted."""
    bringer = Bringer(corpus, options, version=version)
    try:
        yield bringer
    finally:
        bringer.bring()


def _date(moment: Ns) -> str:
    return datetime.fromtimestamp(moment // SECOND, UTC).strftime("%Y-%m-%d")


def _said(options: RunOptions) -> str:
    """Everything that a simulated run depends on, as JSON; a file that it names by its content."""
    schedule = ""
    if options.schedule is not None:
        schedule = hashlib.blake2b(read_regular(options.schedule), digest_size=16).hexdigest()
    plain = msgspec.structs.replace(
        options, seed=None, out=None, base=None, keep_cluster=False, schedule=None, fail_on="unknown", known=None
    )
    said: dict[str, Any] = {"options": plain, "schedule": schedule}
    if options.known is not None:
        said["known"] = hashlib.blake2b(read_regular(options.known), digest_size=16).hexdigest()
    return as_json(said)


def _same(options: RunOptions, version: str) -> dict[str, Any]:
    """What all rows of a campaign share."""
    return {
        "campaign": hashlib.blake2b(f"{version} {_said(options)}".encode(), digest_size=8).hexdigest(),
        "system": options.system,
        "profile": options.profile,
        "variant": options.variant,
        "backend": options.backend,
        "nodes": options.nodes,
        "version": version,
    }
