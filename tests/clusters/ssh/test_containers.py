"""The backend against containers that run a real SSH server: n1 and n3 by root, n2 by a user with sudo."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import paramiko
import pytest

from clusters.docker.client import connect
from clusters.docker.containers import Box, remove_run, start_box
from clusters.docker.image import ensure_image, packages_of
from clusters.docker.network import create_network
from clusters.ssh.backend import SshBackend
from clusters.ssh.hosts import parse_hosts
from harness.core.errors import MissingCapability
from harness.core.hoststate import HEALTHY, HostState
from harness.core.protocols import Command, DeploySpec, NodeStart

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
NODES = ("n1", "n2", "n3")
DEAD_MAN_S = 4

SERVE = """set -e
rm -f /etc/ssh/ssh_host_*; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
useradd -m -p '*' chaos; echo 'chaos ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/chaos
for home in /root /home/chaos; do mkdir -p -m 700 $home/.ssh; echo "$1" > $home/.ssh/authorized_keys; done
chown -R chaos /home/chaos; mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -o UsePAM=no -o UseDNS=no -o HostKey=/etc/ssh/ssh_host_ed25519_key
"""

ABANDONED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_containers import backend_of, deployed
from harness.core.hoststate import HostState
backend = backend_of(Path(sys.argv[1]))
hosts = deployed(backend)
found = backend.converge_all(hosts, {"n1": HostState(cuts=("n2", "n3"), frozen=True)})
print("broken" if found["n1"].confirmed else found["n1"].why, flush=True)
time.sleep(600)
"""


def backend_of(file: Path) -> SshBackend:
    return SshBackend(parse_hosts(file.read_text(), source=str(file)))


def deployed(backend: SshBackend, news=lambda _: None):
    """Three hosts with a node each, started."""
    spec = DeploySpec(run_id="r1", nodes=NODES, image="node", base=None, state_dir="/somewhere")
    hosts = backend.deploy(spec, origin_ns=time.monotonic_ns(), news=news, progress=lambda _: None)
    start = NodeStart(
        command=Command(argv=("python3", "-S", "-c", "import time\nwhile True: time.sleep(0.05)")),
        trace_path=None,
        log_path="/var/log/dethrone/node.log",
        data_dir="/var/lib/dethrone/data",
        clock_socket=None,
        faketime=False,
    )
    for host in hosts.values():
        host.prepare(start, {node: one.address for node, one in hosts.items()}, dead_man_ns=DEAD_MAN_S * 10**9)
        host.start_node()
    return hosts


def until(condition, limit_s: float) -> None:
    deadline, pause = time.monotonic() + limit_s, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "did not come true in time"
        pause.wait(0.1)


class Field:
    """The containers, and the hosts file that names them."""

    def __init__(self, client, directory: Path, run_id: str) -> None:
        self.client, self.boxes = client, {}
        # The containers look like a run's, of which this process is the harness: no `heal` may take them away.
        self._lock = (directory / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(directory / "id"))
        image = ensure_image(client, packages=packages_of("node+openssh-server+sudo"))
        network = create_network(client, run_id=run_id, state_dir=str(directory), nodes=len(NODES))
        boxes = [Box(node=node, address=network.address(index)) for index, node in enumerate(NODES)]
        public = f"{key.get_name()} {key.get_base64()}"
        known, text = "", f'expendable = ["n1", "n2", "n3"]\nkey = "{directory}/id"\ndead_man = "{DEAD_MAN_S}s"\n'
        text += f'known_hosts = "{directory}/known"\n'
        for box in boxes:
            self.boxes[box.node] = start_box(
                client,
                box,
                image=image,
                command=["sh", "-c", SERVE, "sh", public],
                network=network,
                names={one.node: one.address for one in boxes},
                run_id=run_id,
                state_dir=str(directory),
            )
            who = 'user = "chaos"\nsudo = true\n' if box.node == "n2" else 'user = "root"\n'
            text += f'[hosts.{box.node}]\naddress = "{box.address}"\n{who}'
        for box in boxes:
            until(lambda box=box: self.inside(box.node, "cat", "/etc/ssh/ssh_host_ed25519_key.pub"), 30)
            shown = self.inside(box.node, "cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()
            known += f"{box.address} {shown[0]} {shown[1]}\n"
        (directory / "known").write_text(known)
        self.file = directory / "hosts.toml"
        self.file.write_text(text)

    def inside(self, node: str, *argv: str) -> str:
        execution = self.client.api.exec_create(self.boxes[node], list(argv))["Id"]
        out = self.client.api.exec_start(execution)
        return out.decode() if self.client.api.exec_inspect(execution)["ExitCode"] == 0 else ""

    def ours(self, node: str) -> str:
        """What is left of us on a machine: rules and processes."""
        saved = self.inside(node, "sh", "-c", "iptables-nft-save; iptables-legacy-save; true")  # the agent takes either
        rules = [line for line in saved.splitlines() if "DETHRONE" in line]
        processes = [line for line in self.inside(node, "ps", "-eo", "args=").splitlines() if "agent.py serve" in line]
        return "\n".join(rules + processes)


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    try:
        client = connect()
    except MissingCapability as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI needs a Docker engine: {error}")
        pytest.skip(str(error))
    run_id = f"test-{uuid.uuid4().hex[:8]}"
    try:
        yield Field(client, tmp_path_factory.mktemp("field"), run_id)
    finally:
        remove_run(client, run_id)
        client.close()


def test_machines_are_partitioned_and_healed_over_ssh_and_left_as_they_were(field):
    backend = backend_of(field.file)
    assert all(type(answer).__name__ == "Yes" for _, answer in backend.doctor())
    hosts = deployed(backend)
    try:
        cut = {
            "n1": HostState(cuts=("n2", "n3")),
            "n2": HostState(cuts=("n1",)),
            "n3": HostState(cuts=("n1",)),
        }
        found = backend.converge_all(hosts, cut)
        assert {node: one.confirmed for node, one in found.items()} == dict.fromkeys(NODES, True), found
        assert "DROP" in field.ours("n2")
        killed = backend.converge_all(hosts, {"n1": HostState(cuts=("n2", "n3"), down="SIGKILL")})
        assert killed["n1"].confirmed
        healed = backend.converge_all(hosts, dict.fromkeys(NODES, HEALTHY))
        assert {node: one.confirmed for node, one in healed.items()} == dict.fromkeys(NODES, True), healed
    finally:
        for host in hosts.values():
            host.close()
        backend.destroy("r1")
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")
    assert backend.leftovers() == []


def test_after_kill_nine_of_the_harness_a_machine_heals_itself_in_time_and_the_rest_is_cleaned_later(field):
    harness = subprocess.Popen(
        [sys.executable, "-c", ABANDONED, str(field.file), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert harness.stdout.readline() == "broken\n"
        assert "DROP" in field.ours("n1")
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        harness.stdout.close()
    gone = time.monotonic()
    until(lambda: "DROP" not in field.ours("n1"), DEAD_MAN_S + 5)
    assert time.monotonic() - gone < DEAD_MAN_S + 5
    until(lambda: "T" not in field.inside("n1", "ps", "-eo", "stat=").replace("\n", " "), 5)
    backend = backend_of(field.file)
    assert {one.name for one in backend.leftovers()} == set(NODES)
    backend.destroy("r1")
    assert {node: field.ours(node) for node in NODES} == dict.fromkeys(NODES, "")
    assert backend.leftovers() == []
