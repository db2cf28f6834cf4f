"""Faults, workloads, strategies and checkers by the path of a file: they run, and a stranger's are not executed."""

import json
import shutil

import msgspec
import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.campaign.virtual_seeds import rehearse_seeds
from dethrone.harness.engine.run.options import RunOptions

PLUGS = """
from pathlib import Path

import msgspec

from dethrone.harness.core.verdict import Verdict
from dethrone.nemesis.faults.kill import FAULT as KILL
from dethrone.nemesis.strategies.random import RandomStrategy
from dethrone.workloads.log import WORKLOAD as LOG

with Path(__file__).with_name("executed").open("a") as file:
    file.write("x")


class Wrapped:
    of = None

    def __getattr__(self, name):
        return getattr(self.of, name)


SLOW_KILL = msgspec.structs.replace(KILL, kind="slow-kill")


class MyLog(Wrapped):
    of = LOG
    name = "my-log"


class Mine(RandomStrategy):
    name = "mine"


class Strict:
    name, version, kind = "strict", "1", "safety"

    def check(self, history, promise, plan):
        return Verdict(checker="strict", version="1", kind="safety", outcome="fail", reason=f"{plan.workload.name}: no")
"""


@pytest.fixture
def plugs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_FILED", {})
    (tmp_path / "plugs.py").write_text(PLUGS)
    return tmp_path / "executed"


def words(out):
    named = ("--faults", "plugs.py:SLOW_KILL,partition", "--workload", "plugs.py:MyLog", "--strategy", "plugs.py:Mine")
    return ("raft", "--on", "sim", "--nodes", "3", "--seed", "3", "--time-limit", "25s", *named, "--out", str(out))


def test_a_run_takes_them_from_files_and_a_strangers_run_does_not(call, plugs, tmp_path):
    done = call("run", *words(tmp_path / "run"), "--checker", "plugs.py:Strict", "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 1, done.stderr
    assert value["checkers"]["strict"]["reason"] == "my-log: no"
    assert "one-leader-per-term" in value["checkers"]
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    kinds = {fault["kind"] for step in plan["schedule"]["steps"] for fault in step["faults"]}
    assert kinds == {"slow-kill", "partition"}
    plugs.unlink()
    shutil.move(tmp_path / "run", tmp_path / "theirs")
    (tmp_path / "plugs.py").write_text(PLUGS.replace("strict", "stricter"))
    from dethrone.harness.core.code_files import object_in

    object_in.cache_clear()
    for verb in ("replay", "shrink"):
        refused = call(verb, str(tmp_path / "theirs"))
        assert refused.exit_code == 64
        for kind in ("fault", "workload", "strategy", "checker"):
            assert f"the {kind} {tmp_path}/plugs.py" in refused.stderr
    assert not plugs.exists()


def test_checkers_limit_the_verdict_of_a_run_and_of_a_check(call, plugs, tmp_path):
    done = call(
        "run", "raft", "--on", "sim", "--nodes", "3", "--seed", "3", "--time-limit", "10s", "--faults", "none",
        "--checker", "one-leader-per-term", "--out", str(tmp_path / "run"), "--json",
    )  # fmt: skip
    assert list(json.loads(done.stdout)["checkers"]) == ["one-leader-per-term"]
    checked = call("check", str(tmp_path / "run"), "--checker", "crash", "--checker", "plugs.py:Strict", "--json")
    assert sorted(json.loads(checked.stdout)["runs"][0]["checkers"]) == ["crash", "strict"]
    assert call("check", str(tmp_path / "run"), "--checker", "crashed").exit_code == 64
    assert call("check", str(tmp_path / "run"), "--checker", "crash", "--update").exit_code == 64


def test_a_campaign_is_judged_by_the_chosen_checkers_too(plugs):
    options = RunOptions(
        system="raft", backend="sim", nodes=3, faults=(), time_limit_ns=8 * SECOND, checkers=("one-leader-per-term",)
    )
    (row,) = rehearse_seeds(options, [3])
    assert (row.outcome, row.exit_code) == ("pass", 0)
    (strict,) = rehearse_seeds(msgspec.structs.replace(options, checkers=("plugs.py:Strict",)), [3])
    assert strict.outcome == "fail"


def test_what_a_file_holds_must_be_of_its_kind_and_have_a_name_of_its_own(plugs):
    with pytest.raises(ConfigError, match="is no checker: it has no check"):
        registry.plug(registry.CHECKERS, "plugs.py:Mine")
    (plugs.parent / "other.py").write_text(
        "class Kill:\n    kind = 'kill'\n    draw = check = needs = lambda self: None\n"
    )
    with pytest.raises(ConfigError, match="a fault called 'kill' already"):
        registry.plug(registry.FAULTS, "other.py:Kill")
    with pytest.raises(ConfigError, match="unknown fault"):
        registry.load(registry.FAULTS, "plugs.py:SLOW_KILL")


def test_where_a_run_takes_place_is_one_answer_for_demo_and_doctor(call, plugs, tmp_path, monkeypatch):
    from dethrone.harness.commands import demo
    from dethrone.harness.engine.host import description_check

    asked = []
    monkeypatch.setattr(demo, "show", lambda _screen, **given: asked.append(given["backend"]) or {"exit_code": 0})
    monkeypatch.setattr(description_check, "examine", lambda options, _: asked.append(options.backend) or [])
    monkeypatch.setenv("DETHRONE_ON", "sim")
    call("demo")
    call("doctor", "mine.toml")
    monkeypatch.delenv("DETHRONE_ON")
    (tmp_path / "dethrone.toml").write_text('[run]\non = "sim"\nnodes = 5\n')
    call("demo")
    call("doctor", "mine.toml")
    call("doctor", "mine.toml", "--on", "docker")
    assert asked == ["sim", "sim", "sim", "sim", "docker"]


def test_doctor_of_the_machine_examines_the_hosts_that_a_run_would_get(call, tmp_path, monkeypatch):
    from dethrone.harness.engine.host import doctor

    asked = []
    monkeypatch.setattr(doctor, "rows", lambda **given: asked.append(given) or [])
    call("doctor")
    monkeypatch.setenv("DETHRONE_HOSTS", "mine.toml")
    call("doctor")
    monkeypatch.delenv("DETHRONE_HOSTS")
    (tmp_path / "dethrone.toml").write_text('[run]\non = "ssh"\nhost = ["n1=root@192.0.2.1"]\n')
    call("doctor")
    call("doctor", "--host", "n1=root@192.0.2.2")
    file = tmp_path / "mine.toml"
    assert asked == [
        {"hosts": None, "host": ()},
        {"hosts": file, "host": ()},
        {"hosts": None, "host": ("n1=root@192.0.2.1",)},
        {"hosts": None, "host": ("n1=root@192.0.2.2",)},
    ]


def test_doctor_takes_the_name_of_an_installed_system_as_well_as_a_file(call, plugs, monkeypatch):
    from dethrone.harness.engine.host import description_check

    asked = []
    monkeypatch.setattr(description_check, "examine", lambda options, _: asked.append(options.system) or [])
    for named in ("redis-sentinel", "mine.toml", "folder"):
        call("doctor", named, "--on", "docker")
    assert asked == ["redis-sentinel", "mine.toml", "./folder"]
