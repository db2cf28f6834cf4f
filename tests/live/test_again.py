"""Runs again: from the simulator to real processes and back, smaller, and one node step by step from its journal.

Real runs differ from one to the next, so what is asserted is a rate, which is printed: at least one of so many.
"""

from __future__ import annotations

import pytest

from tests.command import told

pytestmark = pytest.mark.docker
RUNS = 3

LOST = """
[[step]]
gap = "1s"
[[step.fault]]
kind = "pause"
victims = "follower"
hold = "500ms"

[[step]]
gap = "1s"
[[step.fault]]
name = "cut"
kind = "partition"
victims = "leader"
params = { shape = "isolate" }
hold = "5s"
[[step.fault]]
kind = "kill"
victims = "hit-by:cut"
when = { event = "write-acked", by = "hit-by:cut", count = 2, after = "cut", within = "4s" }
hold = "500ms"
"""
"""A leader that hears nobody is killed as soon as it has told clients twice that their writes are done.

The pause before it is not needed.
"""

NOTHING = ""
"""No fault at all: the first election shows it."""

BUGS = {
    "45-acks-after-local-append": (LOST, "acknowledged-survives", "3"),
    "21-majority-of-responders": (NOTHING, "leader-has-majority", "5"),
}
"""Bugs of safety: what a busy machine does to liveness is noise, and told as such. Schedule, checker, nodes."""


def dethrone(state, *words):
    """The JSON object, and the exit code."""
    value, code = told(state, *words)
    assert not value.get("trouble"), value["trouble"]
    return value, code


def failing_run(tmp_path, state, bug, backend):
    """A run of a planted bug that its checker fails; the best of a few, where chance has a say."""
    text, checker, nodes = BUGS[bug]
    schedule = tmp_path / "schedule.toml"
    schedule.write_text(text)
    for seed in range(1, RUNS + 1):
        out = tmp_path / f"{backend}-{seed}"
        words = ("raft", "--nodes", nodes, "--variant", bug, "--on", backend, "--schedule", schedule, "--out", out)
        value, _ = dethrone(state, "run", *words, "--seed", str(seed), "--time-limit", "15s")
        if value["checkers"][checker]["verdict"] == "fail":
            return out
    pytest.fail(f"{bug} on {backend}: {checker} failed in none of {RUNS} runs")


NIGHTLY = pytest.mark.nightly("one bug from the simulation to Docker stands for both bugs and both directions")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "there", "bug"),
    [
        ("sim", "docker", "45-acks-after-local-append"),
        pytest.param("sim", "docker", "21-majority-of-responders", marks=NIGHTLY),
        pytest.param("docker", "sim", "45-acks-after-local-append", marks=NIGHTLY),
        pytest.param("docker", "sim", "21-majority-of-responders", marks=NIGHTLY),
    ],
)
def test_a_failing_run_fails_in_the_other_world_too(tmp_path, state, bug, here, there):
    out = failing_run(tmp_path, state, bug, here)
    words = ("--on", there, "--as", "triggers", "--repeat", str(RUNS), "--out", tmp_path / "again")
    value, code = dethrone(state, "replay", out, *words)
    rate = value["reproduced"]
    print(f"{bug}: a failing run on {here} failed {rate['failed']} of {rate['of']} times on {there}")
    assert BUGS[bug][1] in rate["checkers"]
    assert rate["of"] == RUNS
    assert rate["failed"] >= 1
    assert code == 1


@pytest.mark.slow
def test_a_real_run_is_re_executed_step_by_step_and_shows_where_its_rule_is_broken(tmp_path, state):
    out = failing_run(tmp_path, state, "45-acks-after-local-append", "docker")
    runs = [dethrone(state, "replay", out, "--node", node, "--incarnation", "1") for node in ("n1", "n2", "n3")]
    assert all(value["steps"] > 100 and code == 0 for value, code in runs)
    differs = [value["differs"] for value, _ in runs if value["differs"]]
    print(
        f"{sum(value['steps'] for value, _ in runs)} steps, every effect as it was; {len(differs)} nodes broke the rule"
    )
    assert differs
    for one in differs:
        assert "Append" in one["event"]
        assert any(effect.startswith("Reply") for effect in one["did"])
        assert not any(effect.startswith("Reply") for effect in one["would"])


@pytest.mark.nightly("several runs on Docker; simulated schedules are shrunk in every level")
def test_a_failing_real_schedule_is_shrunk_to_what_it_needs(tmp_path, state):
    out = failing_run(tmp_path, state, "45-acks-after-local-append", "docker")
    words = ("--of", "2", "--need", "1", "--tries", "3", "--out", tmp_path / "small")
    value, code = dethrone(state, "shrink", out, *words)
    shrunk = value["shrunk"]
    print(f"{shrunk['steps_before']} steps to {shrunk['steps']}; fails {shrunk['failed']} of {shrunk['of']}")
    assert code in {1, 2}
    assert shrunk["steps_before"] == 2
    assert 0 < shrunk["steps"] <= 2
    assert "partition" in {fault["kind"] for step in shrunk["schedule"]["steps"] for fault in step["faults"]}
    assert shrunk["failed"] >= 1
