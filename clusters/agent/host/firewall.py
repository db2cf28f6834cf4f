"""Rules for packets that arrive: a chain of the run's own in an INPUT of the host, for IPv4 and for IPv6.

Cuts are in the table ``filter``, links of bad quality in ``mangle``: there, packets that pass still meet all rules of
``filter``, those of others and our cuts. Guarantees: a chain is replaced as a whole; nothing outside our chain and its
hook is changed; rules that let the harness and neighbour discovery pass come before all others; ``check`` says whether
they are still there. Out of scope: when it is asked (``lost_rules``, once a second), what becomes of packets that are
queued (``qualities``), and proof that packets are dropped (``probes``).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dethrone.clusters.agent.host.addresses import NLMSG_ERROR, is_v6, whole
from dethrone.clusters.agent.host.common import Refused, now_ns
from dethrone.clusters.agent.host.processes import Processes

NEIGHBOURS = tuple(f"-p ipv6-icmp -m icmp6 --icmpv6-type {kind} -j RETURN" for kind in (135, 136))
"""Neighbour discovery passes a cut, as ARP does: otherwise a one-way cut would cut both ways."""
NETLINK_NETFILTER, NFT_MSG_GETGEN, NFTA_GEN_ID, NLM_F_REQUEST = 12, 10 << 8 | 16, 1, 1
NO_TABLE = "Table does not exist"


CUT = "-j DROP"
"""What a rule does to packets, as ``iptables-save`` prints it after their source."""
RESET = "-p tcp -j REJECT --reject-with tcp-reset"
"""The sender's connection ends at its next packet (iptables-extensions(8), REJECT)."""
NEW = "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j DROP"
"""No new connection is made. Its first packet is known by its flags, so the kernel need not track connections, which
takes those that it has not seen begin for new."""


class Rule(NamedTuple):
    """What becomes of packets of ``src`` (a host's name) from ``address``: a cut, unless ``does`` says otherwise."""

    src: str
    address: str
    does: str = CUT


class Look(NamedTuple):
    """A chain as found: how often it is hooked, its (address, what it does) in order, packets matched per address.

    ``first``: no rule before its hook in INPUT could accept packets that our chain drops.
    """

    hooks: int
    rules: tuple[tuple[str, str], ...]
    packets: Mapping[str, int]
    first: bool = True

    @property
    def hooked(self) -> bool:
        """Whether every packet that arrives meets our chain first."""
        return self.hooks > 0 and self.first


def chain_name(run: str) -> str:
    """The name of the run's own chain; at most 28 characters for any name of a run."""
    clean = re.sub(r"[^A-Za-z0-9_.-]", "-", run) or "run"
    if len(clean) > 19:
        clean = clean[:10] + "-" + hashlib.blake2b(run.encode(), digest_size=4).hexdigest()
    return "DETHRONE-" + clean


class Spared(NamedTuple):
    """TCP that no rule drops, from ``address`` to this host's ``port``: the harness reaches the agent over it."""

    address: str
    port: int

    @property
    def rule(self) -> str:
        """The rule as ``iptables-save`` prints it after the chain's name."""
        return f"-s {whole(self.address)} -p tcp -m tcp --dport {self.port} -j RETURN"


def restore_text(
    chain: str,
    rules: Sequence[Rule],
    *,
    hook: bool,
    spared: Sequence[Spared] = (),
    passing: Sequence[str] = (),
    table: str = "filter",
) -> str:
    """Input of ``iptables-restore --noflush`` that replaces the chain's whole content at once and nothing else."""
    lines = [f"*{table}", f":{chain} - [0:0]"]
    if hook:
        lines.append(f"-I INPUT 1 -j {chain}")
    lines += [f"-A {chain} {one}" for one in (*passing, *(one.rule for one in spared))] if rules else []
    lines += [f"-A {chain} -s {whole(rule.address)} {rule.does}" for rule in rules]
    return "\n".join([*lines, "COMMIT", ""])


def remove_text(chain: str, hooks: int, table: str = "filter") -> str:
    """Input of ``iptables-restore --noflush`` that removes the chain and its ``hooks`` hook rules."""
    return "\n".join([f"*{table}", *[f"-D INPUT -j {chain}"] * hooks, f"-F {chain}", f"-X {chain}", "COMMIT", ""])


