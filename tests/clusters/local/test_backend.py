"""Hosts out of real namespaces: what they see, what is proved of them, and that nothing stays."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dethrone.clusters.agent import bundle
from dethrone.clusters.docker.labels import LIB
from dethrone.clusters.local import backend as module
from dethrone.clusters.local import network, owned, users
from dethrone.harness.core.errors import ClusterError, ConfigError, MissingCapability
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from dethrone.harness.core.interfaces import No, Yes

pytestmark = pytest.mark.namespaces

ROOT = Path(__file__).resolve().parents[3]
HOUR_NS = 3600 * 1_000_000_000


def converge(deployed, **wants):
    return deployed.backend.converge_all(deployed.hosts, wants)


def test_this_machine_can(three):
    assert isinstance(three.backend.available(), Yes)
    assert three.backend.traits.capabilities >= {"signals", "iptables"}


def test_each_host_is_alone_with_its_processes_and_has_its_own_name(three):
    code, said = three.shell("n2", "hostname; ls -d /proc/[0-9]* | wc -l; cat /proc/1/cmdline | tr '\\0' ' '")
    name, processes, first = said.splitlines()
    assert (code, name) == (0, "n2")
    assert int(processes) < 12
    assert "dethrone.clusters.agent.agent serve" in first


def test_a_host_has_the_agent_as_one_file_that_is_compiled_already(three):
    place = f"{LIB}/dethrone/clusters/agent"
    code, said = three.shell("n2", f"cd {place} && sha256sum agent.py && ls . __pycache__ && ! touch x 2>/dev/null")
    assert code == 0
    assert hashlib.sha256(bundle.agent()).hexdigest() in said
    assert f"agent.{sys.implementation.cache_tag}.pyc" in said
    assert "host" not in said.split(), "what it was made of is not there"


def test_a_host_may_write_to_its_own_directories_only(three):
    code, said = three.shell("n1", "echo x > /var/lib/dethrone/data/x && echo x > /tmp/x && echo x > /usr/x")
    assert code != 0
    assert "/usr/x" in said
    assert three.shell("n1", f"echo x > {sys.prefix}/x")[0] != 0
    three.shell("n1", f"echo x > {ROOT}/x")  # below /tmp it is the host's own /tmp that takes it
    assert three.shell("n2", "ls /var/lib/dethrone/data/x /tmp/x")[0] != 0
    assert not (ROOT / "x").exists()
    assert not (Path(sys.prefix) / "x").exists()


def test_a_host_of_root_has_not_roots_power(three):
    assert three.shell("n1", "mount -t tmpfs none /mnt")[0] != 0
    assert three.shell("n1", "umount /usr")[0] != 0


def test_root_of_a_host_is_a_user_of_this_machine_that_nothing_else_has(three):
    inside, outside, count = three.shell("n1", "head -n 1 /proc/self/uid_map")[1].split()
    assert (inside, count) == ("0", "1")
    assert users.FIRST <= int(outside) < users.FIRST + 2 * users.PAIRS
    pid = next(one.pid for one in owned.processes() if one.run_id == three.run_id and one.node == "n1")
    seen = Path(f"/proc/{pid}/status").read_text()
    assert f"Uid:\t{outside}\t{outside}\t{outside}\t{outside}\n" in seen
    assert "NoNewPrivs:\t1\n" in seen


@pytest.mark.parametrize(
    "script",
    [
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        "test -s /etc/shadow",
        "ls /etc/ssh/*",
        "ls -d /home /root/.bashrc /root/.ssh /srv /mnt",
        "test -e /dev/vda -o -e /dev/sda -o -e /dev/mem -o -e /dev/kmsg",
        "test -s /proc/kcore",
    ],
)
def test_not_even_root_of_a_host_gets_at_the_machine(three, script):
    code, said = three.shell("n1", script)
    assert code != 0, said


def test_no_port_of_this_machine_is_open_to_a_host_while_clients_reach_nodes(three, name_at):
    gateway = three.hosts["n1"].client_addresses[0]
    with socket.create_server(("", 0)) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((gateway, 0))
        port, other = listener.getsockname()[1], datagrams.getsockname()[1]
        ask = f"import socket; socket.create_connection(('{gateway}', {port}), 1)"
        code, said = three.shell("n1", f'python3 -c "{ask}"')
        assert code != 0
        assert "timed out" in said
        send = f"import socket; socket.socket(2, 2).sendto(b'x', ('{gateway}', {other}))"
        assert three.shell("n1", f'python3 -c "{send}"')[0] == 0
        for waiting, receive in ((listener, listener.accept), (datagrams, lambda: datagrams.recv(9))):
            waiting.settimeout(0.2)
            with pytest.raises(TimeoutError):
                receive()
    assert name_at(three.hosts["n1"].address) == "n1"


def test_a_node_of_a_host_has_a_user_and_no_power_of_its_own(three):
    script = "for d in /proc/[0-9]*; do grep -q 7003 $d/status 2>/dev/null && cat $d/status; done"
    said = three.shell("n1", script)[1]
    assert "Uid:\t7003\t7003\t7003\t7003" in said
    assert "CapBnd:\t0000000000000000" in said
    assert three.hosts["n1"].shares_user == ""


def test_where_user_namespaces_are_refused_root_is_refused_unless_it_is_asked_for(monkeypatch):
    def probe(ids):
        if ids:
            raise ClusterError("a local host cannot be made", cause="new namespaces: No space left on device")

    monkeypatch.setattr(module, "probe", probe)
    module._tried.cache_clear()
    try:
        refused = module.LocalBackend().available()
        assert isinstance(refused, No)
        assert "--unsafe-root" in refused.what_to_do
        assert isinstance(module.LocalBackend().traits.unsafe().available(), Yes)
    finally:
        module._tried.cache_clear()


def test_without_that_safety_a_node_still_has_a_user_of_its_own_and_proc_is_read_only(deployed):
    deployed.backend = deployed.backend.traits.unsafe()
    deployed.deploy("n1")
    deployed.prepare()
    assert deployed.shell("n1", "cut -c1-60 /proc/self/uid_map")[1].split()[2] != "1"
    assert deployed.hosts["n1"].shares_user == ""
    assert deployed.shell("n1", "echo 1 > /proc/sys/net/ipv4/ip_forward")[0] != 0
    assert deployed.shell("n1", "test -s /etc/shadow")[0] != 0


def test_nodes_are_reached_by_clients_and_by_each_other_by_name(three, name_at):
    assert name_at(three.hosts["n3"].address) == "n3"
    ask = "import socket; print(socket.create_connection(('n3', 7002), 3).recv(9).decode())"
    assert three.shell("n1", f'python3 -c "{ask}"')[1].strip() == "n3"


def test_a_cut_is_proved_from_inside_and_so_is_its_heal(three):
    cut = converge(three, n1=HostState(cuts=("n2",)))["n1"]
    assert cut.confirmed, cut.why
    assert cut.detail["probes"]["dropped"]["n2"] >= 1
    healed = converge(three, n1=HEALTHY)["n1"]
    assert healed.confirmed, healed.why
    assert "n2" in healed.detail["probes"]["arrived"]


def test_a_cut_of_clients_holds_while_nodes_still_talk(three, name_at):
    assert converge(three, n2=HostState(cuts=("client",)))["n2"].confirmed
    with pytest.raises(OSError, match="timed out"):
        name_at(three.hosts["n2"].address, 0.5)
    assert converge(three, n2=HEALTHY)["n2"].confirmed
    assert name_at(three.hosts["n2"].address) == "n2"


def test_each_host_has_a_place_of_its_own_in_memory(three):
    place = Path(three.backend.traits.memory_dir).parent
    assert three.shell("n1", f"stat -f -c %T {place} && echo x > {place}/x") == (0, "tmpfs\n")
    assert three.shell("n2", f"ls {place}/x")[0] != 0


def test_a_kill_and_a_pause_take_and_are_undone(three):
    down = converge(three, n1=HostState(down="SIGKILL"), n2=HostState(frozen=True))
    assert [down[node].confirmed for node in ("n1", "n2")] == [True, True]
    assert set(down["n2"].detail["SIGSTOP"]["states"]) <= set("Tt")
    up = converge(three, n1=HEALTHY, n2=HEALTHY)
    assert [up[node].confirmed for node in ("n1", "n2")] == [True, True]


def test_a_clock_is_skewed_in_its_node_alone(three):
    if "faketime" not in three.backend.traits.capabilities and not os.environ.get("CI"):
        pytest.skip("libfaketime is not installed on this machine")
    skewed = converge(three, n3=HostState(clock=ClockSkew(offset_ns=HOUR_NS)))["n3"]
    assert skewed.confirmed, skewed.why
    assert abs(skewed.detail["clock"]["skew_ns"] - HOUR_NS) < 10_000_000
    assert converge(three, n3=HEALTHY)["n3"].confirmed


def test_a_clock_is_skewed_in_the_vdso_of_a_node_with_a_user_of_its_own_also_if_it_starts_under_the_skew(deployed):
    if "vdso" not in deployed.backend.traits.capabilities:
        pytest.skip("clocks are skewed in the vDSO on x86-64 only")
    deployed.deploy("n1")
    deployed.prepare(faketime=False)
    skew = HostState(clock=ClockSkew(offset_ns=HOUR_NS))
    skewed = converge(deployed, n1=skew)["n1"]
    assert skewed.confirmed, skewed.why
    assert skewed.detail["clock"]["by"] == "vdso"
    assert skewed.detail["clock"]["read_by"] == "the process itself"
    assert converge(deployed, n1=HostState(down="SIGKILL", clock=ClockSkew(offset_ns=HOUR_NS)))["n1"].confirmed
    again = converge(deployed, n1=skew)["n1"]
    assert again.confirmed, again.why
    assert "before" not in again.detail, "it had the skew from its first instruction"
    healed = converge(deployed, n1=HEALTHY)["n1"]
    assert healed.confirmed, healed.why


def test_two_runs_at_once_have_networks_of_their_own(three, deployed, name_at):
    other = deployed.deploy("n1", "n2")
    assert not {host.address for host in other.values()} & {host.address for host in three.hosts.values()}
    deployed.prepare()
    assert converge(deployed, n1=HostState(cuts=("n2",)))["n1"].confirmed
    assert converge(three, n1=HEALTHY)["n1"].confirmed
    assert name_at(other["n2"].address) == name_at(three.hosts["n2"].address) == "n2"
    deployed.end()
    assert deployed.left() == []
    assert name_at(three.hosts["n1"].address) == "n1"


def test_a_range_that_another_run_has_is_not_taken(three, deployed, monkeypatch):
    theirs = three.hosts["n1"].address.rsplit(".", 1)[0] + ".0/24"
    monkeypatch.setattr(network, "routes", list)
    monkeypatch.setattr(network, "candidates", lambda _run, _taken: [theirs, "198.19.250.0/24"])
    assert deployed.deploy("n1")["n1"].address == "198.19.250.11"


def test_destroying_takes_everything_away_and_nothing_else(deployed):
    bystander = subprocess.Popen(["sleep", "600"], env={**os.environ, "DETHRONE_LOCAL_NODE": "n1"})
    try:
        deployed.deploy("n1", "n2")
        deployed.prepare()
        assert {"process n1", "process n2", "process switch"} <= {line.split(" (")[0] for line in deployed.left()}
        for _ in range(2):
            deployed.backend.destroy(deployed.run_id)
            assert deployed.left() == []
        assert not (deployed.state / "hosts").exists()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_deployment_that_fails_half_way_takes_away_what_it_made(deployed, monkeypatch):
    def refuse(_pids, _network):
        raise ClusterError("no")

    monkeypatch.setattr(module.network, "of_the_switch", refuse)
    with pytest.raises(ClusterError, match="no"):
        deployed.deploy("n1", "n2")
    assert deployed.left() == []
    assert not (deployed.state / "hosts").exists()


def test_what_a_host_cannot_do_is_the_cause_that_is_told(deployed, monkeypatch):
    monkeypatch.setattr(module.network, "of_a_host", lambda _address: ["address add nonsense dev eth0"])
    with pytest.raises(ClusterError, match="nonsense"):
        deployed.deploy("n1")
    assert deployed.left() == []


def test_a_program_on_path_is_where_its_adapter_looks_for_it(deployed, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "etcd"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho etcd of $(hostname)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    deployed.deploy("n1", image="etcd")
    assert deployed.shell("n1", "/usr/bin/etcd; ls /usr/bin/env") == (0, "etcd of n1\n/usr/bin/env\n")


@pytest.mark.parametrize(
    ("change", "error"),
    [({"image": "zookeeper"}, MissingCapability), ({"base": "debian"}, ConfigError)],
)
def test_what_cannot_be_is_refused_before_anything_is_made(deployed, change, error):
    with pytest.raises(error):
        deployed.backend.deploy(deployed.spec("n1", **change), origin_ns=0, news=print, progress=print)
    assert not (deployed.state / "hosts").exists()


def test_a_process_that_ended_since_is_not_mistaken_for_its_namesake(deployed):
    deployed.deploy("n1")
    found = next(one for one in owned.processes() if one.run_id == deployed.run_id and one.node == "n1")
    assert owned.start_ticks(found.pid) == found.start_ticks
    os.kill(found.pid, signal.SIGKILL)
    deployed.backend.destroy(deployed.run_id)
    assert owned.start_ticks(found.pid) != found.start_ticks


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import conftest as c
from dethrone.harness.core.hoststate import HostState, HEALTHY
one = c.Deployed(Path(sys.argv[1]))
try:
    one.deploy("n1", "n2", "n3"); one.prepare()
    cut = one.backend.converge_all(one.hosts, {"n1": HostState(cuts=("n2",)), "n3": HostState(frozen=True)})
    back = one.backend.converge_all(one.hosts, {"n1": HEALTHY, "n3": HEALTHY})
    print([e.confirmed for e in (*cut.values(), *back.values())], [e.why for e in cut.values()])
finally:
    one.close()
print(one.left())
"""


