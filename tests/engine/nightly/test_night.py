from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign.idle_cores import IdleCores
from dethrone.harness.engine.campaign.resumable_tasks import read_kept
from dethrone.harness.engine.nightly.new_findings import RAISED, raised
from dethrone.harness.engine.nightly.night import ROWS, nights, past_of, run_night
from dethrone.harness.engine.nightly.night_file import Entry, Night
from dethrone.harness.engine.nightly.night_rows import NightRow
from dethrone.harness.report.night import code
from tests.waiting import until

FAKE = Path(__file__).with_name("night_fake.py")
COMMAND = (sys.executable, str(FAKE))
DAY = 24 * 3600 * SECOND
NOON = 20_000 * DAY + DAY // 2
WAIT_S = 30


class Told:
    """Collects what is said; the wall clock of the night is its own."""

    def __init__(self, now_ns: int = NOON) -> None:
        self.lines: list[str] = []
        self.rows = 0
        self.now_ns = now_ns
        self.after_run_ns = 0

    def on_row(self, directory, drawn, rows):
        self.rows += 1
        self.now_ns += self.after_run_ns
        return []


def started(night: Night, told: Told | None = None, *, version: str = "1"):
    told = told or Told()
    return run_night(
        night,
        version=version,
        base=night.out.parent,
        say=told.lines.append,
        on_row=told.on_row,
        wall_ns=lambda: told.now_ns,
        command=COMMAND,
    )


def a_night(path: Path, *systems: str, seeds: int = 1, **fields) -> Night:
    entries = tuple(Entry(system=system, seeds=seeds, time_limit_ns=SECOND) for system in systems)
    return Night(entries=entries, out=path / "nights", **fields)


def test_a_night_runs_each_job_once_and_the_next_call_begins_another(tmp_path):
    night = a_night(tmp_path, "passes", "fails", seeds=2)
    done = started(night)
    assert [row.outcome for row in done.rows] == ["pass", "fail", "pass", "fail"]
    assert (done.left, done.interrupted, done.trouble) == (0, False, ())
    assert [finding.sentence for finding in done.rows[1].findings] == ["two lead in term 2"]
    assert done.rows[1].report == f"{done.rows[1].run_dir}/report.html"
    again = started(night)
    assert again.directory != done.directory
    assert [path.name for path in nights(night.out)] == [done.drawn.name, f"{done.drawn.name}.2"]
    assert [(job.cell.split("/")[0], job.why) for job in again.drawn.jobs[:2]] == [
        ("fails", "failed before"),
        ("passes", "due"),
    ]
    assert again.rows[0].job.seed == done.rows[1].job.seed, "what failed is run again with the seed that failed"


def test_a_finding_is_told_once_for_all_nights_and_never_lost(tmp_path):
    hook = ("sh", "-c", "cat >> told.jsonl; echo >> told.jsonl; test ! -e broken")
    night = a_night(tmp_path, "fails", seeds=2, on_finding=hook)
    (tmp_path / "broken").touch()
    done = started(night)
    assert len(done.trouble) == 1
    assert "on-finding ended with 1" in done.trouble[0]
    assert raised(night.out) == []
    (tmp_path / "broken").unlink()
    (tmp_path / "told.jsonl").unlink()
    assert started(night).new == ("fails/one-leader-per-term",)
    assert started(night).new == ()
    lines = (tmp_path / "told.jsonl").read_text().split("\n")
    told = [json.loads(line) for line in lines if line]
    assert [(one["checker"], one["sentence"]) for one in told] == [("one-leader-per-term", "two lead in term 2")]
    assert told[0]["replay"].startswith("dethrone replay /")


def test_a_known_finding_does_not_hide_another_cause_of_the_same_checker(tmp_path, monkeypatch):
    night = a_night(tmp_path, "causes", fail_on="new")
    monkeypatch.setenv("FAKE_CAUSES", "persisted-nothing")
    assert started(night).new == ("persisted-nothing",)
    monkeypatch.setenv("FAKE_CAUSES", "persisted-nothing regressed diverged")
    again = started(night)
    assert again.new == ("regressed", "diverged")
    assert code(again, "new") == 1
    third = started(night)
    assert (third.new, code(third, "new")) == ((), 0)


@pytest.mark.slow
def test_what_was_mended_and_comes_back_is_new_again(tmp_path, monkeypatch):
    night = a_night(tmp_path, "causes", seeds=5)
    monkeypatch.setenv("FAKE_CAUSES", "regressed")
    assert started(night).new == ("regressed",)
    monkeypatch.setenv("FAKE_CAUSES", "")
    assert started(night).new == ()
    monkeypatch.setenv("FAKE_CAUSES", "regressed")
    assert started(night).new == (), "five clean runs are not enough"
    monkeypatch.setenv("FAKE_CAUSES", "")
    for _ in range(2):
        assert started(night).new == ()
    monkeypatch.setenv("FAKE_CAUSES", "regressed")
    assert started(night).new == ("regressed",), "ten clean runs after ten of fifteen that failed"
    assert started(night).new == ()


