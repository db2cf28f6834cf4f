"""What a history promises: readable up to the damage, and never more than that."""

import os
from pathlib import Path

import pytest

from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import SCHEMA, Begin, Mark, Observed
from dethrone.harness.core.history import parse_history
from dethrone.harness.core.history_files import read_history, seal
from dethrone.harness.core.history_writer import HistoryWriter
from tests.stored import lines
from tests.waiting import until


def write_sample(path: Path, marks: int = 5, *, end: bool = True) -> bytes:
    writer = HistoryWriter(path)
    writer.write([Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1", "n2", "n3"), seed=7)])
    for number in range(1, marks + 1):
        writer.write([Mark(seq=number, t=number, name="step", data={"step": number})])
    if end:
        writer.end(t=100, reason="complete")
    else:
        writer.close()
    return lines(path)


def test_a_closed_history_is_complete_and_undamaged(tmp_path):
    write_sample(tmp_path / "h")
    history = read_history(tmp_path / "h")
    assert history.complete
    assert history.damage is None
    assert [event.seq for event in history] == list(range(7))
    assert history.begin.nodes == ("n1", "n2", "n3")


def test_a_history_without_its_end_record_is_readable_but_never_complete(tmp_path):
    write_sample(tmp_path / "h", end=False)
    history = read_history(tmp_path / "h")
    assert len(history) == 6
    assert not history.complete
    assert "no end record" in history.damage


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_truncated_history_is_read_up_to_the_damage(tmp_path, cut):
    raw = write_sample(tmp_path / "h")
    history = parse_history(raw[:-cut])
    assert not history.complete
    assert history.damage
    assert [event.seq for event in history] == list(range(len(history)))


def test_reordered_lines_are_damage_that_names_the_line(tmp_path):
    written = write_sample(tmp_path / "h").splitlines(keepends=True)
    written[2], written[3] = written[3], written[2]
    history = parse_history(b"".join(written))
    assert history.damage.startswith("line 3: seq 3 where 2 was expected")
    assert len(history) == 2


def test_a_changed_value_is_found_by_the_digest(tmp_path):
    raw = write_sample(tmp_path / "h").replace(b'"step":3}', b'"step":4}')
    history = parse_history(raw)
    assert "digest" in history.damage
    assert not history.complete


def test_two_histories_in_one_file_are_damage(tmp_path):
    raw = write_sample(tmp_path / "h")
    assert "two histories" in parse_history(raw + raw).damage


@pytest.mark.parametrize(
    "raw", [b"", b"\n\n", b"hello\n", b"{}\n", b'{"type":"mark","seq":0,"t":0,"name":"x"}\n', b"[" * 100_000 + b"\n"]
)
def test_a_foreign_file_is_an_error_not_an_empty_history(raw):
    with pytest.raises(HistoryError):
        parse_history(raw)


def test_a_newer_schema_is_refused_with_what_to_do(tmp_path):
    raw = write_sample(tmp_path / "h").replace(f'"schema":{SCHEMA}'.encode(), f'"schema":{SCHEMA + 1}'.encode())
    with pytest.raises(HistoryError, match="schema") as caught:
        parse_history(raw)
    assert caught.value.next_step


def test_an_existing_history_is_never_overwritten(tmp_path):
    write_sample(tmp_path / "h")
    with pytest.raises(HistoryError):
        HistoryWriter(tmp_path / "h")


def test_a_gap_in_seq_is_refused_by_the_writer(tmp_path):
    writer = HistoryWriter(tmp_path / "h")
    with pytest.raises(ValueError, match="seq 1 where 0"):
        writer.write([Mark(seq=1, t=0, name="x")])
    writer.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the full device of Linux")
def test_a_full_disk_is_said_with_its_cause_and_the_next_step(tmp_path, monkeypatch):
    real_open = os.open
    monkeypatch.setattr("dethrone.harness.core.history_writer.os.open", lambda *_: real_open("/dev/full", os.O_WRONLY))
    writer = HistoryWriter(tmp_path / "h", sync=False)
    with pytest.raises(HistoryError, match="No space left") as caught:
        writer.write([Mark(seq=0, t=0, name="x")])
    assert "dethrone check" in caught.value.next_step


def test_events_survive_a_round_trip_with_all_their_fields(tmp_path):
    observed = Observed(
        seq=1,
        t=5,
        span=Span(1, 4),
        node="n1",
        incarnation=2,
        role="LEADER",
        leads=True,
        term=3,
        leader="n1",
        log_end=(3, 9),
    )
    writer = HistoryWriter(tmp_path / "h")
    writer.write([Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1",), seed=1), observed])
    writer.end(t=9, reason="complete")
    assert read_history(tmp_path / "h").of(Observed) == [observed]


# --- segments -----------------------------------------------------------------------------------------------------


def write_segments(place: Path, marks: int = 25, *, size: int = 10, end: bool = True) -> bytes:
    """A history in segments of ten events; its canonical lines."""
    writer = HistoryWriter(place, segment_events=size)
    writer.write([Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1",), seed=7)])
    for number in range(1, marks + 1):
        writer.write([Mark(seq=number, t=number, name="step", data={"step": number, "text": "ü\u2028"})])
    sealed = {f"{first:012}.parquet" for first in range(0, marks // size * size, size)}
    until(
        lambda: {path.name for path in place.iterdir()} == {*sealed, f"{marks // size * size:012}.jsonl"},
        what="the full segments to be sealed",
    )
    if end:
        writer.end(t=100, reason="complete")
    else:
        writer.close()
    return lines(place)


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_a_full_segment_is_sealed_by_another_process_and_the_open_one_stays_lines(tmp_path):
    write_segments(tmp_path / "h", end=False)
    assert names(tmp_path / "h") == ["000000000000.parquet", "000000000010.parquet", "000000000020.jsonl"]


def test_the_digest_is_that_of_the_lines_whatever_their_form(tmp_path):
    written = write_segments(tmp_path / "h")
    assert seal(tmp_path / "h", ended=True) == 1
    assert [path.suffix for path in (tmp_path / "h").iterdir()] == [".parquet"] * 3
    assert lines(tmp_path / "h") == written
    history = read_history(tmp_path / "h")
    assert history.complete
    assert parse_history(written).events == history.events
    assert seal(tmp_path / "h", ended=True) == 0


def test_lines_that_outlived_the_sealing_of_their_segment_are_not_read_twice(tmp_path):
    write_segments(tmp_path / "h")
    seal(tmp_path / "h", ended=True)
    (tmp_path / "h" / "000000000010.jsonl").write_text("anything\n")
    assert read_history(tmp_path / "h").complete
    seal(tmp_path / "h", ended=True)
    assert "000000000010.jsonl" not in names(tmp_path / "h")


def test_what_a_kill_left_is_read_as_one_prefix(tmp_path):
    whole = write_segments(tmp_path / "h", end=False)
    last = tmp_path / "h" / "000000000020.jsonl"
    last.write_bytes(last.read_bytes()[:-7])
    history = read_history(tmp_path / "h")
    assert [event.seq for event in history] == list(range(25))
    assert not history.complete
    assert "cut off in the middle" in history.damage
    assert whole.startswith(lines(tmp_path / "h"))
    assert seal(tmp_path / "h", ended=True) == 0


@pytest.mark.parametrize("lost", ["000000000010.parquet", "000000000000.parquet"])
def test_nothing_behind_a_missing_segment_is_read(tmp_path, lost):
    write_segments(tmp_path / "h")
    (tmp_path / "h" / lost).unlink()
    if lost.startswith("000000000000"):
        with pytest.raises(HistoryError):
            read_history(tmp_path / "h")
        return
    history = read_history(tmp_path / "h")
    assert len(history) == 10
    assert "a segment is missing" in history.damage


def test_a_bad_page_of_a_sealed_segment_is_damage_not_events(tmp_path):
    write_segments(tmp_path / "h")
    path = tmp_path / "h" / "000000000010.parquet"
    raw = bytearray(path.read_bytes())
    raw[60] ^= 0xFF
    path.write_bytes(bytes(raw))
    history = read_history(tmp_path / "h")
    assert len(history) == 10
    assert "000000000010.parquet" in history.damage


def test_numbers_beyond_64_bits_stay_lines(tmp_path):
    writer = HistoryWriter(tmp_path / "h")
    writer.write([Begin(seq=0, t=2**70, schema=SCHEMA, system="raft", nodes=("n1",), seed=7)])
    writer.end(t=2**70, reason="complete")
    assert seal(tmp_path / "h", ended=True) == 0
    assert names(tmp_path / "h") == ["000000000000.jsonl"]
    assert read_history(tmp_path / "h").complete
