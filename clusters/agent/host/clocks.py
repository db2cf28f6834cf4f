"""Clock skew of the node alone, through libfaketime, or of the whole machine, and its measurement.

Guarantees: a skew is measured from inside the process that has it; the machine's clock is recorded before it is set,
and later set back to the time it would have without us. Out of scope: rates of the machine's own clock, and other
programs that set it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dethrone.clusters.agent.host.common import MS, SECOND, now_ns, replace_file

CLOCK_LIMIT_S = 0.5
"""How long a running node may take to report its clocks; ``CLOCK_START_LIMIT_S``: a node that has just started."""
CLOCK_START_LIMIT_S = 3.0
CLOCK_TOLERANCE_NS = 2 * MS
LOADING_LIMIT_S = 2
"""How long after its start a process may load libfaketime."""


def faketime_text(offset_ns: int, rate_ppm: int | None) -> str:
    """The text that libfaketime reads: signed seconds, and a rate unless it is None.

    libfaketime keeps a rate until it reads another one: a process that had one needs "x1" to lose it.
    """
    sign, size = ("-" if offset_ns < 0 else "+"), abs(offset_ns)
    rate = "" if rate_ppm is None else f" x{1 + rate_ppm / 1_000_000:.6f}"
    return f"{sign}{size // SECOND}.{size % SECOND:09d}{rate}\n"


def find_faketime() -> str | None:
    """The path of libfaketime for threaded programs, with this machine's architecture first."""
    name = "libfaketimeMT.so.1"
    machine = platform.machine()
    places = [f"/usr/lib/{machine}-linux-gnu/faketime", "/usr/lib/faketime", "/usr/lib64/faketime"]
    places += ["/usr/local/lib/faketime", "/usr/local/lib64/faketime", "/lib/faketime"]
    for place in [*places, *sorted(glob.glob("/usr/lib/*/faketime"))]:  # noqa: PTH207
        path = f"{place}/{name}"
        if os.path.exists(path):  # noqa: PTH110
            return path
    return None


class Strobed:
    """What clocks with a strobe share: a skew that is wanted, and a thread that changes between its two halves.

    A subclass brings the present half about in ``_apply``, which is called under the lock and may raise OSError.
    """

    def __init__(self) -> None:
        self._want: Mapping[str, Any] | None = None
        self._high = False
        """Whether the strobe is in its high half."""
        self._lock = threading.Lock()
        self._strobe: threading.Event | None = None

    def _apply(self) -> None:
        raise NotImplementedError

    @property
    def strobing(self) -> bool:
        """Whether a strobe runs."""
        return self._strobe is not None

    def _begin_strobe(self) -> None:
        """Start the strobe if one is wanted and none runs. Called under the lock."""
        strobe = None if self._want is None else self._want["strobe"]
        if strobe is not None and self._strobe is None:
            self._strobe = threading.Event()
            what = (self._strobe, strobe["period_ns"] / SECOND)
            threading.Thread(target=self._alternate, args=what, name="strobe", daemon=True).start()

    def _end_strobe(self) -> None:
        if self._strobe is not None:
            self._strobe.set()
            self._strobe = None

    def _alternate(self, stop: threading.Event, period_s: float) -> None:
        while not stop.wait(period_s):
            with self._lock:
                if stop.is_set():
                    return
                self._high = not self._high
                with contextlib.suppress(OSError):
                    self._apply()


