"""The agent: one file, standard library only, on each host; it alone touches the host while a run lasts.

    python3 agent.py serve --socket PATH --run RUN [--dead-man SECONDS] [--probe-port PORT]
    python3 agent.py relay --socket PATH [--wait SECONDS]      stdin/stdout <-> the agent's socket
    python3 agent.py heal  --socket PATH [--run RUN] [--stop]  converge to healthy, through a living agent or alone
    python3 agent.py match --socket PATH                       which texts a user's pattern matches; asked on stdin

``serve`` may be the first process of a container. It starts and signals the node process, installs and probes faults,
tails the trace log, watches the host's noise, and heals the host by itself if the harness falls silent.

Protocol: JSON lines over a unix socket. A request is ``{"id": n, "do": verb, ...}``; its answer has the same id and
either ``ok`` or ``error``. Requests are pipelined; verbs of one lane are served in order. Unasked ``{"news": n, ...}``
lines are numbered and kept until acknowledged, answers of a session are kept for a while, so a connection that breaks
and comes back loses nothing. All times are ns of the host's monotonic clock.

An agent that is root starts the node as a user of its own, without capabilities unless the node asks for some, and
unable to gain any; on its socket it serves root and its own user only. ``prepare`` answers as what the node will
run (``runs_as``), and why, where that is not a user of its own.

Guarantees: wrong input never ends the agent; every wait and queue is bounded; what did not take is ``confirmed: false``
with a reason; rules sit in a chain of our own and nothing that is not ours is flushed; a peer is cut at all of its
addresses, IPv4 and IPv6. Leaves out: delay and jitter of links, disk trouble and CPU limits (answered ``confirmed:
false``), and meaning of any kind.
Runs on Python 3.9 and later.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import collections
import contextlib
import ctypes
import errno
import glob
import hashlib
import ipaddress
import json
import os
import platform
import pwd
import queue
import re
import select
import selectors
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

VERSION = 2
"""Of the protocol; a link refuses an agent of another version. 2: a peer has several addresses, of both families."""

PROBE_PORT = 7003
MS = 1_000_000
SECOND = 1_000_000_000

LINE_MAX = 4 << 20
"""Longest request line, bytes; longer ones end the connection (files travel in chunks)."""
CHUNK_MAX = 1 << 20
"""Most bytes of a file in one request or answer."""
OUTPUT_MAX = 1 << 20
"""Most bytes of stdout and of stderr that ``run`` returns."""
NEWS_MAX = 50_000
NEWS_BYTES_MAX = 64 << 20
"""Unacknowledged news kept; beyond, the oldest are dropped, and that is news too (``noise``: ``news-dropped``)."""
ANSWERS_MAX = 256
"""Answers kept for a session that reconnects."""
SESSIONS_MAX = 8
PLACED_MAX = 1000
"""Files whose owner becomes the node."""
LANE_MAX = 256
"""Requests waiting in one lane; beyond, a request is refused."""
CONNECTIONS_MAX = 32
TURNED_AWAY_MAX = 100
"""Refused connections that the agent's own log tells of."""
NEWS_WINDOW = 1 << 20
"""News are handed to a connection while it has less than this many unsent bytes."""

TERM_LIMIT_S = 5.0
"""How long a process may take to obey SIGTERM, unless ``--term-limit`` says otherwise."""
SIGNAL_LIMIT_S = 2.0
"""How long SIGKILL, SIGSTOP and SIGCONT may take to show."""
TOOL_LIMIT_S = 5.0
"""How long iptables, ss and the like may take."""
CLOCK_LIMIT_S = 0.5
"""How long a running node may take to tell its clocks; ``CLOCK_START_LIMIT_S``: a node that has just been started."""
CLOCK_START_LIMIT_S = 3.0
CLOCK_TOLERANCE_NS = 2 * MS
LOADING_LIMIT_S = 2
"""How long after its start a process may load libfaketime."""

TICK_S = 0.005
STALL_NS = 20 * MS
FSYNC_NS = 20 * MS
WALL_JUMP_NS = 5 * MS
RULES_PERIOD_S = 1.0
"""How often rules in force are looked at again. nftables says in 0.1 ms if nothing changed; legacy rules are read."""
SYNC_GAP_S = 0.02
"""The canary's next sync starts so soon after the last one returned: one is always in flight, or about to be."""
SYNC_BYTES = 512
SYNC_FILE_BYTES = 64 << 10
"""The canary's file grows by ``SYNC_BYTES`` a sync, so that a sync waits for the journal as a node's does; it is
truncated at this size."""
SYNC_ERROR_PAUSE_S = 1.0
FIRST_SYNC_LIMIT_S = 1.0
"""How long ``prepare`` waits to learn whether the disk can be probed."""
STARVED_NS = 50 * MS
"""A thread of the node that waits for longer is news, unless ``prepare`` gives another limit (``noise_max_ns``)."""
SAMPLE_S = 0.025
"""How often the threads of the node process are read while it runs."""
STRETCH_NS = SECOND
"""A stretch that lasts is reported in pieces of about this length."""
THREADS_S = 0.1
"""How often new threads of the node are looked for."""
MEMBERS_S = 1.0
"""How often new processes of the node are looked for."""
IDLE_SAMPLES, IDLE_EVERY = 16, 2
"""A thread that has not run for so many samples is read only every so many."""
THREADS_MAX = 256
"""Threads of the node that are read; the others are counted only."""
LOAD_S = 10.0
"""Window of the host-wide totals."""
TRACE_GAP_S = 0.002
"""Least time between two readings of a busy trace log: the lines in between travel together."""
TRACE_LINE_MAX = 1 << 20
TRACE_BATCH = 256 << 10
TAIL_BYTES, TAIL_LINES = 16 << 10, 30
"""Bytes and lines from the end of a process' output that are reported when it ended unasked."""
FATAL_EVERY_S = 0.25
FATAL_LAG_MAX = 4 << 20
"""A log that grows by more between two looks is searched in part; the rest is reported as skipped."""
FATAL_REST_MAX = 64 << 10
FATAL_MAX = 20
"""Fatal lines that are reported; with the last one the search ends."""
FATAL_LINE_MAX = 1000


class Refused(Exception):  # noqa: N818 - what a request is, when it cannot be served
    """A request that cannot be served; the text is the answer."""


def now_ns() -> int:
    """The host's monotonic clock."""
    return time.monotonic_ns()


# --- pure parts -------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """What arrives from ``src`` (a host's name) at ``address`` is dropped with ``loss`` percent; 100 is a cut."""

    src: str
    address: str
    loss: int


class Seen(NamedTuple):
    """The node process as it is: is it to run (when nothing is wrong), does it run, is it stopped."""

    wanted: bool
    running: bool
    stopped: bool


class Look(NamedTuple):
    """A chain as found: how often it is hooked, its (address, is it a cut) in order, packets matched by address.

    ``first``: nothing in INPUT comes before its hook, where it could let pass what our chain drops.
    """

    hooks: int
    rules: tuple[tuple[str, bool], ...]
    packets: Mapping[str, int]
    first: bool = True

    @property
    def hooked(self) -> bool:
        """Whether every packet that arrives meets our chain first."""
        return self.hooks > 0 and self.first


def chain_name(run: str) -> str:
    """The run's own chain; at most 28 characters, whatever the run is called."""
    clean = re.sub(r"[^A-Za-z0-9_.-]", "-", run) or "run"
    if len(clean) > 19:
        clean = clean[:10] + "-" + hashlib.blake2b(run.encode(), digest_size=4).hexdigest()
    return "DETHRONE-" + clean


class Spared(NamedTuple):
    """What no rule drops: TCP from ``address`` to this host's ``port``, which is how the harness reaches the agent."""

    address: str
    port: int

    @property
    def rule(self) -> str:
        """As ``iptables-save`` prints it, behind the chain's name."""
        return f"-s {whole(self.address)} -p tcp -m tcp --dport {self.port} -j RETURN"


NEIGHBOURS = tuple(f"-p ipv6-icmp -m icmp6 --icmpv6-type {kind} -j RETURN" for kind in (135, 136))
"""Neighbour discovery passes a cut, as ARP does: without it a one-way cut would also cut the other way."""


def is_v6(address: str) -> bool:
    """Whether an address is of IPv6."""
    return ":" in address


def whole(address: str) -> str:
    """An address as a rule names it."""
    return f"{address}/{128 if is_v6(address) else 32}"


def restore_text(
    chain: str, rules: Sequence[Rule], *, hook: bool, spared: Sequence[Spared] = (), passing: Sequence[str] = ()
) -> str:
    """Input of ``iptables-restore --noflush``: the chain's whole content, replaced at once; nothing else is touched."""
    lines = ["*filter", f":{chain} - [0:0]"]
    if hook:
        lines.append(f"-I INPUT 1 -j {chain}")
    lines += [f"-A {chain} {one}" for one in (*passing, *(one.rule for one in spared))] if rules else []
    for rule in rules:
        chance = "" if rule.loss >= 100 else f" -m statistic --mode random --probability {rule.loss / 100:.4f}"
        lines.append(f"-A {chain} -s {whole(rule.address)}{chance} -j DROP")
    return "\n".join([*lines, "COMMIT", ""])


def remove_text(chain: str, hooks: int) -> str:
    """Input of ``iptables-restore --noflush`` that takes the chain and its ``hooks`` hook rules out."""
    return "\n".join(["*filter", *[f"-D INPUT -j {chain}"] * hooks, f"-F {chain}", f"-X {chain}", "COMMIT", ""])


def parse_save(text: str, chain: str) -> Look | None:
    """What ``iptables-save -c -t filter`` says of our chain; None if it does not exist."""
    exists, hooks, rules, packets, before = False, 0, [], {}, 0
    for line in text.splitlines():
        if line.startswith(f":{chain} "):
            exists = True
            continue
        counted = re.match(r"\[(\d+):\d+\] (.*)$", line)
        if counted is None:
            continue
        rule = counted.group(2).strip()
        if rule == f"-A INPUT -j {chain}":
            hooks += 1
        elif rule.startswith("-A INPUT ") and not hooks and not re.search(r" -[jg] (DROP|REJECT|DETHRONE-)", rule):
            before += 1
        elif rule.startswith(f"-A {chain} "):
            found = re.match(r"-s ([0-9a-f.:]+)(?:/32|/128)? (.*)$", rule[len(chain) + 4 :])
            if found is None or not found.group(2).endswith("-j DROP"):
                rules.append((rule[len(chain) + 4 :], False))
                continue
            rules.append((found.group(1), found.group(2) == "-j DROP"))
            packets[found.group(1)] = int(counted.group(1))
    return Look(hooks, tuple(rules), packets, not before) if exists else None


def foreign_chains(text: str) -> list[str]:
    """All chains of ours, of any run, in the output of ``iptables-save``."""
    return re.findall(r"^:(DETHRONE-[A-Za-z0-9_.-]+) ", text, re.MULTILINE)


def expected_rules(
    rules: Sequence[Rule], spared: Sequence[Spared] = (), passing: Sequence[str] = ()
) -> tuple[tuple[str, bool], ...]:
    """``rules`` as ``Look.rules`` shows them."""
    before = [(one, False) for one in (*passing, *(one.rule for one in spared))] if rules else []
    return (*before, *((rule.address, rule.loss >= 100) for rule in rules))


def plan(seen: Seen, want: Mapping[str, Any]) -> list[str]:
    """The steps from ``seen`` to ``want``, in order: rules, then the process, then its clock.

    A node that was never started, or was told to end for good, is not started by converging.
    """
    steps = ["rules"]
    if want["down"]:
        return [*steps, want["down"]] if seen.running else steps
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


def _integer(raw: Mapping[str, Any], key: str, *, low: int, high: int) -> int:
    value = raw.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refused(f"{key} must be an integer of {low} … {high}, not {value!r:.80}")
    return value


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or "\0" in value:
        raise Refused(f"{key} must be a text, not {value!r:.80}")
    return value


def _mapping(raw: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise Refused(f"{what} must be an object, not {raw!r:.80}")
    return raw


def _texts(raw: Any, what: str) -> list[str]:
    if not isinstance(raw, list) or not all(isinstance(item, str) and "\0" not in item for item in raw):
        raise Refused(f"{what} must be a list of texts, not {raw!r:.80}")
    return list(raw)


YEAR_NS = 366 * 86400 * SECOND


def clean_state(raw: Any) -> dict[str, Any]:
    """A desired state with every field present and checked; Refused for anything that is none."""
    raw = _mapping(raw, "want")
    unknown = set(raw) - {"cuts", "links", "down", "frozen", "clock", "disk", "cpu_percent"}
    if unknown:
        raise Refused(f"unknown in want: {', '.join(sorted(unknown))[:200]}")
    down = raw.get("down")
    if down is not None and (not isinstance(down, str) or down not in {"SIGKILL", "SIGTERM"}):
        raise Refused(f"down must be SIGKILL, SIGTERM or null, not {down!r:.80}")
    if not isinstance(raw.get("frozen", False), bool):
        raise Refused("frozen must be true or false")
    links = []
    given_links = raw.get("links") or []
    if not isinstance(given_links, list):
        raise Refused("links must be a list")
    for link in given_links:
        link = _mapping(link, "a link")  # noqa: PLW2901 - the same thing, checked
        links.append({
            "src": _text(link, "src"),
            "delay_ns": _integer(link, "delay_ns", low=0, high=3600 * SECOND),
            "jitter_ns": _integer(link, "jitter_ns", low=0, high=3600 * SECOND),
            "loss_percent": _integer(link, "loss_percent", low=0, high=100),
        })  # fmt: skip
    clock = None
    if raw.get("clock") is not None:
        given = _mapping(raw["clock"], "clock")
        strobe = None
        if given.get("strobe") is not None:
            inner = _mapping(given["strobe"], "strobe")
            strobe = {
                "amplitude_ns": _integer(inner, "amplitude_ns", low=-YEAR_NS, high=YEAR_NS),
                "period_ns": _integer(inner, "period_ns", low=MS, high=3600 * SECOND),
            }
        clock = {
            "offset_ns": _integer(given, "offset_ns", low=-10 * YEAR_NS, high=10 * YEAR_NS),
            "rate_ppm": _integer(given, "rate_ppm", low=-999_999, high=9_000_000),
            "strobe": strobe,
        }
    return {
        "cuts": _texts(raw.get("cuts") or [], "cuts"),
        "links": links,
        "down": down,
        "frozen": raw.get("frozen", False),
        "clock": clock,
        "disk": raw.get("disk"),
        "cpu_percent": raw.get("cpu_percent"),
    }


HEALTHY = clean_state({})


def faketime_text(offset_ns: int, rate_ppm: int | None) -> str:
    """What libfaketime reads: seconds with their sign, and a rate where there is one.

    A rate once read stays until another one is read: a process that had one needs "x1" to be without.
    """
    sign, size = ("-" if offset_ns < 0 else "+"), abs(offset_ns)
    rate = "" if rate_ppm is None else f" x{1 + rate_ppm / 1_000_000:.6f}"
    return f"{sign}{size // SECOND}.{size % SECOND:09d}{rate}\n"


class Probe(NamedTuple):
    """A probe: of which run and round, from whom (a host's name), to which address."""

    run: str
    nonce: int
    sender: str
    address: str


def probe_payload(run: str, nonce: int, sender: str, address: str) -> bytes:
    """A probe on the wire."""
    return f"dethrone-probe {run} {nonce} {sender} {address}".encode()


def parse_probe(payload: bytes) -> Probe | None:
    """A probe that was read from the wire; None for anything else."""
    parts = payload.decode("utf-8", "replace").split(" ")
    if len(parts) != 5 or parts[0] != "dethrone-probe" or re.fullmatch(r"\d{1,20}", parts[2]) is None:
        return None
    return Probe(parts[1], int(parts[2]), parts[3], parts[4])


def clean_peers(raw: Any) -> dict[str, tuple[str, ...]]:
    """Name → addresses of each peer, in one spelling. One address may stand alone. Refused for anything else."""
    out = {}
    for name, given in _mapping(raw, "peers").items():
        addresses = [given] if isinstance(given, str) else _texts(given, f"the addresses of {name!r:.80}")
        try:
            spelled = [str(ipaddress.ip_address(address)) for address in addresses]
        except ValueError as error:
            raise Refused(f"peers: {error}") from None
        out[str(name)] = tuple(dict.fromkeys(spelled))
    return out


def ways(peers: Mapping[str, Sequence[str]], own: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The addresses by which each peer can be told from others: not ours, and of no second peer."""
    taken = collections.Counter(address for addresses in peers.values() for address in set(addresses))
    strange = {*own, *(address for address, count in taken.items() if count > 1)}
    return {name: tuple(one for one in addresses if one not in strange) for name, addresses in peers.items()}


def echo_payload(what: str, run: str, number: int) -> bytes:
    """Of a question or an answer between two agents that measure a round trip."""
    return f"dethrone-echo {what} {run} {number}".encode()


def percentile(histogram: Sequence[int], share: float) -> int:
    """Upper bound (ns) of the power-of-two bucket in which that share of the values lies; 0 of nothing."""
    total, seen = sum(histogram), 0
    for power, count in enumerate(histogram):
        seen += count
        if total and seen >= share * total:
            return int(2**power)
    return 0


class Hanging:
    """Says when to report something in flight since ``began``: past ``limit_ns``, then each time its length doubled."""

    def __init__(self, began: int, limit_ns: int) -> None:
        self._began = began
        self._due = began + limit_ns

    def due(self, now: int) -> bool:
        """Whether to report it now; True at most once a doubling."""
        if now <= self._due:
            return False
        self._due = now + (now - self._began)
        return True


class Gap:
    """Whether a thread that watches was itself held up between two looks: what it could not see then is noise, too.

    A thread that was at work for at least half of the time was not held up.
    """

    def __init__(self, period_ns: int) -> None:
        self._period_ns = period_ns
        self._last = (0, 0)

    def begin(self, now: int, busy: int) -> None:
        """The last look ended; ``busy``: the thread's own processor time."""
        self._last = (now, busy)

    def end(self, now: int, busy: int, limit_ns: int) -> tuple[int, int] | None:
        """The next look begins: from when to when it was late, if by more than ``limit_ns``."""
        last, worked = self._last
        late = now - last - self._period_ns
        if not last or late <= limit_ns or 2 * (busy - worked) > late:
            return None
        return last + self._period_ns, now


class Stretch(NamedTuple):
    """A thread waited for ``waited`` ns of [lo, hi]."""

    lo: int
    hi: int
    waited: int


class Starved:
    """Folds samples of how long a thread has waited into stretches through which it waited at least half the time.

    The kernel adds a wait when it ends, so one sample may tell of a wait that began several samples ago. A stretch of
    ``limit_ns`` or less is none; one that lasts is cut every ``STRETCH_NS``, so that it is known before it ends.
    """

    def __init__(self, at: int, limit_ns: int) -> None:
        self._at = at
        self._limit_ns = limit_ns
        self._open: Stretch | None = None

    def step(self, at: int, waited: int) -> Stretch | None:
        """The thread waited for ``waited`` ns more than at the last sample; a stretch that is over, if one is."""
        lo, self._at = min(self._at, at - waited), at
        over, self._open = self._open, None
        if waited > 0 and 2 * waited >= at - lo:
            if over is not None:
                lo, waited = min(lo, over.lo), waited + over.waited
            over = Stretch(lo, at, min(waited, at - lo))
            if at - lo < STRETCH_NS:
                self._open = over
                return None
        elif waited > 0:  # it may have begun here: the kernel adds a wait when it ends
            self._open = Stretch(at - waited, at, waited)
        return over if over is not None and over.hi - over.lo > self._limit_ns else None


class Blocked:
    """Folds samples of a thread's state into stretches in the D state; its limit and cuts are those of ``Starved``.

    A state is seen at moments only, so it is taken to change halfway between two that differ.
    """

    def __init__(self, at: int, limit_ns: int, *, blocked: bool) -> None:
        self._at = at
        self._limit_ns = limit_ns
        self._since = at if blocked else None

    def step(self, at: int, *, blocked: bool) -> Stretch | None:
        """Its state now; a stretch that is over, if one is."""
        between, self._at = (self._at + at) // 2, at
        since, hi = self._since, at if blocked else between
        if since is None:
            self._since = between if blocked else None
            return None
        if blocked and at - since < STRETCH_NS:
            return None
        self._since = at if blocked else None
        return Stretch(since, hi, hi - since) if hi - since > self._limit_ns else None


def parse_schedstat(raw: bytes) -> tuple[int, int] | None:
    """Of a thread's ``schedstat``: how long it has waited for a processor (ns), and how often it got one.

    None for a text that is none, or of a kernel that does not count: it shows zeros for a thread that has run.
    """
    fields = raw.split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields) or not int(fields[0]):
        return None
    return int(fields[1]), int(fields[2])


def parse_state(raw: bytes) -> str:
    """The state letter in a thread's ``stat``; "" for a text that is none."""
    place = raw.rfind(b")")
    return chr(raw[place + 2]) if 0 <= place < len(raw) - 2 else ""


def parse_pressure(text: str) -> int | None:
    """Of a file in ``/proc/pressure``: how long some task has waited, in total (ns)."""
    found = re.search(r"^some .*\btotal=(\d+)", text, re.MULTILINE)
    return None if found is None else int(found.group(1)) * 1000


def parse_steal(text: str, ticks_per_s: int) -> int | None:
    """Of ``/proc/stat``: how long all processors together were not ours although we wanted them (ns)."""
    fields = text.split("\n", 1)[0].split()
    if len(fields) < 9 or fields[0] != "cpu" or not fields[8].isdigit():
        return None
    return int(fields[8]) * SECOND // ticks_per_s


def parse_throttled(text: str) -> int | None:
    """Of a control group's ``cpu.stat``, of either version: how long it was throttled (ns)."""
    for name, unit in (("throttled_usec", 1000), ("throttled_time", 1)):
        found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
        if found is not None:
            return int(found.group(1)) * unit
    return None


def cpu_stat_places(text: str) -> list[str]:
    """Where the ``cpu.stat`` of a process may lie whose ``/proc/PID/cgroup`` says this, the likeliest first.

    Version 1 and the hybrid have a hierarchy for the controller; a container sees its own group as the root.
    """
    places = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        path = "" if path in {"", "/"} else path
        if number == "0" and not names:
            roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        elif "cpu" in names.split(","):
            roots = [f"/sys/fs/cgroup/{names}", "/sys/fs/cgroup/cpu"]
        else:
            continue
        places += [f"{root}{below}/cpu.stat" for below in dict.fromkeys((path, "")) for root in roots]
    return list(dict.fromkeys(places))


def process_stat(pid: int) -> tuple[str, int, int, int] | None:
    """State letter, process group, session and start time (ticks) of a process; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib costs more than the reading
            raw = file.read()
        fields = raw[raw.rindex(b")") + 2 :].split()
        return fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def thread_states(pid: int) -> str:
    """The state letters of all threads of a process, "" if there is none."""
    letters = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
            with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:  # noqa: PTH123
                raw = file.read()
            letters.append(chr(raw[raw.rindex(b")") + 2]))
    except (OSError, ValueError, IndexError):
        pass
    return "".join(letters)


def switches(pid: int) -> int:
    """How often the threads of a process have been taken off a processor; -1 if there is none."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - as above
            with open(f"/proc/{pid}/task/{task}/status", "rb") as file:  # noqa: PTH123
                total += sum(int(count) for count in re.findall(rb"ctxt_switches:\s*(\d+)", file.read()))
    except (OSError, ValueError):
        return -1
    return total


def group_members(group: int) -> list[int]:
    """The processes of that process group."""
    members = []
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            stat = process_stat(int(entry))
            if stat is not None and stat[1] == group and stat[0] not in "ZX":
                members.append(int(entry))
    return members


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they started, as far as they still have their parents."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123
                    raw = file.read()
                children.setdefault(int(raw[raw.rindex(b")") + 2 :].split()[1]), []).append(int(entry))
    found = list(children.get(pid, ()))
    for one in found:  # grows as it is walked
        found += children.get(one, ())
    return found


def replace_file(path: str, content: bytes, mode: int = 0o644) -> None:
    """Write ``content`` next to ``path`` and rename it there."""
    temporary = f"{path}.new-{os.getpid()}-{threading.get_ident()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(temporary, path)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


# --- what a node may do -----------------------------------------------------------------------------------------

CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""A capability's number is its place (linux/capability.h)."""
OF_ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "NET_BIND_SERVICE", "SYS_CHROOT")
"""What a node keeps that asks to be root: files, signals and other users, not the host's network."""

