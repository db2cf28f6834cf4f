"""What a run needs of machines, and which runs are refused before anything is connected."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from dethrone.clusters.ssh.backend import BACKEND
from dethrone.clusters.ssh.code import Python, bundle
from dethrone.clusters.ssh.hosts import PidFile, SshHost, Unit, parse_hosts
from dethrone.clusters.ssh.needs import refuse_machines
from dethrone.clusters.ssh.permissions import refuse_run
from dethrone.harness.cli.main import main
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.interfaces import DeploySpec
from dethrone.harness.core.schedule import PlannedFault, Schedule, Step
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import dry_run

NEWEST = {"path": "/usr/bin/python3", "version": [3, 12], "soabi": "cpython-312-x86_64-linux-gnu"}
NEWEST |= {"machine": "x86_64", "libc": "glibc", "msgspec": True}
EVERYTHING = {
    "uid": 0,
    "python": NEWEST,
    "version": [3, 12, 1],
    "tools": {"iptables-save": True, "iptables-restore": True},
    "faketime": True,
    "sets_clock": True,
    "machine": "x86_64",
    "files": {"/usr/bin/etcd": True},
}
HOST = SshHost(name="n1", address="192.0.2.1")


def refused(facts, host=HOST, image="node", needs=("iptables", "signals", "faketime")) -> str:
    spec = DeploySpec(run_id="r", nodes=("n1",), image=image, base=None, state_dir="/x", needs=frozenset(needs))
    try:
        refuse_machines(spec, {"n1": host}, {"n1": {**EVERYTHING, **facts}})
    except MissingCapability as error:
        return f"{error.what} | {error.next_step}"
    return ""


@pytest.mark.parametrize(
    ("facts", "changes", "says"),
    [
        ({}, {}, ""),
        ({"python": None, "version": [3, 9, 2]}, {}, "it has 3.9.2"),
        ({"python": None}, {"image": "etcd"}, ""),
        ({"files": {}}, {"image": "etcd"}, "apt-get install etcd-server"),
        ({"tools": {"iptables-save": False, "iptables-restore": False}}, {}, "apt-get install iptables"),
        ({"tools": {"iptables-save": False, "iptables-restore": False}}, {"needs": ("signals",)}, ""),
        ({"uid": 1000}, {}, "sudo = true"),
        ({"faketime": False}, {}, ""),
        ({"faketime": False, "machine": "aarch64"}, {}, "apt-get install libfaketime"),
        ({"faketime": False, "machine": "aarch64"}, {"needs": ("iptables",)}, ""),
        ({"machine": "aarch64"}, {"needs": ("vdso",)}, "x86-64"),
        ({"faketime": False, "machine": "aarch64"}, {"host": msgspec.structs.replace(HOST, settimeofday=True)}, ""),
        ({"sets_clock": False}, {"host": msgspec.structs.replace(HOST, settimeofday=True)}, "CAP_SYS_TIME"),
        ({}, {"host": msgspec.structs.replace(HOST, target=Unit("etcd.service"))}, ""),
        (
            {"machine": "aarch64"},
            {"host": msgspec.structs.replace(HOST, target=Unit("etcd.service"))},
            "settimeofday = true",
        ),
    ],
)
def test_what_a_machine_lacks_is_said_with_the_remedy_and_nothing_else_is(facts, changes, says):
    found = refused(facts, **changes)
    assert says in found
    assert bool(found) is bool(says)


def plan_of(*faults: PlannedFault, nodes: int = 5):
    plan = dry_run(RunOptions(system="raft", backend="docker", nodes=nodes, seed=1, faults=()))
    schedule = Schedule(seed=1, strategy="test", steps=(Step(faults=faults, gap_ns=0),))
    return msgspec.structs.replace(plan, schedule=schedule)


def file_of(count: int = 5, top: str = "", **fields):
    names = [f"n{number}" for number in range(1, count + 1)]
    text = f"expendable = {names}\n{top}".replace("'", '"')
    file = parse_hosts(
        text + "".join(f'[hosts.{name}]\naddress = "192.0.2.{number}"\n' for number, name in enumerate(names, 1)),
        source="hosts.toml",
    )
    hosts = {name: msgspec.structs.replace(host, **fields) for name, host in file.hosts.items()}
    return msgspec.structs.replace(file, hosts=hosts)


@pytest.mark.parametrize(
    ("victims", "kind", "allowed"),
    [
        ("leader", "kill", True),
        ("random:2", "kill", True),
        ("random:3", "kill", False),
        ("majority", "restart", False),
        ("all", "stop", False),
        ("all", "pause", True),
        ("node:n1,n2", "kill", True),
        ("node:n1,n2,n3", "kill", False),
    ],
)
def test_a_fault_that_must_stop_more_than_the_minority_is_refused_before_the_run(victims, kind, allowed):
    plan = plan_of(PlannedFault(kind=kind, victims=victims, hold_ns=0))
    if allowed:
        refuse_run(file_of(), plan)
    else:
        with pytest.raises(ConfigError, match="at once") as caught:
            refuse_run(file_of(), plan)
        assert "majority = true" in caught.value.next_step
    refuse_run(file_of(top="majority = true\n"), plan)


def test_only_those_who_vote_count_for_the_minority():
    plan = plan_of(PlannedFault(kind="kill", victims="node:n4,n5", hold_ns=0))
    refuse_run(file_of(), msgspec.structs.replace(plan, voters=("n1", "n2", "n3")))
    with pytest.raises(ConfigError, match="stops 2 of 3 voting hosts"):
        refuse_run(file_of(), msgspec.structs.replace(plan, voters=("n1", "n4", "n5")))


def test_nothing_is_killed_that_nobody_could_start_again():
    plan = plan_of(PlannedFault(kind="kill", victims="leader", hold_ns=0))
    with pytest.raises(ConfigError, match="no one would start it again") as caught:
        refuse_run(file_of(target=PidFile("/run/x.pid")), plan)
    assert "start =" in caught.value.next_step
    refuse_run(file_of(target=PidFile("/run/x.pid", "service x start")), plan)
    refuse_run(file_of(target=Unit("x.service")), plan)


def test_a_planted_bug_is_not_said_to_be_in_a_program_that_runs_already():
    plan = msgspec.structs.replace(plan_of(), variant="raft/forgets-vote")
    refuse_run(file_of(), plan)
    with pytest.raises(ConfigError, match="it runs already"):
        refuse_run(file_of(target=Unit("x.service")), plan)


def test_a_plan_for_programs_that_run_already_counts_on_nothing_that_they_write(tmp_path):
    told = {}
    for name, more in (("ours", ""), ("theirs", 'target = { unit = "raft.service" }\n')):
        file = tmp_path / f"{name}.toml"
        file.write_text('expendable = ["n1"]\n[hosts.n1]\naddress = "192.0.2.1"\n' + more)
        options = RunOptions(system="raft", backend="ssh", hosts=file, nodes=1, seed=1, faults=())
        told[name] = set(dry_run(options).observable)
    assert told["ours"] - told["theirs"] == {"traced", "witness", "found", "shell"}
    assert {"observed", "ops"} <= told["theirs"]


def test_nodes_get_the_code_they_import_and_msgspec_only_where_it_is_missing():
    import sysconfig
    import zlib

    here = Python(
        path="python3",
        version=(3, 11),
        soabi=str(sysconfig.get_config_var("SOABI")),
        machine="x86_64",
        libc="glibc",
        msgspec=False,
    )
    whole = zlib.decompress(bundle(here, "n1"))
    assert b"lib/dethrone/clusters/node/main.py" in whole
    assert b"lib/msgspec/_core" in whole
    assert b"lib/dethrone/clusters/ssh" not in whole
    assert b"lib/msgspec/" not in zlib.decompress(bundle(msgspec.structs.replace(here, msgspec=True), "n1"))


# --- as users meet it ---------------------------------------------------------------------------------------------


def dethrone(*words: str):
    return CliRunner().invoke(main, [*words, "--dry-run"], standalone_mode=True)


@pytest.fixture
def three(tmp_path) -> Path:
    path = tmp_path / "hosts.toml"
    path.write_text(
        'expendable = ["n1", "n2", "n3"]\n'
        + "".join(f'[hosts.n{number}]\naddress = "192.0.2.{number}"\n' for number in (1, 2, 3))
    )
    return path


def test_it_is_registered_as_a_backend_whose_hosts_are_lent():
    lending = BACKEND.traits.lending
    assert lending is not None
    assert lending.usable() == ()


def test_a_run_without_machines_is_refused_as_wrong_usage():
    done = dethrone("run", "raft", "--on", "ssh")
    assert done.exit_code == 64
    assert "no machines were named" in done.stderr
    assert "--hosts hosts.toml" in done.stderr


def test_a_run_has_as_many_nodes_as_the_file_lends_unless_told(three):
    def nodes(*words: str) -> list[str]:
        done = dethrone("run", "raft", "--on", "ssh", "--hosts", str(three), *words, "--json")
        return json.loads(done.stdout)["plan"]["nodes"]

    assert nodes() == ["n1", "n2", "n3"]
    assert nodes("--nodes", "2") == ["n1", "n2"]
    many = dethrone("run", "raft", "--on", "ssh", "--hosts", str(three), "--nodes", "4")
    assert (many.exit_code, "no machine for n4" in many.stderr) == (64, True)


def test_a_flag_never_makes_a_machine_expendable(three):
    words = ["run", "raft", "--on", "ssh", "--nodes", "2"]
    alone = dethrone(*words, "--host", "n1=root@192.0.2.9,n2=192.0.2.10")
    assert alone.exit_code == 64
    assert 'expendable = ["n1", "n2"]' in alone.stderr
    assert dethrone(*words, "--hosts", str(three), "--host", "n1=root@192.0.2.9:2222").exit_code == 0


def test_a_hosts_file_that_is_not_there_or_meant_for_another_backend_is_said(three, tmp_path):
    lost = dethrone("run", "raft", "--on", "ssh", "--hosts", str(tmp_path / "none.toml"))
    assert (lost.exit_code, "cannot be read" in lost.stderr) == (64, True)
    other = dethrone("run", "raft", "--on", "docker", "--hosts", str(three))
    assert (other.exit_code, "ssh" in other.stderr) == (64, True)
