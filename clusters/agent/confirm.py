"""Brings several hosts into their states as one transaction, and proves every link concerned from inside.

A cut is confirmed when the probe over it did not arrive, probes that were sent after it over open links did, and the
rule's drop counter rose; a heal is confirmed when the probe arrives. Cut links are probed first and open links last, so
that the arrival of the latter is a fence: what was sent before has had its chance.

Promises: bounded; never raises for a fault that did not take or a host that is lost; a probe that got lost without
a cut is sent again before it counts; rules that somebody removed meanwhile are put back once. Leaves out links with
partial loss (not judged) and resetting flows.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from harness.core.clock import SECOND, Ns, Span
from harness.core.errors import ClusterError
from harness.core.hoststate import HostState
from harness.core.protocols import Evidence, Host

LIMIT_S = 20.0
"""Longest time for one transaction."""
ROUND_LIMITS_S = (0.2, 0.3, 0.5)
"""How long each round of probes waits for arrivals that are missing."""
CLIENT = "client"

T = TypeVar("T")


@runtime_checkable
class ProbingHost(Protocol):
    """What is needed of a host beyond ``Host``: verbs that do not wait. ``clusters.agent.link.AgentHost`` has them."""

    name: str
    address: str
    state: HostState
    """The state last asked for."""
    origin_ns: Ns
    """The monotonic ns of the history's 0."""

    def converge_async(self, want: HostState, *, verify: bool = True) -> Future[Evidence]:
        """Begin to converge; ``verify`` False: the caller probes."""

    def send_probes_async(self, nonce: int, *, order: Sequence[str] = ()) -> Future[Mapping[str, Any]]:
        """Send a probe to every peer, those in ``order`` first."""

    def probe_links_async(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """Wait for probes; say what arrived and what was dropped."""

    def client_probe(self, nonce: int) -> tuple[bytes, tuple[str, int]]:
        """What the harness itself would send as ``client``, and where to."""


def converge_all(
    hosts: Mapping[str, Host], wants: Mapping[str, HostState], *, limit_s: float = LIMIT_S
) -> dict[str, Evidence]:
    """Converge the hosts in ``wants`` at once, then probe their links with the help of all ``hosts``.

    Evidence for every host in ``wants``; a host whose agent is lost has an unconfirmed one. Raises ClusterError only
    for hosts that no agent keeps.
    """
    transaction = _Transaction(hosts, wants, time.monotonic() + limit_s)
    transaction.converge(wants, verify=not transaction.network)
    if transaction.network:
        transaction.prove()
    return transaction.evidence


class _Transaction:
    def __init__(self, hosts: Mapping[str, Host], wants: Mapping[str, HostState], deadline: float) -> None:
        self._hosts: dict[str, ProbingHost] = {}
        for name, host in hosts.items():
            if not isinstance(host, ProbingHost):
                raise ClusterError(
                    "this host cannot be probed", where=name, cause=f"{type(host).__name__} has no agent"
                )
            self._hosts[name] = host
        self._wants = wants
        self._deadline = deadline
        self._before = {name: self._hosts[name].state for name in wants}
        self.network = any(
            state.cuts or state.links for name, want in wants.items() for state in (want, self._before[name])
        )
        self.evidence: dict[str, Evidence] = {}

    def converge(self, wants: Mapping[str, HostState], *, verify: bool) -> None:
        """Ask all at once, collect what they say."""
        asked = time.monotonic_ns()
        futures = {name: _begin(self._hosts[name].converge_async, want, verify=verify) for name, want in wants.items()}
        for name, future in futures.items():
            said = self._result(future)
            if isinstance(said, Evidence):
                earlier = self.evidence.get(name)
                if earlier is not None:  # repaired: it was not certain in between
                    said = msgspec.structs.replace(said, span=Span(earlier.span.lo, said.span.hi))
                self.evidence[name] = said
            else:
                origin_ns = self._hosts[name].origin_ns
                span = Span(asked - origin_ns, time.monotonic_ns() - origin_ns)
                self.evidence[name] = Evidence(host=name, span=span, state=wants[name], confirmed=False, why=said)

    def prove(self) -> None:
        """Rounds of probes until all is as wanted, or the rounds are over."""
        judged: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
        for number, limit_s in enumerate(ROUND_LIMITS_S, start=1):
            judged = self._round(min(limit_s, max(0.0, self._deadline - time.monotonic())), number)
            if not any(problems for problems, _ in judged.values()) or time.monotonic() > self._deadline:
                break
            broken = {
                name: self._wants[name] for name, (problems, said) in judged.items() if problems and _repairable(said)
            }
            if number == 1 and broken:
                self.converge(broken, verify=True)
        for name, (problems, said) in judged.items():
            found = self.evidence[name]
            why = "; ".join(filter(None, [found.why, *problems]))
            hi = max(found.span.hi, said.get("hi", 0))
            self.evidence[name] = msgspec.structs.replace(
                found,
                span=Span(found.span.lo, hi),
                confirmed=found.confirmed and not problems,
                why=why,
                detail={**found.detail, "probes": dict(said)},
            )

    def _round(self, limit_s: float, number: int) -> dict[str, tuple[list[str], Mapping[str, Any]]]:
        """One round: what is wrong with each host's links, and what its agent said."""
        nonce = secrets.randbits(62)
        states = {name: host.state for name, host in self._hosts.items()}
        client = _probe_as_client(nonce, [self._hosts[name] for name in self._wants if self._concerns_client(name)])
        sends = {
            name: _begin(
                host.send_probes_async,
                nonce,
                order=[other for other in sorted(states) if other != name and name in states[other].cuts],
            )
            for name, host in self._hosts.items()
        }
        sent = {name: self._result(future) for name, future in sends.items()}
        judging = [name for name in self._wants if name in self.evidence]
        expected = {name: self._expected(name, states, sent) for name in judging}
        answers = {
            name: _begin(
                self._hosts[name].probe_links_async,
                nonce,
                expect=expected[name],
                timeout_ns=int(limit_s * SECOND),
            )
            for name in judging
        }
        judged: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
        for name, future in answers.items():
            said = self._result(future)
            if isinstance(said, str):
                judged[name] = ([said], {})
                continue
            problems = self._problems(name, said, expected[name], sent, client)
            judged[name] = (problems, {**said, "cut": sorted(states[name].cuts), "round": number})
        return judged

    def _concerns_client(self, name: str) -> bool:
        return CLIENT in self._wants[name].cuts or CLIENT in self._before[name].cuts

    def _expected(self, name: str, states: Mapping[str, HostState], sent: Mapping[str, Any]) -> list[str]:
        """Whose probes must arrive at ``name``."""
        lossy = {link.src for link in states[name].links if link.loss_percent}
        shut = {*states[name].cuts, *lossy, name}
        expected = [other for other in sorted(states) if other not in shut and not isinstance(sent[other], str)]
        if CLIENT in self._before[name].cuts and CLIENT not in shut:
            expected.append(CLIENT)
        return expected

    def _problems(
        self,
        name: str,
        said: Mapping[str, Any],
        expected: Sequence[str],
        sent: Mapping[str, Any],
        client: Mapping[str, str],
    ) -> list[str]:
        problems = [] if said["in_force"] else [str(said.get("why", "the rules are not in force"))]
        arrived = set(said["arrived"])
        for src in self._wants[name].cuts:
            silent = sent.get(src) if src != CLIENT else client.get(name)
            if src in arrived:
                problems.append(f"the probe of {src} arrived although it is cut")
            elif isinstance(silent, str):
                problems.append(f"the cut of {src} is not proven: {silent}")
            elif said["in_force"] and said["dropped"].get(src, 0) < 1:
                problems.append(f"no packet of {src} was dropped")
        for src in expected:
            if src not in arrived:
                failed = client.get(name, "") if src == CLIENT else sent[src]["failed"].get(name, "")
                problems.append(f"the probe of {src} did not arrive" + (f": {failed}" if failed else ""))
        return problems

    def _result(self, future: Future[T] | str) -> T | str:
        """What came of it, or why nothing did."""
        if isinstance(future, str):
            return future
        try:
            return future.result(timeout=max(0.0, self._deadline - time.monotonic()))
        except ClusterError as error:
            return error.what
        except FutureTimeout:
            return "the agent did not answer in time"


def _begin(ask: Any, *arguments: Any, **named: Any) -> Any:
    """A future, or why there is none."""
    try:
        return ask(*arguments, **named)
    except ClusterError as error:
        return error.what


def _repairable(said: Mapping[str, Any]) -> bool:
    """Whether converging again may help: the rules are gone, or do not hold what they should."""
    return bool(said) and (not said["in_force"] or bool(set(said["cut"]) & set(said["arrived"])))


def _probe_as_client(nonce: int, hosts: Sequence[ProbingHost]) -> dict[str, str]:
    """Send the harness' own probes: host → why not, where they could not be sent."""
    failed: dict[str, str] = {}
    if not hosts:
        return failed
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for host in hosts:
            payload, target = host.client_probe(nonce)
            try:
                sender.sendto(payload, target)
            except OSError as error:
                failed[host.name] = f"the harness cannot send to it: {error.strerror}"
    return failed