def test_a_night_hands_its_known_findings_to_each_run_and_shows_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CAUSES", "regressed")
    known = tmp_path / "known.toml"
    known.write_text('[[known]]\nsignature = "regressed"\nwhy = "ours"\n')
    done = started(a_night(tmp_path, "causes", known=known))
    (row,) = done.rows
    assert (row.outcome, row.findings, done.new, code(done, "violation")) == ("pass", (), (), 0)
    assert [one.signature for one in row.known] == ["regressed"]


def test_rows_and_raised_findings_of_older_versions_still_count(tmp_path):
    night = a_night(tmp_path, "fails")
    done = started(night)
    assert done.new == ("fails/one-leader-per-term",), "a finding without a signature goes by its checker"
    rows = done.directory / ROWS
    old = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in old:
        del row["known"]
        for one in row["findings"]:
            del one["signature"]
    rows.write_text("".join(json.dumps(row) + "\n" for row in old))
    assert started(night).new == ()


def test_no_run_begins_after_the_budget_and_what_had_no_turn_is_counted(tmp_path):
    told = Told()
    told.after_run_ns = 20 * SECOND
    done = started(a_night(tmp_path, "passes", "fails", seeds=3, budget_ns=50 * SECOND), told)
    assert (len(done.rows), done.left) == (3, 3)
    assert "the budget is used up" in told.lines


