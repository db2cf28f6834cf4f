"""What a history promises: readable up to the damage, and never more than that."""

import os
from pathlib import Path

import pytest

from dethrone.harness.core.clock import Span
from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.events import SCHEMA, Begin, Mark, Observed
from dethrone.harness.core.history import HistoryWriter, parse_history, read_history


def write_sample(path: Path, marks: int = 5, *, end: bool = True) -> bytes:
    writer = HistoryWriter(path)
    writer.write([Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=("n1", "n2", "n3"), seed=7)])
    for number in range(1, marks + 1):
        writer.write([Mark(seq=number, t=number, name="step", data={"step": number})])
    if end:
        writer.end(t=100, reason="complete")
    else:
        writer.close()
    return path.read_bytes()


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
    lines = write_sample(tmp_path / "h").splitlines(keepends=True)
    lines[2], lines[3] = lines[3], lines[2]
    history = parse_history(b"".join(lines))
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
    monkeypatch.setattr("dethrone.harness.core.history.os.open", lambda *_: real_open("/dev/full", os.O_WRONLY))
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