PR_CAPBSET_DROP, PR_GET_SECUREBITS, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 24, 27, 28, 38, 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 4
CAPABILITY_VERSION_3 = 0x20080522


class Confined(NamedTuple):
    """As what a node runs. ``own``: no other process of the host that we need has its user; ``why``: why not."""

    uid: int
    gid: int
    capabilities: tuple[str, ...]
    own: bool
    why: str

    def said(self) -> dict[str, Any]:
        """As JSON."""
        return {"uid": self.uid, "own": self.own, "why": self.why, "capabilities": list(self.capabilities)}

    def enter(self) -> None:
        """Of the calling thread: what it executes from now on gains no privilege and has these capabilities at most.

        OSError where the kernel refuses and a node would keep what it must not have.
        """
        libc = ctypes.CDLL(None, use_errno=True)

        def prctl(*arguments: int) -> int:
            return int(libc.prctl(*map(ctypes.c_ulong, (*arguments, 0, 0, 0)[:5])))

        def must(doing: str, code: int) -> None:
            if code < 0:
                number = ctypes.get_errno()
                raise OSError(number, f"{doing}: {os.strerror(number)}")

        must("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1))
        if os.geteuid() != 0:
            return
        kept = [CAPABILITIES.index(name) for name in self.capabilities]
        for number in range(64):
            if number not in kept and prctl(PR_CAPBSET_DROP, number) < 0:
                if ctypes.get_errno() == errno.EINVAL:  # the kernel knows no more of them
                    break
                if self.uid == os.geteuid():  # else the change of the user takes them all
                    must(f"dropping capability {number}", -1)
        if self.uid == 0 or not kept:
            must("capset", set_inheritable(libc, 0))
            return
        must("securebits", prctl(PR_SET_SECUREBITS, prctl(PR_GET_SECUREBITS) | SECBIT_NO_SETUID_FIXUP))
        must("capset", set_inheritable(libc, sum(1 << number for number in kept)))
        for number in kept:
            must(f"ambient capability {number}", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number))


def set_inheritable(libc: Any, inheritable: int) -> int:
    """Change the calling thread's inheritable capabilities and no others; negative: errno says why not."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: low words, then high words
    if libc.capget(header, data) < 0:
        return -1
    data[2], data[5] = inheritable & 0xFFFFFFFF, inheritable >> 32
    return int(libc.capset(header, data))


def permitted(pid: int | str = "self") -> int | None:
    """The permitted capabilities of a process, as bits; None if they cannot be read."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            found = re.search(r"^CapPrm:\s*([0-9a-f]+)$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1), 16) if found else None


def is_mapped(number: int, file: str) -> bool:
    """Whether the user namespace that we are in has that user (``uid_map``) or group (``gid_map``)."""
    try:
        with open(f"/proc/self/{file}", encoding="ascii") as lines:  # noqa: PTH123
            ranges = [[int(word) for word in line.split()] for line in lines]
    except (OSError, ValueError):
        return True  # a kernel without user namespaces
    return any(first <= number < first + count for first, _, count in ranges)


def user_of(words: str) -> tuple[int, int]:
    """User and group that ``NAME`` or ``UID`` or ``UID:GID`` means here. Refused if there is none of that name."""
    first, _, second = words.partition(":")
    if first.isdigit() and (not second or second.isdigit()):
        return int(first), int(second or first)
    try:
        found = pwd.getpwnam(words)
    except KeyError:
        raise Refused(f"there is no user {words!r:.80} on this host") from None
    return found.pw_uid, found.pw_gid


def confined(asked: str | None, capabilities: Sequence[str], *, default: str | None) -> Confined:
    """As what a node can run here that asks for this user and these capabilities. Refused if it cannot have them.

    ``default``: the user of nodes that ask for none; None: there is none, and they share the agent's.
    """
    unknown = [name for name in capabilities if name not in CAPABILITIES]
    if unknown:
        raise Refused(f"no capability is called {unknown[0]!r:.80}")
    me = os.geteuid()
    if me != 0:
        if capabilities or (asked is not None and user_of(asked)[0] != me):
            raise Refused(f"the node asks for a user or capabilities, which only root can give; the agent has uid {me}")
        return Confined(me, os.getegid(), (), own=False, why=f"the agent is not root: nodes have its user, uid {me}")
    ours = permitted()
    lacking = [name for name in capabilities if ours is not None and not ours >> CAPABILITIES.index(name) & 1]
    if lacking:
        raise Refused(f"the node asks for the capability {lacking[0]}, which this host does not have")
    words = default if asked is None else asked
    if words is None:
        why = "no user was set apart for nodes here: they have the agent's, uid 0, without capabilities"
        return Confined(0, 0, tuple(capabilities), own=False, why=why)
    uid, gid = user_of(words)
    if uid == 0:
        kept = [name for name in OF_ROOT if ours is None or ours >> CAPABILITIES.index(name) & 1]
        return Confined(0, 0, tuple(dict.fromkeys([*kept, *capabilities])), own=False, why="the node asks to be root")
    if not is_mapped(uid, "uid_map") or not is_mapped(gid, "gid_map"):
        if asked is not None:
            raise Refused(f"the node asks for uid {uid}, and this host's user namespace has no such user")
        why = "this host's user namespace has one user only: nodes have the agent's, without capabilities"
        return Confined(0, 0, tuple(capabilities), own=False, why=why)
    return Confined(uid, gid, tuple(capabilities), own=True, why="")


def give(path: str, to: Confined) -> None:
    """Make a directory and all in it a node's own. Links are not followed; what is on other devices stays as it is."""
    if os.geteuid() != 0:
        return
    os.chown(path, to.uid, to.gid)
    device = os.stat(path).st_dev  # noqa: PTH116
    for place, directories, files, handle in os.fwalk(path, follow_symlinks=False):
        del place
        for name in list(directories):
            if os.stat(name, dir_fd=handle, follow_symlinks=False).st_dev != device:
                directories.remove(name)
        for name in (*directories, *files):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, to.uid, to.gid, dir_fd=handle, follow_symlinks=False)


def open_log(path: str, node: Confined) -> int:
    """The node's log, to append to. Refused where the node made something else of it, as a link to a file of ours."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    log = os.open(path, flags, 0o644)
    seen = os.fstat(log)
    if not stat.S_ISREG(seen.st_mode) or seen.st_nlink > 1 or seen.st_uid not in {node.uid, os.geteuid()}:
        os.close(log)
        raise Refused(f"{path} is not a log of the node's own: it is no regular file, or another user's")
    os.set_blocking(log, True)
    if os.geteuid() == 0:
        os.fchown(log, node.uid, node.gid)
    return log


# --- processes --------------------------------------------------------------------------------------------------


class Child:
    """A process of ours. ``code``: exit code, negative for a signal's number; None while it runs."""

    def __init__(self, pid: int, on_exit: Callable[[Child], None] | None) -> None:
        self.pid = pid
        stat = process_stat(pid)
        self.start = stat[3] if stat else 0
        self.code: int | None = None
        self.done = threading.Event()
        self.on_exit = on_exit
        self.exited_ns = 0


class Processes:
    """Starts processes and reaps them all, also orphans that are not ours (a container's first process must)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[int, Child] = {}
        self._spawned = threading.Event()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        files: tuple[int, int, int],
        on_exit: Callable[[Child], None] | None = None,
        node: Confined | None = None,
    ) -> Child:
        """Start a process in a session of its own with default signals; ``node``: as that. OSError if it cannot be."""
        more: dict[str, Any] = {}
        if node is not None and node.uid != os.geteuid():
            more = {"user": node.uid, "group": node.gid, "extra_groups": []}

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                list(argv),
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
                **more,
            )

        with self._lock:
            process = begin() if node is None else in_thread_of(node, begin)
            process.returncode = 0  # reaping is ours: a Popen that reaps by itself could take another's process id
            child = Child(process.pid, on_exit)
            self._children[child.pid] = child
        self._spawned.set()
        return child

    def signal(self, child: Child, number: int, *, group: bool) -> bool:
        """Signal a child, or its whole group, unless it is gone. A process id cannot be reused before it is reaped."""
        with self._lock:
            if child.pid not in self._children:
                return False
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(child.pid, number)
            return True

    def tool(
        self, argv: Sequence[str], *, given: bytes = b"", limit_s: float = TOOL_LIMIT_S, cap: int = OUTPUT_MAX
    ) -> tuple[int, bytes, bytes]:
        """Run a command: exit code, stdout, stderr. 124: did not end in time and was killed; 127: cannot be started."""
        deadline = time.monotonic() + limit_s
        if given:
            stdin = os.memfd_create("dethrone-input")
            os.write(stdin, given)
            os.lseek(stdin, 0, os.SEEK_SET)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        try:
            child = self.spawn(argv, files=(stdin, out_w, err_w))
        except (OSError, ValueError) as error:
            os.close(out_r)
            os.close(err_r)
            return 127, b"", f"{argv[0]}: {error}".encode()
        finally:
            os.close(out_w)
            os.close(err_w)
            os.close(stdin)
        output = {out_r: bytearray(), err_r: bytearray()}
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(out_r, selectors.EVENT_READ)
                selector.register(err_r, selectors.EVENT_READ)
                while selector.get_map():
                    left = deadline - time.monotonic()
                    # A command's own background children may hold the pipes; its end is enough, if it was seen before
                    # this look at the pipes: what it wrote last may have come after an earlier one.
                    ended = child.done.is_set()
                    events = selector.select(0 if ended or left <= 0 else min(left, 0.2))
                    if not events and (left <= 0 or ended):
                        break
                    for key, _ in events:
                        data = os.read(key.fd, 65536)
                        if not data:
                            selector.unregister(key.fd)
                        elif len(output[key.fd]) < cap:
                            output[key.fd] += data[: cap - len(output[key.fd])]
        finally:
            os.close(out_r)
            os.close(err_r)
        if not child.done.wait(max(0.0, deadline - time.monotonic())):
            self.signal(child, signal.SIGKILL, group=True)
            child.done.wait(SIGNAL_LIMIT_S)
            return 124, bytes(output[out_r]), bytes(output[err_r]) or b"did not end in time"
        return child.code or 0, bytes(output[out_r]), bytes(output[err_r])

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                # Nobody to wait for. Orphans of foreign processes (docker exec) may still come to a first process.
                self._spawned.wait(1.0)
                self._spawned.clear()
                continue
            if found is None:
                continue
            with self._lock:
                _, status = os.waitpid(found.si_pid, 0)
                child = self._children.pop(found.si_pid, None)
                if child is not None:
                    child.exited_ns = now_ns()
                    signalled = os.WIFSIGNALED(status)
                    child.code = -os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
            if child is None:
                continue
            if child.on_exit is not None:
                try:
                    child.on_exit(child)
                except Exception as error:  # noqa: BLE001 - the reaper outlives whatever a hook does
                    complain("exit hook", error)
            child.done.set()


def in_thread_of(node: Confined, begin: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Begin a process from a thread that has given up what the node must not have: a child has what its thread has."""
    begun: list[subprocess.Popen[bytes]] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            node.enter()
            begun.append(begin())
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            failed.append(error)

    thread = threading.Thread(target=work, name="confined")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return begun[0]