class FakeClock(Strobed):
    """The wall clock of the node process, through libfaketime's file, which is replaced by rename.

    The skew wanted at the agent's time t is ``offset + rate * (t - since)``, plus the strobe's amplitude in every
    other period. libfaketime counts a rate from the moment at which the process loaded it, so the offset in the file is
    corrected. The start of the process is the first estimate of that moment; on a busy host the two are tens of
    milliseconds apart, and the first measured skew with a rate shows by how much.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.library = find_faketime()
        self.preloaded = False
        self.touched = False
        """Whether the running process has had a skewed clock since its clock was last measured as right."""
        self.rated = False
        """Whether the running process has read a rate."""
        self._since_ns = 0
        self._started_ns = 0
        self._loaded_known = False
        """Whether ``_started_ns`` was measured in the running process."""
        self._written: str | None = None

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables that preload libfaketime; its file is written before the process starts."""
        preload = " ".join(filter(None, [self.library or "", env.get("LD_PRELOAD", "")]))
        return {
            "LD_PRELOAD": preload,
            "FAKETIME_TIMESTAMP_FILE": self.path,
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    def starting(self) -> None:
        """A process is about to start: rates count from this moment."""
        with self._lock:
            self._started_ns = now_ns()
            self._loaded_known = False
            self.rated = False
            self._apply()

    def learn_loading(self, error_ns: int) -> bool:
        """Correct the moment at which libfaketime was loaded, by the measured minus the expected skew (ns).

        Done once per process, and only to a plausible moment after its start; False if nothing was corrected.
        """
        with self._lock:
            rate = 0 if self._want is None else self._want["rate_ppm"]
            later_ns = 0 if rate == 0 else -error_ns * 1_000_000 // rate
            if self._loaded_known or not 0 < later_ns <= min(LOADING_LIMIT_S * SECOND, now_ns() - self._started_ns):
                return False
            self._loaded_known = True
            self._started_ns += later_ns
            self._apply()
            return True

    def ended(self, pid: int) -> None:
        """Remove libfaketime's shared memory of a killed process, which could block a later process with its id."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}") if self.preloaded else ():
            with contextlib.suppress(OSError):
                os.unlink(f"/dev/shm/{name}")  # noqa: PTH108, S108

    def set(self, want: Mapping[str, Any] | None) -> None:
        """Want this skew from now on; a new one ends the strobe. Raises OSError if the file cannot be written."""
        with self._lock:
            if want != self._want:
                self._want, self._since_ns, self._high = want, now_ns(), False
                self.touched = True
                self._end_strobe()
            self._apply()

    def begin_strobe(self) -> None:
        """Start the strobe if one is wanted and none runs."""
        with self._lock:
            self._begin_strobe()

    def flip(self, *, high: bool) -> None:
        """Set the strobe to its high or low half."""
        with self._lock:
            self._high = high
            self._apply()

    def expected(self, at_ns: int) -> tuple[int, ...]:
        """The skews (ns) that are right at that moment."""
        want = self._want
        if want is None:
            return (0,)
        skew = want["offset_ns"] + (at_ns - self._since_ns) * want["rate_ppm"] // 1_000_000
        if want["strobe"] is None:
            return (skew,)
        other = skew + want["strobe"]["amplitude_ns"]
        return (skew, other) if self._strobe is not None else ((other,) if self._high else (skew,))

    def _apply(self) -> None:
        want = self._want
        offset, rate = 0, 0
        if want is not None:
            rate = want["rate_ppm"]
            self.rated = self.rated or rate != 0
            offset = want["offset_ns"] - (self._since_ns - self._started_ns) * rate // 1_000_000
            if self._high and want["strobe"] is not None:
                offset += want["strobe"]["amplitude_ns"]
        text = faketime_text(offset, rate if self.rated else None)
        if text != self._written:
            self._written = None
            replace_file(self.path, text.encode())
            self._written = text


class HostClock(Strobed):
    """The wall clock of the machine itself, for all its processes; only on machines whose owner allows that.

    While it is skewed, wall − monotonic is its value before the skew (``base_ns``) plus the skew. ``read`` returns the
    monotonic and the wall clock; ``put`` sets the latter. Out of scope: rates, and other programs that set the clock
    (NTP), whose effect shows in the measurements.
    """

    def __init__(
        self,
        remember: Callable[[], None],
        *,
        read: Callable[[], tuple[int, int]] = lambda: (now_ns(), time.time_ns()),
        put: Callable[[int], object] = lambda wall_ns: time.clock_settime_ns(time.CLOCK_REALTIME, wall_ns),
    ) -> None:
        super().__init__()
        self.base_ns: int | None = None
        """The right value of wall − monotonic while the clock may be skewed; None: we have not skewed it."""
        self.shifted_ns = 0
        """How far we have moved the clock in total."""
        self._remember = remember
        self._read = read
        self._put = put

    def set(self, want: Mapping[str, Any] | None) -> tuple[bool, str, dict[str, Any]]:
        """Set this skew: (in force, why not, detail). Raises OSError if the clock cannot be set."""
        with self._lock:
            if want is not None and (want["rate_ppm"] or want["mono_rate_ppm"]):
                return False, "the rates of the machine's own clocks are not changed", {}
            if want != self._want:
                self._end_strobe()
            if self.base_ns is None:
                if want is None:
                    return True, "", {}
                mono, wall = self._read()
                self.base_ns = wall - mono
                self._remember()  # before the effect, so that ``heal`` can undo it
            if want != self._want:
                self._want, self._high = want, False
            self._apply()
            found = self._measured()
            self._begin_strobe()
            ok = found["error_ns"] <= CLOCK_TOLERANCE_NS
            if ok and want is None:
                self.base_ns = None
                self._remember()
            return ok, f"the clock is off by {found['error_ns']} ns: something else sets it, too", found

    def expected_ns(self) -> int:
        """The skew that is right now."""
        want = self._want
        if want is None:
            return 0
        return int(want["offset_ns"]) + (int(want["strobe"]["amplitude_ns"]) if self._high else 0)

    def _apply(self) -> None:
        if self.base_ns is None:
            return
        mono, wall = self._read()
        right = mono + self.base_ns + self.expected_ns()
        if abs(right - wall) > MS:  # smaller differences are not ours
            self._put(right)
            self.shifted_ns += right - wall

    def _measured(self) -> dict[str, Any]:
        mono, wall = self._read()
        skew = wall - mono - (self.base_ns or 0)
        return {"skew_ns": skew, "error_ns": abs(skew - self.expected_ns()), "by": "settimeofday"}


def read_clocks(path: str, limit_s: float) -> tuple[int, int]:
    """Monotonic and wall clock (ns) of the process that listens there. Raises OSError or ValueError if unreadable."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(limit_s)
        connection.connect(path)
        data = b""
        while b"\n" not in data and len(data) < 4096:
            more = connection.recv(4096)
            if not more:
                break
            data += more
    said = json.loads(data)
    return int(said["mono_ns"]), int(said["wall_ns"])


def measure_skew(
    path: str,
    expected: Callable[[int], tuple[int, ...]],
    *,
    limit_s: float,
    just_started: bool,
    alive: Callable[[], bool],
) -> dict[str, Any]:
    """Compares the process's wall clock with ours, independently of the delay between us.

    ``skew_ns``: its (wall − monotonic) minus ours, the closest of up to five readings; ``why``: why it is not right.
    """
    deadline = time.monotonic() + limit_s
    best: dict[str, Any] | None = None
    why = "the node did not report its clocks in time"
    for _ in range(400):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        before, wall = now_ns(), time.time_ns()
        try:
            mono, said = read_clocks(path, left)
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"the node does not report its clocks: {getattr(error, 'strerror', None) or type(error).__name__}"
            if not alive():
                why = "the node process ended"
            if not just_started or not alive():
                break
            time.sleep(0.01)
            continue
        after = now_ns()
        skew = (said - mono) - (wall - before)
        wrong = min(abs(skew - right) for right in expected(before))
        if best is None or wrong < best["error_ns"]:
            best = {"skew_ns": skew, "error_ns": wrong, "lo": before, "hi": after}
            best["mono_faked"] = not before - MS <= mono <= after + MS
        if best["error_ns"] <= CLOCK_TOLERANCE_NS or _ >= 4:
            break
    if best is None:
        return {"why": why}
    if best.pop("mono_faked"):
        best["why"] = "its monotonic clock is skewed as well"
    elif best["error_ns"] > CLOCK_TOLERANCE_NS:
        best["why"] = f"its skew is {best['skew_ns']} ns, off by {best['error_ns']} ns"
    return best
