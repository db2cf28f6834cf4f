import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dethrone.clusters.docker import backend as backends
from dethrone.clusters.docker.backend import DockerBackend
from dethrone.clusters.docker.client import connect, engine_address
from dethrone.clusters.docker.containers import MEMORY_BYTES, list_owned, together
from dethrone.clusters.docker.image import ensure_image
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ClusterError, ConfigError, HarnessError, MissingCapability
from dethrone.harness.core.hoststate import HEALTHY, HostState, LinkQuality
from dethrone.harness.core.interfaces import Command, DeploySpec, No, NodeStart, Yes
from tests.clusters.docker.conftest import state_of
from tests.waiting import until

NODES = ("n1", "n2", "n3")
SECOND = 1_000_000_000


def spec(run_id, nodes=NODES, **changes):
    return DeploySpec(
        **{"run_id": run_id, "nodes": nodes, "image": "node", "base": None, "state_dir": state_of(run_id), **changes}
    )


def deploy(backend, run_id, nodes=NODES, **changes):
    return backend.deploy(spec(run_id, nodes, **changes), origin_ns=0, news=lambda _: None, progress=lambda _: None)


def owned(client, run_id):
    return [item for item in list_owned(client) if item.run_id == run_id]


def leave(client, backend, run_id, hosts=()):
    """Let go of the hosts and destroy the run, of which nothing is left then."""
    for host in hosts:
        host.close()
    backend.destroy(run_id)
    assert owned(client, run_id) == []


@pytest.fixture
def backend():
    return DockerBackend()


@pytest.fixture
def cluster(client, backend, run_id):
    hosts = deploy(backend, run_id)
    yield hosts
    for host in hosts.values():
        host.close()
    backend.destroy(run_id)


@pytest.mark.docker
def test_a_deployed_run_is_destroyed_without_a_trace(client, backend, run_id):
    volumes = {volume.name for volume in client.volumes.list()}
    hosts = deploy(backend, run_id)
    kinds = sorted(item.kind for item in owned(client, run_id))
    assert kinds == ["container", "container", "container", "network"]
    leave(client, backend, run_id, hosts.values())
    assert {volume.name for volume in client.volumes.list()} <= volumes
    backend.destroy(run_id)


@pytest.mark.docker
def test_hosts_have_the_fixed_addresses_that_they_are_said_to_have(cluster):
    for name, host in cluster.items():
        code, out, _ = host.run(["hostname", "-I"], timeout_ns=5 * SECOND)
        assert code == 0
        assert out.split() == [host.address.encode()]
        assert host.name == name
    last = [int(host.address.rsplit(".", 1)[1]) for host in cluster.values()]
    assert last == [11, 12, 13]
    assert all(host.address.startswith(("198.18.", "198.19.")) for host in cluster.values())


@pytest.mark.docker
def test_hosts_know_each_other_by_name_and_can_talk(cluster):
    script = (
        "import socket\n"
        "with socket.create_server(('', 7999)) as server:\n"
        "    server.settimeout(10); print('ready', flush=True); server.accept()[0].close()"
    )
    answer = []
    thread = threading.Thread(
        target=lambda: answer.append(cluster["n1"].run(["python3", "-c", script], timeout_ns=15 * SECOND))
    )
    thread.start()
    knock = (
        "import socket, time\nfor _ in range(100):\n"
        "    try:\n        socket.create_connection(('n1', 7999), 1)\n        break\n"
        "    except OSError:\n        time.sleep(0.05)\nelse:\n    raise SystemExit(1)"
    )
    code, _, err = cluster["n2"].run(["python3", "-c", knock], timeout_ns=15 * SECOND)
    thread.join(20)
    assert (code, err) == (0, b"")
    assert answer[0][0] == 0


@pytest.mark.docker
def test_this_machine_reaches_the_hosts_and_they_do_not_reach_beyond(cluster):
    script = (
        "import socket\n"
        "with socket.create_server(('', 7999)) as server:\n"
        "    server.settimeout(10); peer = server.accept()[1][0]; print(peer)"
    )
    answer = []
    host = cluster["n1"]
    thread = threading.Thread(target=lambda: answer.append(host.run(["python3", "-c", script], timeout_ns=15 * SECOND)))
    thread.start()
    for _ in range(200):
        try:
            socket.create_connection((host.address, 7999), timeout=1).close()
            break
        except OSError:
            threading.Event().wait(0.05)
    thread.join(20)
    assert answer[0][1].decode().strip() == host.address.rsplit(".", 1)[0] + ".1"


