"""Links of bad quality on this host: a helper process that shapes what arrives, and the rules that bring it packets.

The helper (``shaper``) decides each packet of the kernel's queue; rules in the table ``mangle`` put into it what
arrives from the shaped sources. Guarantees: what ``heal`` needs is on disk before a packet is queued; the helper is
ready before the first rule, and lets everything pass before the last one goes; a helper that ends or misses its
heartbeat is ended and replaced, and the packets that it held, which are lost, are reported, as are those that passed
because too many waited. Out of scope: proof across hosts, which the harness derives from probes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import MS, Refused, now_ns
from dethrone.clusters.agent.host.firewall import Firewall, Rule
from dethrone.clusters.agent.host.nfqueue import PacketQueue, queue_owners
from dethrone.clusters.agent.host.processes import SIGNAL_LIMIT_S, process_stat, same_process
from dethrone.clusters.agent.host.shaper import MESSAGE_MAX, fork_shaper
from dethrone.clusters.agent.host.shaping import SHAPES

ENGINE = "nfqueue"
"""How links are shaped: packets pass through a program (NFQUEUE)."""
ANSWER_LIMIT_S = 2.0
"""How long a helper may take to be ready, and to obey."""
SILENCE_MAX_NS = 500 * MS
"""A helper that says nothing for longer is ended: while it is stopped, no packet passes."""
ORPHAN_LIMIT_S = 1.0
"""How long a helper may take to end after its agent."""
UNROUTED = "192.0.2.1"
"""An address of no host (RFC 5737), for rules that are only tried."""
STARTS_MAX = 2
"""How often a helper is started before the fault is given up."""


class ShaperProcess:
    """One helper, seen from the agent. ``told``: its last message. Raises Refused if it cannot shape here."""

    def __init__(self, probe_port: int, number: int | None) -> None:
        self.pid, self._control = fork_shaper(probe_port, number)
        stat = process_stat(self.pid)
        self.start = stat.start if stat else 0
        self.told: dict[str, Any] = {}
        self._answer: dict[str, Any] = {}
        self.number = 0
        self.gone = False
        self._asked = 0
        self._done = threading.Condition()
        self._heard_ns = now_ns()
        threading.Thread(target=self._listen, name="links", daemon=True).start()
        with self._done:
            self._done.wait_for(lambda: self.number or self.gone, timeout=ANSWER_LIMIT_S)
        if not self.number:
            self.kill()
            raise Refused(str(self.told.get("why") or "the helper that shapes links does not start"))

    def _listen(self) -> None:
        while True:
            try:
                said = self._control.recv(MESSAGE_MAX)
            except OSError:
                said = b""
            with self._done:
                if said:
                    self.told = json.loads(said)
                    self._heard_ns = now_ns()
                    self.number = int(self.told.get("number") or self.number)
                    if "done" in self.told:
                        self._asked, self._answer = int(self.told["done"]), self.told
                else:
                    self.gone = True
                self._done.notify_all()
            if not said:
                return

    @property
    def silence_ns(self) -> int:
        """How long it has said nothing."""
        return now_ns() - self._heard_ns

    def ask(self, **what: Any) -> Mapping[str, Any]:
        """Let it do something, and wait until it did: its answer. Raises Refused if it does not answer."""
        number = self._asked + 1
        try:
            self._control.send(json.dumps({**what, "number": number}).encode())
        except OSError as error:
            raise Refused(f"the helper that shapes links is gone: {error.strerror}") from None
        with self._done:
            done = self._done.wait_for(lambda: self._asked >= number or self.gone, timeout=ANSWER_LIMIT_S)
        if not done or self._asked < number:
            raise Refused("the helper that shapes links does not answer")
        return self._answer

    def quit(self) -> None:
        """Let it end: what it holds passes."""
        with contextlib.suppress(Refused):
            self.ask(quit=True)
        with self._done:
            self._done.wait_for(lambda: self.gone, timeout=ANSWER_LIMIT_S)
        self.kill()

    def kill(self) -> int:
        """End it; the number of packets that it held, which are lost."""
        held = queue_owners().get(self.number, 0) if not self.gone else int(self.told.get("waiting") or 0)
        end_shaper(self.pid, self.start)
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        return held


def await_shaper(pid: int, start: int) -> str:
    """Wait for the end of a helper whose agent is gone, or kill it; what became of it."""
    if _ends(pid, start, ORPHAN_LIMIT_S):
        return "ended"
    end_shaper(pid, start)
    return "killed"


def end_shaper(pid: int, start: int) -> None:
    """Kill a helper, if that process still is one, and wait until it is gone: until then it holds its queue."""
    if same_process(pid, start):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        _ends(pid, start, SIGNAL_LIMIT_S)


def _ends(pid: int, start: int, limit_s: float) -> bool:
    """Whether a helper ends within this time."""
    deadline = time.monotonic() + limit_s
    while same_process(pid, start) and time.monotonic() < deadline:
        time.sleep(0.005)
    return not same_process(pid, start)


def _queueing(number: int) -> str:
    """The rest of a rule that puts packets into this queue, and lets them pass if no program reads it."""
    return f"! -i lo -j NFQUEUE --queue-num {number} --queue-bypass"


class Qualities:
    """The links of this host that are shaped. Thread-safe. ``remember``: stores ``process``.

    ``lost``: why links were not shaped as wanted since the host last converged.
    """

    def __init__(self, rules: Firewall, probe_port: int, remember: Callable[[], None]) -> None:
        self.rules = rules
        self._probe_port = probe_port
        self._remember = remember
        self._helper: ShaperProcess | None = None
        self._links: dict[str, dict[str, Any]] = {}
        self._overflow = 0
        """How many of the packets that passed unshaped were reported."""
        self._counted: Any = None
        """What the helper had counted when links changed last (``shaping.COUNTS``, per source)."""
        self._lock = threading.RLock()
        self.lost: list[str] = []
        self._good_ns = now_ns()

    @property
    def used(self) -> bool:
        """Whether a link is, or may be, shaped."""
        return self._helper is not None or self.rules.used

    def unavailable(self) -> str:
        """Why links cannot be shaped here, found out by trying it without a helper; "" if they can."""
        with self._lock:
            if self.used:
                return ""
            try:
                queue = PacketQueue()
            except Refused as refused:
                return str(refused)
            try:
                took, why, _ = self.rules.apply([Rule("", UNROUTED, _queueing(queue.number))], verify=True)
                return (self.rules.remove() if took else "") or ("" if took else why)
            finally:
                queue.close()

    @property
    def process(self) -> Sequence[int] | None:
        """The helper's process: its id and its start time; None: there is none."""
        helper = self._helper
        return None if helper is None else (helper.pid, helper.start)

    def apply(
        self, links: Sequence[Mapping[str, Any]], ways: Mapping[str, Sequence[str]], *, verify: bool
    ) -> tuple[bool, str, dict[str, Any]]:
        """Shape these links (``requests.clean_state``) and no others; (in force, why not, detail).

        ``ways``: the addresses of each source. ``verify`` False: the caller probes afterwards.
        """
        wanted = {
            link["src"]: {"quality": {name: link[name] for name in SHAPES}, "addresses": list(ways[link["src"]])}
            for link in links
            if any(link[name] for name in SHAPES)
        }
        with self._lock:
            detail: dict[str, Any] = {"engine": ENGINE} if wanted or self._links else {}
            try:
                self._links = wanted
                took, why = self._shape(verify=verify) if wanted else self._release()
            except Refused as refused:
                return False, str(refused), detail
            self._good_ns = now_ns()
            if self._counted:
                detail["counted"] = self._counted
            if wanted and self._helper is not None:
                detail["queue"] = self._helper.number
            return took, why, detail

    def _shape(self, *, verify: bool) -> tuple[bool, str]:
        for attempt in range(STARTS_MAX):
            try:
                helper = self._living()
                self._counted = helper.ask(links=self._links).get("counted")
                break
            except Refused:
                self._end_helper()
                if attempt == STARTS_MAX - 1:
                    raise
        does = _queueing(helper.number)
        rules = [Rule(src, address, does) for src, link in self._links.items() for address in link["addresses"]]
        took, why, _ = self.rules.apply(rules, verify=verify)
        return took, why

    def _living(self) -> ShaperProcess:
        if self._helper is None or self._helper.gone:
            self._end_helper()
            self._helper = ShaperProcess(self._probe_port, None)
            self._overflow = 0
            self._remember()
        return self._helper

    def _end_helper(self) -> int:
        helper, self._helper = self._helper, None
        return 0 if helper is None else helper.kill()

    def _release(self) -> tuple[bool, str]:
        """Let everything pass, then remove the rules, then end the helper."""
        helper = self._helper
        if helper is not None:
            try:
                self._counted = helper.ask(links={}).get("counted")
            except Refused:
                self._report_end()
        took, why, _ = self.rules.apply([], verify=True) if self.rules.used else (True, "", {})
        if self._helper is not None:
            self._helper.quit()
            self._report_overflow()
            self._helper = None
        self._remember()
        return took, why

    def _report_end(self) -> str:
        """End a helper that is gone or silent, and report what that cost."""
        helper = self._helper
        stopped = helper is not None and not helper.gone
        held = self._end_helper()
        why = "the helper that shapes links " + ("did not answer and was ended" if stopped else "ended")
        why += f"; {held} packets that it held are lost" if held else ""
        self.lost = [*self.lost[-7:], why]
        return why

    def _report_overflow(self) -> str:
        helper = self._helper
        count = 0 if helper is None else int(helper.told.get("overflow") or 0) - self._overflow
        if count <= 0:
            return ""
        self._overflow += count
        why = f"{count} packets passed unshaped, because too many waited"
        self.lost = [*self.lost[-7:], why]
        return why

    def put_back(self) -> tuple[str, int, str]:
        """Replace a helper that is gone or silent: what was lost, since when at most, and why it is not put back."""
        with self._lock:
            if not self._links:
                return "", 0, ""
            good_ns, helper = self._good_ns, self._helper
            if helper is not None and not helper.gone and helper.silence_ns < SILENCE_MAX_NS:
                self._good_ns = now_ns()
                return self._report_overflow(), good_ns, ""
            why = self._report_end()
            try:
                took, still = self._shape(verify=True)
            except Refused as refused:
                took, still = False, str(refused)
            self._good_ns = now_ns() if took else good_ns
            return why, good_ns, "" if took else still or "it had no effect"

    def lapsed(self) -> list[str]:
        """Why links that are shaped are not, now."""
        with self._lock:
            whys = [why for why, _ in (rules.check() for rules in self.rules.families()) if why]
            self._report_overflow()
            if self._links and (self._helper is None or self._helper.gone or self._helper.silence_ns > SILENCE_MAX_NS):
                whys.append("the helper that shapes links does not run")
            return whys

    def remove(self) -> str:
        """Shape no link, and remove our chain; "" or why that failed."""
        with self._lock:
            self._links = {}
            whys = []
            if self._helper is not None:
                whys.append(self._release()[1])
            whys.append(self.rules.remove() if self.rules.used else "")
            return "; ".join(filter(None, whys))
