"""Which containers a run is about: those of a compose project, or with labels, as the user named them.

Guarantees: nothing is changed; what cannot be a host is refused by name, with the reason; the order of the containers,
and so which is ``n1``, is that of their names, numbers counting as numbers. Out of scope: what is done to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import docker
import msgspec

from dethrone.clusters.docker.client import explained
from dethrone.clusters.docker.labels import OWNER
from dethrone.harness.core.errors import ConfigError

PROJECT = "com.docker.compose.project"
ONE_OFF = "com.docker.compose.oneoff"
SIDECAR = "sidecar"
"""Value of ``OWNER`` on sidecars: the code that removes hosts of other backends does not know them."""

OURS = frozenset({"run", "probe", "builder", SIDECAR})
"""Values of ``OWNER`` on containers that are ours; an image of ours hands on others."""


class AttachTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One container of another user. ``address``: on ``network``, which all of them share."""

    node: str
    id: str
    name: str
    network: str
    address: str
    gateway: str


def parse_words(words: Sequence[str]) -> tuple[str, ...]:
    """``project=NAME``, ``label=KEY`` or ``label=KEY=VALUE`` → labels that a container must all have. ConfigError."""
    labels = []
    for word in words:
        kind, _, rest = word.partition("=")
        if kind not in {"project", "label"} or not rest:
            raise ConfigError(
                f"{word!r} names no containers",
                where="--on attach",
                next_step="give --project NAME (of docker compose) or --label KEY=VALUE",
            )
        labels.append(f"{PROJECT}={rest}" if kind == "project" else rest)
    return tuple(dict.fromkeys(labels))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts ``kv-10`` behind ``kv-9``."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def list_matching(client: docker.DockerClient, labels: Sequence[str]) -> list[str]:
    """The ids of containers with all these labels, in any state, less ours and compose's one-off ones."""
    if not labels:
        return []
    with explained("listing containers"):
        entries = client.api.containers(all=True, filters={"label": list(labels)})
    found = []
    for entry in entries:
        own: Mapping[str, str] = entry.get("Labels") or {}
        if own.get(OWNER) not in OURS and own.get(ONE_OFF, "False") != "True":
            found.append((natural(str((entry.get("Names") or ["?"])[0]).lstrip("/")), str(entry["Id"])))
    return [identity for _, identity in sorted(found)]


def find_targets(client: docker.DockerClient, labels: Sequence[str], nodes: Sequence[str]) -> list[AttachTarget]:
    """The containers as hosts, in the order of ``nodes``. ConfigError if they cannot all be, or are more or fewer."""
    ids = list_matching(client, labels)
    with explained("looking at containers"):
        details = [client.api.inspect_container(identity) for identity in ids]
    if len(ids) != len(nodes):
        names = ", ".join(_name(one) for one in details) or "none"
        raise ConfigError(
            f"{len(ids)} containers match, but the run is for {len(nodes)} nodes",
            where=f"--on attach, labels {', '.join(labels)}: {names}",
            cause="every container that matches is a node of the system",
            next_step=f"give --nodes {len(ids)}" if ids else "see `docker ps -a`; give the labels that they have",
        )
    for one in details:
        _refuse(one)
    shared = set.intersection(*({*_networks(one)} for one in details))
    if not shared:
        raise ConfigError(
            "the containers share no network",
            where=", ".join(_name(one) for one in details),
            cause="a partition is made of addresses that they all see each other by",
            next_step="connect them to one network: `docker network connect`",
        )
    network = min(shared)
    return [
        AttachTarget(
            node=node,
            id=str(one["Id"]),
            name=_name(one),
            network=network,
            address=_networks(one)[network]["IPAddress"],
            gateway=_networks(one)[network]["Gateway"],
        )
        for node, one in zip(nodes, details, strict=True)
    ]


def _name(details: Mapping[str, Any]) -> str:
    return str(details.get("Name", "?")).lstrip("/")


def _networks(details: Mapping[str, Any]) -> dict[str, Mapping[str, str]]:
    """Its networks on which it has an address that others may see."""
    networks: Mapping[str, Mapping[str, str]] = details["NetworkSettings"].get("Networks") or {}
    return {name: one for name, one in networks.items() if one.get("IPAddress")}


def _refuse(details: Mapping[str, Any]) -> None:
    """ConfigError for a container that cannot be a host."""
    mode = str(details["HostConfig"].get("NetworkMode", ""))
    why, remedy = "", ""
    if details["State"].get("Paused"):
        why, remedy = "it is paused already", f"`docker unpause {_name(details)}`"
    elif not details["State"].get("Running"):
        why, remedy = "it does not run", f"`docker start {_name(details)}`"
    elif mode == "host" or mode.startswith("container:") or mode == "none":
        why, remedy = f"its network is not its own (network mode {mode})", "give it a network of its own"
    if why:
        raise ConfigError(f"a container cannot be a host: {why}", where=_name(details), next_step=remedy)
