"""The soak itself: what it draws, what it counts, and that it does harm to nothing but its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.soak import harm, run, tally, trials
from tests.soak.strangers import GROUPS, Strangers
from tests.soak.tally import Seen


@given(st.integers(0, 1 << 30), st.integers(0, 10_000))
def test_a_trial_is_a_function_of_seed_and_number_and_stays_within_its_bounds(seed, number):
    trial = trials.draw(seed, number)
    assert trial == trials.draw(seed, number)
    assert trial.cpu + trial.fsync <= 8
    assert trial.bound_s > trial.at_s
    assert trial.system in trials.OWN or trial.backend == "docker"
    assert trial.chaos not in trials.ASKED_FOR


def test_all_systems_backends_and_kinds_of_harm_have_their_turn_and_some_trials_are_spared():
    drawn = [trials.draw(1, number) for number in range(300)]
    assert {trial.system for trial in drawn} == set(trials.SYSTEMS)
    assert {trial.backend for trial in drawn} == set(trials.BACKENDS)
    assert {trial.chaos for trial in drawn} == {"", *trials.CHAOS}
    assert {trial.backend for trial in drawn if trial.chaos == "kill-worker"} == {"sim"}


def test_harm_to_the_engine_and_to_spark_comes_only_where_it_is_asked_for():
    asked = [trials.draw(1, number, chaos=("engine",)) for number in range(40)]
    assert {trial.chaos for trial in asked} == {"", "engine"}
    assert {trial.backend for trial in asked if trial.chaos} == {"docker"}
    assert all(not trials.draw(1, number, chaos=()).chaos for number in range(40))


# --- counting -----------------------------------------------------------------------------------------------------


def doubtful(*, noise: bool) -> dict:
    return {"verdict": "unknown", "host_noise": noise, "trouble": []}


@pytest.mark.parametrize(
    ("seen", "result", "red"),
    [
        (Seen(code=0, said={"verdict": "pass", "trouble": []}), "PASS", ()),
        (Seen(code=0, said={"verdict": "pass", "trouble": ["x"]}, struck=True), "trouble", ("green over trouble",)),
        (Seen(code=2, said=doubtful(noise=True)), "UNKNOWN by noise", ()),
        (Seen(code=2, said=doubtful(noise=False)), "UNKNOWN by evidence", ()),
        (Seen(code=1, said={"verdict": "fail", "trouble": []}), "FAIL", ("FAIL",)),
        (Seen(code=1, struck=True), "FAIL", ("FAIL",)),
        (Seen(code=3, said={"verdict": "fail", "trouble": ["x"]}, struck=True), "FAIL", ("FAIL",)),
        (Seen(code=3, said={"verdict": "unknown", "trouble": ["x"]}, struck=True), "trouble", ()),
        (Seen(code=3, said={"verdict": None, "trouble": ["x"]}), "trouble", ("trouble without harm",)),
        (Seen(code=-9, struck=True), "killed", ()),
        (Seen(code=-11), "killed", ("trouble without harm",)),
        (Seen(code=64), "refused", ()),
        (Seen(code=-15, hung=True, struck=True), "hung", ("hung",)),
        (Seen(code=-9, struck=True, leftovers=("x",)), "killed", ("leftovers",)),
        (Seen(code=-9, struck=True, touched=("x",)), "killed", ("touched what is not ours",)),
        (Seen(code=-9, struck=True, unreadable="torn"), "killed", ("unreadable history",)),
        (Seen(code=-9, struck=True, heals=(0, 3)), "killed", ("heal failed",)),
    ],
)  # fmt: skip
def test_every_trial_is_counted_once_and_what_must_never_be_is_red(seen, result, red):
    chaos = "kill-harness" if seen.struck else ""
    assert tally.result_of(seen, chaos=chaos) == result
    assert tally.red(seen, chaos=chaos) == red


@settings(max_examples=30)
@given(st.integers(0, 400))
def test_rows_survive_a_torn_end_and_the_next_one_follows_whole(cut):
    row = tally.Row(number=0, result="PASS", what="run", code=0, struck=False, took_s=1.0)
    line = msgspec.json.encode(row) + b"\n"
    path = Path(os.environ.get("TMPDIR", "/tmp"), f"soak-rows-{os.getpid()}")
    try:
        path.write_bytes((line * 3)[: min(cut, 3 * len(line))])
        rows = tally.read_rows(path)
        assert len(rows) == min(cut, 3 * len(line)) // len(line)
        assert path.stat().st_size == len(rows) * len(line)
    finally:
        path.unlink()


def test_the_summary_carries_the_count_of_what_was_done():
    assert "0 of 0" in tally.told([])
    row = tally.Row(
        number=4, result="FAIL", what="run raft", code=1, struck=False, took_s=1.0, red=("FAIL",), kept="/x"
    )
    assert "1 FAIL" in tally.told([row])
    assert "/x" in tally.told([row])


# --- harm ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def process():
    child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], stdout=-1)
    child.stdout.readline()
    yield child
    child.kill()
    child.wait()


def test_limits_are_set_on_the_one_process(process, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "000000000000.jsonl").write_bytes(b"x" * 100)
    for kind in ("no-descriptors", "full-disk", "no-memory"):
        assert harm.strike(kind, process.pid, out=tmp_path, state=tmp_path)
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] == harm.FEW_DESCRIPTORS
    assert resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[0] == 101
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_an_agent_of_another_run_is_not_killed(tmp_path):
    (tmp_path / "runs" / "raft-0badcafe").mkdir(parents=True)
    code = "import time; print(1, flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, "serve", "--run", "raft-01234567"], stdout=-1)
    own = subprocess.Popen([sys.executable, "-c", code, "serve", "--run", "raft-0badcafe"], stdout=-1)
    try:
        other.stdout.readline(), own.stdout.readline()
        assert harm.left_on(harm.runs_of(tmp_path)) == [f"process {own.pid} of raft-0badcafe"]
        assert harm.strike("kill-agent", 1, out=tmp_path, state=tmp_path)
        assert own.wait(5) == -9
        assert other.poll() is None
        assert harm.strike("kill-agent", 1, out=tmp_path, state=tmp_path) == "", "nothing was there to be harmed"
    finally:
        for one in (other, own):
            one.kill()
            one.wait()


@pytest.mark.slow
def test_a_harness_that_is_killed_leaves_nothing_and_a_readable_history(tmp_path):
    trial = trials.draw(1, 0, systems=("raft",), backends=("sim",), chaos=(), load_max=0)
    trial = msgspec.structs.replace(trial, chaos="kill-harness", at_s=2.0, nodes=3, time_limit_s=90, memory_mib=0)
    row = run.carry_out(trial, tmp_path)
    assert row.red == ()
    assert row.result in {"killed", "PASS", "UNKNOWN by evidence"}
    assert not (tmp_path / "trial-0").exists(), "what is not red is not kept"


@pytest.mark.namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("harm_done", ["process", "chain", "namespace", "mount", "group"])
def test_what_is_done_to_a_thing_of_another_program_is_noticed(tmp_path, harm_done):
    strangers = Strangers(tmp_path / "stranger")
    with strangers:
        assert harm_done in strangers.watched
        assert strangers.touched() == ()
        name = strangers.name
        group = next(root for root in GROUPS if (root / name).exists()) / name
        ways = {
            "process": ["pkill", "-STOP", "-P", str(os.getpid()), "sleep"],
            "chain": ["iptables", "-F", name.upper()],
            "namespace": ["ip", "netns", "exec", name, "iptables", "-F"],
            "mount": ["umount", str(tmp_path / "stranger")],
            "group": ["rmdir", str(group)],
        }
        subprocess.run(ways[harm_done], check=True)
        (one,) = strangers.touched()
        assert one.startswith(f"{harm_done} of another program")
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert name not in left
    assert not group.exists()


def test_a_trial_that_hangs_is_ended_and_counted(tmp_path):
    trial = msgspec.structs.replace(trials.draw(1, 0, chaos=(), load_max=0), memory_mib=0)
    stuck = [sys.executable, "-c", "import sys, time; sys.argv[1] == 'heal' or time.sleep(60)"]

    class Soon(type(trial)):
        bound_s = 0.5

    began = time.monotonic()
    row = run.carry_out(Soon(**msgspec.structs.asdict(trial)), tmp_path, command=stuck)
    assert (row.result, row.red) == ("hung", ("hung",))
    assert time.monotonic() - began < 30


def test_a_disk_so_full_that_nothing_can_be_said_is_trouble_and_no_violation(tmp_path):
    """The complaint itself could not be written, and Python's own end turned that into exit code 1: a violation."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)); sys.argv[0] = 'dethrone'\n"
        "from dethrone.harness.cli.main import main; main()"
    )
    words = [
        sys.executable,
        "-c",
        code,
        "run",
        "raft",
        "--on",
        "sim",
        "--seed",
        "1",
        "--json",
        "--out",
        str(tmp_path / "o"),
    ]
    with (tmp_path / "1").open("wb") as stdout, (tmp_path / "2").open("wb") as stderr:
        done = subprocess.run(words, stdout=stdout, stderr=stderr, check=False, timeout=120)
    assert done.returncode == 3
