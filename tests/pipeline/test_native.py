"""Tables written as expressions say what the checkers say: on drawn histories that collide, and on simulated runs."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow.parquet as pq
import pytest

from dethrone.checkers.base import WRITES
from dethrone.checkers.facts import elections, votes
from dethrone.checkers.failover import CAMPAIGNS, STAGES, _stages, exposure, split_votes
from dethrone.checkers.failover import ROUNDS as CHECKERS_ROUNDS
from dethrone.checkers.traces import named
from dethrone.harness.core.clock import MS, Span
from dethrone.harness.core.events import SCHEMA, Begin, End, FaultEvent, Invoke, Mark, Observed, Return, Silent, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.parquet import SCHEMA_VERSION, write_parquet
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.rows import DERIVED
from dethrone.harness.pipeline import frames, layout, native
from dethrone.harness.pipeline.places import LocalPlace
from tests.pipeline import nights

pytestmark = pytest.mark.spark

NODES = ("n1", "n2", "n3")
LACKING = {1: list(DERIVED), 2: ["victims", "roles", "last_ns"]}
"""Schema → the columns that its files have not."""
DRAWN = 36


class Drawing:
    """A history by chance: few nodes, few terms, little time, so that things happen at once."""

    def __init__(self, seed: int) -> None:
        self.rng = Rng(seed)
        self.t = 0
        self.events: list = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=NODES, seed=seed)]

    def pick(self, *values):
        return values[self.rng.below(len(values))]

    def add(self, kind, /, **fields) -> None:
        self.t += self.rng.below(40) * MS
        group = self.pick("", "", "", "g")
        self.events.append(kind(seq=len(self.events), t=self.t, group=group, **fields))

    def span(self) -> Span:
        lo = max(0, self.t - self.rng.below(60) * MS)
        return Span(lo, lo + self.rng.below(50) * MS)

    def poll(self) -> None:
        self.add(
            Observed,
            span=self.span(),
            node=self.pick(*NODES),
            incarnation=self.pick(1, 1, 1, 2),
            role="",
            leads=self.rng.below(3) > 0,
            term=self.rng.below(4),
        )

    def trace(self) -> None:
        name = self.pick("vote", "vote", "elected", "election_started", "prevote_started", "campaign", "acked")
        body = {
            "candidate": self.pick(*NODES, *NODES, "", 7, None),
            "voters": self.pick(["n1"], ["n1", "n2"], [], "n1", None, 3),
            "index": self.pick(1, 2, "x", 2**80, None),
        }
        self.add(
            Traced,
            span=self.span(),
            node=self.pick(*NODES),
            incarnation=self.pick(1, 2),
            n=len(self.events),
            name=name,
            term=self.rng.below(6),
            role="",
            source=self.pick("shell", "shell", "core"),
            data={key: value for key, value in body.items() if value is not None},
        )

    def fault(self, number: int) -> None:
        kind = self.pick("kill", "pause", "stop", "restart", "clock", "partition")
        victims = (self.pick(*NODES),)
        shown = {"fault": number, "step": 0, "kind": kind, "victims": victims}
        roles = self.pick({victims[0]: "leader"}, {victims[0]: "Leader"}, {victims[0]: "follower"}, {})
        outcome = self.pick("installed", "installed", "indeterminate", "skipped")
        self.add(FaultEvent, phase="begin", span=self.span(), roles=roles, outcome=outcome, **shown)
        if self.rng.below(4):
            for _ in range(self.rng.below(6)):
                self.poll()
            self.add(FaultEvent, phase="end", span=self.span(), outcome=self.pick("healed", "heal_failed"), **shown)

    def op(self, number: int) -> None:
        self.t += self.rng.below(9_000) * MS
        f = self.pick("append", "read", "put")
        self.add(Invoke, op=number, process=0, f=f, value=[1], target=self.pick(*NODES))
        for _ in range(self.pick(0, 1, 1, 1, 2)):
            self.add(Return, op=number, status=self.pick("ok", "ok", "fail", "info"))

    def draw(self) -> History:
        for number in range(14):
            for _ in range(self.rng.below(5)):
                self.poll()
                self.trace()
            if self.rng.below(2):
                self.fault(number)
            if self.rng.below(2):
                self.op(number)
            if self.rng.below(20) == 0:
                self.add(Mark, name="stop")
            self.add(Silent, span=self.span(), node="n1", error="refused")
        if self.rng.below(3) == 0:  # cut short: whatever comes last is the end, be it one that counts for something
            self.op(99)
            self.poll()
            return History(self.events)
        self.events.append(End(seq=len(self.events), t=self.t, count=len(self.events), digest="", reason="complete"))
        return History(self.events)


@pytest.fixture(scope="module")
def histories(sims):
    drawn = {f"drawn-{seed}": Drawing(seed).draw() for seed in range(DRAWN)}
    other = nights.simulated(2, system="nacos", seconds=60)
    return {**drawn, "honest": sims["honest"].history, "bug": sims["bug"].history, "nacos": other.history}


@pytest.fixture(scope="module")
def tables(spark, histories, tmp_path_factory):
    """Name → run → rows, of all histories at once; some of them as files of older schemas."""
    base = tmp_path_factory.mktemp("native [1]")  # a name with wildcards
    runs = []
    for number, (run, history) in enumerate(histories.items()):
        path = layout.events_path(date="2026-11-21", system="raft", run=run, content="0" * 32)
        (base / path).parent.mkdir(parents=True)
        write_parquet(history, base / path)
        schema = (3, 3, 2, 1)[number % 4]
        if schema < SCHEMA_VERSION:
            whole = pq.ParquetFile(base / path).read()
            old = whole.drop_columns(LACKING[schema])
            pq.write_table(old.replace_schema_metadata({b"dethrone.schema": b"%d" % schema}), base / path)
        runs.append({"path": path, "schema": schema})
    events = frames.events(spark, LocalPlace(base), runs).cache()
    found = {}
    for name, make in native.TABLES.items():
        by_run = defaultdict(list)
        for row in make(events).toArrow().to_pylist():
            assert (row["date"], row["system"]) == ("2026-11-21", "raft")
            by_run[row["run"]].append(row)
        found[name] = by_run
    events.unpersist()
    return found


def test_votes_are_those_of_the_checkers(tables, histories):
    for run, history in histories.items():
        told = sorted(
            (row["group"], row["voter"], row["incarnation"], row["term"], row["candidate"], row["seq"])
            for row in tables["votes"][run]
        )
        facts = [
            (one.group, one.voter, one.incarnation, one.term, one.candidate, one.event.seq) for one in votes(history)
        ]
        assert told == sorted(facts), run
    assert sum(map(len, tables["votes"].values())) > DRAWN


def test_elections_are_those_of_the_checkers(tables, histories):
    doubled = 0
    for run, history in histories.items():
        told = {(row["group"], row["term"], row["winner"]): row["seq"] for row in tables["elections"][run]}
        facts: dict = {}
        for one in elections(history):
            facts.setdefault((one.group, one.term, one.node), one.event.seq)
        assert told == facts, run
        assert len(tables["elections"][run]) == len(told)
        doubled += len(told) - len({key[:2] for key in told})
    assert doubled > 0  # two leaders of one term are two rows


def test_votes_and_rounds_of_an_election(tables, histories):
    seen = Counter()
    for run, history in histories.items():
        stood = [event for name in CHECKERS_ROUNDS for event in named(name)(history)]
        won = sorted({(one.group, one.term) for one in elections(history)})
        for row in tables["elections"][run]:
            before = max((term for group, term in won if group == row["group"] and term < row["term"]), default=0)
            mine = [one for one in stood if one.group == row["group"] and before < one.term <= row["term"]]
            assert row["rounds"] == len({one.term for one in mine}), (run, row)
            assert row["began_ns"] == min((one.span.hi for one in mine), default=None)
            facts = [one for one in elections(history) if (one.group, one.term, one.node) == key_of(row)]
            given = [
                len(one.event.data["voters"]) for one in facts if isinstance(one.event.data.get("voters"), list | tuple)
            ]
            assert row["votes"] == max(given, default=None), (run, row)
            assert row["at_ns"] == min(one.event.span.hi for one in facts)
            seen[row["rounds"]] += 1
    assert len(seen) > 2


def key_of(row):
    return row["group"], row["term"], row["winner"]


def test_split_votes_are_counted_like_the_checkers(tables, histories):
    told = {run: len(tables["split-votes"][run]) for run in histories}
    assert told == {run: split_votes(history) for run, history in histories.items()}
    assert sum(told.values()) > 0


def test_overlaps_of_leaders_add_up_to_the_exposure(tables, histories):
    told = {run: sum(row["hi_ns"] - row["lo_ns"] for row in tables["overlaps"][run]) for run in histories}
    assert told == {run: exposure(history) for run, history in histories.items()}
    assert sum(told.values()) > 0


def test_faults_have_their_begin_and_their_end(tables, histories):
    for run, history in histories.items():
        rows = {row["fault"]: row for row in tables["faults"][run]}
        begins = {event.fault: event for event in history.of(FaultEvent) if event.phase == "begin"}
        ends = {event.fault: event for event in history.of(FaultEvent) if event.phase == "end"}
        assert set(rows) == set(begins)
        for number, row in rows.items():
            begin, end = begins[number], ends.get(number)
            assert (row["kind"], row["outcome"], tuple(row["victims"])) == (begin.kind, begin.outcome, begin.victims)
            assert (row["begin_lo_ns"], row["begin_hi_ns"]) == (begin.span.lo, begin.span.hi)
            assert dict(row["roles"]) == dict(begin.roles)
            assert (row["end_outcome"], row["end_hi_ns"]) == ((end.outcome, end.span.hi) if end else (None, None))


def test_failovers_have_the_stages_and_the_censoring_of_the_checker(tables, histories):
    seen = Counter()
    for run, history in histories.items():
        rows = {row["fault"]: row for row in tables["failovers"][run]}
        installed = [one for one in history.of(FaultEvent) if one.phase == "begin" and one.outcome == "installed"]
        assert set(rows) == {event.fault for event in installed}
        for event in installed:
            row = rows[event.fault]
            found, rounds = _stages(history, event)
            told = {stage: (row[f"{stage}_ns"], row[f"{stage}_censored"]) for stage in STAGES}
            assert told == found, (run, event)
            assert row["rounds"] == rounds, (run, event)
            leads = any(role.lower() == "leader" for role in event.roles.values())
            sure = {"partition": None, "clock": False}
            assert row["leader_hit"] == sure.get(event.kind, leads)
            seen.update((stage, censored) for stage, (_, censored) in told.items())
    assert min(seen[stage, censored] for stage in STAGES for censored in (False, True)) > 3


def test_availability_counts_operations_by_minute(tables, histories):
    for run, history in histories.items():
        first = {back.op: back.status for back in reversed(history.of(Return))}
        expected: dict = defaultdict(Counter)
        for invoke in history.of(Invoke):
            status = {"ok": "ok", "fail": "failed"}.get(first.get(invoke.op), "unknown")
            minute = expected[invoke.t // (60_000 * MS)]
            minute["invoked"] += 1
            minute[status] += 1
            minute["writes"] += invoke.f in WRITES
            minute["writes_ok"] += invoke.f in WRITES and status == "ok"
        told = {row["minute"]: row for row in tables["availability"][run]}
        assert set(told) == set(expected)
        for minute, counts in expected.items():
            assert {key: told[minute][key] for key in counts} == dict(counts)


def test_the_words_are_those_of_the_checkers():
    assert set(native.WRITES) == WRITES
    assert set(native.ROUNDS) == CHECKERS_ROUNDS
    assert set(native.CAMPAIGNS) == CAMPAIGNS


def test_no_runs_are_empty_tables(spark, tmp_path):
    events = frames.events(spark, LocalPlace(tmp_path), [])
    assert native.elections(events).toArrow().num_rows == 0
