"""Clocks of any program, skewed in its vDSO: which processes, with what, and the record of what is to be undone.

The changes themselves are made by a process apart (``hand``), which reads the clocks, too: it runs the code that is in
the target's vDSO. A target that reports its clocks itself is asked as well. Used where libfaketime is not preloaded:
for programs without libc, or where it is missing.

Guarantees: what the old bytes were is on disk before the first is changed; a process that the agent starts under a
skew has it before its first instruction, and the processes that it forks inherit it; one that it executes later is
found within a second, and the fault counts as not in force until then. Out of scope: the skew as a value (``vdso``),
and what makes a wait wrong (``waits``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.asked import AskedProcess
from dethrone.clusters.agent.host.clocks import CLOCK_TOLERANCE_NS
from dethrone.clusters.agent.host.common import SECOND, Refused
from dethrone.clusters.agent.host.confinement import Confined, allow_tracing
from dethrone.clusters.agent.host.hand import clocks_now
from dethrone.clusters.agent.host.processes import Processes, has_memory
from dethrone.clusters.agent.host.vdso import NO_SKEW, VdsoSkew, run_label, settling
from dethrone.clusters.agent.host.waits import program_kind

HAND_LIMIT_S = 10.0
"""Limit for one answer of the hand, including its start."""
SETTLE_LIMIT_NS = 15 * SECOND
"""How long a heal waits for monotonic time to settle."""
DRIFT_MAX_PPM = 100_000
"""The largest rate of monotonic time."""
STROBE_SEEN_S = 2.0
"""Both halves of a strobe are read if its period is not longer."""
READ_BY = "a reader of ours, by the code and the data in the process' vDSO"


Asked = Callable[[Callable[[int], "tuple[int, ...]"]], Mapping[str, Any]]
"""Asks a process for its clocks, given the skews that are right at a time; answers as ``measure_skew`` does, or with
``told``, what a command printed (``ToldClock.compared``), and ``why`` that is wrong."""


def hand_as(node: Confined) -> Confined | None:
    """As whom the hand runs: a user may trace what is his own, so it has a node's user, and no capability besides.

    None: as the agent, whose user the node has, or that was given no user for it.
    """
    return None if node.uid in {-1, os.geteuid()} else node


class HandLink:
    """Asks the hand, which is started when it is needed, and again if it is gone. ``runs_as``: see ``hand_as``."""

    def __init__(self, processes: Processes, runs_as: Callable[[], Confined | None]) -> None:
        self._lock = threading.Lock()
        self._process = AskedProcess("hand", processes, limit_s=HAND_LIMIT_S, ended="it ended", runs_as=runs_as)

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer. Raises Refused with its reason if there is none."""
        with self._lock:
            if self._process.gone:
                self._process.end()
            try:
                answer = self._process.ask(question)
            except (OSError, ValueError) as error:
                raise Refused(f"the process that skews clocks: {str(error) or type(error).__name__}") from error
        if answer.get("why"):
            raise Refused(str(answer["why"]))
        return answer

    def close(self) -> None:
        """End the hand; what it held is let go."""
        with self._lock:
            self._process.end()


def heal_vdso(processes: Processes, held: Mapping[str, Any]) -> str:
    """Undo what a dead agent left, by what it wrote down (``VdsoClock.held``); returns why not."""
    node = held.get("as")
    hand = HandLink(processes, lambda: None if node is None else Confined(**node))
    try:
        return restore_all(hand, held["label"])
    except Refused as refused:
        return str(refused)
    finally:
        hand.close()


def restore_all(hand: HandLink, label: str) -> str:
    """Write the old bytes back in every process with this label (hexadecimal); returns why some could not be.

    Monotonic time that drifted settles before.
    """
    whys, settles_ns = [], 0
    patched = hand.ask({"do": "patched", "label": label})["patched"]
    for one in patched:
        with contextlib.suppress(Refused):  # it may be gone
            settles_ns = max(settles_ns, hand.ask({"do": "settle", "pid": one["pid"], "label": label})["settles_ns"])
    time.sleep(min(settles_ns, SETTLE_LIMIT_NS) / SECOND)
    if settles_ns > SETTLE_LIMIT_NS:
        return f"monotonic time has drifted so far that it needs {settles_ns / SECOND:.0f} s to settle: heal once more"
    for one in patched:
        try:
            hand.ask({"do": "restore", "pid": one["pid"], "label": label})
        except Refused as refused:
            whys.append(str(refused))
    if not hand.ask({"do": "patched", "label": label})["patched"]:
        return ""  # those that could not be restored are gone
    return "; ".join(whys) or "a process with skewed clocks is left"


