"""Checks a described system step by step on hosts of its own: does it start, answer, print, serve, come back?

Guarantees: each step is a row with yes, no (why, what to do) or *not seen* (nothing wrong, but nothing to see either);
if a step fails that others depend on, the examination ends; everything that was started is in a ledger until it is
removed. Faults and judging are out of scope; the registry reads the file.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import (
    Available,
    Backend,
    Described,
    Host,
    HostNews,
    Malformed,
    No,
    NodeSpec,
    Reading,
    StatusCall,
    System,
    Timekeeping,
    Versioned,
)
from dethrone.harness.core.ledger import Ledger, state_dir
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.tls import secured
from dethrone.harness.engine.host.clock_check import clock_rows
from dethrone.harness.engine.host.doctor_row import DoctorRow
from dethrone.harness.engine.host.exit_output import advice, excerpt
from dethrone.harness.engine.host.membership_check import MembershipCheck
from dethrone.harness.engine.run.cluster_view import groups_apart
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.phase_bounds import answer_bound
from dethrone.harness.engine.run.planning import Draft, draft
from dethrone.harness.engine.run.runner import deploy_spec, lenders, node_specs, prepare_host, shared_users, stop_nodes
from dethrone.harness.engine.run.status_poller import status_reader

START_LIMIT_NS = 15 * SECOND
ANSWER_LIMIT_NS = 1 * SECOND
TERM_LIMIT_NS = 2 * SECOND
"""A leading node must report its term within this."""
SETTLE_NS = 1 * SECOND
FIND = 'PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; command -v "$1" >/dev/null'
"""Whether a program is found on a host."""
OUTPUT_BYTES_MAX = 1 << 20
LINES_MAX = 3
"""At most this number of malformed lines is shown."""


class _End(Exception):  # noqa: N818 - the end of an examination, not a mistake
    """A step failed that all others rest on."""


def examine(options: RunOptions, progress: Callable[[str], None]) -> list[DoctorRow]:
    """Every step, on ``options.nodes`` nodes. ConfigError for a file that is wrong, or describes nothing."""
    plan = draft(options, seed=options.seed or 1)
    if not isinstance(plan.system, Described):
        raise ConfigError(
            f"{options.system} is not a description file",
            next_step="`dethrone doctor FILE.toml` examines a description, `dethrone doctor` this machine",
        )
    look = _Examination(plan, plan.system, options, progress)
    with contextlib.suppress(_End):
        look.carry_out()
    return look.rows


class _Examination:
    def __init__(
        self, drafted: Draft, described: Described, options: RunOptions, progress: Callable[[str], None]
    ) -> None:
        self.rows: list[DoctorRow] = []
        self._draft = drafted
        self._system: System = drafted.system
        self._described = described
        self._backend: Backend = drafted.backend
        self._plan: Plan = drafted.plan
        self._options = options
        self._progress = progress
        self._news: queue.SimpleQueue[HostNews] = queue.SimpleQueue()
        self._told: Counter[str] = Counter()
        self._malformed: list[tuple[str, Malformed]] = []
        self._exits: dict[str, int] = {}
        self._run_id = f"doctor-{secrets.token_hex(4)}"

    # --- rows -------------------------------------------------------------------------------------------------

    def _yes(self, step: str, what: str) -> None:
        self.rows.append(DoctorRow(step=step, what=what))

    def _no(self, step: str, what: str, why: str, what_to_do: str = "") -> None:
        self.rows.append(DoctorRow(step=step, what=what, seen="no", why=why, what_to_do=what_to_do))

    def _open(self, step: str, what: str, why: str, what_to_do: str = "") -> None:
        self.rows.append(DoctorRow(step=step, what=what, seen="not seen", why=why, what_to_do=what_to_do))

    # --- the steps --------------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """All steps, in order."""
        self._yes("file", f"describes {self._system.name}, for the workload {self._plan.workload.name}")
        self._version()
        for line in self._described.started():
            self._yes("file", line)
        for name, answer in self._described.remarks():
            if isinstance(answer, No):
                self._open("file", f"{name} will not be judged", answer.why, answer.what_to_do)
        for what, doubt in self._described.doubts():
            self._open("probe", what, doubt.why, doubt.what_to_do)
        available = self._backend.available()
        if isinstance(available, No):
            self._no("hosts", f"backend {self._backend.name}", available.why, available.what_to_do)
            raise _End
        ledger = Ledger(state_dir(), self._run_id)
        clean = False
        hosts: Mapping[str, Host] = {}
        try:
            hosts = self._deploy(ledger)
            self._on_hosts(hosts)
        finally:
            clean = self._remove(hosts, ledger)
            ledger.close(clean=clean)

    def _version(self) -> None:
        """Which build reports will name."""
        try:
            named = self._system.version() if isinstance(self._system, Versioned) else ""
            version = self._plan.system_version or named
        except ConfigError as error:
            self._no("file", "the version", f"{error.what}; {error.cause}", error.next_step)
            return
        if version:
            self._yes("file", f"the version is {version}")
        else:
            step = "set version or version_command in [system]"
            self._open("file", "the version", "reports will not say which build was tested", step)

    def _deploy(self, ledger: Ledger) -> Mapping[str, Host]:
        needs = frozenset({"signals"})
        spec = deploy_spec(self._draft, ledger, base=self._options.base, run_id=self._run_id, needs=needs)
        lent = lenders(self._options)
        ledger.record("deploying", backend=self._backend.name, nodes=list(self._plan.nodes), **lent)
        try:
            hosts = self._backend.deploy(
                spec, origin_ns=time.monotonic_ns(), news=self._news.put, progress=self._progress
            )
        except HarnessError as error:
            self._no(
                "hosts", f"{len(spec.nodes)} on {self._backend.name}", f"{error.what}: {error.cause}", error.next_step
            )
            raise _End from error
        ledger.record("deployed", backend=self._backend.name, nodes=list(hosts))
        self._yes("hosts", f"{len(hosts)} on {self._backend.name}")
        return hosts

    def _remove(self, hosts: Mapping[str, Host], ledger: Ledger) -> bool:
        stop_nodes(hosts)
        for host in hosts.values():
            host.close()
        try:
            ledger.record("destroying", backend=self._backend.name)
            self._backend.destroy(self._run_id)
        except (HarnessError, OSError) as error:
            self._no("end", "hosts removed", str(error), "dethrone heal")
            return False
        return True

    def _on_hosts(self, hosts: Mapping[str, Host]) -> None:
        nodes = node_specs(self._plan, hosts)
        for name, host in hosts.items():
            prepare_host(self._system, host, nodes[name])
        self._users(hosts)
        self._programs(hosts[self._plan.nodes[0]], nodes[self._plan.nodes[0]])
        self._progress("starting")
        for name, host in hosts.items():
            try:
                host.start_node()
            except HarnessError as error:
                self._no("start", f"{name} is started", error.cause or error.what, "check command in [node]")
                raise _End from error
        first = self._plan.nodes[0]
        self._ports(hosts[first], nodes[first])
        before = self._status(hosts, nodes)
        if before is not None:
            self._operations(nodes, before)
            self._restart(hosts, nodes, first)
            self._clock(hosts[first], nodes[first])
            self._members(hosts, nodes)
        self._settle(SETTLE_NS)
        self._trace()

    def _users(self, hosts: Mapping[str, Host]) -> None:
        """Whether nodes can touch what breaks them."""
        shared = shared_users(hosts)
        if not shared:
            self._yes("hosts", "each node runs as a separate user")
        for why, names in shared.items():
            step = (
                "remove user from [node] if the node does not need it; "
                "the agent verifies its rules regularly in any case"
            )
            self._open("hosts", f"{', '.join(names)}: the node cannot change the rules that cut it off", why, step)

    def _programs(self, host: Host, node: NodeSpec) -> None:
        """Whether the host has what the file executes. On a borrowed host another user may have started the node."""
        row = self._no if self._backend.traits.lending is None else self._open
        for key, program in self._described.programs(node):
            code, _, _ = host.run(["/bin/sh", "-c", FIND, "sh", program], timeout_ns=ANSWER_LIMIT_NS)
            if code == 0:
                self._yes("hosts", f"{program} is there")
            else:
                step = "name its Debian package in packages of [system] for --on docker; install it for other hosts"
                row("hosts", f"{program} is there", f"{key} executes it, and no such program is found", step)

    def _ports(self, host: Host, node: NodeSpec) -> None:
        begun = time.monotonic_ns()
        limit, patient = answer_bound(self._plan), False
        for name, port in self._described.ports(node).items():
            while not _listens(node.address, port):
                self._alive(host, node)
                waited = time.monotonic_ns() - begun
                if waited > START_LIMIT_NS and not patient:
                    patient = True
                    self._progress(f"{node.name} does not listen on {name} = {port} yet; waiting {limit // SECOND} s")
                if waited > limit:
                    why = f"no process listens on {node.address}:{port} after {limit // SECOND} s"
                    self._no("start", f"{node.name} listens on {name} = {port}", why, "check ports and command")
                    break
                time.sleep(0.05)
            else:
                self._yes("start", f"{node.name} listens on {name} = {port}")
        self._alive(host, node)

    def _alive(self, host: Host, node: NodeSpec) -> None:
        """Ends the examination if the process ended by itself."""
        self._settle(0)
        if node.name in self._exits:
            output = _output(host, node)
            why = f"its process ended with code {self._exits[node.name]}; of its output:\n{excerpt(output)}"
            self._no("start", f"{node.name} stays up", why, advice(output))
            raise _End

    def _status(self, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec]) -> str | None:
        """Poll until a node leads; rows for the first node's answer. Returns the leader, or None."""
        first = self._plan.nodes[0]
        call = self._system.status_call(nodes[first])
        if call is None:
            self._no("probe", "the status", "this system has no status query")
            return None
        bound = max(START_LIMIT_NS, 2 * self._plan.promise.leader_bound_ns)
        deadline = time.monotonic_ns() + bound
        body, wrong, leader, untermed, apart = b"", "", None, "", ""
        readings: dict[str, Reading] = {}
        while (leader is None or first not in readings or apart) and time.monotonic_ns() < deadline:
            readings = {}
            for name, node in nodes.items():
                self._alive(hosts[name], node)
                try:
                    said = ask(node.address, call, ANSWER_LIMIT_NS)
                except (OSError, ValueError) as error:
                    wrong = wrong if name != first else str(error) or type(error).__name__
                    continue
                body = said if name == first else body
                found = self._system.reading(node, said)
                if found is not None:
                    readings[name] = found
            apart = groups_apart({name: readings[name] for name in self._plan.voters if name in readings})
            leads = {name: reading.term for name, reading in readings.items() if reading.leads}
            leader = next((name for name, term in leads.items() if term > 0), None)
            if leader is None and leads and not untermed:  # it may report its term a moment after its role
                untermed = next(iter(leads))
                deadline = min(deadline, time.monotonic_ns() + TERM_LIMIT_NS)
            time.sleep(0.1)
        if not body:
            self._no("probe", f"{first} answers", wrong or "no answer", "check [probe]: path, port, command")
            return None
        for what, answer in self._described.explain(nodes[first], body):
            self._row("probe", what, answer)
        self._reports_version(self._system.reading(nodes[first], body))
        if leader is None and untermed:
            self._no(
                "probe",
                f"{untermed} leads in a term",
                "it claims to lead in term 0, which is not a valid term: leaders cannot be distinguished",
                "let term in [probe] name where the status reports the term of its leader, from 1; if a single node"
                " leads without an election, give --nodes 3",
            )
        elif leader is None:
            self._no(
                "probe",
                "one node leads",
                f"no node reported it for {bound // SECOND} s",
                "check role, leader_role and leads in [probe]; or raise --nodes if one node alone cannot lead",
            )
        else:
            self._yes("probe", f"{leader} leads")
        if apart:
            step = "name a place in [probe] groups that holds only groups in which all nodes are that vote"
            self._no("probe", "each node is in every group", f"{apart}; quorums are of all nodes that vote", step)
        return leader or untermed or None

    def _reports_version(self, reading: Reading | None) -> None:
        """Whether a node of several versions says which one it is: upgrades are proved by that."""
        begins_with = self._plan.system_version
        if not self._plan.versions or reading is None:
            return
        if reading.version == begins_with:
            self._yes("probe", f"it reports version {begins_with}")
        else:
            why = f"it reports {reading.version or 'none'}"
            step = "write `reports` in [versions.NAME], or another place for version in [probe]"
            self._no("probe", f"it reports version {begins_with}", why, step)

    def _row(self, step: str, what: str, answer: Available) -> None:
        if isinstance(answer, No):
            self._no(step, what, answer.why, answer.what_to_do)
        else:
            self._yes(step, what)

    def _operations(self, nodes: Mapping[str, NodeSpec], leader: str) -> None:
        samples = self._described.samples()
        if not samples:
            self._open("ops", "no operations", "[ops] is missing", "add [ops] to have the clients' view judged as well")
            return
        client = self._system.client(nodes)
        try:
            for f, value in samples:
                deadline = time.monotonic_ns() + START_LIMIT_NS  # it may serve a moment after it elected
                while (outcome := client.invoke(f, value, target=leader, timeout_ns=5 * SECOND)).status == "info":
                    if time.monotonic_ns() >= deadline:
                        break
                    time.sleep(0.1)
                what = f"{f} {_short(value)} at {leader}"
                if outcome.status == "ok":
                    self._yes("ops", f"{what}: {_short(outcome.value)}")
                else:
                    self._no("ops", what, f"{outcome.status}: {outcome.error}", f"look at {f} in [ops]")
        finally:
            client.close()

    def _restart(self, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec], name: str) -> None:
        """Kill it with -9 and start it again: it must answer, and in no lower term."""
        before = self._reading(nodes[name])
        self._progress(f"killing and restarting {name}")
        killed = hosts[name].converge(HostState(down="SIGKILL"))
        self._settle(0)
        self._exits.pop(name, None)
        back = hosts[name].converge(HEALTHY)
        if not killed.confirmed or not back.confirmed:
            self._no("restart", f"{name} was killed and restarted", killed.why or back.why)
            return
        deadline = time.monotonic_ns() + answer_bound(self._plan)
        after = None
        while after is None and time.monotonic_ns() < deadline:
            self._alive(hosts[name], nodes[name])
            time.sleep(0.05)
            after = self._reading(nodes[name])
        if after is None:
            self._no("restart", f"{name} answers after kill -9", "no answer that could be parsed", "check its log")
        elif before is not None and after.term < before.term:
            why = f"term {after.term} after term {before.term}"
            self._no("restart", f"{name} answers after kill -9", why, "is {data_dir} its directory?")
        else:
            self._yes("restart", f"{name} answers after kill -9, in term {after.term}")

    def _clock(self, host: Host, node: NodeSpec) -> None:
        """Whether its clock can be skewed, and whether it says so itself, where the file names a command for that."""
        told = isinstance(self._system, Timekeeping) and self._system.clock_command(node) is not None
        self.rows += clock_rows(host, told=told, lent=self._backend.traits.lending is not None)

    def _members(self, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec]) -> None:
        """Whether leadership moves, and members change, as the file says."""
        limit_ns = max(START_LIMIT_NS, self._plan.promise.leader_bound_ns)
        check = MembershipCheck(hosts, nodes, ask=self._reading, limit_ns=limit_ns)
        if "transfer" in self._system.operations():
            self.rows += check.transferred(self._system)
        if self._described.look_at_members(nodes[self._plan.nodes[0]]):
            self.rows += check.changed(self._described, lent=self._backend.traits.lending is not None)

    def _reading(self, node: NodeSpec) -> Reading | None:
        call = self._system.status_call(node)
        if call is None:
            return None
        try:
            return self._system.reading(node, ask(node.address, call, ANSWER_LIMIT_NS))
        except (OSError, ValueError):
            return None

    def _trace(self) -> None:
        named = self._described.told()
        if not named:
            self._open(
                "trace", "no trace lines", "[trace] is missing", "print trace lines to have elections judged exactly"
            )
            return
        for name in named:
            if self._told[name]:
                self._yes("trace", f"{name}: {self._told[name]} lines")
            else:
                self._open(
                    "trace", name, "no such line found", "use --nodes 3; some lines are printed only under faults"
                )
        for name in sorted(set(self._told) - set(named)):
            why = f"{self._told[name]} lines are printed, but the file does not name them"
            self._open("trace", name, why, f"add {name!r} to events")
        if not self._told:
            self._no(
                "trace", "any line", "no trace line found in the trace file", "print to stdout, or set file in [trace]"
            )
        for node, bad in self._malformed[:LINES_MAX]:
            self._no(
                "trace", f"a line of {node} is malformed: {bad.line}", bad.why, "see docs/own-system.md for the format"
            )
        if len(self._malformed) > LINES_MAX:
            self._no("trace", "malformed lines", f"{len(self._malformed)} in all")

    # --- news -------------------------------------------------------------------------------------------------

    def _settle(self, wait_ns: Ns) -> None:
        """Take what the agents reported; wait for more during ``wait_ns``."""
        deadline = time.monotonic_ns() + wait_ns
        for news in self._arrived(deadline):
            if news.kind == "exited" and not news.data.get("asked"):
                self._exits[news.host] = int(news.data.get("code") or 0)
            elif news.kind == "trace":
                for raw in news.data["lines"]:
                    for line in self._described.every_line(raw):
                        if isinstance(line, Malformed):
                            self._malformed.append((news.host, line))
                        else:
                            self._told[self._described.trace_name(line)] += 1

    def _arrived(self, deadline: Ns) -> Iterator[HostNews]:
        while True:
            left = (deadline - time.monotonic_ns()) / SECOND
            try:
                yield self._news.get(timeout=left) if left > 0 else self._news.get_nowait()
            except queue.Empty:
                if left <= 0:
                    return


def ask(address: str, call: StatusCall, limit_ns: Ns) -> bytes:
    """One status question over its own connection. OSError: no answer; ValueError: a malformed answer."""
    deadline = time.monotonic_ns() + limit_ns
    plain = socket.create_connection((address, call.port), timeout=limit_ns / SECOND)
    with plain if call.tls is None else secured(plain, call.tls, address) as connection:
        connection.sendall(call.request)
        answer = status_reader(call)
        while True:
            left = deadline - time.monotonic_ns()
            if left <= 0:
                raise TimeoutError("no answer in time")
            connection.settimeout(max(left, MS) / SECOND)
            chunk = connection.recv(65536)
            if not chunk:
                raise ConnectionError("the connection was closed before the answer was complete")
            body = answer.feed(chunk)
            if body is not None:
                return body


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def _output(host: Host, node: NodeSpec) -> str:
    try:
        return host.read_file(f"{node.log_dir}/node.log", most=OUTPUT_BYTES_MAX).decode("utf-8", "replace")
    except HarnessError:
        return "(no output)"


def _short(value: Any) -> str:
    return f"{value!r:.60}"