@pytest.mark.docker
def test_containers_get_net_admin_and_no_other_privilege(client, cluster, run_id):
    for item in owned(client, run_id):
        if item.kind != "container":
            continue
        config = client.api.inspect_container(item.id)["HostConfig"]
        assert [name.removeprefix("CAP_") for name in config["CapAdd"]] == ["NET_ADMIN"]
        assert config["Privileged"] is False
        assert not config["Binds"]
        assert not config.get("Mounts")
        assert not config["Devices"]
        assert not config["SecurityOpt"]
        assert config["PidMode"] == ""
        assert config["RestartPolicy"]["Name"] in {"", "no"}
    _, out, _ = cluster["n1"].run(["cat", "/proc/1/status"], timeout_ns=5 * SECOND)
    effective = next(line for line in out.decode().splitlines() if line.startswith("CapEff"))
    assert int(effective.split()[1], 16) == 0x00000000A80435FB | 1 << 12  # the engine's default set, and NET_ADMIN
    # what must not be there: SYS_ADMIN (21), SYS_PTRACE (19), SYS_TIME (25), SYS_MODULE (16)
    assert not int(effective.split()[1], 16) & (1 << 21 | 1 << 19 | 1 << 25 | 1 << 16)


@pytest.mark.docker
def test_a_host_has_a_limit_on_memory_and_processes_and_its_system_may_say_another(client, backend, run_id):
    hosts = deploy(backend, run_id, nodes=("n1",), pids=64)
    config = client.api.inspect_container(f"dethrone-{run_id}-n1")["HostConfig"]
    assert (config["Memory"], config["MemorySwap"]) == (MEMORY_BYTES, MEMORY_BYTES)
    assert config["PidsLimit"] == 64
    flood = "import os, time\nfor _ in range(500):\n    os.fork() or time.sleep(20)"
    code, _, err = hosts["n1"].run(["/opt/dethrone/venv/bin/python", "-c", flood], timeout_ns=5 * SECOND)
    assert code != 0
    assert b"BlockingIOError" in err
    leave(client, backend, run_id, hosts.values())


def written(host, path):
    """What a file holds; nothing as long as there is none."""
    return host.run(["cat", path], timeout_ns=5 * SECOND)[1]


@pytest.mark.docker
def test_data_in_memory_is_the_nodes_own_and_survives_its_death(cluster, backend):
    host, directory = cluster["n1"], backend.traits.memory_dir
    script = f"echo lived >> {directory}/lives; cp {directory}/lives /var/log/dethrone/lives; exec sleep 1000"
    start = NodeStart(
        command=Command(argv=("/bin/sh", "-c", script)),
        trace_path=None,
        log_path="/var/log/dethrone/node.log",
        data_dir=directory,
        clock_socket=None,
        faketime=False,
        run_dir="/run/dethrone",
    )
    host.prepare(start, {name: other.address for name, other in cluster.items()}, dead_man_ns=0)
    host.start_node()
    assert host.run(["stat", "-f", "-c", "%T", directory], timeout_ns=5 * SECOND)[1] == b"tmpfs\n"
    until(lambda: written(host, "/var/log/dethrone/lives") == b"lived\n")
    assert host.converge(HostState(down="SIGKILL")).confirmed
    assert host.converge(HEALTHY).confirmed
    until(lambda: written(host, "/var/log/dethrone/lives") == b"lived\n" * 2)


@pytest.mark.docker
def test_the_agent_is_the_first_process_and_nodes_python_can_import_what_they_need(cluster):
    _, out, _ = cluster["n1"].run(["cat", "/proc/1/cmdline"], timeout_ns=5 * SECOND)
    assert b"dethrone.clusters.agent.agent\0serve" in out
    code, _, err = cluster["n1"].run(
        [
            "/opt/dethrone/venv/bin/python",
            "-c",
            "import dethrone.harness.core.machine, dethrone.clusters.targets, dethrone.clusters.node",
        ],
        timeout_ns=10 * SECOND,
    )
    assert (code, err) == (0, b"")


@pytest.mark.docker
def test_what_is_not_ours_is_never_touched(client, backend, run_id):
    image = ensure_image(client)
    network = client.networks.create(f"foreign-{run_id}", driver="bridge", internal=True)
    containers = [
        client.containers.create(image, command=["sleep", "60"], name=f"foreign-{run_id}"),
        # somebody else's label of the same name, without our owner's mark
        client.containers.create(image, command=["sleep", "60"], labels={"dethrone.run": run_id}),
    ]
    try:
        for host in deploy(backend, run_id, ("n1",)).values():
            host.close()
        assert {item.name for item in owned(client, run_id)} == {f"dethrone-{run_id}", f"dethrone-{run_id}-n1"}
        backend.destroy(run_id)
        for container in containers:
            container.reload()
        network.reload()
    finally:
        for container in containers:
            container.remove(force=True)
        network.remove()


