"""One table never mixes two campaigns, whoever runs them, and one that was begun goes on."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign import campaign, live_seeds
from dethrone.harness.engine.campaign.options_record import OPTIONS, begin, differences, told
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.row_file import ROWS
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions

PLAIN = RunOptions(
    system="nacos", backend="sim", nodes=3, time_limit_ns=20 * SECOND, workload="election", settings={"a": "1"}
)
OTHER = {
    "system": ({"system": "raft"}, "system was nacos, now raft"),
    "nodes": ({"nodes": 5}, "nodes was 3, now 5"),
    "backend": ({"backend": "docker"}, "on was sim, now docker"),
    "profile": ({"profile": "x"}, "profile was not set, now x"),
    "variant": ({"variant": "x"}, "variant was not set, now x"),
    "faults": ({"faults": ("kill", "pause")}, "faults was not set, now kill, pause"),
    "no faults": ({"faults": ()}, "faults was not set, now none"),
    "strategy": ({"strategy": "mixed"}, "strategy was random, now mixed"),
    "workload": ({"workload": None}, "workload was election, now not set"),
    "knob": ({"settings": {"a": "2"}}, "settings.a was 1, now 2"),
    "no knob": ({"settings": {}}, "settings.a was 1, now not set"),
    "time": ({"time_limit_ns": 30 * SECOND}, "time-limit was 20 s, now 30 s"),
    "code": ({"fail_on": "violation"}, "fail-on was unknown, now violation"),
}


def row(seed):
    return CampaignRow(
        seed=seed, outcome="pass", exit_code=0, run_dir="", elapsed_ns=1, elections=1, faults=2, ops_ok=3
    )


def simulated(options, seeds, out):
    """By whatever engine: both are a source of rows."""

    def source(_options, seeds, *, count, on_the_way):
        yield from map(row, seeds)

    return campaign.run_virtual(options, seeds, out, Silence(), print, source=source)


def on_hosts(options, seeds, out, monkeypatch):
    def run(given, _listener):
        return RunResult(
            run_dir=given.out, seed=given.seed, plan=None, judgement=None, trouble=(), interrupted=False, exit_code=0
        )

    monkeypatch.setattr(live_seeds, "run", run)
    monkeypatch.setattr(campaign, "is_virtual", lambda _options: False)
    return campaign.run_campaign(options, seeds, out, Silence(), lambda _row: None)


@pytest.mark.parametrize("what", OTHER)
def test_a_simulated_campaign_with_other_options_is_refused_and_nothing_is_touched(tmp_path, what):
    simulated(PLAIN, range(3), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fields, told_so = OTHER[what]
    with pytest.raises(ConfigError) as error:
        simulated(msgspec.structs.replace(PLAIN, **fields), range(5), tmp_path)
    assert told_so in error.value.what
    assert "--out" in error.value.next_step
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_campaign_on_hosts_with_other_options_is_refused(tmp_path, monkeypatch):
    options = msgspec.structs.replace(PLAIN, backend="docker")
    assert len(on_hosts(options, (1, 2), tmp_path, monkeypatch)) == 2
    assert len(on_hosts(options, (1, 2, 3), tmp_path, monkeypatch)) == 3
    with pytest.raises(ConfigError, match="strategy was random, now mixed"):
        on_hosts(msgspec.structs.replace(options, strategy="mixed"), (4,), tmp_path, monkeypatch)
    assert len(campaign.read_rows(tmp_path)) == 3


def test_other_seeds_and_what_changes_no_row_go_on(tmp_path):
    simulated(PLAIN, range(3), tmp_path)
    free = msgspec.structs.replace(PLAIN, seed=4, out=tmp_path / "x", base="b", keep_cluster=True)
    assert simulated(free, range(5), tmp_path).total == 5


def test_another_version_is_another_campaign(tmp_path):
    begin(tmp_path, PLAIN, version="0.1.0", rows=False)
    with pytest.raises(ConfigError, match=r"dethrone was 0\.1\.0, now 0\.2\.0"):
        begin(tmp_path, PLAIN, version="0.2.0", rows=True)


def test_options_that_made_no_row_may_be_corrected(tmp_path):
    begin(tmp_path, PLAIN, version="1", rows=False)
    assert simulated(msgspec.structs.replace(PLAIN, nodes=5), range(2), tmp_path).total == 2
    with pytest.raises(ConfigError, match="nodes was 5, now 3"):
        simulated(PLAIN, range(3), tmp_path)


def test_a_file_counts_by_its_content(tmp_path):
    schedule = tmp_path / "a.toml"
    schedule.write_text("a")
    options = msgspec.structs.replace(PLAIN, schedule=schedule)
    first = told(options, version="1")
    moved = schedule.rename(tmp_path / "b.toml")
    assert told(msgspec.structs.replace(options, schedule=moved), version="1") == first
    moved.write_text("b")
    [difference] = differences(first, told(msgspec.structs.replace(options, schedule=moved), version="1"))
    assert difference.startswith("schedule was a file (")
    moved.unlink()
    with pytest.raises(ConfigError, match="cannot read it"):
        told(options, version="1")


def test_rows_from_before_there_was_such_a_file_go_on_and_it_is_said(tmp_path):
    (tmp_path / ROWS).write_bytes(msgspec.json.encode(row(0)) + b"\n")
    assert "do not record their options" in begin(tmp_path, PLAIN, version="1", rows=True)
    assert begin(tmp_path, PLAIN, version="1", rows=True) == ""


@pytest.mark.parametrize(("raw", "why"), [(b"{", "damaged"), (b'{"schema": 99, "options": {}}', "schema 99")])
def test_options_that_cannot_be_read_are_refused(tmp_path, raw, why):
    (tmp_path / OPTIONS).write_bytes(raw)
    with pytest.raises(ConfigError, match=why):
        begin(tmp_path, PLAIN, version="1", rows=True)
