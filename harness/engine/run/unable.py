"""What hosts turn out not to be able to do, once they are up and before a run begins: refusals, each with its reason.

Guarantees: hosts are asked only for what the run's faults need. Out of scope: what is known before there are hosts
(``planning``), and what a fault meets while it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.interfaces import Host, ShapedHost, SkewedHost

CLOCKS = frozenset({"faketime", "vdso", "monotonic"})


def refuse_unable(needs: frozenset[str], hosts: Mapping[str, Host], uncut: Mapping[str, str]) -> None:
    """MissingCapability if some hosts cannot do what is needed. ``uncut``: host → why its links cannot be cut."""
    if "iptables" in needs and uncut:
        raise MissingCapability(
            "a partition would leave nodes connected over IPv6",
            where=", ".join(f"{host}: {why}" for host, why in uncut.items()),
            cause="hosts have IPv6 addresses, and no tool on them can drop IPv6 traffic",
            next_step="install iptables with ip6tables on the hosts, or disable IPv6 (sysctl "
            "net.ipv6.conf.all.disable_ipv6=1)",
        )
    if "links" in needs:
        _refuse(
            {name: host.unshaped for name, host in hosts.items() if isinstance(host, ShapedHost)},
            "the quality of links cannot be changed",
            cause="it needs a kernel with NFQUEUE (nfnetlink_queue, xt_NFQUEUE), iptables, and the right to use them",
            next_step="list in --faults the wanted kinds without link and hold, or use another kernel",
        )
    if needs & CLOCKS:
        _refuse(
            {name: host.unskewed for name, host in hosts.items() if isinstance(host, SkewedHost)},
            "the clocks of nodes cannot be skewed",
            cause="it needs libfaketime under a program with libc, or x86-64 and the right to trace the process",
            next_step="list in --faults the wanted kinds without clock and drift; what each way needs: docs/clocks.md",
        )


def _refuse(tries: Mapping[str, Callable[[], str]], what: str, *, cause: str, next_step: str) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        tried = {name: pool.submit(attempt) for name, attempt in tries.items()}
    whys = [f"{name}: {future.result()}" for name, future in tried.items() if future.result()]
    if whys:
        raise MissingCapability(what, where="; ".join(whys), cause=cause, next_step=next_step)
