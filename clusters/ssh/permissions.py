"""What a run may do to machines of other owners: refusals before the run and at every effect.

Guarantees: pure; a refusal names the line to write; healing is never refused. Out of scope: reading the file
(``dethrone.clusters.ssh.hosts``) and anything a host can or cannot do technically.

A host counts as *lost* while its node is down or what is on its disk is damaged. A node that is paused or cut off, or
whose disk is slow, full or refuses writes, is not lost: it comes back as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dethrone.clusters.ssh.hosts import HostsFile, SshHost, restart_of
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import DAMAGES, HEALTHY, HostState
from dethrone.harness.core.interfaces.faults import Part, declarations, declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.quorum import minority, quorum

_LOSING = ("torn", "wiped", *DAMAGES)


def chosen(file: HostsFile, nodes: Sequence[str]) -> dict[str, SshHost]:
    """The hosts of a run's nodes, each in the file and expendable. Raises ConfigError with the line to write."""
    missing = [node for node in nodes if node not in file.hosts]
    if missing:
        raise ConfigError(
            f"no machine for {_listed(missing)}",
            where=file.source,
            cause=f"the file has {_listed(sorted(file.hosts))}" if file.hosts else "no host was given",
            next_step=f'write [hosts.{missing[0]}] and address = "…", or run with fewer nodes',
        )
    spared = [node for node in nodes if node not in file.expendable]
    if spared:
        line = "expendable = " + json.dumps(sorted({*file.expendable, *spared}))
        raise ConfigError(
            f"{_listed(spared)} may not be broken: not listed as expendable",
            where=file.source,
            cause="a run stops processes, drops packets and may lose data on its hosts",
            next_step=f"if these machines are yours to break, write at the top of the file: {line}",
        )
    return {node: file.hosts[node] for node in nodes}


def refuse_run(file: HostsFile, plan: Plan) -> None:
    """Raises ConfigError for a run that the file does not allow, for any reason that is known before it."""
    machines = chosen(file, plan.nodes)
    kinds = sorted({fault.kind for step in plan.schedule.steps for fault in step.faults})
    refuse_faults(file, kinds)
    ending = [kind for kind in kinds if declared(kind).ends_process]
    stuck = [name for name, host in machines.items() if host.target is not None and not restart_of(host.target)]
    adopted = [name for name, host in machines.items() if host.target is not None]
    if plan.variant is not None and adopted:
        raise ConfigError(
            f"the planted bug {plan.variant!r} cannot be put into the target of {_listed(adopted)}: it runs already",
            where=file.source,
            next_step=f"leave --variant out, or target out of [hosts.{adopted[0]}]",
        )
    if ending and stuck:
        raise ConfigError(
            f"{_listed(ending)} would end the target of {_listed(stuck)}, and no one would start it again",
            where=file.source,
            cause="a process that is named by its pid file or its command cannot be started by that",
            next_step=f'write start = "…", the command that starts it, into target of [hosts.{stuck[0]}]',
        )
    if file.majority:
        return
    limit = minority(len(plan.voters))
    for step in plan.schedule.steps:
        for fault in step.faults:
            hit = _at_least(fault.victims, plan) if declared(fault.kind).ends_process else 0
            if hit > limit:
                raise ConfigError(
                    f"{fault.kind} of {fault.victims} stops {hit} of {len(plan.voters)} voting hosts at once; "
                    f"a quorum can spare {limit}",
                    where=file.source,
                    cause="no more than the quorum's minority may be lost at once unless the file allows it",
                    next_step="write majority = true at the top of the file, or leave that fault out",
                )


def _at_least(victims: str, plan: Plan) -> int:
    """How many voting hosts a selector hits at least, where that can be known before the run; else 0."""
    kind, _, more = victims.partition(":")
    voters = len(plan.voters)
    if kind == "node":
        return len({*more.split(",")} & {*plan.voters})
    if kind == "zone":
        return len({node for node, zone in (plan.zones or {}).items() if zone in more.split(",")} & {*plan.voters})
    if kind in {"random", "follower"} and more.isdecimal():
        return max(0, int(more) - (len(plan.nodes) - voters))
    return {"all": voters, "majority": quorum(voters)}.get(kind, 0)


def refuse_faults(file: HostsFile, kinds: Sequence[str]) -> None:
    """Raises ConfigError for fault kinds that the file does not allow."""
    refused = sorted(set(kinds) - file.faults)
    if refused:
        line = "faults = " + json.dumps(sorted({*file.faults, *refused}))
        raise ConfigError(
            f"the hosts file does not allow {_listed(refused)}",
            where=file.source,
            cause="kinds that damage data or move a machine's clock must be allowed by name",
            next_step=f"write at the top of the file: {line}; or leave the fault out",
        )


def not_allowed(file: HostsFile, want: HostState) -> str:
    """Why the file does not allow a host to be brought into this state; "" if it does. Healthy is always allowed.

    The second line after ``refuse_faults``: a state does not say which fault it is of, so one of its kinds suffices.
    """
    parts: tuple[tuple[object, str, Part], ...] = (
        (want.cuts or want.refuses, "cuts", "cuts"),
        (want.links, "link quality", "links"),
        (want.down == "SIGKILL", "killing", "killed"),
        (want.down == "SIGTERM", "stopping", "stopped"),
        (want.down == "POWER", "loss of power", "power"),
        (want.down == "OOM", "lack of memory", "memory"),
        (want.frozen, "pausing", "frozen"),
        (want.clock, "clock skew", "clock"),
        (want.disk, "disk trouble", "disk"),
        (want.cpu_percent is not None, "starving of CPU", "cpu"),
        (want.version, "another version", "version"),
    )
    asked = [(what, _touching(part)) for is_asked, what, part in parts if is_asked]
    asked += [(trouble.says, frozenset({trouble.kind})) for trouble in want.troubles or ()]
    for what, kinds in asked:
        if not kinds & file.faults:
            return f"{what} is not allowed: {file.source} lists none of {_listed(sorted(kinds))} in its faults"
    return ""


def _touching(part: Part) -> frozenset[str]:
    """The kinds that change this part of a host's state; its own name, where no installed kind does."""
    return frozenset(kind for kind, traits in declarations().items() if part in traits.touches) or frozenset({part})


def is_lost(state: HostState) -> bool:
    """Whether the host counts against the minority; see the top."""
    state = state.suffered
    return state.down is not None or (state.disk is not None and state.disk.kind in _LOSING)


def over_the_minority(
    file: HostsFile,
    *,
    voters: Sequence[str],
    now: Mapping[str, HostState],
    wants: Mapping[str, HostState],
) -> dict[str, str]:
    """Host → why not, for those of ``wants`` that would make more than a minority of ``voters`` lost at once.

    ``now``: the states that hosts are in as far as was proved; hosts that are absent are healthy. A host that is lost
    stays counted even if ``wants`` heals it, for a heal may fail. The earliest in the voters' order are admitted. Hosts
    that do not vote do not count.
    """
    if file.majority:
        return {}
    limit = minority(len(voters))
    lost = {name for name in voters if is_lost(now.get(name, HEALTHY))}
    asking = [name for name in voters if name in wants and is_lost(wants[name]) and name not in lost]
    room = max(0, limit - len(lost))
    why = (
        f"{len(lost) + len(asking)} of {len(voters)} voting hosts would be lost at once, a quorum can spare {limit}; "
        f"to allow it write majority = true at the top of {file.source}"
    )
    return dict.fromkeys(asking[room:], why)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
