"""The network of a local run: a switch in a namespace of its own, a link to each host, one up to this machine.

Clients of this machine reach hosts; hosts do not reach this machine. The link up is no port of the switch: the switch
passes packets on to it, and of those only what answers (``ONE_WAY``), so that no port of this machine is open to a
node. It answers for both sides' addresses (proxy ARP), so that all of it looks like one network.

The switch has its own namespace because bridged packets meet the firewall of the namespace that the bridge is in, and
this machine's may drop what is forwarded (an engine for containers sets it so). The one device in this machine's
namespace is the upper end of that link; its name is made of its range of addresses, so that making it also claims it.

Guarantees: a free /24 of 198.18.0.0/15, claimed by one run at a time; nothing on it reaches the outside. Out of scope:
what happens on it later; the rest of it goes with the processes that hold the namespaces.
"""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
from collections.abc import Mapping, Sequence

from dethrone.clusters.subnets import POOL, RunRange, candidates, check_room, none_free, routes
from dethrone.harness.core.errors import ClusterError

TOOL_LIMIT_S = 10.0
_RANGES = tuple(POOL.subnets(new_prefix=24))


class LocalNetwork(RunRange, frozen=True, kw_only=True):
    """A range that is claimed, and the device that claims it."""

    device: str

    @property
    def switch(self) -> str:
        """The switch's own address."""
        return self._at(2)


def device_of(subnet: str) -> str:
    """The name of the device that claims this range."""
    return f"dethrone{_RANGES.index(ipaddress.IPv4Network(subnet)):x}"


def claim(*, run_id: str, alias: str, switch_pid: int, nodes: int) -> LocalNetwork:
    """Make the link between this machine and the switch. Raises ClusterError when every range is taken."""
    check_room(nodes)
    for subnet in candidates(run_id, routes()):
        network = LocalNetwork(device=device_of(subnet), subnet=subnet)
        why = _batch([f"link add name {network.device} type veth peer name uplink netns {switch_pid}"])
        if "exists" in why:
            continue
        if why:
            raise ClusterError(
                "no network can be made for local hosts",
                where=network.device,
                cause=why,
                next_step="run `dethrone doctor`; `--on docker` needs none of this",
            )
        why = _batch([
            f"link set dev {network.device} alias {alias}",
            f"address add {network.gateway}/24 dev {network.device}",
            f"link set dev {network.device} up",
        ])  # fmt: skip
        if not why and routes().count(subnet) <= 1:
            return network
        _batch([f"link del dev {network.device}"])  # another process took that range at the same moment
        if why:
            raise ClusterError("the network of local hosts cannot be set up", where=network.device, cause=why)
    raise none_free(where="this machine's routes", see="`ip route`")


SETTINGS: Mapping[str, str] = {
    "net/ipv4/ip_forward": "1",
    **{f"net/ipv4/conf/{device}/proxy_arp": "1" for device in ("switch0", "uplink")},
    **{f"net/ipv4/neigh/{device}/proxy_delay": "0" for device in ("switch0", "uplink")},
}
"""Of the switch's own namespace."""

ONE_WAY = """*filter
-A FORWARD -i switch0 -o uplink -p tcp -m tcp --tcp-flags SYN,ACK SYN -j DROP
-A FORWARD -i switch0 -o uplink -p tcp -j ACCEPT
-A FORWARD -i switch0 -o uplink -p icmp -m icmp --icmp-type 3 -j ACCEPT
-A FORWARD -i switch0 -o uplink -j DROP
COMMIT
"""
"""Up to this machine goes what belongs to a connection that a client opened, and that a port is closed."""


def of_the_switch(pids: Mapping[str, int], network: LocalNetwork) -> list[str]:
    """For ``ip -batch`` in the switch: a bridge, and a link into the namespace of each host's first process."""
    lines = ["link add name switch0 type bridge stp_state 0 mcast_snooping 0", "link set dev switch0 up"]
    lines += [f"address add {network.switch}/32 dev {device}" for device in ("switch0", "uplink")]
    lines += ["link set dev uplink up", f"route add {network.gateway}/32 dev uplink"]
    lines += [f"route add {network.subnet} dev switch0"]
    for index, pid in enumerate(pids.values()):
        lines += [
            f"link add name host{index} type veth peer name eth0 netns {pid}",
            f"link set dev host{index} master switch0",
            f"link set dev host{index} up",
        ]
    return lines


def of_a_host(address: str) -> list[str]:
    """For ``ip -batch`` in a host."""
    return ["link set dev lo up", f"address add {address}/24 dev eth0", "link set dev eth0 up"]


def hosts_file(names: Mapping[str, str]) -> str:
    """``/etc/hosts`` of every host."""
    return "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items())


def _batch(lines: Sequence[str]) -> str:
    """Run ``ip -batch`` here: "" or its complaint."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            ["ip", "-batch", "-"],
            input="\n".join([*lines, ""]),
            text=True,
            capture_output=True,
            timeout=TOOL_LIMIT_S,
            check=False,
        )
        return done.stderr.strip()[-300:] if done.returncode else ""
    return "ip did not end in time"
