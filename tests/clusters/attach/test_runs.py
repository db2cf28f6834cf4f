"""Whole runs on somebody else's containers, through the command line, and one whose harness is killed."""

from __future__ import annotations

import pytest

from dethrone.clusters.attach.sidecar import list_sidecars
from dethrone.harness.core.events import FaultEvent, Observed
from dethrone.harness.core.history_files import read_history
from tests.command import dethrone, started, told
from tests.waiting import until

pytestmark = pytest.mark.docker


@pytest.fixture
def untouched(theirs, client, image):
    """Asserts that all of them run, are the same ones, and nothing of ours is on them."""
    before = theirs.states()

    def look() -> None:
        assert theirs.states() == before
        assert not [one for one in list_sidecars(client) if one.target in dict(before)]
        assert "DETHRONE" not in theirs.rules(image)

    return look


def run(theirs, out, *more: str) -> list[object]:
    words = ["run", "etcd", "--on", "attach", "--label", theirs.label, "--out", out]
    return [*words, "--set", "election_timeout_ms=500", "--set", "heartbeat_interval_ms=50", *more]


@pytest.mark.slow
def test_a_run_judges_them_and_leaves_them_running(theirs, tmp_path, untouched):
    more = ["--time-limit", "14s", "--nemesis-interval", "4s", "--workload", "election"]
    more += ["--faults", "partition,kill,clock"]
    found, code = told(tmp_path / "state", *run(theirs, tmp_path / "run", *more))
    assert code in {0, 2}
    assert not found["trouble"], found["trouble"]
    assert found["verdict"] in {"pass", "unknown"}
    events = read_history(tmp_path / "run" / "history")
    outcomes = [event.outcome for event in events if isinstance(event, FaultEvent)]
    assert "installed" in outcomes
    assert "healed" in outcomes
    assert sum(isinstance(event, Observed) and event.role == "leader" for event in events) > 10
    untouched()
    assert list((tmp_path / "state" / "runs").iterdir()) == []


BROKEN = {
    "pause": ("", lambda theirs: theirs.states()[0][1] == "paused"),
    "clock": ('params = { offset = "3600s" }\n', lambda theirs: theirs.ahead_s("n1") == 3600),
}
"""Fault → its parameters, and what it looks like."""


@pytest.mark.nightly("Docker's runs are killed and healed in make test")
@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_what_a_killed_harness_broke_is_healed_twice(theirs, tmp_path, untouched, kind):
    params, shows = BROKEN[kind]
    schedule = tmp_path / "broken.toml"
    schedule.write_text(f'[[step]]\n[[step.fault]]\nkind = "{kind}"\nvictims = "node:n1"\nhold = "60s"\n{params}')
    process = started(tmp_path / "state", *run(theirs, tmp_path / "run", "--schedule", schedule))
    try:
        until(lambda: shows(theirs), 60, what=f"a {kind}", process=process)
    finally:
        process.kill()
        process.communicate()
    for said in ("healed", ""):
        done = dethrone(tmp_path / "state", "heal")
        assert done.returncode == 0, done.stderr
        assert said in done.stdout + done.stderr
        assert not shows(theirs)
    untouched()