@pytest.mark.docker
def test_destroying_one_run_leaves_the_other_alone(client, backend, run_id):
    first, second = f"{run_id}-a", f"{run_id}-b"
    try:
        hosts = together(lambda name: deploy(backend, name, ("n1", "n2")), [first, second])
        networks = {host.address.rsplit(".", 1)[0] for each in hosts for host in each.values()}
        assert len(networks) == 2
        backend.destroy(first)
        assert owned(client, first) == []
        assert len(owned(client, second)) == 3
        code, _, _ = hosts[1]["n2"].run(["true"], timeout_ns=5 * SECOND)
        assert code == 0
        for each in hosts:
            for host in each.values():
                host.close()
    finally:
        backend.destroy(first)
        backend.destroy(second)


@pytest.mark.docker
def test_leftovers_tell_their_run_and_its_state_directory_to_any_process(client, backend, run_id, cluster):
    found = [item for item in DockerBackend().leftovers() if item.run_id == run_id]
    assert len(found) == 4
    assert {item.state_dir for item in found} == {state_of(run_id)}
    assert {item.backend for item in found} == {"docker"}
    leave(client, DockerBackend(), run_id, cluster.values())


@pytest.mark.docker
def test_a_deployment_that_fails_half_way_removes_what_it_made(client, backend, run_id, monkeypatch):
    genuine = backends.start_box

    def failing(client, box, **rest):
        if box.node == "n3":
            raise ClusterError("no room for n3")
        return genuine(client, box, **rest)

    monkeypatch.setattr(backends, "start_box", failing)
    with pytest.raises(ClusterError, match="no room for n3"):
        deploy(backend, run_id)
    assert owned(client, run_id) == []


@pytest.mark.slow
@pytest.mark.docker
def test_an_agent_that_does_not_come_up_is_quoted(client, backend, run_id, monkeypatch):
    monkeypatch.setattr(backends, "AGENT", ("python3", "-c", "import sys; sys.exit('no agent today')"))
    with pytest.raises(ClusterError) as caught:
        deploy(backend, run_id, ("n1",))
    assert "n1" in caught.value.where
    assert "no agent today" in caught.value.cause
    assert owned(client, run_id) == []


