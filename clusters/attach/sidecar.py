"""A container of ours next to another user's, in its network and PID namespaces: where the agent lives.

The target needs no shell, no tools and no change: everything that breaks its network is in our image. With the
target's process goes the sidecar's, for they share a PID namespace; it is started again after the target.

Guarantees: our labels are on sidecars only, and they say whose sidecar each is, so that it is the note on the engine's
disk of what is to be healed; rules are taken out of a target's network, and clocks set right, even where no agent lives
any more. Out of scope: what the engine does to the target.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

import docker
import docker.errors
import msgspec

from dethrone.clusters.attach.targets import SIDECAR, AttachTarget
from dethrone.clusters.docker.client import explained
from dethrone.clusters.docker.labels import LIB, NODE, OWNER, RUN, STATE
from dethrone.clusters.docker.meeting import AGENT
from dethrone.harness.core.errors import NotHealed

TARGET = "dethrone.target"
"""Label: the id of the container that a sidecar belongs to."""

SOCKET = "/run/dethrone/agent.sock"
HEAL_LIMIT_S = 30
AGAIN_S = 0.2
"""How long after a heal that failed the next one begins: another one may be under way."""


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """One of ours, as its labels say."""

    id: str
    name: str
    image: str
    run_id: str
    state_dir: str
    node: str
    target: str


def make(
    client: docker.DockerClient, target: AttachTarget, *, image: str, run_id: str, state_dir: str, traces: bool
) -> str:
    """Make and start the sidecar of a target; its id. ``traces``: it may trace the target's processes."""
    labels = {OWNER: SIDECAR, RUN: run_id, STATE: state_dir, NODE: target.node, TARGET: target.id}
    command = [*AGENT, "serve", "--socket", SOCKET, "--run", run_id]
    name = f"dethrone-{run_id}-{target.node}"
    with explained("starting a sidecar", where=target.name):
        api = client.api
        made = api.create_container(
            image,
            entrypoint=["/usr/bin/env"],
            command=command,
            name=name,
            environment={"PYTHONPATH": LIB, "PYTHONDONTWRITEBYTECODE": "1"},
            labels=labels,
            host_config=api.create_host_config(
                network_mode=f"container:{target.id}",
                pid_mode=f"container:{target.id}",
                cap_add=["NET_ADMIN", *(["SYS_PTRACE"] if traces else [])],
            ),
        )
        identity = str(made["Id"])
        api.start(identity)
    return identity


def list_sidecars(client: docker.DockerClient, run_id: str | None = None) -> list[Sidecar]:
    """All of ours, or those of one run, in any state."""
    wanted = [f"{OWNER}={SIDECAR}", *([] if run_id is None else [f"{RUN}={run_id}"])]
    with explained("listing sidecars"):
        entries = client.api.containers(all=True, filters={"label": wanted})
    return [_sidecar(entry, entry["Labels"]) for entry in entries]


def heal_target(client: docker.DockerClient, sidecar: Sidecar) -> None:
    """Undo that run's rules and skews in the target, through its agent. NotHealed.

    A sidecar whose agent is gone is started again: what is to be undone stands in its files, which are still there.
    """
    heal = [*AGENT, "heal", "--socket", SOCKET, "--run", sidecar.run_id]
    deadline = time.monotonic() + HEAL_LIMIT_S
    said = ""
    with explained("healing a container", where=sidecar.node):
        while time.monotonic() < deadline:
            container = client.containers.get(sidecar.id)
            if container.status != "running":
                container.start()  # an agent heals what an earlier one left before it listens
            with contextlib.suppress(docker.errors.APIError):  # it has just ended
                code, output = container.exec_run(heal)
                if code == 0:
                    return
                said = output.decode(errors="replace").strip()[-500:]
            time.sleep(AGAIN_S)
    raise NotHealed(
        "a container could not be healed: rules in its network or skewed clocks may be left",
        where=f"{sidecar.node} ({sidecar.target[:12]})",
        cause=said,
        next_step="`dethrone heal`, or restart that container: its network and processes go with it",
    )


def remove(client: docker.DockerClient, identity: str) -> None:
    """Remove a sidecar. One that is gone already, or that another process is removing, is none."""
    try:
        client.api.remove_container(identity, force=True, v=True)
    except docker.errors.NotFound:
        return
    except docker.errors.APIError as error:
        if error.status_code != 409:
            raise


def _sidecar(entry: Mapping[str, object], labels: Mapping[str, str]) -> Sidecar:
    names = entry.get("Names")
    return Sidecar(
        id=str(entry["Id"]),
        name=str(names[0]).lstrip("/") if isinstance(names, list) and names else "?",
        image=str(entry["Image"]),
        run_id=labels.get(RUN, ""),
        state_dir=labels.get(STATE, ""),
        node=labels.get(NODE, "?"),
        target=labels.get(TARGET, ""),
    )