class VdsoClock:
    """The clocks of the node's processes, skewed in their vDSO."""

    def __init__(self, processes: Processes, run: str) -> None:
        self.confined: Callable[[], Confined | None] = lambda: None
        """As whom the hand runs."""
        self._lock = threading.RLock()
        """Who looks after the skew each second must not find it half undone."""
        self._hand = HandLink(processes, lambda: self.confined())  # noqa: PLW0108 - it is replaced
        self.label = run_label(run).hex()
        self.remember: Callable[[], None] = lambda: None
        """Writes the state that ``heal`` needs."""
        self.members: Callable[[], Sequence[int]] = tuple
        """The processes of the node now, the main one first."""
        self.held: Mapping[str, Any] = {}
        """What is to be undone, as it is on disk: the label, and the old bytes at each offset; empty: nothing."""
        self.lost: list[str] = []
        """Why the skew was not in force all the time, since that was last asked."""
        self._want: Mapping[str, Any] | None = None
        self._wall = self._mono = NO_SKEW
        self._since = clocks_now()
        self._old: Mapping[str, str] | None = None

    def _living(self) -> list[int]:
        """Those of the node's processes that have clocks to skew: not what has ended, and was not reaped."""
        return [pid for pid in self.members() if has_memory(pid)]

    def available(self) -> str:
        """Why no clock can be skewed here; "": one can. Found out by trying, on a process of our own."""
        if self._old is None:
            try:
                self._old = self._hand.ask({"do": "probe"})["old"]
            except Refused as refused:
                return str(refused)
        return ""

    def refused(self, pids: Sequence[int]) -> str:
        """Why the clocks of these processes cannot be skewed; "": they can be, as far as is seen without doing it."""
        try:
            why = self.available()
            if not why:
                self._hand.ask({"do": "may", "pids": [pid for pid in pids if has_memory(pid)]})
        except Refused as refused:
            why = str(refused)
        return why

    def started_outside(self, what: str) -> None:
        """Another program started a process of the node: under a skew it began with the right clock."""
        if self._want is not None:
            self._note(f"{what}, and it had the right clock until it was found")

    def set(self, want: Mapping[str, Any] | None) -> None:
        """Want this skew from now on. It comes into force by ``apply``, or at a start."""
        with self._lock:
            if want != self._want:
                self._change(want)

    def _change(self, want: Mapping[str, Any] | None) -> None:
        if want is not None:
            self.available()  # what takes long, before the moment from which a rate counts
        now, rate = clocks_now(), 0 if want is None else want["mono_rate_ppm"]
        gained = self._mono.at(now[1] - self._since[1])
        self._mono = VdsoSkew(gained, rate) if rate else settling(gained)
        self._want, self._since = want, now
        strobe = (want or {}).get("strobe") or {"amplitude_ns": 0, "period_ns": 0}
        self._wall = NO_SKEW
        if want is not None:
            self._wall = VdsoSkew(want["offset_ns"], want["rate_ppm"], strobe["amplitude_ns"], strobe["period_ns"])

    def apply(self, ask: Asked | None) -> tuple[str, dict[str, Any]]:
        """Bring what is wanted about in all processes: why not, and what was found. A skew not wanted is undone.

        ``ask``: asks the process for its clocks; None: it cannot answer.
        """
        with self._lock:
            try:
                if self._want is None:
                    return self._restore(ask)
                why, pids = self.available(), self._living()
                if why or not pids:
                    return why or "no process runs", {}
                if abs(self._mono.rate_ppm) > DRIFT_MAX_PPM and not self._mono.limit_ns:
                    return f"a rate of monotonic time is at most {DRIFT_MAX_PPM} ppm here", {}
                done = self._skew(pids[0])
                for pid in pids[1:]:
                    try:
                        self._skew(pid)
                    except Refused:
                        if has_memory(pid):  # one that is ending meanwhile does no harm
                            raise
                why, seen = self._measured(pids[0], ask)
                return why, {**seen, "held_ns": done["held_ns"], "runtime": done["runtime"]}
            except Refused as refused:
                with contextlib.suppress(Refused):
                    self._forget()
                return str(refused), {}

    def _forget(self) -> None:
        """There is nothing to undo if no process carries our label."""
        if self.held and not self._hand.ask({"do": "patched", "label": self.label})["patched"]:
            self.held = {}
            self.remember()

    def _skew(self, pid: int) -> Mapping[str, Any]:
        self._record()
        return self._hand.ask({"do": "skew", "pid": pid, **self.patch()})

    def _record(self) -> None:
        """The old bytes are on disk before one is changed."""
        if not self.held:
            node = self.confined()
            self.held = {
                "label": self.label,
                "old": dict(self._old or {}),
                "as": None if node is None else node._asdict(),
            }
            self.remember()

    def patch(self) -> dict[str, Any]:
        """The wanted skew, as the hand is asked for it."""
        return {"label": self.label, "wall": list(self._wall), "mono": list(self._mono), "since": self._since}

    def _restore(self, ask: Asked | None) -> tuple[str, dict[str, Any]]:
        if not self.held:
            return "", {}
        why, pids = restore_all(self._hand, self.label), self._living()
        if why:
            return why, {}
        self.held = {}
        self.remember()
        return self._asked(ask) if pids else ("", {"by": "vdso"})

    def _measured(self, pid: int, ask: Asked | None) -> tuple[str, dict[str, Any]]:
        """Whether the clocks of this process are as wanted: why not, and the measured skew."""
        found = self._hand.ask({"do": "read", "pid": pid, "clocks": [0, 1]})
        if found["label"] != self.label:
            return "its clocks are not skewed", {}
        skew, error = self._error(found["clocks"]["0"])
        seen: dict[str, Any] = {"skew_ns": skew, "error_ns": error, "by": "vdso", "read_by": READ_BY}
        if self._wall.period_ns and self._wall.period_ns <= STROBE_SEEN_S * SECOND:
            time.sleep(self._wall.period_ns / SECOND)
            again = self._hand.ask({"do": "read", "pid": pid, "clocks": [0]})
            seen["strobe_skew_ns"], more = self._error(again["clocks"]["0"])
            error = max(error, more)
        mono = found["clocks"]["1"]
        seen["mono_skew_ns"] = mono["read_ns"] - mono["real_ns"]
        wrong = seen["mono_skew_ns"] - self._mono.at(mono["real_ns"] - self._since[1])
        if abs(wrong) > CLOCK_TOLERANCE_NS + mono["within_ns"]:
            return f"its monotonic clock is off by {wrong} ns", seen
        if error > CLOCK_TOLERANCE_NS:
            return f"its skew is {skew} ns, off by {error} ns", seen
        why, told = self._asked(ask)
        return why, {**seen, **told}

    def _asked(self, ask: Asked | None) -> tuple[str, dict[str, Any]]:
        """What the process says itself; one that does not answer says nothing."""
        found = {} if ask is None or self._mono != NO_SKEW else ask(self.expected)
        if "told" in found:
            return str(found.get("why", "")), {"by": "vdso", "told": found["told"]}
        if "skew_ns" not in found:
            return "", {"by": "vdso"}
        seen = {"skew_ns": found["skew_ns"], "by": "vdso", "read_by": "the process itself"}
        return str(found.get("why", "")), seen

    def expected(self, at_ns: int) -> tuple[int, ...]:
        """The skews (ns) of wall time that are right at that monotonic time, give or take what a question takes."""
        elapsed = at_ns - self._since[1]
        if not self._wall.period_ns:
            return (self._wall.at(elapsed),)
        return self._wall.at(elapsed), self._wall.at(elapsed + self._wall.period_ns)

    def _error(self, reading: Mapping[str, int]) -> tuple[int, int]:
        """The skew (ns) of a reading of the wall clock, and by how much it is wrong for certain."""
        skew = reading["read_ns"] - reading["real_ns"]
        elapsed = reading["real_ns"] - self._since[0]
        moments = (elapsed - reading["within_ns"], elapsed, elapsed + reading["within_ns"])
        return skew, max(0, min(abs(skew - self._wall.at(one)) for one in moments) - reading["within_ns"])

    # --- while it lasts ---------------------------------------------------------------------------------------

    def lapsed(self, ask: Asked | None) -> list[str]:
        """Why a skew that is about to end is no longer in force."""
        pids = self._living()
        if self._want is None or not pids:
            return []
        try:
            why = self._measured(pids[0], ask)[0]
        except Refused as refused:
            why = str(refused)
        return [*([f"its clock was not as requested: {why}"] if why else []), *self._wrong_waits()]

    def watch(self) -> None:
        """Look whether all processes have the skew, and whether their waits can be right; called each second."""
        with self._lock:
            if self.held and self._want is not None:
                self._look()

    def _look(self) -> None:
        try:
            patched = {one["pid"] for one in self._hand.ask({"do": "patched", "label": self.label})["patched"]}
            for pid in [pid for pid in self._living() if pid not in patched]:
                self._skew(pid)
                self._note(f"process {pid} was executed under the skew, and had the right clock for up to a second")
        except Refused as refused:
            self._note(str(refused))
        for why in self._wrong_waits():
            self._note(why)

    def _note(self, why: str) -> None:
        if why not in self.lost:
            self.lost = [*self.lost[-7:], why]

    def _wrong_waits(self) -> list[str]:
        skewed = [name for name, skew in (("wall", self._wall), ("mono", self._mono)) if skew != NO_SKEW]
        try:
            found = self._hand.ask({"do": "waits", "pids": self._living()})["waits"]
        except Refused as refused:
            return [str(refused)]
        return [
            f"thread {thread} waited until a {clock} time ({call}) under the skew, which is wrong by the skew"
            for thread, clock, call in found
            if clock in skewed
        ][:1]

    # --- starts -----------------------------------------------------------------------------------------------

    def entry(self) -> StoppedStart | None:
        """How to start a process so that it has the wanted skew from its first instruction; None: plainly."""
        if self._want is None or self.available():
            return None
        self._record()
        return StoppedStart(self._hand, self.patch(), self._note)

    def close(self) -> None:
        """Undo everything, and end the hand."""
        self.set(None)
        with contextlib.suppress(Refused, OSError):
            self._restore(None)
        self._hand.close()


