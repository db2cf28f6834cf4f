"""Brings several hosts into their states as one transaction, and proves every affected link from inside.

A cut is confirmed when no probe over it arrived at any address of the host, later probes over open links did arrive,
and the drop counter of every address in use rose; a heal is confirmed when the probes arrive over every way that ever
worked. Cut links are probed first and open links last, so the arrival of the latter is a fence: earlier probes had
their chance to arrive.

Cuts are probed again before they end: if ``held`` is false in ``detail["before"]``, the cut did not last throughout.

Guarantees: every host knows every address of every other before links are judged; bounded; never raises for a fault
that did not take effect or a host that is lost; a probe that got lost without a cut is sent again before it counts;
rules that another program removed meanwhile are restored once. Links of bad quality are proved as ``link_proof`` says.
Out of scope: resetting flows.
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

from dethrone.clusters.agent.host.knocks import KNOCKED, SILENT
from dethrone.clusters.agent.knock_proof import KnockProof, changing
from dethrone.clusters.agent.link_proof import LinkProof, begin, changed_links, without_messages
from dethrone.harness.core.clock import SECOND, Ns, Span
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import Evidence, Host

LIMIT_S = 20.0
"""Longest time for one transaction."""
ROUND_LIMITS_S = (0.2, 0.3, 0.5)
"""How long each round of probes waits for missing arrivals."""
CLIENT = "client"
LEARNING_ROUNDS = 2
"""The first round resolves neighbours, which is slow on a fresh network; the second passes over every open way."""

T = TypeVar("T")


@runtime_checkable
class ProbingHost(Protocol):
    """A host whose verbs also exist without waiting, as ``converge_all`` needs them: ``agent_host.AgentHost``."""

    name: str
    address: str
    state: HostState
    """The state that was requested last."""
    origin_ns: Ns
    """The monotonic ns of the history's 0."""

    shapes_messages: bool
    """Whether its node doubles, reorders and holds back messages itself."""

    met: Mapping[str, Sequence[str]]
    """The addresses of its peers that its agent received last."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every address of its own, as its agent last reported them."""

    def meet_async(self, peers: Mapping[str, Sequence[str]]) -> Future[str]:
        """Begin to send its agent every address of its peers; the result: why IPv6 ones cannot be cut, or ""."""

    def converge_async(self, want: HostState, *, verify: bool = True) -> Future[Evidence]:
        """Begin to converge; ``verify`` False: the caller probes."""

    def send_probes_async(self, nonce: int, *, order: Sequence[str] = ()) -> Future[Mapping[str, Any]]:
        """Send a probe to every peer, those in ``order`` first."""

    def probe_links_async(self, nonce: int, *, expect: Sequence[str], timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """Wait for probes; the result: which arrived, and how many packets were dropped."""

    def send_burst_async(self, nonce: int, plan: Mapping[str, tuple[int, int]]) -> Future[Mapping[str, str]]:
        """Send each peer a burst (datagrams, bytes of each); the result: peer → why it got none."""

    def read_burst_async(self, nonce: int, expect: Mapping[str, int], *, timeout_ns: Ns) -> Future[Mapping[str, Any]]:
        """Wait for this number of datagrams of each sender; the result: what arrived of each."""

    def offset(self) -> tuple[Ns, Ns]:
        """Bounds of history time − its own clock."""

    def client_burst(self, nonce: int, number: int, size: int) -> tuple[bytes, tuple[str, int]]:
        """One datagram of the harness' own burst, and its target."""

    def client_probe(self, nonce: int) -> tuple[bytes, tuple[str, int]]:
        """The probe that the harness itself sends as ``client``, and its target."""


def converge_all(
    hosts: Mapping[str, Host], wants: Mapping[str, HostState], *, limit_s: float = LIMIT_S
) -> dict[str, Evidence]:
    """Converge the hosts in ``wants`` at once, then probe their links with the help of all ``hosts``.

    Returns evidence for every host in ``wants``, unconfirmed if the host's agent is lost. Raises ClusterError only
    for hosts without an agent.
    """
    transaction = _Transaction(hosts, wants, time.monotonic() + limit_s)
    if transaction.network:
        transaction.acquaint()
        transaction.prove_before()
    transaction.converge(wants, verify=not transaction.network)
    if transaction.network and transaction.introduce()[0]:  # new hosts came up: the others cut their addresses, too
        transaction.converge(wants, verify=False)
    if transaction.network:
        transaction.prove()
        transaction.prove_links()
        transaction.prove_knocks()
    return transaction.told()


def introduce(hosts: Mapping[str, Host], *, limit_s: float = LIMIT_S) -> dict[str, str]:
    """Send every host all addresses of the others, and learn which ways work while no fault is in force.

    Returns host → why some links to it cannot be cut (its tools lack IPv6, which its peers have).
    """
    deadline = time.monotonic() + limit_s
    transaction = _Transaction(hosts, {}, deadline)
    _, uncut = transaction.introduce()
    for _ in range(LEARNING_ROUNDS):
        transaction.learn(min(ROUND_LIMITS_S[-1], max(0.0, deadline - time.monotonic())))
    return uncut


class AgentBackend:
    """What backends whose hosts have agents do alike."""

    def introduce(self, hosts: Mapping[str, Host]) -> Mapping[str, str]:
        """See ``dethrone.harness.core.interfaces.Backend``."""
        return introduce(hosts)

    def converge_all(self, hosts: Mapping[str, Host], wants: Mapping[str, HostState]) -> Mapping[str, Evidence]:
        """See ``dethrone.harness.core.interfaces.Backend``."""
        return converge_all(hosts, wants)


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
            state.suffered.cuts or state.suffered.links or state.suffered.refuses
            for name, want in wants.items()
            for state in (want, self._before[name])
        )
        self.evidence: dict[str, Evidence] = {}
        self._lapsed: dict[str, str] = {}
        """Host → why its cuts were not in force until their end."""
        self._refusing, self._admitting = changing(self._before, wants)
        self._knocks = KnockProof(self._hosts, self._result)
        self._unproved: dict[str, list[str]] = {}
        """Host → why refused connections cannot be distinguished from others there."""

    def acquaint(self) -> None:
        """Introduce hosts that do not know each other, if every link is open."""
        told, _ = self.introduce()
        if told and not any(host.state.suffered.cuts or host.state.suffered.links for host in self._hosts.values()):
            for _ in range(LEARNING_ROUNDS):
                self.learn(min(ROUND_LIMITS_S[0], max(0.0, self._deadline - time.monotonic())))

    def introduce(self) -> tuple[bool, dict[str, str]]:
        """Send all addresses to hosts that lack them: whether any host did, and host → why it cannot cut IPv6."""
        directory = {name: host.addresses for name, host in self._hosts.items()}
        asked = {}
        for name, host in self._hosts.items():
            peers = {other: addresses for other, addresses in directory.items() if other != name}
            if {other: tuple(known) for other, known in host.met.items()} != peers:
                asked[name] = begin(host.meet_async, peers)
        said = {name: self._result(future) for name, future in asked.items()}
        return bool(said), {name: why for name, why in said.items() if why}

    def learn(self, limit_s: float) -> None:
        """One round of probes between all hosts; each way that a probe arrives over is known from then on."""
        nonce = secrets.randbits(62)
        for future in [begin(host.send_probes_async, nonce) for host in self._hosts.values()]:
            self._result(future)
        limit_ns = int(limit_s * SECOND)
        waits = [
            begin(
                host.probe_links_async, nonce, expect=[one for one in self._hosts if one != name], timeout_ns=limit_ns
            )
            for name, host in self._hosts.items()
        ]
        for future in waits:
            self._result(future)

    def converge(self, wants: Mapping[str, HostState], *, verify: bool) -> None:
        """Send all requests at once, then collect the answers."""
        asked = time.monotonic_ns()
        futures = {name: begin(self._hosts[name].converge_async, want, verify=verify) for name, want in wants.items()}
        for name, future in futures.items():
            said = self._result(future)
            if isinstance(said, Evidence):
                earlier = self.evidence.get(name)
                if earlier is not None:  # repaired: the state was uncertain in between
                    said = msgspec.structs.replace(said, span=Span(earlier.span.lo, said.span.hi))
                self.evidence[name] = said
            else:
                origin_ns = self._hosts[name].origin_ns
                span = Span(asked - origin_ns, time.monotonic_ns() - origin_ns)
                self.evidence[name] = Evidence(host=name, span=span, state=wants[name], confirmed=False, why=said)

    def prove_before(self) -> None:
        """Probe the hosts whose cuts are about to end: were the cuts in force until now?"""
        self._unproved = self._knocks.wrong(self._refusing, wanted=KNOCKED, deadline=self._deadline)
        for name, whys in self._knocks.wrong(self._admitting, wanted=SILENT, deadline=self._deadline).items():
            self._lapsed[name] = "; ".join(whys)
        ending = [name for name, want in self._wants.items() if _deaf(self._before[name]) - _deaf(want)]
        if not ending:
            return
        limit_s = min(ROUND_LIMITS_S[0], max(0.0, self._deadline - time.monotonic()))
        for name, (_, said) in self._round(limit_s, 0, dict.fromkeys(ending, HEALTHY)).items():
            if not said:
                self._lapsed[name] = "its agent did not answer when the cut was to be probed"
                continue
            through = sorted(set(said["arrived"]) & _deaf(self._before[name]))
            whys = list(filter(None, [self._lapsed.get(name)]))
            whys += [] if said["in_force"] else [str(said.get("why", "the rules were not in force"))]
            whys += [f"a probe of {src} arrived although it was still cut" for src in through]
            if whys:
                self._lapsed[name] = "; ".join(whys)

    def told(self) -> dict[str, Evidence]:
        """The evidence, including the findings of ``prove_before``."""
        out = {}
        for name, found in self.evidence.items():
            why = self._lapsed.get(name)
            if why is not None:
                earlier = found.detail.get("before", {}).get("why", "")
                before = {"held": False, "told": False, "why": "; ".join(filter(None, [earlier, why]))}
                found = msgspec.structs.replace(found, detail={**found.detail, "before": before})  # noqa: PLW2901
            out[name] = found
        return out

    def prove(self) -> None:
        """Run rounds of probes until every link is as wanted or no round is left."""
        judged: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
        for number, limit_s in enumerate(ROUND_LIMITS_S, start=1):
            left_s = max(0.0, self._deadline - time.monotonic())
            judged = self._round(min(limit_s, left_s), number, {name: self._wants[name] for name in self.evidence})
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

    def prove_links(self) -> None:
        """Prove the links whose quality changed."""
        changed = changed_links(*(self._packets(states) for states in (self._before, self._wants)))
        if not changed:
            return
        proof = LinkProof(self._hosts, changed, self._result)
        proof.prove(self._deadline)
        for name, problems in proof.problems.items():
            found = self.evidence[name]
            wrong = [problem for problem in problems.values() if problem]
            self.evidence[name] = msgspec.structs.replace(
                found,
                span=Span(found.span.lo, max(found.span.hi, time.monotonic_ns() - self._hosts[name].origin_ns)),
                confirmed=found.confirmed and not wrong,
                why="; ".join(filter(None, [found.why, *wrong])),
                detail={**found.detail, "bursts": proof.found[name]},
            )

    def _packets(self, states: Mapping[str, HostState]) -> dict[str, HostState]:
        """Without what nodes do to messages themselves: bursts of packets do not show it."""
        return {
            name: without_messages(state) if self._hosts[name].shapes_messages else state
            for name, state in states.items()
        }

    def prove_knocks(self) -> None:
        """Prove that new connections are refused, or made again, where that changed."""
        wrong = {name: list(whys) for name, whys in self._unproved.items()}
        for links, wanted in ((self._refusing, SILENT), (self._admitting, KNOCKED)):
            for name, whys in self._knocks.wrong(links, wanted=wanted, deadline=self._deadline).items():
                wrong[name] = [*wrong.get(name, []), *whys]
        for name in {**self._refusing, **self._admitting}:
            found, whys = self.evidence[name], wrong.get(name, [])
            now_ns = time.monotonic_ns() - self._hosts[name].origin_ns
            knocks = {"refused": sorted(self._refusing.get(name, ())), "made": sorted(self._admitting.get(name, ()))}
            self.evidence[name] = msgspec.structs.replace(
                found,
                span=Span(found.span.lo, max(found.span.hi, now_ns)),
                confirmed=found.confirmed and not whys,
                why="; ".join(filter(None, [found.why, *whys])),
                detail={**found.detail, "connections": knocks},
            )

    def _round(
        self, limit_s: float, number: int, wants: Mapping[str, HostState]
    ) -> dict[str, tuple[list[str], Mapping[str, Any]]]:
        """One round: the problems with the links of each host in ``wants``, and its agent's answer."""
        nonce = secrets.randbits(62)
        states = {name: host.state for name, host in self._hosts.items()}
        client = _probe_as_client(nonce, [self._hosts[name] for name in wants if self._concerns_client(name)])
        sends = {
            name: begin(
                host.send_probes_async,
                nonce,
                order=[other for other in sorted(states) if other != name and name in _deaf(states[other])],
            )
            for name, host in self._hosts.items()
        }
        sent = {name: self._result(future) for name, future in sends.items()}
        expected = {name: self._expected(name, states, sent) for name in wants}
        answers = {
            name: begin(
                self._hosts[name].probe_links_async,
                nonce,
                expect=expected[name],
                timeout_ns=int(limit_s * SECOND),
            )
            for name in wants
        }
        judged: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
        for name, future in answers.items():
            said = self._result(future)
            if isinstance(said, str):
                judged[name] = ([said], {})
                continue
            problems = self._problems(name, said, expected[name], sent, client)
            judged[name] = (problems, {**said, "cut": sorted(_deaf(states[name])), "round": number})
        return judged

    def _concerns_client(self, name: str) -> bool:
        return CLIENT in _deaf(self._wants[name]) | _deaf(self._before[name])

    def _expected(self, name: str, states: Mapping[str, HostState], sent: Mapping[str, Any]) -> list[str]:
        """The senders whose probes must arrive at ``name``."""
        shaped = {link.src for link in states[name].suffered.links}  # proved apart
        shut = {*_deaf(states[name]), *shaped, name}
        expected = [other for other in sorted(states) if other not in shut and not isinstance(sent[other], str)]
        if CLIENT in _deaf(self._before[name]) and CLIENT not in shut:
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
        want = self._wants[name]
        for src in want.suffered.cuts:
            if src != CLIENT and src not in self._hosts:
                continue  # it is down with all its network: nothing of it can arrive, or be dropped
            silent = sent.get(src) if src != CLIENT else client.get(name)
            if src in arrived:
                over = ", ".join(said.get("over", {}).get(src, ()))
                problems.append(f"the probe of {src} arrived although it is cut (at {over})")
            elif isinstance(silent, str):
                problems.append(f"the cut of {src} is not proven: {silent}")
            elif src not in want.cuts:
                continue  # commands of a fault cut it, which our counters do not see
            elif said["in_force"] and said["dropped"].get(src, 0) < 1:
                problems.append(f"no packet of {src} was dropped")
            elif said["in_force"] and said.get("passed", {}).get(src):
                problems.append(f"no packet of {src} was dropped from {', '.join(said['passed'][src])}")
        for src in expected:
            if src not in arrived:
                failed = client.get(name, "") if src == CLIENT else sent[src]["failed"].get(name, "")
                problems.append(f"the probe of {src} did not arrive" + (f": {failed}" if failed else ""))
            elif said.get("missing", {}).get(src):
                problems.append(f"the probe of {src} did not arrive at {', '.join(said['missing'][src])}")
        return problems

    def _result(self, future: Future[T] | str) -> T | str:
        """The result, or why there is none."""
        if isinstance(future, str):
            return future
        try:
            return future.result(timeout=max(0.0, self._deadline - time.monotonic()))
        except ClusterError as error:
            return error.what
        except FutureTimeout:
            return "the agent did not answer in time"


def _deaf(state: HostState) -> set[str]:
    """Whose packets do not arrive in this state, by cuts or by what a fault's own commands amount to."""
    return set(state.suffered.cuts)


def _repairable(said: Mapping[str, Any]) -> bool:
    """Whether converging again may help: the rules are gone, or a probe passed a cut."""
    return bool(said) and (not said["in_force"] or bool(set(said["cut"]) & set(said["arrived"])))


def _probe_as_client(nonce: int, hosts: Sequence[ProbingHost]) -> dict[str, str]:
    """Send the harness' own probes; returns host → why the probe to it could not be sent."""
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