def complain(where: str, error: BaseException) -> None:
    """One line on stderr (a container's log): trouble of the agent itself."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"dethrone agent: {where}: {type(error).__name__}: {error}\n")
        sys.stderr.flush()


# --- network ----------------------------------------------------------------------------------------------------


class Rules:
    """Our chain in the host's INPUT, of one family. ``tool``: ``auto``, ``nft`` or ``legacy``. Thread-safe."""

    def __init__(
        self,
        run: str,
        processes: Processes,
        *,
        tool: str = "auto",
        spared: Sequence[Spared] = (),
        v6: bool = False,
    ) -> None:
        self.chain = chain_name(run)
        self._spared = [one for one in spared if is_v6(one.address) == v6]
        self._passing = NEIGHBOURS if v6 else ()
        self._base = "ip6tables" if v6 else "iptables"
        self._tables = f"/proc/net/{'ip6' if v6 else 'ip'}_tables_names"
        self._processes = processes
        self._choice = tool
        self._prefix: str | None = None
        self._lock = threading.RLock()
        self._installed: list[Rule] | None = None
        self._hooked = False
        self._unsure = False
        self._baseline: dict[str, int] = {}
        self._owed: list[Rule] = []
        """What is to be in force until we are told otherwise."""
        self._counted: dict[str, int] = {}
        self._generation: int | None = None
        """Of the kernel's nftables, when our chain was last seen as installed."""
        self._nft: bool | None = None
        self.good_ns = 0
        """When the chain was last seen as installed."""

    def available(self) -> tuple[bool, str]:
        """Whether rules can be read here, and by which tool or why not."""
        with self._lock:
            try:
                return True, self._tool()
            except Refused as refused:
                return False, str(refused)

    def _tool(self) -> str:
        if self._prefix is None:
            # Taking a rule out costs 1 ms with the legacy interface and 13 ms with nftables; it is used where the
            # kernel has it loaded already. Nothing is loaded for it.
            legacy_first = os.path.exists(self._tables)  # noqa: PTH110
            order = [self._base, f"{self._base}-nft"]
            if legacy_first:
                order.insert(0, f"{self._base}-legacy")
            if self._choice != "auto":
                order = [f"{self._base}-{self._choice}"]
            reasons = []
            for prefix in order:
                code, _, err = self._processes.tool([f"{prefix}-save", "-c", "-t", "filter"])
                if code == 0:
                    self._prefix = prefix
                    break
                reasons.append(err.decode("utf-8", "replace").strip()[:200])
            else:
                raise Refused(f"{self._base} cannot be used: " + "; ".join(reasons))
        return self._prefix

    @property
    def used(self) -> bool:
        """Whether a chain of ours may exist."""
        return self._hooked or bool(self._installed) or self._unsure

    def look(self) -> Look | None:
        """The chain as it is now; None if there is none. Refused if that cannot be known."""
        code, out, err = self._processes.tool([f"{self._tool()}-save", "-c", "-t", "filter"])
        if code != 0:
            raise Refused(f"{self._base}-save: " + err.decode("utf-8", "replace").strip()[:300])
        return parse_save(out.decode("utf-8", "replace"), self.chain)

    def _restore(self, text: str) -> str:
        argv = [f"{self._tool()}-restore", "--noflush", "-w", "3"]
        code, _, err = self._processes.tool(argv, given=text.encode())
        return "" if code == 0 else (f"{self._base}-restore: " + err.decode("utf-8", "replace").strip()[:300])

    def apply(self, rules: Sequence[Rule], *, verify: bool) -> tuple[bool, str, dict[str, Any]]:
        """Make ``rules`` the chain's content: (in force, why not, detail).

        ``verify`` False: the caller probes afterwards, so a replaced chain is not read back.
        """
        with self._lock:
            self._owed, self._counted, self._generation = list(rules), {}, None
            self.good_ns = now_ns()
            try:
                return self._apply(list(rules), verify=verify)
            except Refused as refused:
                self._installed = None
                # Where iptables cannot be used at all, nothing is cut.
                return not rules and self._prefix is None, str(refused), {}

    def _apply(self, rules: list[Rule], *, verify: bool) -> tuple[bool, str, dict[str, Any]]:
        if self._installed == [] and not rules:
            return True, "", {}
        expected = self._expected(rules)
        detail: dict[str, Any] = {"tool": self._tool()}
        if self._installed is None or self._installed == rules:
            found = self.look()
            self._hooked = found is not None and found.hooked
            if found is None and not rules:
                self._installed = []
                return True, "", detail
            if found is not None and self._hooked and found.rules == expected:
                self._installed, self._baseline = rules, dict(found.packets)
                return True, "", detail
            if self._installed is not None:
                detail["repaired"] = "chain" if found is None or found.rules != expected else "hook"
        self._unsure = True
        for attempt in (1, 2):
            text = restore_text(self.chain, rules, hook=not self._hooked, spared=self._spared, passing=self._passing)
            why = self._restore(text)
            self._baseline = {}
            if why and attempt == 2:
                self._installed = None
                return False, why, detail
            if not why and not verify:
                break
            found = self.look()
            self._hooked = found is not None and found.hooked
            if not why and found is not None and self._hooked and found.rules == expected:
                break
            if attempt == 2:
                self._installed = None
                return False, "the chain is not what was put into it", detail
        self._hooked = True
        self._installed = rules
        return True, "", detail

    def check(self) -> tuple[str, int]:
        """Whether what is owed is still in force: why not ("": it is), and when it was last seen so."""
        with self._lock:
            if not self._owed:
                return "", 0
            asked = now_ns()
            generation = nft_generation() if self._by_nft() else None
            if generation is not None and generation == self._generation:
                self.good_ns = asked
                return "", asked
            why, dropped = ("our rules could not be put back", {}) if not self._installed else self.counters()
            if not why and any(count < self._counted.get(address, 0) for address, count in dropped.items()):
                why = "our chain was emptied and filled again"
            if why:
                return why, self.good_ns
            self._counted, self._generation, self.good_ns = dropped, generation, asked
            return "", asked

    def put_back(self) -> str:
        """Install again what is owed; "" or why it is not in force."""
        with self._lock:
            good_ns, self._installed = self.good_ns, None
            took, why, _ = self.apply(self._owed, verify=True)
            self.good_ns = self.good_ns if took else good_ns
            return "" if took else why or "it did not take"

    def _by_nft(self) -> bool:
        if self._nft is None:
            code, out, _ = self._processes.tool([self._tool(), "-V"])
            self._nft = code == 0 and b"nf_tables" in out
        return self._nft

    def _expected(self, rules: Sequence[Rule]) -> tuple[tuple[str, bool], ...]:
        return expected_rules(rules, self._spared, self._passing)

    def counters(self) -> tuple[str, dict[str, int]]:
        """Why the chain is not in force as installed ("": it is), and packets dropped since, by source address."""
        with self._lock:
            if not self._installed:
                return "", {}
            try:
                found = self.look()
            except Refused as refused:
                return str(refused), {}
            self._hooked = found is not None and found.hooked
            if found is None or not self._hooked or found.rules != self._expected(self._installed):
                what = "our chain" if found is None or self._hooked else "its hook in INPUT"
                return f"{what} is not what was installed", {}
            return "", {
                rule.address: found.packets.get(rule.address, 0) - self._baseline.get(rule.address, 0)
                for rule in self._installed
            }

    def remove(self) -> str:
        """Take our chain and its hook out; "" or why not."""
        with self._lock:
            self._installed, self._hooked, self._unsure, self._owed = None, False, False, []
            try:
                return self._remove_with(self._tool(), every_run=False)
            except Refused as refused:
                return str(refused)

    def remove_leftovers(self, *, every_run: bool) -> str:
        """Take our chain out, or those of all runs, whatever tool put them there; "" or why not."""
        loaded = os.path.exists(self._tables)  # noqa: PTH110
        tools = [*([f"{self._base}-legacy"] if loaded else []), f"{self._base}-nft", self._base]
        there = [tool for tool in tools if shutil.which(f"{tool}-save")]
        with self._lock:
            whys = [self._remove_with(tool, every_run=every_run) for tool in there]
        return "; ".join(filter(None, whys))

    def _remove_with(self, tool: str, *, every_run: bool) -> str:
        code, out, err = self._processes.tool([f"{tool}-save", "-c", "-t", "filter"])
        if code != 0:
            said = err.decode("utf-8", "replace").strip()[:300]
            return "" if NO_TABLE in said else said  # a kernel without these tables has no rules of ours
        text = out.decode("utf-8", "replace")
        for chain in foreign_chains(text) if every_run else [self.chain]:
            found = parse_save(text, chain)
            if found is not None:
                given = remove_text(chain, found.hooks).encode()
                code, _, err = self._processes.tool([f"{tool}-restore", "--noflush", "-w", "3"], given=given)
                if code != 0:
                    return err.decode("utf-8", "replace").strip()[:300]
        return ""


NETLINK_NETFILTER, NFT_MSG_GETGEN, NFTA_GEN_ID, NLM_F_REQUEST = 12, 10 << 8 | 16, 1, 1


def nft_generation() -> int | None:
    """The number of the kernel's set of nftables rules, which rises with each change; None where it does not say."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as asking:
            asking.settimeout(1)
            asking.send(struct.pack("=LHHLLBBH", 20, NFT_MSG_GETGEN, NLM_F_REQUEST, 1, 0, 0, 0, 0))
            data = asking.recv(4096)
    except OSError:
        return None
    if len(data) < 28 or struct.unpack_from("=H", data, 4)[0] == NLMSG_ERROR:
        return None
    size, kind = struct.unpack_from("=HH", data, 20)
    return int(struct.unpack_from(">L", data, 24)[0]) if kind == NFTA_GEN_ID and size == 8 else None


class Firewall:
    """Our chains of both families, as one. The one of IPv6 is touched only once it is needed. Thread-safe."""

    def __init__(self, run: str, processes: Processes, *, tool: str = "auto", spared: Sequence[Spared] = ()) -> None:
        self.four = Rules(run, processes, tool=tool, spared=spared)
        self.six = Rules(run, processes, tool=tool, spared=spared, v6=True)
        self.chain = self.four.chain
        self.lost: list[str] = []
        """Why rules were lost and put back since the host was last converged."""

    @property
    def used(self) -> bool:
        """Whether a chain of ours may exist."""
        return self.four.used or self.six.used

    def apply(self, rules: Sequence[Rule], *, verify: bool) -> tuple[bool, str, dict[str, Any]]:
        """Make ``rules`` what is dropped; see ``Rules.apply``."""
        took, why, detail = self.four.apply([rule for rule in rules if not is_v6(rule.address)], verify=verify)
        six = [rule for rule in rules if is_v6(rule.address)]
        if not six and not self.six.used:
            return took, why, detail
        took_six, why_six, detail_six = self.six.apply(six, verify=verify)
        detail = {**detail, **{f"{key}_v6": value for key, value in detail_six.items()}}
        return took and took_six, "; ".join(filter(None, [why, why_six])), detail

    def families(self) -> tuple[Rules, Rules]:
        """The rules of IPv4 and of IPv6."""
        return self.four, self.six

    def counters(self) -> tuple[str, dict[str, int]]:
        """See ``Rules.counters``, of both families."""
        why, dropped = self.four.counters()
        why_six, dropped_six = self.six.counters()
        return "; ".join(filter(None, [why, why_six])), {**dropped, **dropped_six}

    def remove(self) -> str:
        """Take our chains and their hooks out; "" or why not."""
        whys = [rules.remove() for rules in (self.four, self.six) if rules is self.four or rules.used]
        return "; ".join(filter(None, whys))

    def remove_leftovers(self, *, every_run: bool) -> str:
        """Take our chains out, or those of all runs, whatever tool put them there; "" or why not."""
        speaks = os.path.exists("/proc/net/if_inet6")  # noqa: PTH110 - of a kernel without IPv6 nothing is asked
        families = (self.four, self.six) if speaks else (self.four,)
        whys = [rules.remove_leftovers(every_run=every_run) for rules in families]
        return "; ".join(filter(None, whys))


NO_TABLE = "Table does not exist"


def own_addresses() -> list[str]:
    """Every address of this host that others may send to, of both families; by the kernel's own list (rtnetlink)."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asking:
        asking.settimeout(1)
        asking.send(struct.pack("=LHHLLBxxxL", 24, RTM_GETADDR, NLM_F_REQUEST_DUMP, 1, 0, socket.AF_UNSPEC, 0))
        more = True
        while more:
            data = asking.recv(1 << 17)
            while len(data) >= 16:
                size, kind = struct.unpack_from("=LH", data)
                if kind in {NLMSG_ERROR, NLMSG_DONE} or size < 16:
                    more = False
                    break
                if kind == RTM_NEWADDR:
                    found += _address_of(data[16:size])
                data = data[size + 3 & ~3 :]
    return sorted(set(found))


RTM_NEWADDR, RTM_GETADDR, NLM_F_REQUEST_DUMP, NLMSG_ERROR, NLMSG_DONE = 20, 22, 0x301, 2, 3
IFA_ADDRESS, IFA_LOCAL, SCOPE_HOST, DAD_FAILED = 1, 2, 254, 0x08


def _address_of(message: bytes) -> list[str]:
    """The address that an RTM_NEWADDR message is about, unless it is of this host alone."""
    family, _, flags, scope, _ = struct.unpack_from("=BBBBL", message)
    if scope == SCOPE_HOST or flags & DAD_FAILED or family not in {socket.AF_INET, socket.AF_INET6}:
        return []
    parts, rest = {}, message[8:]
    while len(rest) >= 4:
        size, kind = struct.unpack_from("=HH", rest)
        if size < 4:
            break
        parts[kind] = rest[4:size]
        rest = rest[size + 3 & ~3 :]
    raw = parts.get(IFA_LOCAL, parts.get(IFA_ADDRESS, b""))
    if len(raw) != (4 if family == socket.AF_INET else 16) or (raw[0] == 127 and family == socket.AF_INET):
        return []
    return [socket.inet_ntop(family, raw)]


def default_gateway() -> str | None:
    """The IPv4 default gateway of this host: where a container's harness comes from."""
    try:
        with open("/proc/net/route", encoding="ascii") as file:  # noqa: PTH123
            for line in file:
                fields = line.split()
                if len(fields) > 3 and fields[1] == "00000000" and int(fields[3], 16) & 2:
                    return socket.inet_ntoa(struct.pack("<L", int(fields[2], 16)))
    except (OSError, ValueError):
        pass
    return None


class Probes:
    """The UDP sockets through which agents prove links. A probe counts if its payload AND its source address fit.

    A way is a pair (peer, address of ours) over which a probe came once: from then on it is expected, or must be cut.
    """

    NONCES_MAX = 64

    def __init__(self, run: str, port: int) -> None:
        self._run = run
        self.port = port
        self.name = ""
        self.peers: dict[str, tuple[str, ...]] = {}
        """All addresses of each peer, as told."""
        self.ways: dict[str, tuple[str, ...]] = {}
        """Those by which it can be told from others."""
        self.why = ""
        self._changed = threading.Condition()
        self._arrived: collections.OrderedDict[int, dict[str, dict[str, int]]] = collections.OrderedDict()
        self._known: dict[tuple[str, str], str] = {}
        """Way → the peer's address that it was used from."""
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
        """Who we are, and who the others are at which addresses."""
        self.name, self.peers = name, {peer: addresses for peer, addresses in peers.items() if peer != name}
        self.ways = ways(self.peers, own_addresses())

    def send(self, nonce: int, order: Sequence[str]) -> dict[str, str]:
        """Send a probe to each address of each peer, those of ``order`` first: peer → why not, where none left."""
        if socket.AF_INET not in self.sockets:
            raise Refused(self.why)
        failed = {}
        scopes = [index for index, name in socket.if_nameindex() if name != "lo"]
        for peer in dict.fromkeys([*order, *self.ways]):
            if peer not in self.ways or peer in {self.name, "client"}:
                continue
            whys = [self._send(nonce, address, scopes) for address in self.ways[peer]]
            if all(whys):
                failed[peer] = next(iter(whys), "no address of it is its own")
        return failed

    def _send(self, nonce: int, address: str, scopes: Sequence[int]) -> str:
        """Send a probe to one address: "" or why not."""
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
        """Take in what arrived (called when a socket is readable); at most 256 datagrams of a family at once."""
        for receiver in self.sockets.values():
            for _ in range(256):
                try:
                    payload, source = receiver.recvfrom(2048)
                except (BlockingIOError, InterruptedError):
                    break
                except OSError:
                    continue  # an ICMP error of an earlier probe
                if not self._echoed(payload, receiver, source):
                    self._take(parse_probe(payload), str(source[0]).partition("%")[0])

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
        """The ways of this peer that are still there: address of ours → address of its."""
        own = set(own_addresses())
        with self._changed:
            return {
                ours: theirs
                for (name, ours), theirs in self._known.items()
                if name == peer and ours in own and theirs in self.ways.get(peer, ())
            }

    def _echoed(self, payload: bytes, here: socket.socket, asker: tuple[Any, ...]) -> bool:
        """Whether it was the question of an agent of this run that measures round trips: answered at once."""
        question = echo_payload("ask", self._run, 0)[:-1]
        number = payload[len(question) :]
        if not payload.startswith(question) or not number.isdigit() or len(number) > 9:
            return False
        with contextlib.suppress(OSError):
            here.sendto(echo_payload("answer", self._run, int(number)), asker)
        return True

    def wait(self, nonce: int, expect: Iterable[str], timeout_ns: int) -> dict[str, Any]:
        """Wait until the probes of all ``expect`` arrived over every known way, or the time is over; say which did."""
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


def reset_flows(processes: Processes, addresses: Sequence[str]) -> dict[str, Any]:
    """Reset established TCP flows with ``ss -K``; ``worked`` says whether they are gone."""
    if not addresses:
        return {"worked": True, "before": 0, "after": 0}
    states = ["state", "connected", "exclude", "time-wait"]
    show = ["ss", "-H", "-t", "-n", *states, *flows_to(addresses)]
    kill = ["ss", "-K", "-H", "-t", "-n", *states, *flows_to(addresses)]

    def count(output: bytes) -> int:
        return sum(1 for line in output.splitlines() if line.strip())

    code, out, err = processes.tool(show)
    if code != 0:
        return {"worked": False, "why": "ss: " + err.decode("utf-8", "replace").strip()[:200]}
    before = count(out)
    if before == 0:
        return {"worked": True, "before": 0, "after": 0}
    code, _, err = processes.tool(kill)
    after_code, out, _ = processes.tool(show)
    after = count(out) if after_code == 0 else before
    answer: dict[str, Any] = {"worked": code == 0 and after < before, "before": before, "after": after}
    if not answer["worked"]:
        answer["why"] = (
            err.decode("utf-8", "replace").strip()[:200]
            or "the flows are still there: the kernel has no INET_DIAG_DESTROY, or we lack the permission; they come "
            "back after TCP's own retransmission back-off"
        )
    return answer


# --- clocks -----------------------------------------------------------------------------------------------------


def find_faketime() -> str | None:
    """The libfaketime for threaded programs, of this machine's architecture first."""
    name = "libfaketimeMT.so.1"
    machine = platform.machine()
    places = [f"/usr/lib/{machine}-linux-gnu/faketime", "/usr/lib/faketime", "/usr/lib64/faketime"]
    places += ["/usr/local/lib/faketime", "/usr/local/lib64/faketime", "/lib/faketime"]
    for place in [*places, *sorted(glob.glob("/usr/lib/*/faketime"))]:  # noqa: PTH207
        path = f"{place}/{name}"
        if os.path.exists(path):  # noqa: PTH110
            return path
    return None


class FakeClock:
    """The wall clock of the node process, through libfaketime's file, which is replaced by rename.

    The skew wanted at the agent's moment t is ``offset + rate * (t - since)``, plus the strobe's amplitude in every
    other period. libfaketime counts a rate from the moment at which the process loaded it, so the offset in the file is
    corrected. That moment is at first taken to be the start of the process; on a busy host the two are tens of
    milliseconds apart, and the first skew with a rate that is measured shows by how much.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.library = find_faketime()
        self.preloaded = False
        self.touched = False
        """Whether the running process has been under another clock than its own since it was last seen right."""
        self.rated = False
        """Whether the running process has read a rate."""
        self._want: Mapping[str, Any] | None = None
        self._since_ns = 0
        self._started_ns = 0
        self._loaded_known = False
        """Whether ``_started_ns`` was measured in the running process."""
        self._written: str | None = None
        self._high = False
        self._lock = threading.Lock()
        self._strobe: threading.Event | None = None

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What preloads libfaketime; the file is written as wanted before the process begins."""
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
        """A process is about to start: from now on rates count from this moment."""
        with self._lock:
            self._started_ns = now_ns()
            self._loaded_known = False
            self.rated = False
            self._write()

    def learn_loading(self, error_ns: int) -> bool:
        """Correct when libfaketime was loaded, from how much more skew was measured than expected, ns.

        Once in a process, and only to a moment since its start that is plausible; False: nothing was corrected.
        """
        with self._lock:
            rate = 0 if self._want is None else self._want["rate_ppm"]
            later_ns = 0 if rate == 0 else -error_ns * 1_000_000 // rate
            if self._loaded_known or not 0 < later_ns <= min(LOADING_LIMIT_S * SECOND, now_ns() - self._started_ns):
                return False
            self._loaded_known = True
            self._started_ns += later_ns
            self._write()
            return True

    def ended(self, pid: int) -> None:
        """A process that was killed leaves libfaketime's shared memory behind, which could stop a later namesake."""
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}") if self.preloaded else ():
            with contextlib.suppress(OSError):
                os.unlink(f"/dev/shm/{name}")  # noqa: PTH108, S108

    def set(self, want: Mapping[str, Any] | None) -> None:
        """Make this skew the wanted one, and begin or end the strobe. OSError if the file cannot be written."""
        with self._lock:
            if want != self._want:
                self._want, self._since_ns, self._high = want, now_ns(), False
                self.touched = True
                if self._strobe is not None:
                    self._strobe.set()
                    self._strobe = None
            self._write()

    def begin_strobe(self) -> None:
        """Start alternating, if a strobe is wanted and none runs."""
        with self._lock:
            strobe = None if self._want is None else self._want["strobe"]
            if strobe is None or self._strobe is not None:
                return
            self._strobe = threading.Event()
            target = (self._strobe, strobe["period_ns"] / SECOND)
        threading.Thread(target=self._alternate, args=target, name="strobe", daemon=True).start()

    def flip(self, *, high: bool) -> None:
        """Put the strobe up or down."""
        with self._lock:
            self._high = high
            self._write()

    @property
    def strobing(self) -> bool:
        """Whether a strobe runs."""
        return self._strobe is not None

    def expected(self, at_ns: int) -> tuple[int, ...]:
        """The skews that are right at that moment, ns."""
        want = self._want
        if want is None:
            return (0,)
        skew = want["offset_ns"] + (at_ns - self._since_ns) * want["rate_ppm"] // 1_000_000
        if want["strobe"] is None:
            return (skew,)
        other = skew + want["strobe"]["amplitude_ns"]
        return (skew, other) if self._strobe is not None else ((other,) if self._high else (skew,))

    def _alternate(self, stop: threading.Event, period_s: float) -> None:
        while not stop.wait(period_s):
            with self._lock:
                if stop.is_set():
                    return
                self._high = not self._high
                with contextlib.suppress(OSError):
                    self._write()

    def _write(self) -> None:
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