def nobodys_python() -> str:
    """An interpreter that any user may run: ours, or the system's of the same version."""
    wanted = f"import sys, msgspec, dethrone; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            done = as_nobody([python, "-c", wanted], {})
        except OSError:
            continue
        if done.returncode == 0:
            return python
    why = "no Python here that another user may run with these packages"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def nobodys() -> dict[str, str]:
    paths = [str(ROOT), *(path for path in sys.path if "site-packages" in path)]
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def as_nobody(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        user=65534,
        group=65534,
        extra_groups=[],
        env={**nobodys(), **env},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_root_hosts_live_in_a_user_namespace(root, reachable):
    python = nobodys_python()
    os.chown(reachable, 65534, 65534)
    enter = [python, "-I", "-S", str(ROOT / "dethrone" / "clusters" / "local" / "rootless.py")]
    env = {"DETHRONE_STATE_DIR": f"{reachable}/state", "HOME": str(reachable)}
    done = as_nobody([*enter, python, "-c", SCRIPT, f"{reachable}/state", str(Path(__file__).parent)], env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[True, True, True, True] ['', '']", "[]"]


def test_outside_of_a_user_namespace_it_says_what_to_put_before_the_command(deployed, monkeypatch):
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    with pytest.raises(MissingCapability) as caught:
        deployed.deploy("n1")
    assert "rootless.py" in caught.value.next_step
