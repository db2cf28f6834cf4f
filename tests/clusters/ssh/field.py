"""Containers with a real SSH server, and the hosts file that names them: n1 and n3 by root, n2 by a user with sudo."""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator
from pathlib import Path

import paramiko

from dethrone.clusters.docker.containers import Box, remove_run, start_box
from dethrone.clusters.docker.image import ensure_image
from dethrone.clusters.docker.network import create_network
from dethrone.clusters.docker.recipe_files import ingredients_of
from tests.clusters.engine import engine_client
from tests.waiting import until

NODES = ("n1", "n2", "n3")
DEAD_MAN_S = 4

HOST_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"

SERVE = """set -e
rm -f /etc/ssh/ssh_host_*; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
useradd -m -p '*' chaos; echo 'chaos ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/chaos
for home in /root /home/chaos; do mkdir -p -m 700 $home/.ssh; echo "$1" > $home/.ssh/authorized_keys; done
chown -R chaos /home/chaos; mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -o UsePAM=no -o UseDNS=no -o HostKey=/etc/ssh/ssh_host_ed25519_key
"""


ENDED = "dethrone-test-end"
HEARINGS_MAX = 20
"""How often a command is asked again whose output the engine lost: of short ones about 1 in 30."""


def heard(client, box: str, *argv: str) -> str:
    """What a command prints that changes nothing, heard to its end; nothing if it failed."""
    for _ in range(HEARINGS_MAX):
        execution = client.api.exec_create(box, ["sh", "-c", f'"$@"; echo {ENDED} $?', "sh", *argv])["Id"]
        said, end, code = client.api.exec_start(execution).decode().rpartition(ENDED)
        if end:
            return said.rstrip() if code.strip() == "0" else ""
    raise AssertionError(f"the engine lost what {' '.join(argv)} said {HEARINGS_MAX} times")


class Field:
    """The containers, and the hosts file that names them."""

    def __init__(self, client, directory: Path, run_id: str, recipe: str) -> None:
        self.client, self.boxes = client, {}
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(directory / "id"))
        image = ensure_image(client, packages=ingredients_of(f"{recipe}+openssh-server+sudo").packages)
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
            until(lambda box=box: self.inside(box.node, "cat", HOST_KEY), 30)
            shown = self.inside(box.node, "cat", HOST_KEY).split()
            known += f"{box.address} {shown[0]} {shown[1]}\n"
        (directory / "known").write_text(known)
        self.file = directory / "hosts.toml"
        self.file.write_text(text)
        self.patient_file = directory / "patient.toml"
        """The same hosts, whose dead men wait for as long as a stalled machine may take between two beats."""
        self.patient_file.write_text(text.replace(f'"{DEAD_MAN_S}s"', '"60s"'))

    def inside(self, node: str, *argv: str) -> str:
        """What a command prints there, see ``heard``."""
        return heard(self.client, self.boxes[node], *argv)

    def ours(self, node: str) -> str:
        """What is left of us on a machine: rules and processes."""
        both = "iptables-nft-save; iptables-legacy -w 5 -S; true"  # the agent takes either
        saved = self.inside(node, "sh", "-c", both)
        rules = [line for line in saved.splitlines() if "DETHRONE" in line]
        processes = [line for line in self.inside(node, "ps", "-eo", "args=").splitlines() if "agent.py serve" in line]
        return "\n".join(rules + processes)


def made(directory: Path, recipe: str = "node") -> Iterator[Field]:
    """A field, taken away at the end; skipped without an engine, but not in CI."""
    client = engine_client()
    run_id = f"test-{uuid.uuid4().hex[:8]}"
    try:
        with (directory / "lock").open("w") as lock:
            # The containers look like a run's, of which this process is the harness: no `heal` may take them away.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Field(client, directory, run_id, recipe)
    finally:
        remove_run(client, run_id)
        client.close()