class HostClock:
    """The wall clock of the machine itself, set for everybody on it; only on machines that are given up to that.

    While it is skewed, wall − monotonic is what it was at the skew's begin (``base_ns``) plus the skew. ``read``: the
    monotonic and the wall clock; ``put``: sets the latter. Out of scope: rates, and whoever else sets the clock (NTP),
    whose doing shows in what is measured.
    """

    def __init__(
        self,
        remember: Callable[[], None],
        *,
        read: Callable[[], tuple[int, int]] = lambda: (now_ns(), time.time_ns()),
        put: Callable[[int], object] = lambda wall_ns: time.clock_settime_ns(time.CLOCK_REALTIME, wall_ns),
    ) -> None:
        self.base_ns: int | None = None
        """Wall − monotonic as it is right, while the clock may be skewed; None: nothing of ours is on it."""
        self.shifted_ns = 0
        """How far our own doing has moved the clock by now."""
        self._remember = remember
        self._read = read
        self._put = put
        self._want: Mapping[str, Any] | None = None
        self._high = False
        self._lock = threading.Lock()
        self._strobe: threading.Event | None = None

    def set(self, want: Mapping[str, Any] | None) -> tuple[bool, str, dict[str, Any]]:
        """Make this skew the wanted one: (in force, why not, detail). OSError if the clock cannot be set."""
        with self._lock:
            if want is not None and want["rate_ppm"]:
                return False, "the rate of the machine's own clock is not changed", {}
            if want != self._want and self._strobe is not None:
                self._strobe.set()
                self._strobe = None
            if self.base_ns is None:
                if want is None:
                    return True, "", {}
                mono, wall = self._read()
                self.base_ns = wall - mono
                self._remember()  # before the effect: whoever finds this file can undo it
            if want != self._want:
                self._want, self._high = want, False
            self._step()
            found = self._measured()
            if want is not None and want["strobe"] is not None and self._strobe is None:
                self._strobe = threading.Event()
                period_s = want["strobe"]["period_ns"] / SECOND
                threading.Thread(target=self._alternate, args=(self._strobe, period_s), daemon=True).start()
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

    def _step(self) -> None:
        if self.base_ns is None:
            return
        mono, wall = self._read()
        right = mono + self.base_ns + self.expected_ns()
        if abs(right - wall) > MS:  # less is not ours to mend
            self._put(right)
            self.shifted_ns += right - wall

    def _measured(self) -> dict[str, Any]:
        mono, wall = self._read()
        skew = wall - mono - (self.base_ns or 0)
        return {"skew_ns": skew, "error_ns": abs(skew - self.expected_ns()), "by": "settimeofday"}

    def _alternate(self, stop: threading.Event, period_s: float) -> None:
        while not stop.wait(period_s):
            with self._lock:
                if stop.is_set():
                    return
                self._high = not self._high
                with contextlib.suppress(OSError):
                    self._step()


def read_clocks(path: str, limit_s: float) -> tuple[int, int]:
    """Monotonic and wall clock of the process that listens there, ns. OSError or ValueError if it does not tell."""
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
    """The process's wall clock against ours, taken so that the way between us does not matter.

    ``skew_ns``: its (wall − monotonic) minus ours, the closest of up to five readings; ``why`` where it is not right.
    """
    deadline = time.monotonic() + limit_s
    best: dict[str, Any] | None = None
    why = "the node did not tell its clocks in time"
    for _ in range(400):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        before, wall = now_ns(), time.time_ns()
        try:
            mono, said = read_clocks(path, left)
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"the node does not tell its clocks: {getattr(error, 'strerror', None) or type(error).__name__}"
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


# --- news -------------------------------------------------------------------------------------------------------


class News:
    """What the agent says unasked: numbered from 1, kept until acknowledged, bounded."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._kept: collections.deque[tuple[int, bytes, int, int]] = collections.deque()
        self._bytes = 0
        self._next = 1
        self._dropped = 0
        self._dropped_span = (0, 0)

    def add(self, kind: str, lo: int, hi: int, data: Mapping[str, Any]) -> None:
        """Say something that was true, or happened, at some moment of [lo, hi]."""
        with self._lock:
            if self._dropped and len(self._kept) < NEWS_MAX // 2:
                lost, self._dropped = self._dropped, 0
                self._keep("noise", *self._dropped_span, {"kind": "news-dropped", "value_ns": 0, "count": lost})
            self._keep(kind, lo, hi, data)
        self._wake()

    def _keep(self, kind: str, lo: int, hi: int, data: Mapping[str, Any]) -> None:
        number, self._next = self._next, self._next + 1
        line = json.dumps({"news": number, "kind": kind, "lo": lo, "hi": hi, "data": data}).encode() + b"\n"
        self._kept.append((number, line, lo, hi))
        self._bytes += len(line)
        while self._kept and (len(self._kept) > NEWS_MAX or self._bytes > NEWS_BYTES_MAX):
            _, gone, lo, hi = self._kept.popleft()
            self._bytes -= len(gone)
            before = self._dropped_span if self._dropped else (lo, hi)
            self._dropped_span = (min(before[0], lo), max(before[1], hi))
            self._dropped += 1

    def noise(self, kind: str, lo: int, hi: int, value_ns: int, **more: Any) -> None:
        """Say that something disturbed the host: how long, or how far (ns)."""
        self.add("noise", lo, hi, {"kind": kind, "value_ns": value_ns, **more})

    def acknowledge(self, number: int) -> None:
        """All news up to this number have arrived."""
        with self._lock:
            while self._kept and self._kept[0][0] <= number:
                self._bytes -= len(self._kept.popleft()[1])

    def after(self, number: int, room: int) -> tuple[int, bytes]:
        """News behind ``number``, at most about ``room`` bytes: the last one's number, and their lines."""
        with self._lock:
            if not self._kept or self._kept[-1][0] <= number:
                return number, b""
            lines, size = [], 0
            # Numbers are consecutive, so the place of the next one is known.
            for index in range(max(0, number + 1 - self._kept[0][0]), len(self._kept)):
                number, line = self._kept[index][:2]
                lines.append(line)
                size += len(line)
                if size >= room:
                    break
            return number, b"".join(lines)

    @property
    def last(self) -> int:
        """The number of the last news."""
        return self._next - 1


