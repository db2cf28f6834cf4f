"""Processes of real systemd units on a machine over SSH: all of the unit is hit, systemd starts it again."""

from __future__ import annotations

import fcntl
import time
import uuid
from collections.abc import Iterator

import paramiko
import pytest

from dethrone.clusters.docker.containers import last_words, remove_run
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.labels import NODE, OWNER, RUN, STATE
from dethrone.clusters.docker.network import create_network
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.ssh.backend import SshBackend
from dethrone.clusters.ssh.hosts import parse_hosts
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Command, DeploySpec, NodeStart
from tests.clusters.engine import engine_client
from tests.clusters.ssh.field import heard
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.nightly("an image of its own, with systemd")]

BOOT = """set -e
version="$(stat -fc %T /sys/fs/cgroup)"
umount -R /sys/fs/cgroup
if [ "$version" = cgroup2fs ]; then mount -t cgroup2 none /sys/fs/cgroup
else
  mount -t tmpfs none /sys/fs/cgroup
  mkdir /sys/fs/cgroup/systemd; mount -t cgroup -o none,name=systemd none /sys/fs/cgroup/systemd
fi
mount -t tmpfs none /run
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/dethrone_key
printf 'UsePAM no\\nUseDNS no\\nHostKey /etc/ssh/dethrone_key\\n' > /etc/ssh/sshd_config.d/test.conf
mkdir -p -m 700 /root/.ssh; echo "$1" > /root/.ssh/authorized_keys
cd /etc/systemd/system
printf '[Service]\\nExecStart=/usr/bin/python3 -S -c "%s"\\nKillMode=process\\n' "$2" > alone.service
cp alone.service kept.service
printf 'Restart=always\\nRestartSec=200ms\\n' >> kept.service
exec /lib/systemd/systemd
"""
"""systemd may write to the control groups of its container only, be they of version 2 or of version 1."""

PROGRAM = "import os, time; os.fork(); time.sleep(1e6)"
"""A main process and another one of the same unit."""


class Machine:
    """A container in which systemd is the first process."""

    def __init__(self, client, directory, run_id) -> None:
        self.client, self.run_id = client, run_id
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(directory / "id"))
        image = ensure_image(client, packages=ingredients_of("node+openssh-server+sudo+systemd").packages)
        network = create_network(client, run_id=run_id, state_dir=str(directory), nodes=1)
        address = network.address(0)
        limits = client.api.create_host_config(
            network_mode=network.name,
            cap_add=["NET_ADMIN", "SYS_ADMIN"],
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
        )
        self.box = client.api.create_container(
            image,
            entrypoint=["/bin/sh"],
            command=["-c", BOOT, "sh", f"{key.get_name()} {key.get_base64()}", PROGRAM],
            environment={"container": "docker"},
            labels={OWNER: "run", RUN: run_id, STATE: str(directory), NODE: "n1"},
            host_config={**limits, "CgroupnsMode": "private"},
            networking_config={
                "EndpointsConfig": {network.name: client.api.create_endpoint_config(ipv4_address=address)}
            },
            tty=True,
        )["Id"]
        client.api.start(self.box)
        try:
            until(lambda: self.show("systemctl", "is-active", "ssh.service") == "active", 60)
        except AssertionError:
            pytest.fail(f"systemd did not come up: {last_words(client, self.box)}")
        shown = self.show("cat", "/etc/ssh/dethrone_key.pub").split()
        (directory / "known").write_text(f"{address} {shown[0]} {shown[1]}\n")
        self.file = f'expendable = ["n1"]\nmajority = true\nuser = "root"\nkey = "{directory}/id"\ndead_man = "10s"\n'
        self.file += f'known_hosts = "{directory}/known"\n[hosts.n1]\naddress = "{address}"\n'
        self.news = []

    def do(self, *argv: str) -> None:
        """Run a command on the machine."""
        execution = self.client.api.exec_create(self.box, list(argv))["Id"]
        self.client.api.exec_start(execution)

    def show(self, *argv: str) -> str:
        """What a command prints there, see ``heard``."""
        return heard(self.client, self.box, *argv)

    def main_process(self, unit: str) -> int:
        """Its id, 0 if the unit does not run."""
        return int(self.show("systemctl", "show", "--property=MainPID", "--value", unit))

    def processes(self) -> dict[int, str]:
        """The units' processes with their states."""
        lines = [line.split(None, 2) for line in self.show("ps", "-eo", "pid=,stat=,args=").splitlines()]
        return {int(pid): stat[0] for pid, stat, args in lines if "os.fork()" in args and "-S -c" in args}

    def adopted(self, unit: str):
        """The backend and the host, the unit found and met."""
        self.news.clear()
        backend = SshBackend(parse_hosts(f'{self.file}target = {{ unit = "{unit}" }}\n', source="hosts.toml"))
        spec = DeploySpec(run_id="r1", nodes=("n1",), image="somebody's own", base=None, state_dir="/somewhere")
        origin = time.monotonic_ns()
        hosts = backend.deploy(spec, origin_ns=origin, news=self.news.append, progress=lambda _: None)
        base = "/var/tmp/dethrone/r1"
        start = NodeStart(
            command=Command(argv=("none",)),
            log_path=f"{base}/node.log",
            data_dir=f"{base}/data",
        )
        hosts["n1"].prepare(start, {}, dead_man_ns=0)
        hosts["n1"].start_node()
        return backend, hosts

    def told(self) -> list[tuple[str, int, bool]]:
        """Starts and ends, each with its incarnation and whether it was asked for."""
        kinds = {"started", "exited"}
        return [(one.kind, one.data["incarnation"], one.data["asked"]) for one in self.news if one.kind in kinds]


