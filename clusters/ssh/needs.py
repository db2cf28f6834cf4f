"""What a run needs of machines, against what they say they have: refusals that name the packages to install.

Guarantees: pure; everything that is missing on any machine is said at once, before anything is put on one. Out of
scope: asking them (``dethrone.clusters.ssh.shipping.examine``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dethrone.clusters.recipe import named
from dethrone.clusters.ssh.code import python_of
from dethrone.clusters.ssh.hosts import SshHost
from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.interfaces import DeploySpec

NODE_IMAGE = "node"
"""The recipe of nodes of ours: they need the project's code."""

_PROGRAMS: Mapping[str, Mapping[str, str]] = {"etcd": {"/usr/bin/etcd": "etcd-server"}}
"""Recipe → program that its nodes are → Debian package that has it."""


def programs(image: str) -> Mapping[str, str]:
    """The programs that must be on a machine for this recipe, with their packages."""
    return _PROGRAMS.get(named(image).recipe, {})


def ships_code(spec: DeploySpec, host: SshHost) -> bool:
    """Whether the project's code is put on that machine."""
    return named(spec.image).recipe == NODE_IMAGE and host.target is None


def refuse_machines(spec: DeploySpec, machines: Mapping[str, SshHost], facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises MissingCapability, naming all that is missing on each machine."""
    missing = {node: _missing(spec, machines[node], said) for node, said in facts.items()}
    lacking = {node: found for node, found in missing.items() if found}
    if not lacking:
        return
    remedies = dict.fromkeys(remedy for found in lacking.values() for _, remedy in found)
    raise MissingCapability(
        "machines lack what this run needs: "
        + "; ".join(f"{node}: {', '.join(what for what, _ in found)}" for node, found in lacking.items()),
        where=", ".join(f"{node} ({machines[node].address})" for node in lacking),
        cause="nothing was put on any machine",
        next_step="; ".join(remedies),
    )


def _missing(spec: DeploySpec, host: SshHost, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What that machine lacks, each with its remedy."""
    out: list[tuple[str, str]] = []
    if facts["uid"] != 0 and spec.needs & {"iptables"}:
        out.append(("we are not root there, so no packet can be dropped", 'write user = "root", or sudo = true'))
    if ships_code(spec, host) and python_of(facts) is None:
        found = ".".join(map(str, facts["version"]))
        out.append((f"Python 3.11 or newer (it has {found})", "install python3.11 or newer on it"))
    if host.target is None:
        for program, package in programs(spec.image).items():
            if not facts["files"].get(program):
                out.append((program, f"on it: `apt-get install {package}`, and stop what that starts"))
    if "iptables" in spec.needs and not (facts["tools"]["iptables-save"] and facts["tools"]["iptables-restore"]):
        out.append(("iptables", "on it: `apt-get install iptables`"))
    if spec.needs & {"faketime", "vdso"}:
        out += _clock(host, facts, preloads="faketime" in spec.needs and host.target is None)
    return out


def _clock(host: SshHost, facts: Mapping[str, Any], *, preloads: bool) -> list[tuple[str, str]]:
    """``preloads``: whether libfaketime, if it is there, is what skews clocks. Whether a vDSO can be changed is tried
    once the agent is there."""
    if host.settimeofday:
        return (
            [] if facts["sets_clock"] else [("the right to set its clock (CAP_SYS_TIME)", "be root on a real machine")]
        )
    if facts["machine"] == "x86_64" or (preloads and facts["faketime"]):
        return []
    install = "on it: `apt-get install libfaketime`, or " if preloads else ""
    what = "libfaketime" if preloads else "x86-64"
    more = f"write settimeofday = true in [hosts.{host.name}] if the whole machine's clock may move"
    return [(f"{what} (it is {facts['machine']}: clocks of processes cannot be skewed)", install + more)]
