"""Datagrams that prove which links are open, and the reset of flows that a cut should end.

Guarantees: a probe counts only if both its payload and its source address match; waits are bounded; only echoes of this
run's agents are answered. Out of scope: which links should be open, which the harness knows.
"""

from __future__ import annotations

import collections
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.addresses import is_v6, own_addresses, ways
from dethrone.clusters.agent.host.bursts import Bursts
from dethrone.clusters.agent.host.common import SECOND, Refused, now_ns
from dethrone.clusters.agent.host.processes import Processes

PROBE_PORT = 7003
BUFFER_BYTES = 1 << 20
"""For what arrives while the agent is busy."""


class Probe(NamedTuple):
    """A probe: its run, its round, its sender (a host's name), and the address that it was sent to."""

    run: str
    nonce: int
    sender: str
    address: str


def probe_payload(run: str, nonce: int, sender: str, address: str) -> bytes:
    """A probe on the wire."""
    return f"dethrone-probe {run} {nonce} {sender} {address}".encode()


def parse_probe(payload: bytes) -> Probe | None:
    """Parse a probe from the wire; None for anything else."""
    parts = payload.decode("utf-8", "replace").split(" ")
    if len(parts) != 5 or parts[0] != "dethrone-probe" or re.fullmatch(r"\d{1,20}", parts[2]) is None:
        return None
    return Probe(parts[1], int(parts[2]), parts[3], parts[4])


def echo_payload(what: str, run: str, number: int) -> bytes:
    """The payload of a question or an answer between two agents that measure a round trip."""
    return f"dethrone-echo {what} {run} {number}".encode()


class Probes:
    """The UDP sockets that agents prove links with. A probe counts if its payload AND its source address match.

    A way is a pair (peer, address of ours) that a probe once arrived over: from then on it must work or be cut.
    """

    NONCES_MAX = 64

    def __init__(self, run: str, port: int) -> None:
        self._run = run
        self.port = port
        self.bursts = Bursts(run)
        self.name = ""
        self.peers: dict[str, tuple[str, ...]] = {}
        """All addresses of each peer, as the harness named them."""
        self.ways: dict[str, tuple[str, ...]] = {}
        """The addresses that identify each peer."""
        self.why = ""
        self._changed = threading.Condition()
        self._arrived: collections.OrderedDict[int, dict[str, dict[str, int]]] = collections.OrderedDict()
        self._known: dict[tuple[str, str], str] = {}
        """Way → the peer's address that the probe came from."""
        self._strange = 0
        self.sockets: dict[int, socket.socket] = {}
        for family in (socket.AF_INET, socket.AF_INET6):
            self._open(family)

    def _open(self, family: int) -> None:
        try:
            opened = socket.socket(family, socket.SOCK_DGRAM)
        except OSError:
            return  # a kernel without IPv6
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(("", self.port))
        except OSError as error:
            opened.close()
            if family == socket.AF_INET:
                self.why = f"UDP port {self.port} cannot be bound: {error.strerror}"
        else:
            self.sockets[family] = opened

    def meet(self, name: str, peers: Mapping[str, tuple[str, ...]]) -> None:
        """Learn our own name, and the peers' names and addresses."""
        self.name, self.peers = name, {peer: addresses for peer, addresses in peers.items() if peer != name}
        self.ways = ways(self.peers, own_addresses())

    def send(self, nonce: int, order: Sequence[str]) -> dict[str, str]:
        """Send a probe to each address of each peer, those of ``order`` first; returns peer → why none was sent."""
        if socket.AF_INET not in self.sockets:
            raise Refused(self.why)
        failed = {}
        scopes = [index for index, name in socket.if_nameindex() if name != "lo"]
        for peer in dict.fromkeys([*order, *self.ways]):
            if peer not in self.ways or peer in {self.name, "client"}:
                continue
            whys = [self._send(nonce, address, scopes) for address in self.ways[peer]]
            if all(whys):
                failed[peer] = next(iter(whys), "it shares all its addresses")
        return failed

    def send_burst(self, nonce: int, plan: Mapping[str, tuple[int, int]]) -> dict[str, str]:
        """Send each peer a burst (datagrams, bytes of each); returns peer → why it got none."""
        self.bursts.begin(nonce)
        first = {peer: next(iter(self.ways.get(peer, ())), "") for peer in plan}
        known = {peer: (first[peer], *burst) for peer, burst in plan.items() if first[peer]}
        failed = self.bursts.send(nonce, self.name, known, self.sockets, self.port)
        return {**failed, **{peer: "no address of it is known" for peer in plan if not first[peer]}}

    def _send(self, nonce: int, address: str, scopes: Sequence[int]) -> str:
        """Send a probe to one address; returns "" or why that failed."""
        payload = probe_payload(self._run, nonce, self.name, address)
        sender = self.sockets.get(socket.AF_INET6 if is_v6(address) else socket.AF_INET)
        places: list[tuple[Any, ...]] = [(address, self.port)]
        if is_v6(address) and ipaddress.IPv6Address(address).is_link_local:
            places = [(address, self.port, 0, scope) for scope in scopes]
        why = "this host has no IPv6"
        if sender is None:
            return why
        sent = False
        for place in places:  # a link-local address may be behind any interface
            try:
                sender.sendto(payload, place)
                sent = True
            except OSError as error:
                why = str(error.strerror)
        return "" if sent else why

    def receive(self) -> None:
        """Read what arrived (called when a socket is readable); at most 256 datagrams per family at once."""
        for receiver in self.sockets.values():
            for _ in range(256):
                try:
                    payload, source = receiver.recvfrom(2048)
                except (BlockingIOError, InterruptedError):
                    break
                except OSError:
                    continue  # an ICMP error of an earlier probe
                address = str(source[0]).partition("%")[0]
                if not self.bursts.take(payload, address, self.ways) and not self._echoed(payload, receiver, source):
                    self._take(parse_probe(payload), address)

    def _take(self, probe: Probe | None, source: str) -> None:
        if probe is None or probe.run != self._run or source not in self.ways.get(probe.sender, ()):
            self._strange += 1
            return
        with self._changed:
            known = self._arrived.setdefault(probe.nonce, {})
            known.setdefault(probe.sender, {}).setdefault(probe.address, now_ns())
            self._known[probe.sender, probe.address] = source
            while len(self._arrived) > self.NONCES_MAX:
                self._arrived.popitem(last=False)
            self._changed.notify_all()

    def known(self, peer: str) -> dict[str, str]:
        """The ways of this peer that still exist: address of ours → address of the peer."""
        own = set(own_addresses())
        with self._changed:
            return {
                ours: theirs
                for (name, ours), theirs in self._known.items()
                if name == peer and ours in own and theirs in self.ways.get(peer, ())
            }

    def _echoed(self, payload: bytes, here: socket.socket, asker: tuple[Any, ...]) -> bool:
        """Answer a round-trip question from an agent of this run; False if the payload is no such question."""
        question = echo_payload("ask", self._run, 0)[:-1]
        number = payload[len(question) :]
        if not payload.startswith(question) or not number.isdigit() or len(number) > 9:
            return False
        with contextlib.suppress(OSError):
            here.sendto(echo_payload("answer", self._run, int(number)), asker)
        return True

    def wait(self, nonce: int, expect: Iterable[str], timeout_ns: int) -> dict[str, Any]:
        """Wait until the probes of all ``expect`` arrived over every known way, or time is up; returns which did."""
        if socket.AF_INET not in self.sockets:
            raise Refused(self.why)
        expected = {name: set(self.known(name)) for name in expect}

        def missing() -> dict[str, list[str]]:
            arrived = self._arrived.get(nonce, {})
            left = {name: sorted(over - arrived.get(name, {}).keys()) for name, over in expected.items()}
            return {name: over for name, over in left.items() if over or name not in arrived}

        with self._changed:
            self._changed.wait_for(lambda: not missing(), timeout=min(timeout_ns, 30 * SECOND) / SECOND)
            arrived = self._arrived.get(nonce, {})
            return {
                "arrived": sorted(arrived),
                "over": {name: sorted(over) for name, over in arrived.items()},
                "missing": missing(),
                "strange": self._strange,
            }