@pytest.fixture(scope="module")
def one_machine(tmp_path_factory) -> Iterator[Machine]:
    directory, run_id = tmp_path_factory.mktemp("units"), f"test-{uuid.uuid4().hex[:8]}"
    client = engine_client()
    try:
        with (directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as of a run whose harness lives: no `heal` takes it away
            yield Machine(client, directory, run_id)
    finally:
        remove_run(client, run_id)
        client.close()


@pytest.fixture
def machine(one_machine) -> Iterator[Machine]:
    yield one_machine
    for unit in ("kept.service", "alone.service"):
        one_machine.do("systemctl", "stop", unit)
        one_machine.do("systemctl", "kill", "--signal=KILL", unit)
    until(lambda: not one_machine.processes(), 10)


def test_all_processes_of_a_unit_are_paused_and_killed_and_systemd_starts_it_again(machine):
    machine.do("systemctl", "start", "alone.service")
    until(lambda: len(machine.processes()) == 2, 10)
    first = machine.main_process("alone.service")
    backend, hosts = machine.adopted("alone.service")
    try:
        paused = backend.converge_all(hosts, {"n1": HostState(frozen=True)})["n1"]
        assert paused.confirmed, paused.why
        assert sorted(machine.processes().values()) == ["T", "T"]
        killed = backend.converge_all(hosts, {"n1": HostState(down="SIGKILL")})["n1"]
        assert killed.confirmed, killed.why
        assert machine.processes() == {}  # systemd was told to end the main process only: both were hit by us
        healed = backend.converge_all(hosts, {"n1": HEALTHY})["n1"]
        assert healed.confirmed, healed.why
        assert machine.main_process("alone.service") not in {0, first}
        assert machine.told() == [("started", 1, True), ("exited", 1, True), ("started", 2, True)]
    finally:
        hosts["n1"].close()
        backend.destroy("r1")
    assert sorted(machine.processes().values()) == ["S", "S"]  # left running


def test_a_unit_that_systemd_starts_again_by_itself_is_told_as_another_start_that_nobody_asked_for(machine):
    machine.do("systemctl", "start", "kept.service")
    until(lambda: len(machine.processes()) == 2, 10)
    backend, hosts = machine.adopted("kept.service")
    try:
        machine.do("systemctl", "kill", "--signal=KILL", "kept.service")
        until(lambda: len(machine.told()) == 3, 10)
        assert machine.told() == [("started", 1, True), ("exited", 1, False), ("started", 2, False)]
        began = [one.span for one in machine.news if one.kind == "started"][-1]
        ended = next(one.span for one in machine.news if one.kind == "exited")
        assert 150_000_000 < began.lo - ended.lo < 2_000_000_000  # systemd's 200 ms, told for when it was
        until(lambda: len(machine.processes()) == 2, 10)
        backend.converge_all(hosts, {"n1": HostState(down="SIGKILL")})
        until(lambda: len(machine.told()) == 5, 10)
        assert machine.told()[3:] == [("exited", 2, True), ("started", 3, False)]
    finally:
        hosts["n1"].close()
        backend.destroy("r1")


def test_a_unit_that_does_not_run_or_is_not_there_ends_the_deployment_by_name(machine):
    machine.do("systemctl", "stop", "alone.service")
    with pytest.raises(ClusterError, match=r"the unit alone\.service has no process"):
        machine.adopted("alone.service")
    with pytest.raises(ClusterError, match=r"there is no unit none\.service"):
        machine.adopted("none.service")