def test_a_cut_night_whose_budget_is_over_is_closed_and_another_begins(tmp_path):
    night = a_night(tmp_path, "passes", budget_ns=DAY // 2)
    first = started(night)
    (first.directory / "ended").unlink()
    (first.directory / ROWS).unlink()
    later = started(night, Told(NOON + DAY))
    assert later.directory != first.directory
    assert (first.directory / "ended").exists()


@pytest.mark.parametrize(("system", "said"), [("nonsense", "printed no result"), ("refused", "unknown system; here")])
def test_trouble_of_a_run_is_no_verdict_and_stops_nothing(tmp_path, system, said):
    done = started(a_night(tmp_path, system, "passes"))
    assert {row.outcome: row.exit_code for row in done.rows} == {"unknown": 3, "pass": 0}
    assert said in done.rows[0].reason


def test_what_could_not_be_healed_is_trouble(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_LEFT", "1")
    assert started(a_night(tmp_path, "passes")).trouble == ("not healed, see `dethrone heal`: run-7",)


def test_knobs_and_secrets_go_by_the_environment_and_nothing_else_of_the_users_does(tmp_path, monkeypatch):
    monkeypatch.setenv("PASSWORD_OF_MINE", "hush")
    monkeypatch.setenv("DETHRONE_NODES", "99")
    entry = Entry(
        system="passes",
        versions=("3.5",),
        settings={"quick": "true"},
        secrets={"password": "PASSWORD_OF_MINE"},
        time_limit_ns=SECOND,
    )
    done = started(Night(entries=(entry,), out=tmp_path / "nights"))
    asked = json.loads((done.directory / done.rows[0].run_dir / "asked.json").read_text())
    assert asked["set"] == "quick=true,version=3.5,password=hush"
    assert "hush" not in " ".join(asked["words"])
    assert "hush" not in (done.directory / "night.json").read_text()


@pytest.mark.parametrize(("scale", "asked"), [(1.5, ["1.5"]), (None, [])])
def test_a_night_hands_its_time_scale_to_each_run_and_leaves_it_to_the_run_where_it_says_none(tmp_path, scale, asked):
    entry = Entry(system="passes", time_scale=scale, time_limit_ns=SECOND)
    done = started(Night(entries=(entry,), out=tmp_path / "nights"))
    words = json.loads((done.directory / done.rows[0].run_dir / "asked.json").read_text())["words"]
    assert [after for flag, after in pairwise(words) if flag == "--time-scale"] == asked


def test_a_secret_that_is_not_there_is_refused(tmp_path):
    entry = Entry(system="passes", secrets={"password": "NOT_THERE_AT_ALL"}, time_limit_ns=SECOND)
    with pytest.raises(ConfigError, match="secret 'password'"):
        started(Night(entries=(entry,), out=tmp_path / "nights"))


def test_histories_of_old_runs_are_forgotten_but_not_those_that_failed(tmp_path):
    night = a_night(tmp_path, "passes", "fails", keep_ns=5 * DAY)
    first = started(night)
    started(night, Told(NOON + 4 * DAY))
    assert all((first.directory / row.run_dir / "history").exists() for row in first.rows)
    started(night, Told(NOON + 6 * DAY))
    passed, failed = sorted(first.rows, key=lambda row: row.outcome, reverse=True)
    assert not (first.directory / passed.run_dir / "history").exists()
    assert not (first.directory / passed.run_dir / "nodes").exists()
    assert (first.directory / passed.run_dir / "verdict.json").exists()
    assert (first.directory / failed.run_dir / "history").exists()
    assert (first.directory / failed.run_dir / "nodes").exists()


def test_the_past_of_a_cell_is_its_last_night(tmp_path):
    night = a_night(tmp_path, "fails")
    started(night)
    started(night, Told(NOON + DAY), version="2")
    (past,) = past_of(night.out).values()
    assert past.outcome == "fail"
    assert past.night == nights(night.out)[-1].name


def test_runs_of_a_night_go_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(IdleCores, "enough", lambda *_: True)
    monkeypatch.setenv("FAKE_MEETS", "3")
    done = started(a_night(tmp_path, "meets", "passes", seeds=3, jobs=3))
    assert sorted(row.job.number for row in done.rows) == [1, 2, 3, 4, 5, 6]
    assert {row.outcome for row in done.rows} == {"pass"}
    assert max(row.at_once for row in done.rows) == 3


def test_what_noise_spoiled_beside_others_is_repeated_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(IdleCores, "enough", lambda *_: True)
    told = Told()
    done = started(a_night(tmp_path, "noisy", "passes", seeds=2, jobs=2), told)
    noisy = [row for row in done.rows if row.job.cell.startswith("noisy")]
    assert [(row.outcome, row.at_once, row.by_noise) for row in noisy] == [("unknown", 1, True)] * 2
    assert len(done.rows) == 4
    assert any("repeating it alone" in line for line in told.lines)


SCRIPT = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from dethrone.harness.core.clock import SECOND
    from dethrone.harness.engine.nightly.night import run_night
    from dethrone.harness.engine.nightly.night_file import Entry, Night

    out = Path(sys.argv[1])
    entries = tuple(Entry(system=name, time_limit_ns=SECOND) for name in ("passes", "hangs", "fails"))
    done = run_night(Night(entries=entries, out=out / "nights"), version="1", base=out, say=print,
                     on_row=lambda *_: [], command=(sys.executable, sys.argv[2]))
    print("INTERRUPTED" if done.interrupted else "OVER")
    """
)


def in_the_hanging_run(tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(FAKE)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FAKE_HANGS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - as from a terminal
    )
    until(lambda: list((tmp_path / "nights").glob("*/running")), WAIT_S, what="the second run")
    (mark,) = (tmp_path / "nights").glob("*/running")
    return process, mark.parent


def rows_in(directory: Path) -> list[NightRow]:
    return read_kept(directory / ROWS, NightRow, what="the night's")


def test_a_night_that_was_started_in_the_background_where_ctrl_c_is_ignored_can_end_its_run(tmp_path):
    shell = f"'{sys.executable}' -c \"$NIGHT\" '{tmp_path}' '{FAKE}' & wait $!"
    env = {**os.environ, "FAKE_HANGS": "1", "NIGHT": SCRIPT}
    process = subprocess.Popen(["sh", "-c", shell], env=env, start_new_session=True)
    until(lambda: list((tmp_path / "nights").glob("*/running")), WAIT_S, what="the second run")
    os.killpg(process.pid, signal.SIGTERM)
    (mark,) = (tmp_path / "nights").glob("*/running")
    until((mark.parent / "rolled-back").exists, WAIT_S, what="the run to roll back")
    process.wait(timeout=WAIT_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_night_that_is_told_to_end_rolls_its_run_back_and_goes_on_later(tmp_path, number):
    process, directory = in_the_hanging_run(tmp_path)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=WAIT_S)
    assert "INTERRUPTED" in stdout
    assert (directory / "rolled-back").exists()
    assert [row.outcome for row in rows_in(directory)] == ["pass"]
    assert not (directory / "ended").exists()


def test_the_run_of_a_night_that_was_killed_rolls_back_and_the_next_call_loses_nothing(tmp_path):
    process, directory = in_the_hanging_run(tmp_path)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    until((directory / "rolled-back").exists, WAIT_S, what="the run to roll back")
    done = started(a_night(tmp_path, "passes", "hangs", "fails"))
    assert done.directory == directory
    assert [(row.job.number, row.outcome) for row in done.rows] == [(1, "pass"), (2, "pass"), (3, "fail")]
    assert any(path.name.endswith(".cut-short") for path in directory.iterdir())


def test_a_second_night_waits_for_the_first_ones_lock_and_then_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr("dethrone.harness.engine.nightly.night.TEARDOWN_S", 0.3)
    process, _ = in_the_hanging_run(tmp_path)
    try:
        with pytest.raises(ConfigError, match="another night is using this directory"):
            started(a_night(tmp_path, "passes"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)


def test_a_torn_last_row_is_run_again(tmp_path):
    night = a_night(tmp_path, "passes", "fails")
    done = started(night)
    (done.directory / "ended").unlink()
    rows = (done.directory / ROWS).read_bytes()
    (done.directory / ROWS).write_bytes(rows[:-20])
    again = started(night)
    assert again.directory == done.directory
    assert [row.outcome for row in again.rows] == ["pass", "fail"]
    assert (night.out / RAISED).exists()
    assert (night.out / RAISED).stat().st_size > 0