class Tails:
    """Follows the trace log: whole lines only, a torn last line waits for its end. Thread-safe."""

    IN_MODIFY, IN_CREATE, IN_MOVED_TO = 0x2, 0x100, 0x80

    def __init__(self, news: News) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._path: str | None = None
        self._fd = -1
        self._rest = b""
        self._looked_ns = now_ns()
        self._overlong = 0
        self.incarnation: Callable[[], int] = lambda: 0
        self.inotify = -1
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None, use_errno=True)
            self.inotify = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self._add_watch = libc.inotify_add_watch

    def follow(self, path: str | None) -> None:
        """Follow this file from its beginning; it need not exist yet, its directory is made."""
        with self._lock:
            if path == self._path:
                return
            self._close()
            self._path, self._rest = path, b""
            if path is None:
                return
            directory = os.path.dirname(path) or "."  # noqa: PTH120
            os.makedirs(directory, exist_ok=True)  # noqa: PTH103
            if self.inotify >= 0:
                wanted = self.IN_MODIFY | self.IN_CREATE | self.IN_MOVED_TO
                self._add_watch(self.inotify, directory.encode(), wanted)

    @property
    def active(self) -> bool:
        """Whether there is a file to follow."""
        return self._path is not None

    def pump(self) -> bool:
        """Send what is new; True if there was something."""
        with self._lock:
            return self._path is not None and self._pump(self._path)

    def _pump(self, path: str) -> bool:
        found = False
        for _ in range(64):
            if self._fd < 0:
                try:
                    self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except OSError:
                    self._looked_ns = now_ns()
                    return found
                self._rest = b""
            lo = self._looked_ns
            self._looked_ns = now_ns()
            data = os.read(self._fd, TRACE_BATCH)
            if not data:
                if self._replaced(path):
                    self._close()
                    continue
                return found
            found = True
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            if len(self._rest) > TRACE_LINE_MAX:
                self._rest = b""
                self._overlong += 1
                self._news.noise("trace-overlong", lo, now_ns(), 0, count=self._overlong)
            if newline:
                text = whole.decode("utf-8", "surrogateescape")
                self._news.add("trace", lo, now_ns(), {"text": text, "incarnation": self.incarnation()})
        return found

    def _replaced(self, path: str) -> bool:
        try:
            there, ours = os.stat(path), os.fstat(self._fd)  # noqa: PTH116
        except OSError:
            return False
        shrunk = ours.st_size < os.lseek(self._fd, 0, os.SEEK_CUR)
        return shrunk or (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class FatalSearch:
    """Looks for fatal texts in what the node prints, a bounded amount at a time. Thread-safe."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._path = ""
        self._texts: list[bytes] = []
        self._place = 0
        self._rest = b""
        self._hits = 0
        self._looked_ns = now_ns()
        self._started = False
        self.incarnation: Callable[[], int] = lambda: 0

    def follow(self, path: str, texts: Sequence[str]) -> None:
        """Search this file from its present end on; it need not exist yet. No texts: search nothing."""
        with self._lock:
            self._texts = [text.encode() for text in texts]
            if path != self._path:
                self._path, self._rest = path, b""
                self._place = file_size(path)
            if self._texts and not self._started:
                self._started = True
                threading.Thread(target=self._watch, name="fatal-lines", daemon=True).start()

    def _watch(self) -> None:
        while self._hits < FATAL_MAX:
            time.sleep(FATAL_EVERY_S)
            self.pump()

    def pump(self) -> None:
        """Search what is new."""
        with self._lock, contextlib.suppress(OSError):
            if self._texts and self._hits < FATAL_MAX:
                self._search()

    def _search(self) -> None:
        lo, self._looked_ns = self._looked_ns, now_ns()
        size = file_size(self._path)
        if size < self._place:
            self._place, self._rest = 0, b""
        if size == self._place:
            return
        if size - self._place > FATAL_LAG_MAX:
            skipped, self._place = size - FATAL_LAG_MAX - self._place, size - FATAL_LAG_MAX
            self._rest = b""
            self._news.noise("log-skipped", lo, now_ns(), 0, bytes=skipped)
        with open(self._path, "rb") as file:  # noqa: PTH123
            file.seek(self._place)
            data = file.read(size - self._place)
        self._place += len(data)
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > FATAL_REST_MAX:
            whole, rest = whole + newline + rest, b""
        self._rest = rest
        for text in self._texts:
            at = whole.find(text)
            while at >= 0 and self._hits < FATAL_MAX:
                end = whole.find(b"\n", at)
                line = whole[max(whole.rfind(b"\n", 0, at) + 1, at - FATAL_LINE_MAX // 2) : end if end >= 0 else None]
                shown = line[:FATAL_LINE_MAX].decode("utf-8", "replace")
                found = {"pattern": text.decode(), "line": shown, "incarnation": self.incarnation()}
                self._news.add("fatal", lo, now_ns(), found)
                self._hits += 1
                at = whole.find(text, end) if end >= 0 else -1


def file_size(path: str) -> int:
    """0 for a file that is not there."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def last_lines(path: str, since: int) -> list[str]:
    """The last lines of a file behind ``since``, bounded."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(max(since, file_size(path) - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [line[:FATAL_LINE_MAX] for line in text.splitlines() if line.strip()][-TAIL_LINES:]


def oom_kills() -> int:
    """How many processes this machine has killed for lack of memory; 0 where that cannot be read."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except (OSError, ValueError, IndexError):
        return 0


class Canary:
    """Watches the host's noise: missed wake-ups, jumps of the wall clock, slow small syncs near the node's data.

    One sync is always in flight, and one that hangs is reported while it hangs.
    """

    def __init__(self, news: News, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        self._news = news
        self._sync_file = sync
        self._data_dir: str | None = None
        self.shifted: Callable[[], int] = lambda: 0
        """How far the agent itself has moved the wall clock: that is no noise."""
        self.changed: Callable[[], None] = lambda: None
        """Called when ``sources`` has changed."""
        self.limit_ns = STARVED_NS
        """What lasts longer is news; so is what is longer than all before, from ``STALL_NS`` and ``FSYNC_NS`` on."""
        self._lock = threading.Lock()
        self._ticks = [0] * 48
        self._fsyncs = [0] * 48
        self._figures = {"stalls": 0, "own_stalls": 0, "stall_max_ns": 0, "wall_jumps": 0, "wall_drift_ns": 0}
        self._figures.update({"fsync_slow": 0, "fsync_max_ns": 0, "fsync_errors": 0})
        self._disk = "unreadable: the node's data directory is not known yet"
        self._flight: tuple[int, int, Hanging] | None = None
        """The sync under way: its number, when it began, when to report it."""
        self._poke = threading.Event()
        self.disk_known = threading.Event()
        """Set once it is known whether the disk can be probed."""
        threading.Thread(target=self._watch, name="canary", daemon=True).start()
        threading.Thread(target=self._sync, name="fsync-probe", daemon=True).start()

    def watch_disk(self, data_dir: str) -> None:
        """Probe the disk of this directory from now on."""
        self._data_dir = data_dir
        self._poke.set()

    def sources(self) -> dict[str, str]:
        """``wakeup`` and ``sync``."""
        return {"wakeup": "read", "sync": self._disk}

    def summary(self) -> dict[str, Any]:
        """Figures since the agent began; times in ns, percentiles are upper bounds of power-of-two buckets."""
        with self._lock:
            figures: dict[str, Any] = dict(self._figures)
            figures["ticks"], figures["fsyncs"] = sum(self._ticks), sum(self._fsyncs)
            for name, histogram in (("stall", self._ticks), ("fsync", self._fsyncs)):
                for share in (50, 99):
                    figures[f"{name}_p{share}_ns"] = percentile(histogram, share / 100)
        return figures

    def _watch(self) -> None:
        tick_ns = int(TICK_S * SECOND)
        gap = time.time_ns() - now_ns() - self.shifted()
        first = gap
        while True:
            busy, before = time.process_time_ns(), now_ns()
            time.sleep(TICK_S)
            after = now_ns()
            late = after - before - tick_ns
            moved = time.time_ns() - now_ns() - self.shifted() - gap
            gap += moved
            with self._lock:
                self._ticks[max(0, late).bit_length()] += 1
                self._figures["wall_drift_ns"] = gap - first
                self._look_at_the_sync()
            stall_ns = min(STALL_NS, self.limit_ns)
            if abs(moved) > WALL_JUMP_NS and late < stall_ns:
                self._figures["wall_jumps"] += 1
                self._news.noise("wall", before, now_ns(), moved)
            if late < stall_ns:
                continue
            # The agent's own threads hold the interpreter for a while now and then: that is no noise of the host.
            if time.process_time_ns() - busy > late // 2:
                self._figures["own_stalls"] += 1
                continue
            self._figures["stalls"] += 1
            longest = self._figures["stall_max_ns"]
            self._figures["stall_max_ns"] = max(longest, late)
            if late > min(self.limit_ns, longest):
                self._news.noise("stall", before + tick_ns, after, late)

    def _look_at_the_sync(self) -> None:
        """Report a sync that hangs. Under the lock, so that no report of one follows its end."""
        if self._flight is None:
            return
        number, began, hanging = self._flight
        now = now_ns()
        if hanging.due(now):
            self._news.noise("fsync", began, now, now - began, id=number, hanging=True)

    def _sync(self) -> None:
        fd, of, at, number = -1, None, 0, 0
        gap = Gap(int(SYNC_GAP_S * SECOND))
        while True:
            time.sleep(SYNC_GAP_S)
            late = gap.end(now_ns(), time.thread_time_ns(), self.limit_ns)
            if late is not None:
                self._news.noise("stall", *late, late[1] - late[0], thread="fsync-probe")
            gap.begin(0, 0)
            directory = self._data_dir
            try:
                if directory != of and fd >= 0:
                    os.close(fd)
                    fd = -1
                if directory is None:
                    self._poke.wait()
                    continue
                if fd < 0:
                    fd, of, at = self._unnamed(directory), directory, 0
                    self._disk_is("read")  # also while the first one hangs
                if at >= SYNC_FILE_BYTES:
                    os.ftruncate(fd, 0)
                    at = 0
                number += 1
                before = now_ns()
                self._flight = (number, before, Hanging(before, self.limit_ns))
                try:
                    os.pwrite(fd, b"\0" * SYNC_BYTES, at)
                    self._sync_file(fd)
                finally:
                    with self._lock:
                        took, self._flight = now_ns() - before, None
                    gap.begin(before + took, time.thread_time_ns())
                at += SYNC_BYTES
            except OSError as error:
                self._figures["fsync_errors"] += 1
                self._disk_is(f"unreadable: {error.strerror or error}")
                time.sleep(SYNC_ERROR_PAUSE_S)
                continue
            self._disk_is("read")
            with self._lock:
                self._fsyncs[took.bit_length()] += 1
                longest = self._figures["fsync_max_ns"]
                self._figures["fsync_max_ns"] = max(longest, took)
            if took <= min(FSYNC_NS, self.limit_ns):
                continue
            self._figures["fsync_slow"] += 1
            if took > min(self.limit_ns, longest):
                self._news.noise("fsync", before, before + took, took, id=number)

    def _disk_is(self, found: str) -> None:
        changed, self._disk = found != self._disk, found
        self.disk_known.set()
        if changed:
            self.changed()

    @staticmethod
    def _unnamed(directory: str) -> int:
        """A file on the data's disk that the node never sees: without a name, else beside its directory."""
        try:
            return os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
                raise
        fd, path = tempfile.mkstemp(prefix=".dethrone-", dir=os.path.dirname(directory.rstrip("/")) or "/")  # noqa: PTH120
        os.unlink(path)  # noqa: PTH108
        return fd


class Gauge:
    """Measures how slow the machine is, under a dummy load of computing and small writes: wake-ups, syncs, round trips.

    Before the first node starts, and of nothing that belongs to a node. The answering end of a round trip is the agent
    over there (``Probes``).
    """

    WINDOW_MAX_NS = 10 * SECOND
    WRITES_MAX_PER_S = 200
    WRITE_BYTES = 512
    TRIP_PERIOD_S = 0.02
    TRIP_LIMIT_S = 0.5
    STALLS_MAX = 10_000
    WORK_NS, WORK_PERIOD_S = 2 * MS, 0.02
    """A tenth of a processor, as a busy node takes it: on an overloaded machine those who ask for more wait longer."""

    def __init__(self, run: str, port: int) -> None:
        self._run, self._port = run, port

    def measure(self, directory: str, peers: Mapping[str, str], window_ns: int, writes_per_s: int) -> dict[str, Any]:
        """Every single duration, in ns, of a window of this length, and what could not be measured.

        ``stalls_ns``: (since the window began, length) of the longer wake-ups, syncs, and waits for a processor.
        """
        began = now_ns()
        end = began + min(window_ns, self.WINDOW_MAX_NS)
        found: dict[str, Any] = {"wakeups_ns": [], "syncs_ns": [], "trips_ns": [], "lost": 0, "unreadable": []}
        stalls: collections.deque[tuple[int, int]] = collections.deque(maxlen=self.STALLS_MAX)
        period_s = 1 / max(1, min(writes_per_s, self.WRITES_MAX_PER_S))
        works = (
            ("sync", lambda: self._sync(directory, period_s, end, found, stalls)),
            ("trips", lambda: self._trips(peers, end, found)),
            ("work", lambda: self._work(end, stalls)),
        )

        def guarded(name: str, work: Callable[[], None]) -> None:
            try:
                work()
            except OSError as error:
                found["unreadable"].append(f"{name}: {error.strerror or error}")

        threads = [threading.Thread(target=guarded, args=one, name=one[0], daemon=True) for one in works]
        for thread in threads:
            thread.start()
        self._wake(end, found, stalls)
        for thread in threads:
            thread.join(timeout=self.WINDOW_MAX_NS / SECOND)
            if thread.is_alive():
                found["unreadable"].append(f"{thread.name}: hangs")
        answer = {name: list(value) if isinstance(value, list) else value for name, value in found.items()}
        return {**answer, "stalls_ns": [(max(0, at - began), took) for at, took in stalls.copy()]}

    @staticmethod
    def _wake(end: int, found: dict[str, Any], stalls: collections.deque[tuple[int, int]]) -> None:
        tick_ns = int(TICK_S * SECOND)
        while True:
            before = now_ns()
            if before >= end:
                return
            time.sleep(TICK_S)
            late = max(0, now_ns() - before - tick_ns)
            found["wakeups_ns"].append(late)
            if late > STALL_NS:
                stalls.append((before + tick_ns, late))

    @classmethod
    def _work(cls, end: int, stalls: collections.deque[tuple[int, int]]) -> None:
        while now_ns() < end:
            before, used = now_ns(), time.thread_time_ns()
            while time.thread_time_ns() - used < cls.WORK_NS:
                sum(range(100))
            late = now_ns() - before - cls.WORK_NS
            if late > STALL_NS:
                stalls.append((before, late))
            time.sleep(cls.WORK_PERIOD_S)

    def _sync(
        self,
        directory: str,
        period_s: float,
        end: int,
        found: dict[str, Any],
        stalls: collections.deque[tuple[int, int]],
    ) -> None:
        while not os.path.isdir(directory) and directory not in {"", "/"}:  # noqa: PTH112
            directory = os.path.dirname(directory.rstrip("/"))  # noqa: PTH120 - the node's own place is made later
        fd, path = tempfile.mkstemp(prefix=".dethrone-", dir=directory)
        os.unlink(path)  # noqa: PTH108
        offset = 0
        try:
            while now_ns() < end:
                before = now_ns()
                os.pwrite(fd, b"\0" * self.WRITE_BYTES, offset)
                os.fdatasync(fd)
                took = now_ns() - before
                found["syncs_ns"].append(took)
                if took > FSYNC_NS:
                    stalls.append((before, took))
                offset = (offset + self.WRITE_BYTES) % (1 << 20)
                time.sleep(max(0.001, period_s - took / SECOND))
        finally:
            os.close(fd)

    def _trips(self, peers: Mapping[str, str], end: int, found: dict[str, Any]) -> None:
        addresses = [address for _, address in sorted(peers.items())]
        if not addresses:
            return
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(self.TRIP_LIMIT_S)
            number = 0
            while now_ns() < end:
                address = addresses[number % len(addresses)]
                number += 1
                before = now_ns()
                if self._answered(asking, address, number):
                    found["trips_ns"].append(now_ns() - before)
                else:
                    found["lost"] += 1
                time.sleep(self.TRIP_PERIOD_S)

    def _answered(self, asking: socket.socket, address: str, number: int) -> bool:
        """Whether the peer's agent answered this very question in time."""
        deadline = time.monotonic() + self.TRIP_LIMIT_S
        try:
            asking.sendto(echo_payload("ask", self._run, number), (address, self._port))
            while time.monotonic() < deadline:
                if asking.recv(2048) == echo_payload("answer", self._run, number):
                    return True
        except OSError:
            return False
        return False


class Watched:
    """One thread of the node: how long it has waited, and in which state it was last seen."""

    def __init__(self, pid: int, thread: int, limit_ns: int) -> None:
        self.pid = pid
        self._place = f"/proc/{pid}/task/{thread}"
        self._fd = os.open(f"{self._place}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._waited, self._runs = self._schedstat()
            self._state = self._look()
        except OSError:
            os.close(self._fd)
            raise
        at = now_ns()
        self._idle = 0
        self._starved = Starved(at, limit_ns)
        self._blocked = Blocked(at, limit_ns, blocked=self._state == "D")

    def sample(self) -> list[tuple[str, Stretch]]:
        """Read it again: stretches that are over, by source. OSError when the thread is gone or cannot be read.

        A thread that has been idle for long is read less often. What it waits is told by the kernel afterwards, so only
        the first moments of a D state may be missed.
        """
        self._idle += 1
        if self._idle > IDLE_SAMPLES and self._idle % IDLE_EVERY:
            return []
        waited, runs = self._schedstat()
        # A thread that slept and has not run since still sleeps: its state need not be read.
        if runs != self._runs or self._state not in ASLEEP:
            self._state, self._idle = self._look(), 0
        now = now_ns()
        starved = self._starved.step(now, waited - self._waited)
        blocked = self._blocked.step(now, blocked=self._state == "D")
        self._waited, self._runs = waited, runs
        return [
            (source, stretch)
            for source, stretch in (("schedstat", starved), ("dstate", blocked))
            if stretch is not None
        ]

    def close(self) -> None:
        """Let go of its file."""
        os.close(self._fd)

    def _schedstat(self) -> tuple[int, int]:
        found = parse_schedstat(os.pread(self._fd, 128, 0))
        return (0, 0) if found is None else found

    def _look(self) -> str:
        with open(f"{self._place}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            return parse_state(file.read(512))


ASLEEP = frozenset("STtI")
"""States that a thread leaves only by running."""


class NodeWatch:
    """Watches the node process for stretches in which one of its threads made no progress although it could have.

    Every thread of every process of the node counts: which of them leads, replicates or answers is not visible from
    outside. A stretch inside one that was reported already is not reported again.
    """

    def __init__(self, news: News, members: Callable[[], Sequence[int]]) -> None:
        self._news = news
        self._members = members
        self.changed: Callable[[], None] = lambda: None
        self.limit_ns = STARVED_NS
        self._threads: dict[tuple[int, int], Watched] = {}
        self._pids: list[int] = []
        self._due = {"members": 0.0, "threads": 0.0}
        self._reported: dict[str, Stretch] = {}
        self._ours = self._read_ours()
        self._found = self._ours
        threading.Thread(target=self._watch, name="node-watch", daemon=True).start()

    def sources(self) -> dict[str, str]:
        """``schedstat`` and ``dstate``, of the node process; before it runs, whether our own process can be read."""
        return dict(self._found)

    def look_now(self) -> None:
        """The node was just started: its processes are others."""
        self._due = dict.fromkeys(self._due, 0.0)

    @staticmethod
    def _read_ours() -> dict[str, str]:
        found = {"schedstat": "read", "dstate": "read"}
        try:
            with open("/proc/self/schedstat", "rb") as file:  # noqa: PTH123
                if parse_schedstat(file.read()) is None:
                    found["schedstat"] = "unreadable: this kernel does not count how long threads wait"
        except OSError as error:
            found["schedstat"] = f"unreadable: {error.strerror}"
        try:
            with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
                if not parse_state(file.read()):
                    found["dstate"] = "unreadable: /proc/PID/stat has no state"
        except OSError as error:
            found["dstate"] = f"unreadable: {error.strerror}"
        return found

    def _watch(self) -> None:
        gap = Gap(int(SAMPLE_S * SECOND))
        while True:
            time.sleep(SAMPLE_S)
            now, busy = now_ns(), time.thread_time_ns()
            late = gap.end(now, busy, self.limit_ns) if self._threads else None
            if late is not None:
                self._news.noise("stall", *late, late[1] - late[0], thread="node-watch")
            gap.begin(now, busy)
            try:
                self._sample(time.monotonic())
            except Exception as error:  # noqa: BLE001 - a watch that ends in silence would look like a quiet node
                complain("node watch", error)
                time.sleep(1.0)

    def _sample(self, now: float) -> None:
        if now >= self._due["members"]:
            self._due["members"] = now + MEMBERS_S
            self._pids = list(self._members())
        if now >= self._due["threads"]:
            self._due["threads"] = now + THREADS_S
            self._look_for_threads()
        for key, watched in list(self._threads.items()):
            try:
                for source, stretch in watched.sample():
                    self._report(watched.pid, source, stretch)
            except OSError:
                watched.close()
                del self._threads[key]

    def _look_for_threads(self) -> None:
        refused = ""
        for pid in self._pids:
            try:
                threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - as above
            except FileNotFoundError:
                continue
            except OSError as error:
                refused = f"unreadable: {error.strerror}"
                continue
            for thread in map(int, threads):
                if (pid, thread) in self._threads or len(self._threads) >= THREADS_MAX:
                    continue
                try:
                    self._threads[pid, thread] = Watched(pid, thread, self.limit_ns)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                except OSError as error:
                    refused = f"unreadable: {error.strerror}"
        found = dict.fromkeys(self._ours, refused) if refused and not self._threads else self._ours
        if found != self._found:
            self._found = found
            self.changed()

    def _report(self, pid: int, source: str, stretch: Stretch) -> None:
        last = self._reported.get(source)
        if last is not None and last.lo <= stretch.lo and stretch.hi <= last.hi:
            return
        self._reported[source] = stretch
        lo, hi, waited = stretch
        self._news.noise("process", lo, hi, hi - lo, source=source, delay_ns=waited, pid=pid)


class Totals:
    """Host-wide totals a window: how long tasks waited (pressure), stolen and throttled time. They excuse nothing."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._cpu_stat = self._place()
        self._lock = threading.Lock()
        self._at, self._last = now_ns(), self._read()
        threading.Thread(target=self._watch, name="totals", daemon=True).start()

    def sources(self) -> dict[str, str]:
        """``pressure``, ``steal`` and ``throttled``."""
        found = self._read()
        pressure = found["cpu_pressure_ns"]
        return {
            "pressure": pressure if isinstance(pressure, str) else "read",
            "steal": found["steal_ns"] if isinstance(found["steal_ns"], str) else "read",
            "throttled": found["throttled_ns"] if isinstance(found["throttled_ns"], str) else "read",
        }

    def report(self) -> None:
        """Report the window that ends now."""
        with self._lock:
            before, since = self._last, self._at
            self._last, self._at = self._read(), now_ns()
            grown = {
                name: value - old
                for name, value in self._last.items()
                if isinstance(value, int) and isinstance(old := before[name], int)
            }
            self._news.noise("load", since, self._at, 0, **grown)

    def _watch(self) -> None:
        while True:
            time.sleep(LOAD_S)
            self.report()

    @staticmethod
    def _place() -> str:
        try:
            with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:  # noqa: PTH123
                places = cpu_stat_places(file.read())
        except OSError:
            return ""
        return next((place for place in places if os.access(place, os.R_OK)), "")

    def _read(self) -> dict[str, Any]:
        """Each total in ns, or why it cannot be read."""
        found: dict[str, Any] = {}
        for name in ("cpu", "io", "memory"):
            found[f"{name}_pressure_ns"] = read_number(f"/proc/pressure/{name}", parse_pressure)
        found["steal_ns"] = read_number("/proc/stat", lambda text: parse_steal(text, self._ticks))
        throttled: Any = "unreadable: no control group of ours with a cpu.stat"
        if self._cpu_stat:
            throttled = read_number(self._cpu_stat, parse_throttled)
        found["throttled_ns"] = throttled
        return found


def read_number(path: str, parse: Callable[[str], int | None]) -> int | str:
    """The number that ``parse`` finds in a file; or why there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            found = parse(file.read(65536))
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return "unreadable: it does not say" if found is None else found


class DeadMan:
    """Knows how long the harness has been silent. ``limit_ns`` 0: disarmed."""

    def __init__(self) -> None:
        self.limit_ns = 0
        self._heard_ns = now_ns()
        self._fired = False

    def arm(self, limit_ns: int) -> None:
        """From now on, silence of ``limit_ns`` means that the harness is gone; 0 disarms."""
        self.limit_ns = limit_ns
        self.hear()

    def hear(self) -> None:
        """The harness spoke."""
        self._heard_ns = now_ns()
        self._fired = False

    @property
    def silence_ns(self) -> int:
        """How long the harness has been silent."""
        return now_ns() - self._heard_ns

    def due(self) -> int:
        """How long the silence has been (ns), once it is too long and not yet reported; else 0."""
        silence = now_ns() - self._heard_ns
        if not self.limit_ns or self._fired or silence < self.limit_ns:
            return 0
        self._fired = True
        return silence


# --- the node and the host's state ------------------------------------------------------------------------------


class Node:
    """The node process: its starts, its names (pid, start time), its exits. Restarts only when told."""

    def __init__(self, processes: Processes, clock: FakeClock, news: News, tails: Tails, state_path: str) -> None:
        self._processes = processes
        self._clock = clock
        self._news = news
        self._tails = tails
        self._state_path = state_path
        self.spec: Mapping[str, Any] | None = None
        self.confined = Confined(os.geteuid(), os.getegid(), (), own=False, why="")
        """As what it runs."""
        self.child: Child | None = None
        self.incarnation = 0
        self.wanted = False
        """Whether the node is to run when nothing is wrong: from its first start until it is told to end."""
        self.asked = False
        """Whether the end of the running process was asked for."""
        self.host_clock: HostClock | None = None
        """The machine's clock, where it may be set."""
        self.fatal: FatalSearch | None = None
        self._logged_from = 0
        """Where the output of the running process begins in the log."""
        self._oom_kills = 0
        tails.incarnation = lambda: self.incarnation

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.child is not None and self.child.code is None

    def names(self) -> dict[str, Any]:
        """Which process we speak of."""
        if self.child is None:
            return {}
        return {"pid": self.child.pid, "start_ticks": self.child.start, "incarnation": self.incarnation}

    def members_now(self) -> Sequence[int]:
        """The processes of the node now: the one that was started, and what it started."""
        child = self.child
        return () if child is None or not self.running else (child.pid, *descendants(child.pid))

    def seen(self) -> Seen:
        """The process as it is now."""
        stopped = self.child is not None and self.running and "T" in thread_states(self.child.pid)
        return Seen(self.wanted, self.running, stopped)

    def start(self) -> None:
        """Start the next incarnation. OSError or Refused if it cannot be."""
        if self.spec is None:
            raise Refused("there is no node to start: prepare comes first")
        if self.running:
            raise Refused(f"the node runs already: {self.names()}")
        number = self.incarnation + 1
        command = self.spec["command"]
        argv = [word.replace("{incarnation}", str(number)) for word in command["argv"]]
        env = dict(os.environ)
        if self.confined.uid != os.geteuid():
            env.update(HOME=self.spec["run_dir"] or self.spec["data_dir"], USER="dethrone", LOGNAME="dethrone")
        env.update({name: value.replace("{incarnation}", str(number)) for name, value in command["env"].items()})
        if self.spec["faketime"] and self._clock.library:
            env.update(self._clock.environment(env))
            self._clock.starting()
            self._clock.preloaded = True
        before = now_ns()
        log = open_log(self.spec["log_path"], self.confined)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.incarnation, self.asked = number, False
        self._logged_from, self._oom_kills = os.fstat(log).st_size, oom_kills()
        started = threading.Event()

        def exited(child: Child) -> None:
            started.wait(SIGNAL_LIMIT_S)  # "started" is told first, even for a process that ends at once
            self._exited(child, number)

        try:
            child = self._processes.spawn(
                argv, env=env, cwd=command["cwd"], files=(null, log, log), on_exit=exited, node=self.confined
            )
        except (OSError, ValueError):
            self.incarnation -= 1
            raise
        finally:
            os.close(log)
            os.close(null)
        self.child, self.wanted = child, True
        self._news.add("started", before, now_ns(), {"pid": child.pid, "incarnation": number, "asked": True})
        started.set()
        self.remember()

    def _exited(self, child: Child, incarnation: int) -> None:
        self._clock.ended(child.pid)
        # What it wrote before its end is told before its end.
        with contextlib.suppress(OSError):
            self._tails.pump()
        if self.fatal is not None:
            self.fatal.pump()
        data: dict[str, Any] = {"pid": child.pid, "incarnation": incarnation, "code": child.code, "asked": self.asked}
        if not self.asked and self.spec is not None:
            data["lines"] = last_lines(self.spec["log_path"], self._logged_from)
            data["detail"] = {"oom_kills": oom_kills() - self._oom_kills}
        self._news.add("exited", child.exited_ns, now_ns(), data)

    def signal(self, number: int) -> bool:
        """Signal the process's group; False if the process is gone."""
        return self.child is not None and self._processes.signal(self.child, number, group=True)

    def end(self, number: int, limit_s: float) -> bool:
        """Signal the process and wait for its exit; whether it is gone. Then its group is gone too."""
        child = self.child
        if child is None or not self.running:
            return True
        stopped = "T" in thread_states(child.pid)
        self.asked = True
        self.signal(number)
        if stopped and number != signal.SIGKILL:
            self.signal(signal.SIGCONT)  # a stopped process cannot obey
        if not child.done.wait(limit_s):
            return False
        for member in group_members(child.pid) if self._group_left(child.pid) else ():
            with contextlib.suppress(OSError):
                os.kill(member, signal.SIGKILL)
        return True

    @staticmethod
    def _group_left(group: int) -> bool:
        try:
            os.killpg(group, 0)
        except OSError:
            return False
        return True

    def await_states(self, ready: Callable[[str], bool], limit_s: float) -> str:
        """Wait until the states of all threads of the group are ``ready``; the states last seen."""
        child = self.child
        if child is None:
            return ""
        members = group_members(child.pid)
        deadline = time.monotonic() + limit_s
        while True:
            states = "".join(thread_states(member) for member in members)
            if ready(states) or time.monotonic() > deadline or not self.running:
                return states
            time.sleep(0.0005)

    def remember(self) -> None:
        """Leave behind what ``heal`` needs if this agent dies."""
        with contextlib.suppress(OSError):
            state: dict[str, Any] = {
                "node": self.names(),
                "faketime": self._clock.path if self._clock.preloaded else None,
            }
            state["rated"] = self._clock.rated
            if self.host_clock is not None and self.host_clock.base_ns is not None:
                state["wall_gap"] = {"ns": self.host_clock.base_ns, "boot": boot_id()}
            if isinstance(self, AdoptedNode):
                state["adopted"] = self.members
            replace_file(self._state_path, json.dumps(state).encode(), 0o600)


class Stranger:
    """A process that somebody else started, as far as a ``Child`` is known; nobody but its parent learns its code."""

    def __init__(self, pid: int, start: int, on_exit: Callable[[Stranger], None]) -> None:
        self.pid = pid
        self.start = start
        self.code: int | None = None
        """None while it runs; then 0, whatever it was."""
        self.done = threading.Event()
        self.alive_ns = now_ns()
        """A moment at which it still ran, the last that is known."""
        self.exited_ns = 0
        self._on_exit = on_exit
        threading.Thread(target=self._watch, name=f"watch-{pid}", daemon=True).start()

    def _watch(self) -> None:
        with end_of(self.pid) as await_end:
            while True:
                before = now_ns()
                if not same_process(self.pid, self.start):
                    break
                self.alive_ns = before
                await_end(WATCH_S)
        self.exited_ns = now_ns()
        self.code = 0
        try:
            self._on_exit(self)
        except Exception as error:  # noqa: BLE001 - as of the reaper
            complain("exit hook", error)
        self.done.set()


@contextlib.contextmanager
def end_of(pid: int) -> Iterator[Callable[[float], object]]:
    """A wait of at most so many seconds that ends with the process at once, where the kernel can say so."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        yield time.sleep
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        yield lambda limit_s: poll.poll(limit_s * 1000)
    finally:
        os.close(descriptor)


WATCH_S = 0.01
"""How often a process that is not our child is looked at."""
RETURN_LIMIT_S = 15.0
"""How long a target may take to be there after its start command ended."""


def same_process(pid: int, start: int) -> bool:
    """Whether the process with that id and start time lives."""
    stat = process_stat(pid)
    return stat is not None and stat[3] == start and stat[0] not in "ZX"


def _boot_ahead_ns() -> int:
    """How far the clock is ahead that goes on while the machine sleeps; more if we were held up, never less."""
    moment = now_ns()
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - moment


def began_ns(ticks: int) -> int:
    """When a process with this start time began, or a little earlier; ticks go on while a machine sleeps."""
    slept = min(_boot_ahead_ns() for _ in range(5))
    return ticks * SECOND // os.sysconf("SC_CLK_TCK") - slept


class TooSlow(Exception):  # noqa: N818 - names the thing found
    """A pattern needed more than its time."""


def _too_slow(*_: object) -> None:
    raise TooSlow


def matched(pattern: str, texts: Sequence[str]) -> dict[str, Any]:
    """Which of the texts a pattern matches, by their places; ``slow``: which needs too long; ``error``: why none.

    In the main thread of a process whose SIGVTALRM raises TooSlow: a pattern holds the whole process while it runs.
    """

    def search(compiled: re.Pattern[str], text: str) -> bool:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_LIMIT_S)
            return compiled.search(text) is not None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return {"error": f"it is no pattern for this Python: {error}"}
    found = []
    for place, text in enumerate(texts):
        try:
            if search(compiled, text[:MATCHED_MAX]):
                found.append(place)
        except TooSlow:
            return {"slow": place}
    return {"found": found}


def match() -> int:
    """Answer questions ``{"pattern", "texts"}`` on stdin, a line each, until it ends."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(matched(asked["pattern"], asked["texts"])) + "\n")
        sys.stdout.flush()
    return 0


def found_by(pattern: str, texts: Sequence[str], answer: Mapping[str, Any]) -> list[int]:
    """The places that an answer of ``match`` tells. Refused: the pattern could not be matched."""
    if "slow" in answer:
        text = texts[int(answer["slow"])]
        raise Refused(f"the pattern {pattern!r} needs longer than {MATCH_LIMIT_S * 1000:.0f} ms for {text[:200]!r}")
    if "error" in answer:
        raise Refused(f"the pattern {pattern!r} cannot be matched: {answer['error']}")
    return [int(place) for place in answer["found"]]


class Matcher:
    """Matches a pattern that a user wrote in a process of its own, which is ended if it does not answer in time."""

    def __init__(self, pattern: str, processes: Processes) -> None:
        self._pattern = pattern
        self._processes = processes
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._wire: socket.socket | None = None

    def places(self, texts: Sequence[str]) -> list[int]:
        """The places of those texts that match. Refused: it cannot be known."""
        with self._lock:
            try:
                answer = self._ask(texts)
            except (OSError, ValueError) as error:
                self._end()
                why = str(error) or type(error).__name__
                raise Refused(f"the pattern {self._pattern!r} cannot be matched: {why}") from error
        return found_by(self._pattern, texts, answer)

    def _ask(self, texts: Sequence[str]) -> Mapping[str, Any]:
        deadline = time.monotonic() + MATCH_WAIT_S
        wire = self._wire or self._begin()
        wire.settimeout(MATCH_WAIT_S)
        wire.sendall(json.dumps({"pattern": self._pattern, "texts": texts}).encode() + b"\n")
        answer = bytearray()
        while not answer.endswith(b"\n"):
            wire.settimeout(max(0.001, deadline - time.monotonic()))
            data = wire.recv(1 << 16)
            if not data:
                raise ConnectionError("the process that matches it ended")
            answer += data
        return _mapping(json.loads(answer), "answer")

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            argv = [sys.executable, "-S", HERE, "match", "--socket", "-"]
            self._child = self._processes.spawn(argv, files=(theirs.fileno(), theirs.fileno(), null))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(null)
        self._wire = ours
        return ours

    def _end(self) -> None:
        if self._child is not None:
            self._processes.signal(self._child, signal.SIGKILL, group=True)
        if self._wire is not None:
            self._wire.close()
        self._child = self._wire = None


HERE = os.path.abspath(__file__)  # noqa: PTH100 - as everywhere here
MATCH_LIMIT_S = 0.05
"""Of processor time: for a user's pattern on one text."""
MATCHED_MAX = 64 << 10
"""So many characters of a command line are matched; of a longer one its beginning."""
MATCH_WAIT_S = 5.0
"""How long all command lines of a machine may take, with the start of the process that matches them."""


def find_target(target: Mapping[str, str], processes: Processes, matcher: Matcher) -> tuple[int, ...]:
    """The ids of a target's processes, the main one first; none: there are none. Refused if that cannot be known.

    ``matcher``: of the target's pattern, if it is found by one.
    """
    by, value = target["by"], target["value"]
    if by == "pid_file":
        try:
            with open(value, encoding="ascii", errors="replace") as file:  # noqa: PTH123
                word = file.read(64).strip()
        except OSError:
            return ()
        return (int(word),) if word.isdigit() and process_stat(int(word)) is not None else ()
    if by == "unit":
        code, out, err = processes.tool(["systemctl", "show", "--property=MainPID,ControlGroup", "--", value])
        if code != 0:
            raise Refused(f"systemctl: {err.decode('utf-8', 'replace').strip()[:300]}")
        said = dict(line.split("=", 1) for line in out.decode().splitlines() if "=" in line)
        main = int(said.get("MainPID") or 0)
        group = said.get("ControlGroup") or ""
        others: list[int] = []
        if group:
            for root in CGROUPS:
                place = f"{root}{group}/cgroup.procs"
                with contextlib.suppress(OSError, ValueError), open(place, encoding="ascii") as file:  # noqa: PTH123
                    others += [int(line) for line in file]
        return (main, *(pid for pid in dict.fromkeys(others) if pid != main)) if main else ()
    running: dict[int, str] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or int(entry) in {os.getpid(), os.getppid()}:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:  # noqa: PTH123
            words = file.read(4 * MATCHED_MAX).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
            if words and not OURS.search(words):
                running[int(entry)] = words[:MATCHED_MAX]
    pids, found = list(running), {}
    for pid in [pids[number] for number in matcher.places(list(running.values()))]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
                raw = file.read()
            found[pid] = int(raw[raw.rindex(b")") + 2 :].split()[1])
    return tuple(sorted(found, key=lambda pid: (found[pid] in found, pid)))


CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""Where a unit's control group may lie: version 2, both, version 1."""

OURS = re.compile(r"agent\.py (serve|relay|heal|match) --socket ")
"""Command lines of agents, their matchers and relays: never a target."""


class AdoptedNode(Node):
    """A node that somebody else started: found, signalled, started again as the hosts file says, and left running.

    Whoever starts it unasked (a supervisor) is noticed; the next incarnation is then told as ``started``, not asked.
    """

    def __init__(
        self, like: Node, target: Mapping[str, str], restart: Sequence[str], *, processes: Processes, news: News
    ) -> None:
        super().__init__(processes, like._clock, news, like._tails, like._state_path)  # noqa: SLF001 - it takes its place
        self.host_clock = like.host_clock
        self._target = target
        self._restart = list(restart)
        self._tools = processes
        self._matcher = Matcher(target["value"], processes)
        self._told = news
        self._finding = threading.Lock()
        self._starting = False
        """Whether we are asked to start it: who is there then was asked for, whoever notices it first."""
        self._met: Stranger | None = None
        self.members: list[tuple[int, int]] = []
        """All processes of the target, (id, start time)."""
        threading.Thread(target=self._watch, name="target", daemon=True).start()

    def start(self) -> None:
        """Meet the target, the first time; later, start it again by its command unless somebody did already."""
        self._starting = True
        try:
            if self._find():
                self.wanted = True
            else:
                self._start_again()
        finally:
            self._starting = False

    def _start_again(self) -> None:
        """Run its start command, and wait for it."""
        if self.incarnation == 0 or not self._restart:
            what = "is not there" if self.incarnation == 0 else "is gone, and no command is known that starts it"
            raise Refused(f"the target ({self._target['by']} {self._target['value']}) {what}")
        code, _, err = self._tools.tool(self._restart, limit_s=RETURN_LIMIT_S)
        deadline = time.monotonic() + RETURN_LIMIT_S
        while not self._find():
            if time.monotonic() > deadline:
                said = err.decode("utf-8", "replace").strip()[-200:]
                raise Refused(f"the target is not there again after its start command (exit code {code}): {said}")
            time.sleep(0.02)

    def _find(self) -> bool:
        """Look for it; whether it runs."""
        with self._finding:
            if self.running:
                return True
            if self._met is not None:
                self._met.done.wait(SIGNAL_LIMIT_S)  # its end is told first
            before = now_ns()
            found = self._look()
            if not found:
                return False
            if self._met is not None:  # it began when it began, however late that was noticed
                before = max(self._met.alive_ns, min(before, began_ns(found[0][1])))
            self.members = found
            self.incarnation += 1
            self.asked = False
            number = self.incarnation
            told = threading.Event()

            def exited(child: Stranger) -> None:
                told.wait(SIGNAL_LIMIT_S)
                if self.fatal is not None:
                    self.fatal.pump()
                data = {"pid": child.pid, "incarnation": number, "code": None, "asked": self.asked}
                self._told.add("exited", child.alive_ns, now_ns(), data)

            self._met = Stranger(*self.members[0], exited)
            self.child = self._met  # type: ignore[assignment]
            data = {"pid": self.members[0][0], "incarnation": number, "asked": self._starting}
            self._told.add("started", before, now_ns(), data)
            told.set()
            self.remember()
            return True

    def _watch(self) -> None:
        """Notice a target that somebody else started again."""
        while True:
            time.sleep(0.1)
            if self.wanted and not self.running:
                with contextlib.suppress(Refused, OSError):
                    self._find()

    def members_now(self) -> Sequence[int]:
        """See ``Node``."""
        return [pid for pid, _ in self.members]

    def _look(self) -> list[tuple[int, int]]:
        """All processes of the target now, the main one first."""
        pids = find_target(self._target, self._tools, self._matcher)
        return [(pid, stat[3]) for pid in pids if (stat := process_stat(pid)) is not None and stat[0] not in "ZX"]

    def _look_again(self) -> None:
        """It may have made processes since it was met."""
        with self._finding, contextlib.suppress(Refused, OSError):
            found = self._look()
            more = [one for one in found if one not in self.members]
            if more and self.members and self.members[0] in found:
                self.members = [*self.members, *more]
                self.remember()

    def _alive(self) -> list[int]:
        return [pid for pid, start in self.members if same_process(pid, start)]

    def signal(self, number: int) -> bool:
        """Signal all its processes; False if it is gone."""
        self._look_again()
        return self._signal(self.members, number)

    @staticmethod
    def _signal(members: Sequence[tuple[int, int]], number: int) -> bool:
        alive = [pid for pid, start in members if same_process(pid, start)]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(alive)

    def end(self, number: int, limit_s: float) -> bool:
        """Signal it and wait until all its processes are gone; whether they are."""
        if not self._alive():
            return True
        stopped = any("T" in thread_states(pid) for pid in self._alive())
        self._look_again()
        child, ending = self.child, self.members  # a supervisor's next processes are none of these
        self.asked = True
        self._signal(ending, number)
        if stopped and number != signal.SIGKILL:
            self._signal(ending, signal.SIGCONT)
        deadline = time.monotonic() + limit_s
        while any(same_process(pid, start) for pid, start in ending):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
        return child is None or child.done.wait(SIGNAL_LIMIT_S)

    def await_states(self, ready: Callable[[str], bool], limit_s: float) -> str:
        """See ``Node``."""
        deadline = time.monotonic() + limit_s
        while True:
            states = "".join(thread_states(pid) for pid in self._alive())
            if ready(states) or time.monotonic() > deadline or not self.running:
                return states
            time.sleep(0.0005)

    def leave(self) -> None:
        """The run is over: it goes on as it is, thawed."""
        self.wanted = False
        for pid in self._alive():
            if "T" in thread_states(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


class Part:
    """One part of a converging: its span, whether it took, why not, and what was seen."""

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
    """Brings the host into a desired state and says what it found. Used by one thread at a time."""

    def __init__(self, rules: Firewall, probes: Probes, clock: FakeClock, node: Node, *, term_limit_s: float) -> None:
        self._rules = rules
        self._probes = probes
        self._clock = clock
        self._node = node
        self._term_limit_s = term_limit_s
        self._woke_ns = 0
        """When the process was last started or thawed."""
        self._told_clocks = 0
        """The last incarnation that told its clocks."""
        self._last: Mapping[str, Any] = HEALTHY
        """What was wanted last."""
        self._still = -1
        """How often the frozen process had been scheduled when it was frozen."""

    def converge(self, want: Mapping[str, Any], *, verify: bool = True) -> dict[str, Any]:
        """Evidence: span, confirmed, why, parts. ``want`` is clean (``clean_state``)."""
        lo = now_ns()
        fresh = False
        lapsed, self._last = self._lapsed(want), want
        parts: list[Part] = []
        if self._node.host_clock is not None:
            parts.append(self._set_clock(self._node.host_clock, want))
            want = {**want, "clock": None}
        steps = plan(self._node.seen(), want)
        for step in steps:
            part = Part(step)
            try:
                if step == "rules":
                    self._cut(part, want, verify=verify)
                elif step == "start":
                    self._clock.set(want["clock"])
                    self._node.start()
                    fresh, self._woke_ns = True, now_ns()
                    part.end(**self._node.names())
                elif step == "clock":
                    self._skew(part, want, fresh=fresh)
                else:
                    self._signal(part, step)
            except (OSError, ValueError, Refused) as error:
                part.end(ok=False, why=f"{step}: {getattr(error, 'strerror', None) or error}")
            parts.append(part)
        parts += self._vacuous(want, steps)
        wrong = [part.why for part in parts if not part.ok]
        detail = {part.name: part.told() for part in parts}
        if lapsed or self._rules.lost:
            # What was lost and put back was told with its exact time; it needs no second telling.
            whys = [*self._rules.lost, *lapsed]
            detail["before"] = {"held": False, "told": not lapsed, "why": "; ".join(dict.fromkeys(whys))}
            self._rules.lost = []
        return {"lo": lo, "hi": now_ns(), "confirmed": not wrong, "why": "; ".join(wrong), "detail": detail}

    def _lapsed(self, want: Mapping[str, Any]) -> list[str]:
        """What was asked for last, is about to end, and is not in force any more."""
        last, node, out = self._last, self._node, []
        if set(last["cuts"]) - set(want["cuts"]):
            out += [why for why, _ in (rules.check() for rules in self._rules.families()) if why]
        if last["down"] and not want["down"] and node.running:
            out.append("the process ran although it was to be down")
        if last["frozen"] and not want["frozen"] and not last["down"] and node.running and self._still >= 0:
            states, turns = node.await_states(bool, 0), self._turns()
            if not states or not set(states) <= set("TtZX"):
                out.append(f"threads were in state {states!r} although it was to be frozen")
            elif turns != self._still:
                out.append("the process ran although it was to be frozen")
        if last["clock"] != want["clock"] and last["clock"] is not None and self._clock.preloaded:
            path = None if node.spec is None else node.spec["clock_socket"]
            if path is not None and node.running and not last["frozen"] and not last["down"]:
                alive = lambda: node.running  # noqa: E731
                found = measure_skew(path, self._clock.expected, limit_s=CLOCK_LIMIT_S, just_started=False, alive=alive)
                if "skew_ns" in found and "why" in found:
                    out.append(f"its clock was not as asked for: {found['why']}")
        return out

    def _turns(self) -> int:
        """How often the threads of the node process have been scheduled; -1: that cannot be known."""
        child = self._node.child
        return -1 if child is None else switches(child.pid)

    def _set_clock(self, clock: HostClock, want: Mapping[str, Any]) -> Part:
        """The machine's clock into its wanted skew, and what the target itself sees of it, if it tells."""
        part = Part("host_clock")
        try:
            ok, why, found = clock.set(want["clock"])
        except OSError as error:
            return part.end(ok=False, why=f"the clock cannot be set: {error.strerror or error}")
        path = None if self._node.spec is None else self._node.spec["clock_socket"]
        if clock.base_ns is not None and path is not None and self._node.running and not want["frozen"]:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                mono, wall = read_clocks(path, CLOCK_LIMIT_S)
                found["target_skew_ns"] = wall - mono - clock.base_ns
        return part.end(ok=ok, why=why, **found)

    def _cut(self, part: Part, want: Mapping[str, Any], *, verify: bool) -> None:
        loss = dict.fromkeys(want["cuts"], 100)
        problems = []
        for link in want["links"]:
            loss.setdefault(link["src"], link["loss_percent"])
            if link["delay_ns"] or link["jitter_ns"]:
                problems.append(f"delay of {link['src']}: not available (arrivals are not shaped here)")
        rules = []
        speaks_v6 = any(is_v6(address) for address in own_addresses()) if loss else False
        for src in sorted(loss):
            # A host without IPv6 hears nobody over it: there is nothing to cut.
            addresses = [one for one in self._probes.ways.get(src, ()) if speaks_v6 or not is_v6(one)]
            if not addresses:
                known = src in self._probes.peers
                problems.append(f"{src}: " + ("no address of it is its own" if known else "not a known peer"))
            rules += [Rule(src, address, loss[src]) for address in addresses if loss[src]]
        took, why, detail = self._rules.apply(rules, verify=verify)
        if not took:
            problems.append(why)
        if rules:
            detail["cuts"] = list(dict.fromkeys(rule.src for rule in rules if rule.loss >= 100))
            detail["addresses"] = [rule.address for rule in rules]
        part.end(ok=not problems, why="; ".join(problems), **detail)

    def _signal(self, part: Part, step: str) -> None:
        names = self._node.names()
        if step in {"SIGKILL", "SIGTERM"}:
            limit = SIGNAL_LIMIT_S if step == "SIGKILL" else self._term_limit_s
            child = self._node.child
            gone = self._node.end(getattr(signal, step), limit)
            code = None if child is None else child.code
            part.end(ok=gone, why=f"the process did not end within {limit:g} s of {step}", code=code, **names)
        elif step == "SIGSTOP":
            self._node.signal(signal.SIGSTOP)
            states = self._node.await_states(lambda found: bool(found) and set(found) <= set("TtZX"), SIGNAL_LIMIT_S)
            stopped = bool(states) and set(states) <= set("TtZX")
            self._still = self._turns() if stopped else -1
            part.end(ok=stopped, why=f"threads are in state {states!r}, not stopped", states=states, **names)
        else:
            self._node.signal(signal.SIGCONT)
            self._woke_ns = now_ns()
            states = self._node.await_states(lambda found: bool(found) and "T" not in found, SIGNAL_LIMIT_S)
            part.end(ok=bool(states) and "T" not in states, why=f"threads are in state {states!r}", **names)

    def _skew(self, part: Part, want: Mapping[str, Any], *, fresh: bool) -> None:
        clock, node = self._clock, self._node
        wanted = want["clock"]
        if not clock.preloaded:
            why = "the node runs without libfaketime"
            if node.spec is not None and node.spec["faketime"] and not clock.library:
                why = "libfaketime is not installed on this host"
            part.end(ok=wanted is None, why=why)
            return
        clock.set(wanted)
        if wanted is None and (fresh or not clock.touched):
            clock.touched = False
            part.end(file="+0")
            return
        path = None if node.spec is None else node.spec["clock_socket"]
        if path is None:
            part.end(ok=False, why="the skew cannot be measured: the node has no clock socket")
        elif want["frozen"]:
            # Nobody reads that clock until the process wakes, and whatever wakes it measures it then.
            part.end(deferred="the process is frozen")
        else:
            self._measure(part, path, wanted)

    def _measure(self, part: Part, path: str, wanted: Mapping[str, Any] | None) -> None:
        clock = self._clock
        # Just started, or frozen at its birth and thawed now: it may not listen yet.
        young = self._told_clocks != self._node.incarnation and now_ns() - self._woke_ns < CLOCK_START_LIMIT_S * SECOND
        limit = CLOCK_START_LIMIT_S if young else CLOCK_LIMIT_S
        strobe = wanted is not None and wanted["strobe"] is not None and not clock.strobing

        def measure() -> dict[str, Any]:
            alive = lambda: self._node.running  # noqa: E731
            return measure_skew(path, clock.expected, limit_s=limit, just_started=young, alive=alive)

        found = measure()
        plain = wanted is not None and wanted["strobe"] is None and "why" in found and "skew_ns" in found
        if plain and clock.learn_loading(found["skew_ns"] - clock.expected(found["lo"])[0]):
            found = measure()
        if "skew_ns" in found:
            self._told_clocks = self._node.incarnation
        if strobe and "why" not in found:
            clock.flip(high=True)
            high = measure()
            clock.flip(high=False)
            if "why" in high:
                found["why"] = high["why"]
            else:
                found["strobe_skew_ns"] = high["skew_ns"]
        if strobe:
            clock.begin_strobe()
        why = found.pop("why", "")
        if not why and wanted is None:
            clock.touched = False
        part.end(ok=not why, why=why, **{key: value for key, value in found.items() if key not in {"lo", "hi"}})

    def _vacuous(self, want: Mapping[str, Any], steps: Sequence[str]) -> list[Part]:
        """What no step dealt with: wishes that cannot be met here, or need nothing."""
        parts = []
        if want["clock"] is not None and "clock" not in steps:
            part = Part("clock")
            if want["down"]:
                part.end(deferred="no process runs")
            else:
                part.end(ok=False, why="the skew cannot be measured: no process runs")
            parts.append(part)
        if want["down"]:
            # Written for its next start; nobody reads a clock until then, and then it is measured.
            with contextlib.suppress(OSError):
                self._clock.set(want["clock"])
        elif want["frozen"] and "SIGSTOP" not in steps:
            parts.append(Part("frozen").end(ok=False, why="no process runs that could be frozen"))
        for key in ("disk", "cpu_percent"):
            part = Part(key)
            if want[key] is not None:
                parts.append(part.end(ok=False, why=f"{key}: not available on this host"))
        return parts


# --- the server -------------------------------------------------------------------------------------------------


class Session:
    """One harness across its connections: what was asked, what was answered, to whom to speak now."""

    ANSWER_BYTES_MAX = 16 << 20

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.pending: set[int] = set()
        self._answers: collections.OrderedDict[int, bytes] = collections.OrderedDict()
        self._bytes = 0

    def keep(self, number: int, line: bytes) -> None:
        """Keep an answer for a connection that breaks before it arrives; the oldest go first."""
        self.pending.discard(number)
        self._answers[number] = line
        self._bytes += len(line)
        while len(self._answers) > 1 and (len(self._answers) > ANSWERS_MAX or self._bytes > self.ANSWER_BYTES_MAX):
            self._bytes -= len(self._answers.popitem(last=False)[1])

    def answer(self, number: int) -> bytes | None:
        """The kept answer to a request that is asked again."""
        return self._answers.get(number)


class Connection:
    """One client of the socket. ``send`` may be called by any thread; reading is the server's."""

    UNSENT_MAX = 64 << 20

    def __init__(self, connected: socket.socket, wake: Callable[[], None]) -> None:
        self.socket = connected
        self.session: Session | None = None
        self.subscribed = False
        self.cursor = 0
        self.unread = bytearray()
        self.closed = False
        self._wake = wake
        self._lock = threading.Lock()
        self._unsent = bytearray()

    @property
    def unsent(self) -> int:
        """Bytes that wait for the other side to read."""
        return len(self._unsent)

    def send(self, data: bytes) -> None:
        """Send now what the socket takes, the rest when it takes more."""
        with self._lock:
            if self.closed:
                return
            self._unsent += data
            self._push()
            if self._unsent:
                self._wake()

    def flush(self) -> None:
        """The socket takes bytes again."""
        with self._lock:
            self._push()

    def _push(self) -> None:
        try:
            while self._unsent:
                # Bounded slices: deleting the head of a large buffer at each small step would be quadratic.
                sent = self.socket.send(memoryview(bytes(self._unsent[: 256 << 10])))
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError):
            if len(self._unsent) > self.UNSENT_MAX:
                self.closed = True
        except OSError:
            self.closed = True

    def close(self) -> None:
        """Close; no thread sends any more."""
        with self._lock:
            self.closed = True
            self._unsent.clear()
            self.socket.close()


Verb = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Lane:
    """A thread that serves the requests of one kind one after another."""

    def __init__(self, name: str) -> None:
        self._queue: queue.Queue[Callable[[], None]] = queue.Queue(LANE_MAX)
        self._name = name
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        """Queue work; Refused if too much waits already."""
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            raise Refused(f"{LANE_MAX} requests wait in lane {self._name} already") from None

    def _serve(self) -> None:
        while True:
            work = self._queue.get()
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a lane outlives whatever one request does
                complain(self._name, error)


class Server:
    """Listens, reads requests, hands them to lanes, sends answers and news; everything of the host hangs on it."""

    def __init__(
        self,
        path: str,
        run: str,
        *,
        dead_man_ns: int,
        probe_port: int,
        tool: str,
        term_limit_s: float,
        spared: Sequence[Spared] = (),
        sets_clock: bool = False,
        node_user: str | None = None,
    ) -> None:
        self.run = run
        self._path = path
        self._node_user = node_user
        self._placed: list[str] = []
        """Files that were written for a node to come."""
        self._turned_away = 0
        self._epoch = os.urandom(8).hex()
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._awake = False
        directory = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
        os.makedirs(directory, mode=0o755, exist_ok=True)  # noqa: PTH103
        self._state_path = f"{path}.state"
        self.processes = Processes()
        self._listener = self._listen(path)
        self.found = heal_alone(self.processes, run, self._state_path) if os.path.exists(self._state_path) else {}  # noqa: PTH110
        self.news = News(self.wake)
        self.rules = Firewall(run, self.processes, tool=tool, spared=spared)
        self.probes = Probes(run, probe_port)
        self.gauge = Gauge(run, probe_port)
        self.clock = FakeClock(f"{path}.faketime")
        self.tails = Tails(self.news)
        self.canary = Canary(self.news)
        self.fatal = FatalSearch(self.news)
        self.node = Node(self.processes, self.clock, self.news, self.tails, self._state_path)
        self._beside: int | None = None
        """A process that the harness watches and signals by other means, where the host is shared with it."""
        self.node_watch = NodeWatch(self.news, self._members)
        self.totals = Totals(self.news)
        self._prepared = False
        self._alone: tuple[int, int, dict[str, Any]] | None = None
        """Since when this host has been healed by itself, unknown to the harness; how long that was silent before."""
        self.canary.changed = self.node_watch.changed = self._declare_sources
        if sets_clock:
            clock = self.node.host_clock = HostClock(self.node.remember)
            self.canary.shifted = lambda: clock.shifted_ns
        self._term_limit_s = term_limit_s
        self.keeper = HostKeeper(self.rules, self.probes, self.clock, self.node, term_limit_s=term_limit_s)
        self.dead_man = DeadMan()
        self._dead_man_ns = dead_man_ns
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._sessions: collections.OrderedDict[str, Session] = collections.OrderedDict()
        self._sessions_lock = threading.Lock()
        self._lanes = {name: Lane(name) for name in ("state", "probe", "files", "measure")}
        self._ending = False
        self._pump_at = 0.0
        self._tail_quiet = False
        self._verbs: dict[str, tuple[str, Verb]] = {
            "now": ("", lambda _: {"mono_ns": now_ns()}),
            "silence": ("", lambda _: {"silence_ns": self.dead_man.silence_ns}),
            "ack": ("", self._ack),
            "bye": ("state", self._bye),
            "noise": ("", self._noise),
            "send_probes": ("", self._send_probes),
            "probe_links": ("probe", self._probe_links),
            "measure": ("measure", self._measure),
            "adopt": ("state", self._adopt),
            "prepare": ("state", self._prepare),
            "meet": ("state", self._meet),
            "start_node": ("state", self._start_node),
            "stop_node": ("state", self._stop_node),
            "converge": ("state", self._converge),
            "heal": ("state", self._heal),
            "reset_flows": ("state", self._reset_flows),
            "capabilities": ("state", self._capabilities),
            "run": ("files", self._run),
            "read_file": ("files", self._read_file),
            "write_file": ("files", self._write_file),
        }

    def _watch_rules(self) -> None:
        """Look at our rules again and again; say when they were not what was asked for, and put them back."""
        while True:
            time.sleep(RULES_PERIOD_S)
            for rules in self.rules.families():
                try:
                    why, good_ns = rules.check()
                    if why:
                        self.rules.lost = [*self.rules.lost[-7:], why]
                        still = rules.put_back()
                        detail = {"why": why, "put_back": not still, "why_not": still}
                        moment = now_ns()
                        self.news.noise("rules-lost", good_ns, moment, moment - good_ns, **detail)
                except (Refused, OSError) as error:
                    complain("rules", error)

    @staticmethod
    def _listen(path: str) -> socket.socket:
        if os.path.exists(path):  # noqa: PTH110
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                try:
                    other.connect(path)
                except OSError:
                    os.unlink(path)  # noqa: PTH108 - left by an agent that was killed
                else:
                    raise SystemExit(f"an agent listens at {path} already")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101
        listener.listen(16)
        listener.setblocking(False)
        return listener

    # --- the loop -----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let the loop look again; from any thread."""
        if not self._awake:
            self._awake = True
            with contextlib.suppress(BlockingIOError, InterruptedError):
                os.write(self._wake_w, b"w")

    def serve(self) -> None:
        """Serve until SIGTERM or SIGINT; then end the node and take the rules out."""
        signal.set_wakeup_fd(self._wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        threading.Thread(target=self._watch_rules, name="rules", daemon=True).start()
        signal.signal(signal.SIGHUP, lambda *_: None)  # a handler, not "ignore", which children would inherit
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_r, selectors.EVENT_READ, self._woken)
        for probing in self.probes.sockets.values():
            self._selector.register(probing, selectors.EVENT_READ, self.probes.receive)
        if self.tails.inotify >= 0:
            self._selector.register(self.tails.inotify, selectors.EVENT_READ, self._grown)
        while not self._ending:
            for key, mask in self._selector.select(self._patience()):
                if isinstance(key.data, Connection):
                    self._exchange(key.data, mask)
                else:
                    key.data()
            self._every_turn()
        self._finish()

    def _patience(self) -> float:
        if not self.tails.active:
            return 0.25
        if self._tail_quiet:
            return max(0.0, self._pump_at - time.monotonic())
        return TICK_S if self.tails.inotify < 0 else 0.25

    def _every_turn(self) -> None:
        now = time.monotonic()
        if self.tails.active and now >= self._pump_at:
            if self._tail_quiet:
                self._tail_quiet = False
                self._selector.register(self.tails.inotify, selectors.EVENT_READ, self._grown)
            self._pump()
        silence = self.dead_man.due()
        if silence:
            with contextlib.suppress(Refused):
                self._lanes["state"].put(lambda: self._abandoned(silence))
        for connection in list(self._connections):
            if connection.subscribed and connection.unsent < NEWS_WINDOW and not connection.closed:
                connection.cursor, lines = self.news.after(connection.cursor, NEWS_WINDOW)
                if lines:
                    connection.send(lines)
            self._interest(connection)

    def _pump(self) -> None:
        # Nothing is lost by looking seldom: a growing file wakes us, this is only for files that were replaced.
        self._pump_at = time.monotonic() + (0.2 if self.tails.inotify >= 0 else TICK_S)
        try:
            self.tails.pump()
        except OSError as error:
            complain("trace log", error)

    def _grown(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.tails.inotify, 65536)
        self._pump()
        if self.tails.active:
            # A busy log is read at most every TRACE_GAP_S; the kernel keeps the wake-up for us.
            self._selector.unregister(self.tails.inotify)
            self._tail_quiet = True
            self._pump_at = time.monotonic() + TRACE_GAP_S

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_r, 4096)
        # After the reading: whoever finds the flag still up is served by this very turn.
        self._awake = False

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except OSError:
            return
        why = self._not_trusted(connected)
        if why or len(self._connections) >= CONNECTIONS_MAX:
            connected.close()
            if why and self._turned_away < TURNED_AWAY_MAX:
                self._turned_away += 1
                complain("a connection was refused", Refused(why))
            return
        connected.setblocking(False)
        connection = Connection(connected, self.wake)
        self._connections.add(connection)
        self._selector.register(connected, selectors.EVENT_READ, connection)

    def _not_trusted(self, connected: socket.socket) -> str:
        """Why whoever connected may not speak to us; "": they may.

        From outside this host's process namespace (process 0) comes only who made the host: its socket is nowhere else.
        From inside, root and our own user may, unless it is the node, or anything with less capabilities than ours.
        """
        raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        pid, uid, _ = struct.unpack("iII", raw)
        if pid == 0:
            return ""
        if uid not in {0, os.geteuid()}:
            return f"process {pid} has uid {uid}"
        seen, child = process_stat(pid), self.node.child
        if child is not None and not isinstance(self.node, AdoptedNode) and seen is not None and seen[2] == child.pid:
            return f"process {pid} is of the node"
        theirs, ours = permitted(pid), permitted()
        if theirs is not None and ours is not None and ours & ~theirs:
            return f"process {pid} has fewer capabilities than the agent"
        return ""

    def _interest(self, connection: Connection) -> None:
        if connection.closed:
            self._drop(connection)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        if self._selector.get_key(connection.socket).events != wanted:
            self._selector.modify(connection.socket, wanted, connection)

    def _drop(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._selector.unregister(connection.socket)
            with self._sessions_lock:
                if connection.session is not None and connection.session.connection is connection:
                    connection.session.connection = None
            connection.close()

    def _exchange(self, connection: Connection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            connection.flush()
        if not mask & selectors.EVENT_READ:
            return
        try:
            data = connection.socket.recv(256 << 10)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            connection.closed = True
            return
        if connection.session is not None:
            self.dead_man.hear()
        connection.unread += data
        if b"\n" not in data:
            connection.closed = connection.closed or len(connection.unread) > LINE_MAX
            return
        *lines, rest = bytes(connection.unread).split(b"\n")
        connection.unread = bytearray(rest)
        for line in lines:
            if line.strip():
                self._handle(connection, line)

    # --- requests -----------------------------------------------------------------------------------------------

    def _handle(self, connection: Connection, line: bytes) -> None:
        number: int | None = None
        try:
            try:
                request = _mapping(json.loads(line), "a request")
            except (ValueError, RecursionError) as error:
                raise Refused(f"not a line of JSON: {error}") from None
            number = _integer(request, "id", low=0, high=2**62)
            verb = _text(request, "do")
            if verb == "hello":
                self._answer(connection, number, {"ok": self._hello(connection, request)})
                return
            if verb not in self._verbs:
                raise Refused(f"no such verb: {verb[:80]}")
            if connection.session is not None and self._asked_before(connection, connection.session, number):
                return
            lane, function = self._verbs[verb]
            if not lane:
                self._serve(connection, number, function, request)
                return
            self._lanes[lane].put(lambda: self._serve(connection, number, function, request))
        except Refused as refused:
            self._answer(connection, number, {"error": str(refused)})
        except Exception as error:  # noqa: BLE001 - wrong input must never end the agent
            complain("request", error)
            self._answer(connection, number, {"error": f"internal: {type(error).__name__}: {error}"[:500]})

    def _asked_before(self, connection: Connection, session: Session, number: int) -> bool:
        with self._sessions_lock:
            answer = session.answer(number)
            if answer is None and number not in session.pending:
                session.pending.add(number)
                return False
        if answer is not None:
            connection.send(answer)
        return True

    def _serve(self, connection: Connection, number: int | None, verb: Verb, request: Mapping[str, Any]) -> None:
        try:
            answer: Mapping[str, Any] = {"ok": verb(request)}
        except Refused as refused:
            answer = {"error": str(refused)}
        except OSError as error:
            answer = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - wrong input must never end the agent
            complain("request", error)
            answer = {"error": f"internal: {type(error).__name__}: {error}"[:500]}
        self._answer(connection, number, answer)

    def _answer(self, connection: Connection, number: int | None, answer: Mapping[str, Any]) -> None:
        line = json.dumps({"id": number, **answer}).encode() + b"\n"
        session = connection.session
        to: Connection | None = connection
        if session is not None and number is not None:
            with self._sessions_lock:
                session.keep(number, line)
                to = session.connection
        if to is not None:
            to.send(line)

    def _hello(self, connection: Connection, request: Mapping[str, Any]) -> Mapping[str, Any]:
        name = _text(request, "session")
        run = request.get("run")
        if run is not None and run != self.run:
            raise Refused(f"this agent serves run {self.run}, not {run!r:.80}")
        after = _integer(request, "after", low=0, high=2**62)
        with self._sessions_lock:
            session = self._sessions.pop(name, None) or Session()
            self._sessions[name] = session
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
            session.connection = connection
        connection.session = session
        self.dead_man.hear()
        for other in self._connections:
            other.subscribed = False  # news have one reader: the latest
        connection.cursor, connection.subscribed = min(after, self.news.last), True
        return {
            "version": VERSION,
            "run": self.run,
            "epoch": self._epoch,
            "probe_port": self.probes.port,
            "boot": boot_id(),
            "mono_ns": now_ns(),
            "news": self.news.last,
            "running": self.node.running,
            "incarnation": self.node.incarnation,
            "found": self.found,
            "addresses": own_addresses(),
        }

    def _ack(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.news.acknowledge(_integer(request, "news", low=0, high=2**62))
        return {}

    def _bye(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.dead_man.arm(0)
        why = self.rules.remove() if self.rules.used else ""
        return {"why": why}

    def _noise(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.canary.summary()

    def _send_probes(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        nonce = _integer(request, "nonce", low=0, high=2**63)
        lo = now_ns()
        failed = self.probes.send(nonce, _texts(request.get("order") or [], "order"))
        return {"lo": lo, "hi": now_ns(), "failed": failed}

    def _probe_links(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        nonce = _integer(request, "nonce", low=0, high=2**63)
        expect = _texts(request.get("expect") or [], "expect")
        lo = now_ns()
        answer = self.probes.wait(nonce, expect, _integer(request, "timeout_ns", low=0, high=30 * SECOND))
        answer.update(self._dropped())
        return {**answer, "addresses": own_addresses(), "lo": lo, "hi": now_ns()}

    def _dropped(self) -> dict[str, Any]:
        """Packets dropped by name; ``passed``: addresses of a peer that no packet was dropped from, though one came."""
        why, by_address = self.rules.counters()
        dropped: dict[str, int] = {}
        passed: dict[str, list[str]] = {}
        for name, addresses in self.probes.ways.items():
            counted = [by_address[address] for address in addresses if address in by_address]
            if counted:
                dropped[name] = sum(counted)
                used = sorted(set(self.probes.known(name).values()))
                passed[name] = [address for address in used if by_address.get(address, 0) < 1]
        found = {"in_force": not why, "dropped": dropped, "passed": {k: v for k, v in passed.items() if v}}
        return {**found, "why": why} if why else found

    def _meet(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Who the peers are, at all their addresses; ``uncut``: why those of IPv6 could not be cut here.

        A peer that is not among them is down: it keeps the addresses that it was known by, unless others have them.
        """
        peers = clean_peers(request.get("peers"))
        taken = {address for addresses in peers.values() for address in addresses}
        for name, known in self.probes.peers.items():
            peers.setdefault(name, tuple(address for address in known if address not in taken))
        self.probes.meet(self.probes.name, peers)
        own = own_addresses()
        uncut = ""
        if any(is_v6(address) for address in own) and any(is_v6(one) for ways in peers.values() for one in ways):
            able, why = self.rules.six.available()
            uncut = "" if able else why
        return {"addresses": own, "uncut": uncut}

    def _measure(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        peers = dict(_mapping(request.get("peers"), "peers"))
        _texts(list(peers.values()), "peers")
        window_ns = _integer(request, "window_ns", low=1, high=Gauge.WINDOW_MAX_NS)
        writes_per_s = _integer(request, "writes_per_s", low=1, high=10**6)
        return self.gauge.measure(_text(request, "directory"), peers, window_ns, writes_per_s)

    def _prepare(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        spec = clean_start(request.get("start"))
        peers = clean_peers(request.get("peers"))
        name = _text(request, "name")
        dead_man_ns = _integer(request, "dead_man_ns", low=0, high=86400 * SECOND) or self._dead_man_ns
        gateway = default_gateway()
        if "client" not in peers and gateway is not None:
            peers["client"] = (gateway,)
        adopted = isinstance(self.node, AdoptedNode)
        command = spec["command"]
        if adopted:
            node = Confined(-1, -1, (), own=False, why="it was adopted, and keeps the user that it had")
        else:
            node = confined(command["user"], command["capabilities"], default=self._node_user)
        for place in filter(None, (os.path.dirname(spec["log_path"]), spec["data_dir"], spec["run_dir"])):  # noqa: PTH120
            os.makedirs(place, exist_ok=True)  # noqa: PTH103
            if not adopted and not self._is_ours(place):
                give(place, node)
        for path in () if adopted else self._placed:
            with contextlib.suppress(OSError):
                os.chown(path, node.uid, node.gid, follow_symlinks=False)
        self.node.confined = node
        self.probes.meet(name, peers)
        self.node.spec = spec
        if not adopted:  # what it writes, it writes elsewhere
            self.tails.follow(spec["trace_path"])
        self._beside = _integer(request, "process", low=0, high=1 << 30) or None
        self.canary.limit_ns = self.node_watch.limit_ns = spec["noise_max_ns"]
        self.canary.watch_disk(spec["data_dir"])
        self.node.fatal = self.fatal
        self.fatal.incarnation = lambda: self.node.incarnation
        self.fatal.follow(spec["fatal_path"] or spec["log_path"], spec["fatal"])
        self.canary.disk_known.wait(FIRST_SYNC_LIMIT_S)
        self._prepared = True
        self._declare_sources()
        self.dead_man.arm(dead_man_ns)
        self.node.remember()
        return {"client": list(peers.get("client", ())), "runs_as": node.said()}

    def _is_ours(self, place: str) -> bool:
        """Whether the agent's own files lie below this directory: then it does not become the node's."""
        return os.path.realpath(self._path).startswith(os.path.realpath(place).rstrip("/") + "/")

    def _declare_sources(self) -> None:
        """Tell what is watched here, so that a source that cannot be read is not taken for a quiet one."""
        if self._prepared:
            moment = now_ns()
            sources = {**self.canary.sources(), **self.node_watch.sources(), **self.totals.sources()}
            self.news.noise("sources", moment, moment, 0, boot=boot_id(), sources=sources)

    def _members(self) -> Sequence[int]:
        if self._beside is not None:
            return (self._beside, *descendants(self._beside))
        return self.node.members_now()

    def _adopt(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        given = _mapping(request.get("target"), "target")
        target = {key: _text(given, key) for key in ("by", "value")}
        if target["by"] not in {"pid_file", "unit", "pattern"}:
            raise Refused(f"a target is not found by {target['by'][:80]}")
        restart = _texts(request.get("restart") or [], "restart")
        self.node = AdoptedNode(self.node, target, restart, processes=self.processes, news=self.news)
        self.keeper = HostKeeper(self.rules, self.probes, self.clock, self.node, term_limit_s=self._term_limit_s)
        return {}

    def _start_node(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.node.start()
        self.node_watch.look_now()
        return self.node.names()

    def _stop_node(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        limit_ns = _integer(request, "limit_ns", low=0, high=60 * SECOND) or 3 * SECOND
        if isinstance(self.node, AdoptedNode):
            self.node.leave()
            return {"obeyed": True, "gone": True, "news": self.news.last, **self.node.names()}
        self.node.wanted = False
        obeyed = self.node.end(signal.SIGTERM, limit_ns / SECOND)
        gone = obeyed or self.node.end(signal.SIGKILL, SIGNAL_LIMIT_S)
        with contextlib.suppress(OSError):
            self.tails.pump()
        self._no_longer_alone()
        self.totals.report()
        summary = self.canary.summary()
        moment = now_ns()
        self.news.noise("summary", moment, moment, summary["stall_max_ns"], **summary)
        return {"obeyed": obeyed, "gone": gone, "news": self.news.last, **self.node.names()}

    def _converge(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        want = clean_state(request.get("want"))
        try:
            return self.keeper.converge(want, verify=request.get("verify") is not False)
        finally:
            self._no_longer_alone()
            self.node_watch.look_now()

    def _heal(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        evidence = self.keeper.converge(HEALTHY)
        why = self.rules.remove() if self.rules.used else ""
        if why:
            evidence.update(confirmed=False, why="; ".join(filter(None, [evidence["why"], why])))
        if request.get("stop") is True:
            evidence["detail"]["stop"] = dict(self._stop_node({}))
        return evidence

    def _abandoned(self, silence_ns: int) -> None:
        lo = now_ns()
        evidence = self._heal({})
        detail = {"id": lo, "confirmed": evidence["confirmed"], "why": evidence["why"]}
        self._alone = (lo, silence_ns, detail)
        self.news.noise("dead-man", lo, now_ns(), silence_ns, **detail)

    def _no_longer_alone(self) -> None:
        """The harness says again how this host is to be: until now it believed what was no longer so."""
        if self._alone is not None:
            (lo, silence_ns, detail), self._alone = self._alone, None
            self.news.noise("dead-man", lo, now_ns(), silence_ns, **detail)

    def _reset_flows(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        addresses: list[str] = []
        for peer in _texts(request.get("peers"), "peers"):
            if peer not in self.probes.peers:
                raise Refused(f"not a known peer: {peer[:80]}")
            addresses += self.probes.peers[peer]
        lo = now_ns()
        return {"lo": lo, **reset_flows(self.processes, addresses), "hi": now_ns()}

    def _capabilities(self, _request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Capability → what it is by, or ``no: `` and why not."""
        ok, tool = self.rules.four.available()
        ok_six, tool_six = self.rules.six.available()
        faketime = self.clock.library
        return {
            "iptables": tool if ok else f"no: {tool}",
            "ip6tables": tool_six if ok_six else f"no: {tool_six}",
            "signals": "own process groups",
            "faketime": "libfaketime" if faketime else "no: libfaketime is not installed on this host",
            "probes": f"UDP port {self.probes.port}" if self.probes.sockets else f"no: {self.probes.why}",
            "ss": "ss" if shutil.which("ss") else "no: ss (iproute2) is not installed on this host",
            "netem": "no: arrivals are not shaped here; loss is by the statistic match of iptables",
        }

    def _run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        argv = _texts(request.get("argv"), "argv")
        if not argv:
            raise Refused("argv is empty")
        limit_ns = _integer(request, "timeout_ns", low=MS, high=600 * SECOND)
        code, out, err = self.processes.tool(argv, limit_s=limit_ns / SECOND)
        return {"code": code, "out": base64.b64encode(out).decode(), "err": base64.b64encode(err).decode()}

    def _read_file(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        offset = _integer(request, "offset", low=0, high=1 << 40)
        # without waiting: a pipe under a log's name would hold up this lane for ever
        fd = os.open(_text(request, "path"), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise Refused("it is no regular file")
            file.seek(offset)
            data = file.read(CHUNK_MAX)
        return {"data": base64.b64encode(data).decode(), "more": len(data) == CHUNK_MAX, "size": seen.st_size}

    def _write_file(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        path, token = _text(request, "path"), _text(request, "token")
        if re.fullmatch(r"[0-9a-f]{1,32}", token) is None:
            raise Refused("token must be hexadecimal digits")
        try:
            data = base64.b64decode(_text(request, "data"), validate=True)
        except binascii.Error as error:
            raise Refused(f"data is not base64: {error}") from None
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)  # noqa: PTH103, PTH120
        temporary = f"{path}.dethrone-{token}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            os.lseek(fd, _integer(request, "offset", low=0, high=1 << 40), os.SEEK_SET)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            if request.get("last") is True:
                os.replace(temporary, path)  # noqa: PTH105
                if len(self._placed) < PLACED_MAX:
                    self._placed.append(path)
        except (OSError, Refused):
            os.unlink(temporary)  # noqa: PTH108
            raise
        return {}

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self, *_: object) -> None:
        self._ending = True

    def _finish(self) -> None:
        self.node.wanted = False
        if isinstance(self.node, AdoptedNode):
            self.node.leave()
        elif not self.node.end(signal.SIGTERM, 2.0):
            self.node.end(signal.SIGKILL, SIGNAL_LIMIT_S)
        if self.rules.used:
            self.rules.remove()
        if self.node.host_clock is not None:
            with contextlib.suppress(OSError):
                self.node.host_clock.set(None)
        for path in (self._path, self._state_path, self.clock.path):
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108


def clean_start(raw: Any) -> dict[str, Any]:
    """How to start a node, every field checked; Refused for anything else."""
    raw = _mapping(raw, "start")
    command = _mapping(raw.get("command"), "command")
    argv = _texts(command.get("argv"), "argv")
    if not argv:
        raise Refused("argv is empty")
    env = dict(_mapping(command.get("env") or {}, "env"))
    _texts(list(env.values()), "env")
    for key in ("trace_path", "clock_socket", "fatal_path"):
        if raw.get(key) is not None:
            _text(raw, key)
    user = command.get("user")
    fatal = _texts(raw.get("fatal") or [], "fatal")
    return {
        "command": {
            "argv": argv,
            "env": env,
            "cwd": command.get("cwd") or "/",
            "user": None if user is None else _text(command, "user"),
            "capabilities": _texts(command.get("capabilities") or [], "capabilities"),
        },
        "run_dir": _text(raw, "run_dir") if raw.get("run_dir") else os.path.dirname(raw.get("clock_socket") or ""),  # noqa: PTH120
        "trace_path": raw.get("trace_path"),
        "log_path": _text(raw, "log_path"),
        "data_dir": _text(raw, "data_dir"),
        "clock_socket": raw.get("clock_socket"),
        "faketime": raw.get("faketime") is True,
        "fatal": [text for text in fatal if text],
        "fatal_path": raw.get("fatal_path"),
        "noise_max_ns": _integer(raw, "noise_max_ns", low=0, high=3600 * SECOND) or STARVED_NS,
    }


def boot_id() -> str:
    """Which boot of which kernel this is: two processes with the same one share the monotonic clock."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""


# --- the other commands -----------------------------------------------------------------------------------------


def heal_alone(processes: Processes, run: str | None, state_path: str, *, stop: bool = False) -> dict[str, Any]:
    """What can be healed without the agent that broke it: rules out, the process thawed, its clock right.

    ``run`` None: the chains of all runs. ``stop``: the node process is killed. The node is not started.
    """
    rules = Firewall(run or "", processes)
    answer: dict[str, Any] = {"alone": True, "why": rules.remove_leftovers(every_run=run is None)}
    try:
        with open(state_path, "rb") as file:  # noqa: PTH123
            state = json.load(file)
        if state.get("faketime"):
            replace_file(state["faketime"], faketime_text(0, 0 if state.get("rated") else None).encode())
            answer["clock"] = "+0"
        gap = state.get("wall_gap")
        if gap and gap["boot"] == boot_id():
            time.clock_settime_ns(time.CLOCK_REALTIME, now_ns() + int(gap["ns"]))
            answer["host_clock"] = "set back"
        node = state.get("node") or {}
        stat = process_stat(int(node["pid"])) if node else None
        for pid, start in state.get("adopted") or ():
            if same_process(pid, start):
                os.kill(pid, signal.SIGCONT)
                answer["node"] = {**node, "done": "thawed"}
        if "adopted" not in state and stat is not None and stat[3] == node["start_ticks"] and stat[0] != "Z":
            os.killpg(int(node["pid"]), signal.SIGKILL if stop else signal.SIGCONT)
            answer["node"] = {**node, "done": "killed" if stop else "thawed"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not isinstance(error, FileNotFoundError):
            answer["why"] = "; ".join(filter(None, [answer["why"], f"the agent's state: {error}"]))
    answer["confirmed"] = not answer["why"]
    return answer


def make_account(uid: int, gid: int) -> None:
    """Names for a node's user and group, on a host of ours: programs ask for them. A host that has them is as it is."""
    for path, number, line in (
        ("/etc/group", gid, f"dethrone:x:{gid}:\n"),
        ("/etc/passwd", uid, f"dethrone:x:{uid}:{gid}:a tested node:/nonexistent:/bin/sh\n"),
    ):
        with contextlib.suppress(OSError), open(path, "r+", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            known = [entry.split(":") for entry in file]
            if not any(len(entry) > 2 and (entry[0] == "dethrone" or entry[2] == str(number)) for entry in known):
                file.write(line)


def connect(path: str, wait_s: float) -> socket.socket:
    """The agent's socket, once it is there; OSError if it is not within ``wait_s``."""
    deadline = time.monotonic() + wait_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
        else:
            return connection


def relay(path: str, wait_s: float) -> int:
    """Copy stdin to the agent and the agent to stdout until either ends."""
    try:
        connection = connect(path, wait_s)
    except OSError as error:
        complain(f"no agent answers at {path}", error)
        return 3
    ended = threading.Event()
    # Two threads: a harness that does not read for a while must still be able to ask.
    for source, target in ((0, connection.fileno()), (connection.fileno(), 1)):
        threading.Thread(target=copy, args=(source, target, ended), daemon=True).start()
    ended.wait()
    return 0


def copy(source: int, target: int, ended: threading.Event) -> None:
    """Copy bytes until either side is gone."""
    with contextlib.suppress(OSError):
        while True:
            data = os.read(source, 256 << 10)
            if not data:
                break
            while data:
                data = data[os.write(target, data) :]
    ended.set()


def heal(path: str, run: str | None, *, stop: bool) -> int:
    """Converge the host to healthy through the living agent, or alone; one JSON line says how it went."""
    answer: dict[str, Any] = {}
    try:
        with connect(path, 0) as connection:
            connection.settimeout(30)
            connection.sendall(json.dumps({"id": 1, "do": "heal", "stop": stop}).encode() + b"\n")
            said = json.loads(connection.makefile("rb").readline() or b"{}")
            answer = said.get("ok") or {}
    except (OSError, ValueError) as error:
        if not isinstance(error, (FileNotFoundError, ConnectionError)):
            complain("heal", error)
    if not answer:
        answer = heal_alone(Processes(), run, f"{path}.state", stop=stop)
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0 if answer["confirmed"] else 3


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(prog="agent.py", description="The agent of one host.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    serving = verbs.add_parser("serve", help="be the agent")
    serving.add_argument("--run", required=True)
    serving.add_argument("--dead-man", type=float, default=0.0, metavar="SECONDS", help="heal after so much silence")
    serving.add_argument("--probe-port", type=int, default=PROBE_PORT)
    serving.add_argument("--term-limit", type=float, default=TERM_LIMIT_S, metavar="SECONDS", help="to obey SIGTERM")
    serving.add_argument("--iptables", choices=("auto", "nft", "legacy"), default="auto")
    relaying = verbs.add_parser("relay", help="stdin/stdout to the agent's socket")
    relaying.add_argument("--wait", type=float, default=10.0, metavar="SECONDS")
    healing = verbs.add_parser("heal", help="converge to healthy")
    healing.add_argument("--run", default=None, help="whose chain, if no agent lives; default: those of all runs")
    healing.add_argument("--stop", action="store_true", help="end the node, too")
    serving.add_argument("--spare", action="append", default=[], metavar="ADDRESS:PORT", help="TCP never dropped")
    serving.add_argument("--settimeofday", action="store_true", help="skew the machine's own clock")
    serving.add_argument("--node-user", default=None, metavar="USER", help="as whom nodes run that ask for no user")
    serving.add_argument("--make-account", action="store_true", help="give that user a name here")
    matching = verbs.add_parser("match", help="which texts a pattern matches: a question a line on stdin")
    for verb in (serving, relaying, healing, matching):
        verb.add_argument("--socket", required=True)
    given = parser.parse_args(arguments)
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    if given.verb == "relay":
        return relay(given.socket, given.wait)
    if given.verb == "heal":
        return heal(given.socket, given.run, stop=given.stop)
    if given.verb == "match":
        return match()
    sys.setswitchinterval(0.001)
    if given.make_account and given.node_user is not None:
        make_account(*user_of(given.node_user))
    Server(
        given.socket,
        given.run,
        dead_man_ns=int(given.dead_man * SECOND),
        probe_port=given.probe_port,
        tool=given.iptables,
        term_limit_s=given.term_limit,
        spared=[Spared(place.rpartition(":")[0], int(place.rpartition(":")[2])) for place in given.spare],
        sets_clock=given.settimeofday,
        node_user=given.node_user,
    ).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