def flows_to(addresses: Sequence[str]) -> list[str]:
    """The filter of ``ss`` for TCP flows to these addresses."""
    spelled = [f"[{address}]" if is_v6(address) else address for address in addresses]
    return ["( " + " or ".join(f"dst {address}" for address in spelled) + " )"]


def flows_in(output: bytes) -> set[tuple[bytes, bytes]]:
    """The flows that ``ss -H -t -n`` lists, as (address and port here, address and port there)."""
    rows = (line.split() for line in output.splitlines())
    return {(row[-2], row[-1]) for row in rows if len(row) >= 4}


def reset_flows(processes: Processes, addresses: Sequence[str]) -> dict[str, Any]:
    """Reset established TCP flows with ``ss -K``; ``worked`` says whether fewer of them are left.

    Flows are known by the ports of both ends: a program that connects again at once has new ones.
    """
    if not addresses:
        return {"worked": True, "before": 0, "after": 0}
    states = ["state", "connected", "exclude", "time-wait"]
    show = ["ss", "-H", "-t", "-n", *states, *flows_to(addresses)]
    kill = ["ss", "-K", "-H", "-t", "-n", *states, *flows_to(addresses)]

    code, out, err = processes.tool(show)
    if code != 0:
        return {"worked": False, "why": "ss: " + err.decode("utf-8", "replace").strip()[:200]}
    before = flows_in(out)
    if not before:
        return {"worked": True, "before": 0, "after": 0}
    code, _, err = processes.tool(kill)
    after_code, out, _ = processes.tool(show)
    left = before & flows_in(out) if after_code == 0 else before
    answer: dict[str, Any] = {"worked": code == 0 and left < before, "before": len(before), "after": len(left)}
    if not answer["worked"]:
        answer["why"] = (
            err.decode("utf-8", "replace").strip()[:200]
            or "the flows are still there: the kernel has no INET_DIAG_DESTROY, or we lack the permission; they come "
            "back after TCP's own retransmission back-off"
        )
    return answer
