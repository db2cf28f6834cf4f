"""A history through Parquet and back is the same history."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.history import History, decode_line
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.parquet import SCHEMA_VERSION, read_parquet, write_parquet
from dethrone.harness.core.rows import COLUMNS, DERIVED
from tests.checkers.soup import soups
from tests.checkers.stories import STORIES

TESTS = Path(__file__).parents[1]


def through_json(history):
    """As a reader of the file would have it: lists where tuples were, and so on."""
    import msgspec

    return [decode_line(msgspec.json.encode(event)) for event in history]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(soups())
def test_every_event_comes_back(tmp_path, history):
    events = through_json(history)
    path = tmp_path / "history.parquet"
    try:
        write_parquet(History(events, damage=history.damage), path)
    except HistoryError as error:
        assert "int" in str(error) or "large" in str(error)  # noqa: PT017 - numbers beyond 64 bits cannot be stored
        return
    back = read_parquet(path)
    assert back.events == events
    assert (back.damage, back.complete) == (history.damage, history.complete)


@pytest.mark.parametrize("name", sorted(STORIES)[::7])
def test_the_histories_of_stories_come_back(tmp_path, name):
    history = STORIES[name].tell().end()
    write_parquet(history, tmp_path / "h.parquet")
    assert read_parquet(tmp_path / "h.parquet").events == history.events


def test_the_schema_is_explicit_typed_and_versioned(tmp_path):
    history = read_history(next((TESTS / "golden").glob("*.jsonl")))
    write_parquet(history, tmp_path / "h.parquet")
    schema = pq.read_schema(tmp_path / "h.parquet")
    assert schema.names == [*COLUMNS, *DERIVED]
    assert schema.metadata[b"dethrone.schema"] == str(SCHEMA_VERSION).encode()
    assert {str(field.type) for field in schema} == {"int64", "string", "bool"}
    column = pq.ParquetFile(tmp_path / "h.parquet").metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"


def test_a_foreign_file_and_a_newer_schema_are_refused(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(HistoryError, match="not a Dethrone history"):
        read_parquet(path)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"dethrone.schema": b"99"}), path)
    with pytest.raises(HistoryError, match="schema 99"):
        read_parquet(path)
    path.write_bytes(b"no parquet at all")
    with pytest.raises(HistoryError, match="cannot read"):
        read_parquet(path)


def test_a_cut_off_file_says_so(tmp_path):
    path = tmp_path / "h.parquet"
    write_parquet(read_history(next((TESTS / "golden").glob("*.jsonl"))), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HistoryError, match="cannot read the Parquet file") as told:
        read_parquet(path)
    assert "cut off" in str(told.value)


OLD = sorted((TESTS / "golden" / "parquet").glob("schema-*.parquet"))


@pytest.mark.parametrize("file", OLD, ids=lambda path: path.stem)
def test_files_of_older_schemas_hold_the_same_events(file):
    version, _, story = file.stem.partition(".")
    assert pq.read_schema(file).metadata[b"dethrone.schema"].decode() == version.removeprefix("schema-")
    assert read_parquet(file).events == read_history(TESTS / "golden" / f"{story}.jsonl").events


def test_every_older_schema_has_its_golden_file():
    assert {file.stem.partition(".")[0] for file in OLD} == {f"schema-{n}" for n in range(1, SCHEMA_VERSION)}


def test_what_queries_ask_of_trace_events_has_columns_of_its_own(tmp_path):
    file = next((TESTS / "golden").glob("leader-has-majority.*.jsonl"))
    history = read_history(file)
    write_parquet(history, tmp_path / "h.parquet")
    rows = pq.read_table(tmp_path / "h.parquet").to_pylist()
    elected = [(event.seq, len(event.data["voters"])) for event in history if getattr(event, "name", "") == "elected"]
    assert elected
    assert [(row["seq"], row["voters"]) for row in rows if row["voters"] is not None] == elected


def test_a_path_that_looks_like_partitions_adds_no_columns(tmp_path):
    history = read_history(next((TESTS / "golden").glob("*.jsonl")))
    directory = tmp_path / "date=2026-01-01" / "system=raft"
    directory.mkdir(parents=True)
    write_parquet(history, directory / "h.parquet")
    assert read_parquet(directory / "h.parquet").events == history.events


def test_what_queries_ask_of_faults_and_of_the_end_has_columns_of_its_own(tmp_path):
    file = next(one for one in sorted((TESTS / "golden").glob("*.jsonl")) if '"type":"fault"' in one.read_text())
    history = read_history(file)
    write_parquet(history, tmp_path / "h.parquet")
    rows = pq.read_table(tmp_path / "h.parquet").to_pylist()
    faults = 0
    for row, event in zip(rows, history.events, strict=True):
        if row["type"] == "fault" and row["phase"] == "begin":
            faults += 1
            assert (tuple(json.loads(row["victims"])), json.loads(row["roles"])) == (event.victims, dict(event.roles))
        else:
            assert row["victims"] is row["roles"] is None
    assert faults
    assert [row["last_ns"] for row in rows[:-1]] == [None] * (len(rows) - 1)
    assert rows[-1]["last_ns"] == max(event.t for event in history.events)
