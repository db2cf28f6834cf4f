"""Which faults can happen on which hosts: live, simulated, or not here, by which means, and why not.

Two answers: *known* asks the traits of a backend and starts nothing; *probed* tries, in hosts that live for a second,
what faults need there. Guarantees: pure but for the probe itself; a fault whose needs are not all answered with yes is
never live. Out of scope: what a system, or the owner of a lent host, refuses besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.interfaces import Available, Backend, Fault, No, Probing, Yes, traits_of
from dethrone.harness.core.world import VirtualBackend

State = Literal["live", "simulated", "not here"]

MEANS = {
    "iptables": "iptables",
    "links": "nfqueue",
    "signals": "signals",
    "files": "files",
    "faketime": "libfaketime",
    "vdso": "vDSO",
    "disks": "FUSE",
    "power": "FUSE",
    "cpu": "control group",
    "memory": "control group",
    "descriptors": "prlimit",
    "members": "the system itself",
}
"""What a fault needs → by what it is done on real hosts. netem is not used for links, even where the kernel has it."""
OTHERWISE = {"faketime": "vdso", "monotonic": "vdso"}
"""What a fault needs → what does it as well, for the programs that ``LIMITS`` names."""
LIMITS = {"monotonic": "static Go programs only"}


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one kind of fault can happen on the hosts of one backend. ``by``: the means; ``why``: not, or only so."""

    fault: str
    does: str
    state: State
    by: str = ""
    why: str = ""
    origin: str = ""


def known(backend: Backend) -> list[Support]:
    """What its traits say of each kind; nothing is started."""
    traits = backend.traits
    able: dict[str, Available] = dict.fromkeys(traits.capabilities, Yes())
    return _rows(able, virtual=isinstance(backend, VirtualBackend), lent=traits.lending is not None)


def probed(name: str) -> list[Support]:
    """What this backend's hosts could do when they were tried now. ConfigError: it does not exist, or lends hosts."""
    backend: Backend = registry.load(registry.BACKENDS, name)
    if isinstance(backend, VirtualBackend):
        return known(backend)
    if not isinstance(backend, Probing):
        raise ConfigError(
            f"the backend {name!r} has no hosts of its own to try",
            next_step="dethrone list faults (what is known of it), or dethrone doctor --hosts FILE (lent machines)",
        )
    return _rows(backend.probe(), virtual=False, lent=False)


def support(fault: Fault, able: Mapping[str, Available], *, virtual: bool, lent: bool) -> tuple[State, str, str]:
    """State, means and reason of one kind where hosts are so able."""
    if virtual:
        lacking = sorted(need for need in fault.needs() if not isinstance(able.get(need), Yes))
        return ("not here", "", f"not simulated: {', '.join(lacking)}") if lacking else ("simulated", "", "")
    if traits_of(fault).asks:
        return "live", "the system itself", "where clients can ask it"
    means: list[str] = []
    limits: list[str] = ["where the owner of the hosts permits it"] if lent else []
    limits += ["where the system can change its members"] if traits_of(fault).removes else []
    for need in sorted(fault.needs()):
        ways = [way for way in (need, OTHERWISE.get(need)) if way and isinstance(able.get(way), Yes)]
        if not ways:
            return "not here", "", _why(need, able)
        means += [MEANS.get(way, way) for way in ways]
        if need in LIMITS and need not in ways:
            limits.append(LIMITS[need])
    return "live", " or ".join(means) if len(fault.needs()) == 1 else ", ".join(means), "; ".join(limits)


def _why(need: str, able: Mapping[str, Available]) -> str:
    answer = able.get(OTHERWISE.get(need, need), able.get(need))
    if isinstance(answer, No):
        return ": ".join(part for part in (answer.why, answer.what_to_do) if part)
    return f"its hosts lack {need}"


def _rows(able: Mapping[str, Available], *, virtual: bool, lent: bool) -> list[Support]:
    out = []
    for name, point in registry.names(registry.FAULTS).items():
        origin = registry.origin(point)
        try:
            fault: Any = registry.load(registry.FAULTS, name)
            state, by, why = support(fault, able, virtual=virtual, lent=lent)
            does = fault.summary()
        except (HarnessError, AttributeError) as error:
            why = f"cannot be used: {str(error).splitlines()[0]}"
            out.append(Support(fault=name, does="\u2013", state="not here", why=why, origin=origin))
            continue
        out.append(Support(fault=name, does=does, state=state, by=by, why=why, origin=origin))
    return out
