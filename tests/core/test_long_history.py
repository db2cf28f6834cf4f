"""A history that stays on disk: the same events, views and verdicts as the one in memory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dethrone.harness.core import client_ops, history_files, store
from dethrone.harness.core.events import Begin, End, Invoke, Mark, NodeProcess, Observed, Return, Traced
from dethrone.harness.core.history import BLOCK_EVENTS, History
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.long_history import LongHistory
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.run.judge import judge, load_checkers
from tests.core import differential
from tests.long_runs import simulated

pytestmark = pytest.mark.slow

SEEDS, FIRST = int(os.environ.get("DETHRONE_RANDOM_RUNS", "6")), int(os.environ.get("DETHRONE_RANDOM_SEED", "0"))
"""Random runs, and the first seed of theirs."""
MORE = pytest.mark.nightly("up to a quarter of a minute each; make test has another of its kind")


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> tuple[Path, Plan]:
    return simulated(tmp_path_factory.mktemp("long") / "run")


@pytest.fixture
def copied(sound, tmp_path) -> Path:
    place = tmp_path / store.HISTORY
    shutil.copytree(sound[0], place)
    return place


def in_memory(place: Path) -> History:
    return history_files._in_memory(place)


def test_a_long_history_is_the_same_events_read_one_by_one_by_type_and_by_seq(sound):
    long, whole = read_history(sound[0]), in_memory(sound[0])
    assert isinstance(long, LongHistory)
    assert len(long) == len(whole) > BLOCK_EVENTS
    assert list(long) == list(whole)
    for kind in (Begin, Invoke, Mark, NodeProcess, Observed, Return, Traced):
        assert long.of(kind) == whole.of(kind)
    assert sorted(path.suffix for path in sound[0].iterdir()) == [".parquet"] * 2, "no sealer left anything behind"
    for seq in (0, 1, 777, BLOCK_EVENTS - 1, BLOCK_EVENTS, len(whole) - 1, -1):
        assert long.at(seq) == whole.at(seq)
    assert (long.complete, long.damage, long.begin, long.end) == (True, None, whole.begin, whole.end)
    assert type(long.end) is End


@pytest.mark.parametrize("variant", [None, "45-acks-after-local-append"])
def test_verdicts_and_findings_on_a_long_history_are_those_on_the_one_in_memory(variant, sound, tmp_path):
    place, plan = sound if variant is None else simulated(tmp_path / "run", variant=variant)
    long = read_history(place)
    assert isinstance(long, LongHistory)
    found, expected = judge(long, plan), judge(in_memory(place), plan)
    assert found == expected
    assert found.outcome == ("pass" if variant is None else "fail")


@pytest.mark.parametrize("variant", [None, pytest.param("45-acks-after-local-append", marks=MORE)])
def test_operations_that_are_judged_in_batches_of_objects_lead_to_the_same_verdicts(
    variant, sound, tmp_path, monkeypatch
):
    place, plan = sound if variant is None else simulated(tmp_path / "run", variant=variant)
    expected = judge(in_memory(place), plan)
    monkeypatch.setattr(client_ops, "BATCH_OPS", 300)
    long = read_history(place)
    assert len(list(client_ops.client_ops(long).batches({"append", "read"}))) > 3
    assert judge(long, plan) == expected
    assert judge(in_memory(place), plan) == expected


def test_judging_tells_how_many_events_are_read_and_then_how_many_checkers_are_done(sound):
    told = []
    checkers = {name: one for name, one in load_checkers().items() if name in ("coverage", "log", "set")}
    long = read_history(sound[0])
    assert judge(long, sound[1], checkers, told=lambda *row: told.append(row)) == judge(long, sound[1], checkers)
    assert told == [
        ("events", 0, len(long)),
        ("events", BLOCK_EVENTS, len(long)),
        *(("checkers", done, 3) for done in range(3)),
    ]


def test_a_segment_that_is_not_sealed_yet_is_a_part_of_it(copied, sound):
    last = max(copied.iterdir())
    events = list(in_memory(sound[0]))[BLOCK_EVENTS:]
    last.unlink()
    lines = last.with_suffix(".jsonl")
    lines.write_bytes(b"".join(map(history_files.line_of, events)))
    long = read_history(copied)
    assert isinstance(long, LongHistory)
    assert list(long) == list(in_memory(sound[0]))


@pytest.mark.parametrize("cut", [pytest.param(0, marks=MORE), 10])
def test_what_a_killed_run_left_is_read_from_disk_up_to_there_and_is_not_complete(cut, copied, sound):
    last = max(copied.iterdir())
    events = list(in_memory(sound[0]))[BLOCK_EVENTS:-500]
    last.unlink()
    lines = b"".join(map(history_files.line_of, events))
    last.with_suffix(".jsonl").write_bytes(lines[: len(lines) - cut])
    long, whole = read_history(copied), in_memory(copied)
    assert isinstance(long, LongHistory)
    assert list(long) == list(whole)
    assert (long.complete, long.end, long.damage) == (False, None, whole.damage)
    assert judge(long, sound[1]) == judge(whole, sound[1])


def test_segments_that_a_killed_run_had_sealed_all_are_its_history(copied, sound):
    max(copied.iterdir()).unlink()
    shutil.copytree(copied, again := copied.with_name("again"))
    (again / f"{BLOCK_EVENTS:012d}.jsonl").touch()
    long = read_history(again)
    assert isinstance(long, LongHistory)
    assert list(long) == list(in_memory(sound[0]))[:BLOCK_EVENTS]
    assert long.damage == in_memory(copied).damage


def test_a_byte_that_changes_after_it_was_opened_is_found_while_it_is_read(copied, sound):
    long = read_history(copied)
    assert isinstance(long, LongHistory)
    first = min(copied.glob("*.parquet"))
    raw = bytearray(first.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    first.write_bytes(raw)
    assert judge(long, sound[1]).outcome == "unknown"
    assert long.damage is not None


@pytest.mark.parametrize("hurt", ["missing", "shorter", pytest.param("another", marks=MORE)])
def test_what_does_not_fit_its_end_is_read_event_by_event_and_never_complete(hurt, copied, tmp_path):
    first, second = sorted(copied.iterdir())[:2]
    if hurt == "missing":
        second.unlink()
    elif hurt == "shorter":
        second.write_bytes(second.read_bytes()[:-1000])
    else:
        other, _ = simulated(tmp_path / "other", variant="plain-never-truncates")
        shutil.copy(other / first.name, first)
    found = read_history(copied)
    assert not isinstance(found, LongHistory)
    assert found.damage is not None
    assert not found.complete


@pytest.mark.parametrize(
    "seed", [FIRST, FIRST + 1, *(pytest.param(seed, marks=MORE) for seed in range(FIRST + 2, FIRST + SEEDS))]
)
def test_random_runs_are_judged_from_disk_as_they_are_in_memory(seed):
    found = differential.compare(seed)
    assert found.events
    assert not found.differs, found