class StoppedStart:
    """A start of a process that stops just before its program is executed, until the hand traces it.

    ``failed``: is given why it was started plainly instead.
    """

    def __init__(self, hand: HandLink, patch: Mapping[str, Any], failed: Callable[[str], None]) -> None:
        self._hand, self._patch, self._failed = hand, patch, failed
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._meet, name="stopped-start", daemon=True)
        self._thread.start()

    def in_child(self) -> None:
        """What the new process does last: it says its id, and stops."""
        allow_tracing()
        os.write(self._write, b"%d\n" % os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)

    def _meet(self) -> None:
        with os.fdopen(self._read, "rb") as reader:
            line = reader.readline()
        if not line:
            return  # none was started
        try:
            self._hand.ask({"do": "begin", "pid": int(line), **self._patch})
        except Refused as refused:
            self._failed(f"it was started with the right clock: {refused}")
            with contextlib.suppress(OSError):
                os.kill(int(line), signal.SIGCONT)

    def join(self) -> None:
        """The start is over, or has failed."""
        os.close(self._write)
        self._thread.join(HAND_LIMIT_S)


def is_without_libc(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> bool:
    """Whether this command starts a program into which no library can be preloaded."""
    path = shutil.which(os.path.join(cwd, argv[0]) if "/" in argv[0] else argv[0], path=env.get("PATH"))  # noqa: PTH118
    return path is not None and program_kind(path) == "static"