@pytest.mark.docker
def test_a_stranger_on_our_network_is_named_and_not_removed(client, backend, run_id):
    for host in deploy(backend, run_id, ("n1",)).values():
        host.close()
    image = ensure_image(client)
    stranger = client.containers.run(
        image, ["sleep", "60"], detach=True, name=f"stranger-{run_id}", network=f"dethrone-{run_id}"
    )
    try:
        with pytest.raises(ClusterError) as caught:
            backend.destroy(run_id)
        assert f"stranger-{run_id}" in caught.value.cause
        assert "docker network disconnect" in caught.value.next_step
        stranger.reload()
        assert stranger.status == "running"
    finally:
        stranger.remove(force=True)
    leave(client, backend, run_id)


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
def test_a_plain_member_of_the_engines_group_needs_no_root(client, run_id, reachable):
    group = Path(engine_address().removeprefix("unix://")).stat().st_gid
    if group == 0:
        pytest.skip("the engine's socket belongs to root's own group")
    ensure_image(client)
    reachable.chmod(0o777)
    script = (  # privileges go after the imports: this Python may lie in root's home
        "import os, encodings.ascii, encodings.idna, http.client, concurrent.futures.thread\n"
        "from dethrone.clusters.docker.backend import BACKEND\n"
        "from dethrone.harness.core.interfaces import DeploySpec\n"
        f"os.setgroups([{group}]); os.setgid(65534); os.setuid(65534)\n"
        f"spec = DeploySpec(run_id='{run_id}', nodes=('n1', 'n2'), image='node', base=None, state_dir='/x')\n"
        "hosts = BACKEND.deploy(spec, origin_ns=0, news=lambda _: None, progress=lambda _: None)\n"
        "print(os.geteuid(), hosts['n2'].run(['id', '-u'], timeout_ns=5_000_000_000)[1].decode().strip())\n"
        "[host.close() for host in hosts.values()]\n"
        "BACKEND.destroy(spec.run_id); print(len([x for x in BACKEND.leftovers() if x.run_id == spec.run_id]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "HOME": str(reachable), "DETHRONE_STATE_DIR": str(reachable / "state")},
        cwd=Path(backends.__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["65534", "0", "0"]


class Door:
    """A socket that leads to the engine until it is shut: the engine's death without its death."""

    def __init__(self, path):
        self.path = path
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        self._open = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        target = engine_address().removeprefix("unix://")
        while True:
            try:
                outer, _ = self._server.accept()
            except OSError:
                return
            inner = socket.socket(socket.AF_UNIX)
            inner.connect(target)
            self._open += [outer, inner]
            for source, sink in ((outer, inner), (inner, outer)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def shut(self):
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.mark.docker
def test_an_engine_that_dies_during_a_run_is_told_as_such_and_the_run_can_be_removed_later(
    client, backend, run_id, tmp_path, monkeypatch
):
    address = engine_address()
    door = Door(tmp_path / "engine.sock")
    news = []
    with monkeypatch.context() as patched:
        patched.setattr("dethrone.clusters.docker.client.engine_address", lambda: f"unix://{door.path}")
        hosts = backend.deploy(spec(run_id, ("n1",)), origin_ns=0, news=news.append, progress=lambda _: None)
        assert engine_address() == address
        door.shut()
        with pytest.raises(ClusterError):
            hosts["n1"].run(["true"], timeout_ns=5 * SECOND)
        assert "lost" in [item.kind for item in news]
        with pytest.raises(HarnessError) as caught:
            backend.destroy(run_id)
        assert "start the engine again" in caught.value.next_step
    hosts["n1"].close()
    assert len(owned(client, run_id)) == 2
    leave(client, backend, run_id)


@pytest.mark.docker
def test_an_engine_that_answers_is_available(client, backend):
    assert backend.available() == Yes()


def test_without_an_engine_the_backend_says_what_to_do(backend, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    answer = backend.available()
    assert isinstance(answer, No)
    assert "DOCKER_HOST" in answer.what_to_do
    with pytest.raises(MissingCapability):
        deploy(backend, "x")
    assert [name for name, _ in backend.doctor()] == ["docker: engine"]


@pytest.mark.parametrize("nodes", [(), ("n1", "n1"), ("n 1",), ("n/1",), ("",)])
def test_node_names_that_no_host_can_have_are_refused_before_anything_is_started(backend, nodes, monkeypatch):
    monkeypatch.setattr(backends, "connect", lambda **_: pytest.fail("connected"))
    with pytest.raises(ConfigError):
        deploy(backend, "x", nodes)


@pytest.mark.docker
def test_an_image_recipe_that_does_not_exist_is_refused(backend, client, run_id):
    with pytest.raises(ConfigError, match="no image recipe"):
        deploy(backend, run_id, image="nonsense")
    probe = connect()
    assert owned(probe, run_id) == []
    probe.close()


HOSTILE = """
exec > /var/log/dethrone/tried 2>&1
id -u; grep -E 'CapBnd|NoNewPrivs' /proc/self/status
while sleep 0.2; do
  iptables-legacy -F; iptables -F; iptables -D INPUT 1; ip link set lo down
  python3 -S -m dethrone.clusters.agent.agent heal --socket /run/dethrone-agent/agent.sock
  rm -f /run/dethrone-agent/agent.sock && echo removed
  echo tried
done
"""


@pytest.mark.docker
def test_a_node_can_neither_flush_the_rules_nor_heal_itself_through_the_agent(cluster):
    host = cluster["n1"]
    start = NodeStart(
        command=Command(argv=("/bin/sh", "-c", HOSTILE)),
        log_path="/var/log/dethrone/node.log",
        data_dir="/var/lib/dethrone/data",
        run_dir="/run/dethrone",
    )
    host.prepare(start, {name: other.address for name, other in cluster.items()}, dead_man_ns=0)
    host.start_node()
    assert host.converge(HostState(cuts=("n2",))).confirmed
    seen = len(written(host, "/var/log/dethrone/tried").split(b"tried"))
    until(lambda: written(host, "/var/log/dethrone/tried").count(b"tried") >= seen + 2)
    said = host.read_file("/var/log/dethrone/tried")
    assert host.probe_links_async(1, expect=(), timeout_ns=0).result(5)["in_force"]
    assert said.startswith(b"7003\n")
    assert b"CapBnd:\t0000000000000000" in said
    assert b"removed" not in said
    assert host.shares_user == ""


@pytest.mark.docker
def test_links_of_containers_are_shaped_proved_and_healed(backend, cluster):
    for host in cluster.values():
        start = NodeStart(
            command=Command(argv=("/bin/sh", "-c", "sleep 60")),
            log_path="/var/log/dethrone/node.log",
            data_dir="/var/lib/dethrone/data",
        )
        peers = {name: other.address for name, other in cluster.items() if other is not host}
        host.prepare(start, peers, dead_man_ns=0)
        assert host.unshaped() == ""
    for quality in (
        LinkQuality(src="n2", delay_ns=50 * MS, jitter_ns=10 * MS),
        LinkQuality(src="n2", loss_percent=30, corrupt_percent=30),
        LinkQuality(src="n2", duplicate_percent=30, reorder_percent=30, reorder_ns=20 * MS),
        LinkQuality(src="n2", rate_kbit_per_s=2000),
        LinkQuality(src="client", delay_ns=20 * MS),
    ):
        evidence = backend.converge_all(cluster, {"n1": HostState(links=(quality,))})["n1"]
        assert evidence.confirmed, evidence.why
    healed = backend.converge_all(cluster, {"n1": HEALTHY})["n1"]
    assert healed.confirmed, healed.why