def parse_save(text: str, chain: str) -> Look | None:
    """Our chain in the output of ``iptables-save -c -t TABLE``; None if it does not exist."""
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
            if found is None or rule.endswith(" -j RETURN"):
                rules.append((rule[len(chain) + 4 :], ""))
                continue
            rules.append((found.group(1), found.group(2)))
            packets[found.group(1)] = int(counted.group(1))
    return Look(hooks, tuple(rules), packets, not before) if exists else None


def foreign_chains(text: str) -> list[str]:
    """The chains of all our runs in the output of ``iptables-save``."""
    return re.findall(r"^:(DETHRONE-[A-Za-z0-9_.-]+) ", text, re.MULTILINE)


def expected_rules(
    rules: Sequence[Rule], spared: Sequence[Spared] = (), passing: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """``rules`` in the form of ``Look.rules``."""
    before = [(one, "") for one in (*passing, *(one.rule for one in spared))] if rules else []
    return (*before, *((rule.address, rule.does) for rule in rules))


class Rules:
    """Our chain in the host's INPUT of one table, for one family. ``tool``: ``auto``, ``nft`` or ``legacy``.

    Thread-safe.
    """

    def __init__(
        self,
        run: str,
        processes: Processes,
        *,
        tool: str = "auto",
        spared: Sequence[Spared] = (),
        v6: bool = False,
        table: str = "filter",
    ) -> None:
        self.chain = chain_name(run)
        self._table = table
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
        """The rules that must stay in force until the next ``apply``."""
        self._counted: dict[str, int] = {}
        self._generation: int | None = None
        """The generation of the kernel's nftables when our chain was last seen as installed."""
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
            # Removing a rule costs 1 ms with the legacy interface and 13 ms with nftables, so legacy is used where the
            # kernel has already loaded it.
            order = [self._base, f"{self._base}-nft"]
            if os.path.exists(self._tables):  # noqa: PTH110
                order.insert(0, f"{self._base}-legacy")
            if self._choice != "auto":
                order = [f"{self._base}-{self._choice}"]
            reasons = []
            for prefix in order:
                code, _, err = self._processes.tool([f"{prefix}-save", "-c", "-t", self._table])
                if code == 0:
                    self._prefix = prefix
                    break
                reasons.append(err.decode("utf-8", "replace").strip()[:200])
            else:
                raise Refused(f"{self._base} cannot be used: " + "; ".join(reasons))
        return self._prefix

    def _is_loaded(self) -> bool:
        """Whether this network namespace has the table of the legacy interface, which a look would else make."""
        try:
            with open(self._tables, encoding="ascii") as file:  # noqa: PTH123
                return self._table in file.read().split()
        except OSError:
            return False

    @property
    def used(self) -> bool:
        """Whether a chain of ours may exist."""
        return self._hooked or bool(self._installed) or self._unsure

    def look(self) -> Look | None:
        """The chain as it is now; None if there is none. Raises Refused if it cannot be read."""
        code, out, err = self._processes.tool([f"{self._tool()}-save", "-c", "-t", self._table])
        if code != 0:
            raise Refused(f"{self._base}-save: " + err.decode("utf-8", "replace").strip()[:300])
        return parse_save(out.decode("utf-8", "replace"), self.chain)

    def _restore(self, text: str) -> str:
        argv = [f"{self._tool()}-restore", "--noflush", "-w", "3"]
        code, _, err = self._processes.tool(argv, given=text.encode())
        return "" if code == 0 else (f"{self._base}-restore: " + err.decode("utf-8", "replace").strip()[:300])

    def apply(self, rules: Sequence[Rule], *, verify: bool) -> tuple[bool, str, dict[str, Any]]:
        """Make ``rules`` the chain's content; returns (in force, why not, detail).

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
            text = restore_text(
                self.chain,
                rules,
                hook=not self._hooked,
                spared=self._spared,
                passing=self._passing,
                table=self._table,
            )
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
                return False, "the chain does not hold the installed rules", detail
        self._hooked = True
        self._installed = rules
        return True, "", detail

    def check(self) -> tuple[str, int]:
        """Why the owed rules are not in force ("": they are), and when they were last seen in force."""
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
        """Install the owed rules again; returns "" or why they are not in force."""
        with self._lock:
            good_ns, self._installed = self.good_ns, None
            took, why, _ = self.apply(self._owed, verify=True)
            self.good_ns = self.good_ns if took else good_ns
            return "" if took else why or "it had no effect"

    def _by_nft(self) -> bool:
        if self._nft is None:
            code, out, _ = self._processes.tool([self._tool(), "-V"])
            self._nft = code == 0 and b"nf_tables" in out
        return self._nft

    def _expected(self, rules: Sequence[Rule]) -> tuple[tuple[str, str], ...]:
        return expected_rules(rules, self._spared, self._passing)

    def counters(self) -> tuple[str, dict[str, int]]:
        """Why the chain is not in force as installed ("": it is), and packets dropped since, per source address."""
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
        """Remove our chain and its hook; returns "" or why that failed."""
        with self._lock:
            self._installed, self._hooked, self._unsure, self._owed = None, False, False, []
            try:
                return self._remove_with(self._tool(), every_run=False)
            except Refused as refused:
                return str(refused)

    def remove_leftovers(self, *, every_run: bool) -> str:
        """Remove our chain, or those of all runs, with every tool that may have installed it; "" or why not."""
        tools = [*([f"{self._base}-legacy"] if self._is_loaded() else []), f"{self._base}-nft", self._base]
        there = [tool for tool in tools if shutil.which(f"{tool}-save")]
        with self._lock:
            whys = [self._remove_with(tool, every_run=every_run) for tool in there]
        return "; ".join(filter(None, whys))

    def _remove_with(self, tool: str, *, every_run: bool) -> str:
        code, out, err = self._processes.tool([f"{tool}-save", "-c", "-t", self._table])
        if code != 0:
            said = err.decode("utf-8", "replace").strip()[:300]
            return "" if NO_TABLE in said else said  # without these tables there are no rules of ours
        text = out.decode("utf-8", "replace")
        for chain in foreign_chains(text) if every_run else [self.chain]:
            found = parse_save(text, chain)
            if found is not None:
                given = remove_text(chain, found.hooks, self._table).encode()
                code, _, err = self._processes.tool([f"{tool}-restore", "--noflush", "-w", "3"], given=given)
                if code != 0:
                    return err.decode("utf-8", "replace").strip()[:300]
        return ""


def nft_generation() -> int | None:
    """The generation number of the kernel's nftables rules, which rises with each change; None if unknown."""
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
    """Our chains of both families, as one. The IPv6 chain is touched only once it is needed. Thread-safe."""

    def __init__(
        self,
        run: str,
        processes: Processes,
        *,
        tool: str = "auto",
        spared: Sequence[Spared] = (),
        table: str = "filter",
    ) -> None:
        self.four = Rules(run, processes, tool=tool, spared=spared, table=table)
        self.six = Rules(run, processes, tool=tool, spared=spared, v6=True, table=table)
        self.chain = self.four.chain
        self.lost: list[str] = []
        """Why rules had to be put back since the host last converged."""

    @property
    def used(self) -> bool:
        """Whether a chain of ours may exist."""
        return self.four.used or self.six.used

    def apply(self, rules: Sequence[Rule], *, verify: bool) -> tuple[bool, str, dict[str, Any]]:
        """Make ``rules`` all that we have in this table; see ``Rules.apply``."""
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
        """See ``Rules.counters``, for both families."""
        why, dropped = self.four.counters()
        why_six, dropped_six = self.six.counters()
        return "; ".join(filter(None, [why, why_six])), {**dropped, **dropped_six}

    def remove(self) -> str:
        """Remove our chains and their hooks; returns "" or why that failed."""
        whys = [rules.remove() for rules in (self.four, self.six) if rules is self.four or rules.used]
        return "; ".join(filter(None, whys))

    def remove_leftovers(self, *, every_run: bool) -> str:
        """Remove our chains, or those of all runs, with every tool that may have installed them; "" or why not."""
        speaks = os.path.exists("/proc/net/if_inet6")  # noqa: PTH110 - a kernel without IPv6 has no such rules
        families = (self.four, self.six) if speaks else (self.four,)
        whys = [rules.remove_leftovers(every_run=every_run) for rules in families]
        return "; ".join(filter(None, whys))
