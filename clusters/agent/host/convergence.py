"""Brings the host from its current state to the wanted one, with evidence of what took effect.

Guarantees: idempotent; each part reports its span and why it failed; the evidence names each fault that lapsed before
its end. Out of scope: proof across hosts, which the harness derives from probes.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.addresses import is_v6, own_addresses
from dethrone.clusters.agent.host.commands import Commands, Deed, deeds, of_a_process
from dethrone.clusters.agent.host.common import Refused, now_ns
from dethrone.clusters.agent.host.damage import DAMAGES
from dethrone.clusters.agent.host.disks import DISK_WOES
from dethrone.clusters.agent.host.firewall import CUT, NEW, RESET, Firewall, Rule
from dethrone.clusters.agent.host.messages import NodeMessages, packets_only
from dethrone.clusters.agent.host.node import NodeProcess, Seen
from dethrone.clusters.agent.host.node_clocks import NodeClocks
from dethrone.clusters.agent.host.probes import Probes
from dethrone.clusters.agent.host.processes import SIGNAL_LIMIT_S, switches
from dethrone.clusters.agent.host.qualities import Qualities
from dethrone.clusters.agent.host.requests import HEALTHY


def plan(seen: Seen, want: Mapping[str, Any]) -> list[str]:
    """The steps from ``seen`` to ``want``, in order: rules, then the process, then its clock.

    Converging does not start a node that was never started or was stopped for good.
    """
    steps = ["rules"]
    if want["down"]:
        return [*steps, want["down"]] if seen.running or want["down"] == "POWER" else steps
    running, stopped = seen.running, seen.stopped
    if not running and seen.wanted:
        steps.append("start")
        running, stopped = True, False
    if running and want["frozen"]:
        steps.append("SIGSTOP")
    elif running and stopped:
        steps.append("SIGCONT")
    if running:
        steps.append("clock")
    return steps


class Part:
    """One part of a convergence: its span, whether it took effect, why not, and what was seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lo = now_ns()
        self.hi = self.lo
        self.ok = True
        self.why = ""
        self.seen: dict[str, Any] = {}

    def end(self, *, ok: bool = True, why: str = "", **seen: Any) -> Part:
        """Close the part."""
        self.hi, self.ok, self.why = now_ns(), ok, "" if ok else why
        self.seen.update(seen)
        return self

    def told(self) -> dict[str, Any]:
        """As JSON."""
        told = {"lo": self.lo, "hi": self.hi, "ok": self.ok, **self.seen}
        return told if self.ok else {**told, "why": self.why}


class HostKeeper:
    """Brings the host into a desired state and reports what it found. Used by one thread at a time."""

    def __init__(
        self,
        rules: Firewall,
        qualities: Qualities,
        probes: Probes,
        clocks: NodeClocks,
        node: NodeProcess,
        *,
        term_limit_s: float,
        commands: Commands,
        run: str,
        directory: str,
    ) -> None:
        self._rules = rules
        self._qualities = qualities
        self._commands = commands
        self._run = run
        self._directory = directory
        self._probes = probes
        self.clocks = clocks
        self._node = node
        self._term_limit_s = term_limit_s
        self._last: Mapping[str, Any] = HEALTHY
        """The state that was wanted last."""
        self._powerless = False
        """Whether what was not synced is lost already, since the process is down."""
        self._messages = NodeMessages()
        self._still = -1
        """How often the process had been scheduled when it was frozen."""

    def converge(self, want: Mapping[str, Any], *, verify: bool = True) -> dict[str, Any]:
        """Converge; returns evidence: span, confirmed, why, parts. ``want`` is clean (``clean_state``)."""
        lo = now_ns()
        fresh = False
        lapsed, self._last = self._lapsed(want), want
        parts: list[Part] = []
        if self._node.host_clock is not None:
            part = Part("host_clock")
            why, found = self.clocks.set_host(self._node.host_clock, want)
            parts.append(part.end(ok=not why, why=why, **found))
            want = {**want, "clock": None}
        if want["cpu_percent"] is None:  # first, so that what follows takes its usual time
            parts += self._limit_cpu(None, fresh=False)
        steps = plan(self._node.seen(), want)
        if want["troubles"] or self._commands.held:
            if want["down"] and self._node.running:  # a node that is removed may end by itself, before it is ended
                self._node.asked = True
            parts.append(self._run_commands(want))
            if self._commands.due and "start" in steps:  # it would start as what it is not, or not yet, again
                del steps[steps.index("start") :]
        for step in steps:
            part = Part(step)
            try:
                if step == "rules":
                    self._cut(part, want, verify=verify)
                elif step == "start":
                    self._powerless = False
                    self.clocks.want(want["clock"])
                    self._node.start()
                    fresh = True
                    self.clocks.woke()
                    part.end(**self._node.names())
                elif step == "clock":
                    why, found = self.clocks.skew(want, fresh=fresh)
                    if self.clocks.hold and self._still >= 0:
                        self._still = self._turns()
                    part.end(ok=not why, why=why, **found)
                else:
                    self._signal(part, step, want["disk"] or {})
            except (OSError, ValueError, Refused) as error:
                part.end(ok=False, why=f"{step}: {getattr(error, 'strerror', None) or error}")
            parts.append(part)
            if step == "rules" and (want["links"] or self._qualities.used):
                parts.append(self._shape(want, verify=verify))
        if self._link_socket and (want["links"] or self._messages.used):
            parts.append(self._shape_messages(want))
        if any(of_a_process(trouble) for trouble in want["troubles"]) and (fresh or not self._node.running):
            parts.append(self._run_commands(want))
        parts += self._vacuous(want, steps)
        if want["cpu_percent"] is not None:
            parts += self._limit_cpu(want["cpu_percent"], fresh=fresh)
        if want["version"]:
            parts.append(self._change_version(want["version"]))
        wrong = [part.why for part in parts if not part.ok]
        detail = {part.name: part.told() for part in parts}
        vdso_lost = [] if self._node.vdso is None else self._node.vdso.lost
        links_lost = [*self._qualities.lost, *self._qualities.rules.lost]
        cpu_lost = [] if self._node.cpu is None else self._node.cpu.lost
        lost = [*self._rules.lost, *links_lost, *self._commands.lost, *vdso_lost, *cpu_lost]
        if lapsed or lost:
            # Rules that were lost and put back were reported with their exact time already.
            whys = [*lost, *lapsed]
            detail["before"] = {"held": False, "told": not lapsed, "why": "; ".join(dict.fromkeys(whys))}
            self._rules.lost, self._commands.lost = [], []
            self._qualities.lost, self._qualities.rules.lost = [], []
            if self._node.vdso is not None:
                self._node.vdso.lost = []
            if self._node.cpu is not None:
                self._node.cpu.lost = []
        return {"lo": lo, "hi": now_ns(), "confirmed": not wrong, "why": "; ".join(wrong), "detail": detail}

    def _lapsed(self, want: Mapping[str, Any]) -> list[str]:
        """Why faults that are about to end are no longer in force."""
        last, node, out = self._last, self._node, []
        if any(set(last[what]) - set(want[what]) for what in ("cuts", "refuses")):
            out += [why for why, _ in (rules.check() for rules in self._rules.families()) if why]
        if {link["src"] for link in last["links"]} - {link["src"] for link in want["links"]}:
            out += self._qualities.lapsed()
            out += filter(None, [self._messages.lapsed(node.incarnation) if node.running else ""])
        if self._commands.held:
            try:
                out += self._commands.lapsed(self._deeds(want))
            except Refused as refused:
                out.append(str(refused))
        if last["disk"] != want["disk"] and node.disk is not None and node.disk.in_trouble:
            out += filter(None, [node.disk.lapsed()])
        if last["disk"] != want["disk"] and node.files is not None and node.spec is not None:
            out += filter(None, [node.files.changed(node.spec["data_dir"])])
        if last["cpu_percent"] != want["cpu_percent"] and node.cpu is not None:
            out += node.cpu.lapsed()
        if last["down"] and not want["down"] and node.running:
            out.append("the process ran although it was to be down")
        if last["frozen"] and not want["frozen"] and not last["down"] and node.running and self._still >= 0:
            states, turns = node.await_states(bool, 0), self._turns()
            if not states or not set(states) <= set("TtZX"):
                out.append(f"threads were in state {states!r} although it was to be frozen")
            elif turns != self._still:
                out.append("the process ran although it was to be frozen")
        changes = last["clock"] != want["clock"] and last["clock"] is not None
        if changes and not last["frozen"] and not last["down"] and node.running:
            out += self.clocks.lapsed()
        return out

    def _change_version(self, version: str) -> Part:
        part = Part("version")
        why = self._node.become(version)
        return part.end(ok=not why, why=why, next=version)

    def _deeds(self, want: Mapping[str, Any]) -> list[Deed]:
        """The commands of the wanted state, for this host."""
        spec, child = self._node.spec or {}, self._node.child
        words = {"run": self._run, **{name: str(spec.get(name, "")) for name in ("data_dir", "run_dir")}}
        words.update(python=sys.executable, agent_dir=self._directory)
        troubles = want["troubles"]
        if child is not None and self._node.running:
            words.update(pid=str(child.pid), start=str(child.start))
        else:
            troubles = [trouble for trouble in troubles if not of_a_process(trouble)]
        peers = [name for trouble in troubles for command in trouble["commands"] for name in command["of"]]
        return deeds(troubles, words=words, ways=self._ways(peers).__getitem__)

    def _run_commands(self, want: Mapping[str, Any]) -> Part:
        part = Part("commands")
        try:
            why, found = self._commands.apply(self._deeds(want))
        except Refused as refused:
            return part.end(ok=False, why=str(refused))
        return part.end(ok=not why, why=why, **found)

    def _ways(self, peers: Collection[str]) -> dict[str, list[str]]:
        """Each one's addresses over which packets can arrive: a host without IPv6 receives nothing over it."""
        speaks_v6 = any(is_v6(address) for address in own_addresses()) if peers else False
        return {peer: [one for one in self._probes.ways.get(peer, ()) if speaks_v6 or not is_v6(one)] for peer in peers}

    def _turns(self) -> int:
        """How often the threads of the node process have been scheduled; -1: that cannot be known."""
        child = self._node.child
        return -1 if child is None else switches(child.pid)

    def _cut(self, part: Part, want: Mapping[str, Any], *, verify: bool) -> None:
        ways = self._ways(sorted({*want["cuts"], *want["refuses"]}))
        problems = self._unknown(ways)
        rules = []
        for src, addresses in ways.items():
            kinds: tuple[str, ...] = (RESET, CUT) if src in want["resets"] else (CUT,)
            kinds = kinds if src in want["cuts"] else (NEW,)
            rules += [Rule(src, address, does) for address in addresses for does in kinds]
        took, why, detail = self._rules.apply(rules, verify=verify)
        if not took:
            problems.append(why)
        if rules:
            detail["cuts"] = list(dict.fromkeys(rule.src for rule in rules))
            detail["addresses"] = [rule.address for rule in rules if rule.does == CUT]
        part.end(ok=not problems, why="; ".join(problems), **detail)

    def _unknown(self, ways: Mapping[str, Sequence[str]]) -> list[str]:
        """Why nothing can be done to packets of some of these sources."""
        known = dict.fromkeys(self._probes.peers, "it shares all its addresses")
        return [f"{src}: {known.get(src, 'not a known peer')}" for src, addresses in ways.items() if not addresses]

    def _shape(self, want: Mapping[str, Any], *, verify: bool) -> Part:
        """Shape the links that are wanted, except those that are cut: what they hold is dropped as it arrives."""
        part = Part("links")
        links = [link for link in want["links"] if link["src"] not in want["cuts"]]
        ways = self._ways(sorted(link["src"] for link in links))
        problems = self._unknown(ways)
        links = packets_only(links) if self._link_socket else links
        took, why, detail = self._qualities.apply(links, ways, verify=verify)
        return part.end(ok=took and not problems, why="; ".join(filter(None, [*problems, why])), **detail)

    @property
    def _link_socket(self) -> str:
        """Where the node takes what is to become of messages; "": packets suffer it."""
        return str((self._node.spec or {}).get("link_socket") or "")

    def _shape_messages(self, want: Mapping[str, Any]) -> Part:
        """Ask the node; one that does not run, or is frozen, handles no messages, and is asked when it does."""
        part = Part("messages")
        if self._node.running and want["frozen"]:
            return part.end(deferred="the process is frozen")
        alive = lambda: self._node.running  # noqa: E731
        try:
            return part.end(**self._messages.apply(self._link_socket, want["links"], self._node.incarnation, alive))
        except Refused as refused:
            if self._node.running:
                return part.end(ok=False, why=f"messages: {refused}")
            self._messages.forget()  # it may have ended as it was asked
            return part.end(deferred="no process runs")

    def _lose_power(self, part: Part, trouble: Mapping[str, Any]) -> None:
        """Once while it is down: what the process had written by its end, and not synced, is lost."""
        disk = self._node.disk
        if disk is None or not disk.served:
            raise Refused("no power can be lost: the disk is not served by a helper of ours")
        model = trouble.get("model") or disk.model
        if model != disk.model:
            raise Refused(f"the disk was mounted to lose what {disk.model} allows, not {model}")
        if self._powerless:
            part.seen["again"] = True
            return
        lost = disk.lose_power(torn=trouble.get("kind") == "torn")
        self._powerless = True
        part.end(model=lost.pop("model"), **{f"lost_{what}": count for what, count in lost.items()})

    def _signal(self, part: Part, step: str, trouble: Mapping[str, Any]) -> None:
        names = self._node.names()
        if step == "OOM":
            part.end(**self._node.exhaust(), **names)
        elif step in {"SIGKILL", "SIGTERM", "POWER"}:
            limit = self._term_limit_s if step == "SIGTERM" else SIGNAL_LIMIT_S
            child = self._node.child
            gone, killed = self._node.end(signal.SIGTERM if step == "SIGTERM" else signal.SIGKILL, limit), {}
            if step == "SIGTERM" and not gone:  # as supervisors do; such a stop is borne as a kill is (Excuses)
                gone, killed = self._node.end(signal.SIGKILL, SIGNAL_LIMIT_S), {"killed": True, "limit_s": limit}
            code = None if child is None else child.code
            why = f"the process did not end within {limit:g} s of {step}"
            part.end(ok=gone, why=why, code=code, **killed, **names)
            if step == "POWER" and gone:
                self._lose_power(part, trouble)
        elif step == "SIGSTOP":
            self._node.signal(signal.SIGSTOP)
            states = self._node.await_states(lambda found: bool(found) and set(found) <= set("TtZX"), SIGNAL_LIMIT_S)
            stopped = bool(states) and set(states) <= set("TtZX")
            self._still = self._turns() if stopped else -1
            part.end(ok=stopped, why=f"threads are in state {states!r}, not stopped", states=states, **names)
        else:
            self._node.signal(signal.SIGCONT)
            self.clocks.woke()
            states = self._node.await_states(lambda found: bool(found) and "T" not in found, SIGNAL_LIMIT_S)
            part.end(ok=bool(states) and "T" not in states, why=f"threads are in state {states!r}", **names)

    def _vacuous(self, want: Mapping[str, Any], steps: Sequence[str]) -> list[Part]:
        """Parts of ``want`` that no step covers: they are unavailable here, or need no step."""
        parts = []
        if want["clock"] is not None and "clock" not in steps:
            part = Part("clock")
            if want["down"]:
                part.end(deferred="no process runs")
            else:
                part.end(ok=False, why="the skew cannot be measured: no process runs")
            parts.append(part)
        if want["down"]:
            # Written for the next start, which measures it; no process reads the clock until then.
            with contextlib.suppress(OSError):
                self.clocks.want(want["clock"])
        elif want["frozen"] and "SIGSTOP" not in steps:
            parts.append(Part("frozen").end(ok=False, why="no process runs"))
        disk = self._node.disk
        if want["disk"] is not None or (disk is not None and (disk.in_trouble or (disk.served and disk.lapsed()))):
            parts.append(self._set_disk(Part("disk"), want))
        return parts

    def _limit_cpu(self, percent: int | None, *, fresh: bool) -> list[Part]:
        """Have the node's share of a processor as wanted, unless it is; ``fresh``: the process has just started."""
        part, cpu = Part("cpu"), self._node.cpu
        if cpu is None:
            why = "cpu_percent: not available on this host: another user started the process, in a group of his"
            return [] if percent is None else [part.end(ok=False, why=why)]
        if cpu.stands(percent) and not fresh:
            return []
        try:
            found = cpu.apply(percent)
        except (OSError, Refused) as error:
            return [part.end(ok=False, why=f"cpu: {getattr(error, 'strerror', None) or error}")]
        return [part.end(**found)]

    def _set_disk(self, part: Part, want: Mapping[str, Any]) -> Part:
        """Make the disk fail as wanted, or make it well, and see that it does; or damage what is on it."""
        trouble, disk = want["disk"], self._node.disk
        failing = trouble if trouble is not None and trouble["kind"] in DISK_WOES else None
        if disk is not None and disk.served and (failing is not None or disk.in_trouble):
            try:
                found = disk.afflict(failing)
            except Refused as refused:
                return part.end(ok=False, why=f"disk: {refused}")
            part.end(**found)
        elif failing is not None:
            return part.end(ok=False, why=f"disk: not available ({failing['kind']}): no helper of ours serves it")
        elif disk is not None and disk.served and disk.lapsed():
            return part.end(ok=False, why=f"disk: {disk.lapsed()}")
        if trouble is None or failing is not None:
            return part
        if trouble["kind"] in {"unsynced", "torn"}:
            ok = want["down"] == "POWER"
            return part.end(ok=ok, why="disk: writes are lost, or torn, only by a loss of power")
        return self._damage(part, trouble)

    def _damage(self, part: Part, trouble: Mapping[str, Any]) -> Part:
        node = self._node
        if trouble["kind"] not in DAMAGES:
            return part.end(ok=False, why=f"disk: {trouble['kind']} is not available on this host")
        if node.files is None or node.spec is None:
            return part.end(ok=False, why="disk: no files here are ours to damage")
        if node.running:
            return part.end(ok=False, why="disk: the process runs, and files are damaged only while it is down")
        why, found = node.files.damage(node.spec["data_dir"], trouble, turn=node.incarnation)
        return part.end(ok=not why, why=why, **found)
