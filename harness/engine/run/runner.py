"""One run from its options to its verdict: draft → deploy → direct → record → judge → tear down.

Reads top to bottom. Guarantees: the ledger records every effect before it begins; the history is closed and the verdict
written BEFORE teardown; SIGINT and SIGTERM heal, keep the history and exit 130. Reports and printing are out of scope;
``virtual_run`` runs in virtual time.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core import store
from dethrone.harness.core import world as w
from dethrone.harness.core.clock import MS, SECOND, Ns, Span
from dethrone.harness.core.errors import ConfigError, HarnessError, HistoryError, Interrupted, MissingCapability
from dethrone.harness.core.events import SCHEMA, Begin, Noise
from dethrone.harness.core.history_writer import HistoryWriter
from dethrone.harness.core.hoststate import DiskModel
from dethrone.harness.core.interfaces import (
    CLOCK_SOCKET,
    OF_GROUPS,
    OF_MOUNTS,
    Bringing,
    Checker,
    Composed,
    DeploySpec,
    Guarding,
    Host,
    Logged,
    No,
    NodeSpec,
    NodeStart,
    OfThisMachine,
    Shaping,
    System,
    Timekeeping,
    Unpreloaded,
    Upgradable,
    Versioned,
)
from dethrone.harness.core.ledger import Ledger, state_dir
from dethrone.harness.core.plan import Plan, presentable
from dethrone.harness.core.schedule import RealisedSchedule
from dethrone.harness.core.secrets import only_secret
from dethrone.harness.core.watches import Watch
from dethrone.harness.core.world import VirtualBackend
from dethrone.harness.engine.run.artifacts import CUT, FREE_MIN, collect, free_bytes, log_tail, too_full
from dethrone.harness.engine.run.code_names import chosen_checkers
from dethrone.harness.engine.run.director import Director
from dethrone.harness.engine.run.disk_needs import disk_model, puts_back_older
from dethrone.harness.engine.run.judge import write_verdict
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.lifecycle import Course, default_dir, signals, versions
from dethrone.harness.engine.run.listener import Drawn, Listener
from dethrone.harness.engine.run.live_world import LiveWorld, news_into
from dethrone.harness.engine.run.measurement import calibrate
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import Draft, draft, needs_of, with_plan
from dethrone.harness.engine.run.thread_priority import ThreadPriority, threads_first
from dethrone.harness.engine.run.unable import refuse_unable
from dethrone.harness.engine.run.virtual_run import VirtualRun

DEAD_MAN_NS = 30 * SECOND
LIVE_EVERY_NS = 400 * MS
SPACE_EVERY_NS = 1 * SECOND


def dry_run(options: RunOptions) -> Plan:
    """The plan of a run that is not carried out."""
    return presentable(draft(options, seed=_seed(options)).plan)


def run(options: RunOptions, listener: Listener, *, checkers: Mapping[str, Checker] | None = None) -> RunResult:
    """Carry out one run. Raises HarnessError only when there is no run directory to speak of yet.

    ``checkers``: only these watch and judge; None: all that are installed.
    """
    seed = _seed(options)
    drafted = draft(options, seed=seed)
    available = drafted.backend.available()
    if isinstance(available, No):
        raise MissingCapability(
            f"the backend {drafted.backend.name!r} cannot be used: {available.why}", next_step=available.what_to_do
        )
    out = options.out if options.out is not None else default_dir(drafted.plan)
    disk = next(place for place in (out, *out.absolute().parents) if place.exists())
    if too_full(disk):
        raise ConfigError(_space_told(disk), where=str(out), next_step="free some space, or choose another --out")
    if isinstance(drafted.system, Versioned) and not drafted.plan.system_version:
        drafted = with_plan(drafted, system_version=drafted.system.version())
    run_dir = store.claim_run_dir(out)
    store_plan(run_dir, drafted.plan, options)
    listener.drawn(Drawn(plan=presentable(drafted.plan), run_dir=run_dir, versions=versions()))
    run_id = f"{drafted.plan.system}-{secrets.token_hex(4)}"
    # Now: a plug-in that cannot be imported ends the run before it began.
    judges = chosen_checkers(options.checkers) if checkers is None else checkers
    course = VirtualRun if isinstance(drafted.backend, VirtualBackend) else _Run
    return course(options, drafted, run_dir, listener, run_id, judges).carry_out()


def store_plan(run_dir: Path, plan: Plan, options: RunOptions) -> None:
    """The plan without secrets, and the secrets of the settings in a file that only its owner can read."""
    store.write_json(run_dir / store.PLAN, presentable(plan))
    store.write_json(run_dir / store.PLANNED, plan.schedule)
    kept = only_secret(options.settings, plan.secrets)
    if kept:
        store.write_json(run_dir / store.SECRETS, {"settings": kept}, private=True)


@dataclass(eq=False)
class _Run(Course):
    """A run on real hosts."""

    inbox: queue.SimpleQueue[w.Happening] = field(default_factory=queue.SimpleQueue)
    hosts: Mapping[str, Host] = field(default_factory=dict)

    def carry_out(self) -> RunResult:
        started = time.monotonic_ns()
        ledger = Ledger(state_dir(), self.run_id)
        clean = False
        with signals(self._on_signal):
            try:
                self._deploy_and_direct(ledger)
            except Interrupted:
                self.interrupted.set()
            except HarnessError as error:
                self.trouble.append(str(error))
            finally:
                clean = self._tear_down(ledger)
                ledger.close(clean=clean)
        return self.result(started)

    # --- the steps --------------------------------------------------------------------------------------------

    def _deploy_and_direct(self, ledger: Ledger) -> None:
        backend, system, plan = self.draft.backend, self.draft.system, self.plan
        needs = needs_of(self.draft.faults.values(), system, backend)
        ledger.record("deploying", backend=backend.name, nodes=list(plan.nodes), **lenders(self.options))
        began = time.monotonic_ns()
        origin = began
        hosts = backend.deploy(
            deploy_spec(self.draft, ledger, base=self.options.base, run_id=self.run_id, needs=needs),
            origin_ns=origin,
            news=news_into(self.inbox),
            progress=self.listener.progress,
        )
        self.hosts = hosts
        self.figures["cluster_up_ms"] = (time.monotonic_ns() - began) // MS
        ledger.record("deployed", backend=backend.name, nodes=list(hosts))
        self._check_interrupted()
        if self.options.time_scale is None and not self._calibrated(hosts):
            return
        self._check_interrupted()
        plan = self.plan
        nodes = node_specs(plan, hosts, memory_dir=backend.traits.memory_dir)
        for name, host in hosts.items():
            prepare_host(
                system,
                host,
                nodes[name],
                keeps_copies=puts_back_older(plan.schedule, self.draft.faults),
                disk_model=disk_model(plan.schedule, self.draft.faults),
                fails=bool(needs & OF_MOUNTS),
                limits=tuple(sorted(needs & OF_GROUPS)),
                watches=self.draft.watches,
            )
        self.figures["shared_users"] = shared_users(hosts)
        refuse_unable(needs, hosts, backend.introduce(hosts))
        self._check_interrupted()
        world = LiveWorld(
            system=system,
            backend=backend,
            hosts=hosts,
            nodes=nodes,
            origin_ns=origin,
            processes=plan.workload.processes,
            observe_interval_ns=plan.observe_interval_ns,
            inbox=self.inbox,
        )
        self._finish_course(self.director(), world, ledger, hosts, nodes, keep=self.options.keep_cluster)

    def _finish_course(
        self,
        director: Director,
        world: LiveWorld,
        ledger: Ledger,
        hosts: Mapping[str, Host],
        nodes: Mapping[str, NodeSpec],
        *,
        keep: bool,
    ) -> None:
        """Direct, judge, collect: nothing that the nodes wrote can keep the verdict from being written."""
        try:
            try:
                with threads_first() as priority:
                    self._direct(director, world, ledger, priority)
            finally:
                world.close()
                self.directed(director)
                if not keep:
                    stop_nodes(hosts)
            self.listener.progress("judging")
            self.judge()
        finally:
            self._collect(hosts, nodes)
        self.seal()

    def _collect(self, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec]) -> None:
        self.listener.progress("collecting logs")
        collected = collect(self.draft.system, hosts, nodes, self.run_dir)
        self.trouble += collected.trouble
        if collected.cut:
            self.figures["cut_files"] = collected.cut
            self.listener.progress(f"{len(collected.cut)} files of nodes were cut: see nodes/*/{CUT}")
        self._add_log_tails()

    def _calibrated(self, hosts: Mapping[str, Host]) -> bool:
        """Run at the time scale that this machine needs; whether there is one that is enough."""
        self.listener.progress("measuring how slow this machine is")
        found = calibrate(self.draft, hosts, self.listener.progress, data_fixed=self.options.data_in is not None)
        self.draft, self.plan = found.draft, found.draft.plan
        self.store(store.PLAN, presentable(self.plan))
        self.store(store.PLANNED, self.plan.schedule)
        if found.too_slow:
            self._end_unknown(found.too_slow)
        return not found.too_slow

    def _end_unknown(self, reason: str) -> None:
        """No node was started: a history that says so, and the verdict ``unknown``."""
        self.listener.progress(reason)
        plan = self.plan
        writer = HistoryWriter(self.run_dir / store.HISTORY)
        try:
            writer.write(
                [
                    Begin(seq=0, t=0, schema=SCHEMA, system=plan.system, nodes=plan.nodes, seed=plan.seed),
                    Noise(
                        seq=1, t=0, span=Span(0, 0), host="", kind="too-slow", value_ns=0, detail=dict(plan.calibration)
                    ),
                ]
            )
            writer.end(t=0, reason="interrupted")
        finally:
            writer.close()
        self.store(store.REALISED, RealisedSchedule(seed=plan.seed, faults=()))
        self.judge()
        if self.judgement is not None:
            self.judgement = msgspec.structs.replace(self.judgement, outcome="unknown", reason=reason, host_noise=True)
            write_verdict(self.run_dir, self.judgement, system=plan.system, seed=plan.seed)

    def _add_log_tails(self) -> None:
        """A node that did not start says why in its log: append its end to the trouble."""
        if any("node-did-not-start" in trouble for trouble in self.trouble):
            for node in self.plan.nodes:
                if any(node in trouble.split() or f"{node}," in trouble for trouble in self.trouble):
                    self.trouble.append(f"the end of {node}'s log:\n{log_tail(self.run_dir, node) or '(no log)'}")

    def _direct(self, director: Director, world: LiveWorld, ledger: Ledger, priority: ThreadPriority) -> None:
        writer = HistoryWriter(self.run_dir / store.HISTORY)
        shown: Ns = 0
        looked: Ns = 0
        full = False
        try:
            events, actions = director.open(world.now())
            while True:
                writer.write(events)
                for action in actions:
                    if isinstance(action, w.Converge):
                        wants = msgspec.to_builtins(dict(action.wants))
                        ledger.record("converging", backend=self.plan.backend, hosts=wants)
                    world.submit(action)
                self.tell(events)
                if director.done:
                    break
                now = world.now()
                if now - shown > LIVE_EVERY_NS:
                    shown = now
                    self.listener.live(director.live(now))
                    priority.look()
                happenings = world.wait(director.wake_at(now))
                if not full and now - looked > SPACE_EVERY_NS:
                    looked, full = now, too_full(self.run_dir)
                    if full:
                        happenings = [*happenings, w.Broken("disk-space", _space_told(self.run_dir))]
                events, actions = director.step(world.now(), happenings)
            writer.end(t=world.now(), reason=director.end_reason)
        except HistoryError as error:
            self.trouble.append(str(error))  # the disk refused: heal what is broken, keep and judge what was written
            self._heal_blind(director, world, ledger)
        finally:
            with contextlib.suppress(HistoryError):
                writer.close()

    def _heal_blind(self, director: Director, world: LiveWorld, ledger: Ledger) -> None:
        """Continue without a history until everything is healed; bounded by the director's own bounds."""
        events, actions = director.step(world.now(), [w.Broken("history", "the history could not be written")])
        while True:
            for action in actions:
                if isinstance(action, w.Converge):
                    ledger.record("converging", backend=self.plan.backend)
                world.submit(action)
            if director.done:
                return
            events, actions = director.step(world.now(), world.wait(director.wake_at(world.now())))
            del events

    def _tear_down(self, ledger: Ledger) -> bool:
        backend = self.draft.backend
        if self.options.keep_cluster and self.judgement is not None:
            ledger.record("kept", backend=backend.name)
            self.listener.progress(f"the cluster of run {self.run_id} is kept: `dethrone heal --all` removes it")
            return False
        began = time.monotonic_ns()
        for host in self.hosts.values():
            host.close()
        try:
            ledger.record("destroying", backend=backend.name)
            backend.destroy(self.run_id)
        except (HarnessError, OSError) as error:
            self.trouble.append(f"the cluster could not be removed: {error}\n  next: dethrone heal")
            return False
        self.figures["cluster_down_ms"] = (time.monotonic_ns() - began) // MS
        return True

    # --- small parts ------------------------------------------------------------------------------------------

    def _on_signal(self, name: str) -> None:
        self.interrupted.set()
        self.inbox.put(w.Stop(name))

    def _check_interrupted(self) -> None:
        if self.interrupted.is_set():
            raise Interrupted("interrupted before the nodes were started")


def deploy_spec(drafted: Draft, ledger: Ledger, *, base: str | None, run_id: str, needs: frozenset[str]) -> DeploySpec:
    """What the backend needs to make the hosts. ``base``: the image that the user named; ``needs``: of the faults."""
    system, plan, defaults = drafted.system, drafted.plan, drafted.system.defaults()
    return DeploySpec(
        run_id=run_id,
        nodes=plan.nodes,
        image=system.image(),
        base=base or defaults.base,
        state_dir=str(ledger.directory),
        voters=plan.voters,
        needs=needs,
        memory_bytes=defaults.memory_bytes,
        pids=defaults.pids,
        shown=system.shown() if isinstance(system, OfThisMachine) else (),
        files=tuple(system.large_files()) if drafted.backend.traits.brings and isinstance(system, Bringing) else (),
    )


def node_specs(plan: Plan, hosts: Mapping[str, Host], *, memory_dir: str = "") -> dict[str, NodeSpec]:
    """What the system's adapter learns about each node. ``memory_dir``: the backend's."""
    members = {name: hosts[name].address for name in plan.nodes}
    places = {name: host.places for name, host in hosts.items()}
    return {
        name: NodeSpec(
            name=name,
            address=members[name],
            members=members,
            knobs=plan.knobs,
            profile=plan.profile,
            variant=plan.variant,
            seed=plan.seed,
            data_dir=memory_dir if plan.data_in == "memory" else places[name].data_dir,
            log_dir=places[name].log_dir,
            run_dir=places[name].run_dir,
            python=places[name].python,
            lib=places[name].lib,
            noise_max_ns=plan.promise.noise_max_ns,
        )
        for name in plan.nodes
    }


def prepare_host(
    system: System,
    host: Host,
    node: NodeSpec,
    *,
    keeps_copies: bool = False,
    fails: bool = False,
    disk_model: DiskModel = "journal",
    limits: tuple[str, ...] = (),
    watches: tuple[Watch, ...] = (),
) -> None:
    """Place the node's files and send the agent its start command, and what to look for."""
    private = system.private_files(node) if isinstance(system, Guarding) else frozenset()
    for path, content in system.files(node).items():
        host.write_file(path, content, private=path in private)
    fatal, fatal_path = system.fatal(node) if isinstance(system, Logged) else ((), None)
    start = NodeStart(
        command=system.command(node),
        trace_path=system.trace_path(node),
        log_path=f"{node.log_dir}/node.log",
        data_dir=node.data_dir,
        clock_socket=f"{node.run_dir}/{CLOCK_SOCKET}" if not isinstance(system.fault_support("clock"), No) else None,
        clock_command=system.clock_command(node) if isinstance(system, Timekeeping) else None,
        link_socket=system.link_socket(node) if isinstance(system, Shaping) else None,
        faketime=not isinstance(system.fault_support("clock"), No) and not isinstance(system, Unpreloaded),
        run_dir=node.run_dir,
        fatal=fatal,
        fatal_path=fatal_path,
        fatal_more=system.logs(node) if fatal_path is None and isinstance(system, Composed) else (),
        watches=watches,
        noise_max_ns=node.noise_max_ns,
        keeps_copies=keeps_copies,
        fails=fails,
        disk_model=disk_model,
        limits=limits,
        versions=system.commands(node) if isinstance(system, Upgradable) and system.versions() else {},
        version=system.begins_with(node.knobs) if isinstance(system, Upgradable) else "",
    )
    host.prepare(start, node.members, dead_man_ns=DEAD_MAN_NS)


def shared_users(hosts: Mapping[str, Host]) -> dict[str, list[str]]:
    """Nodes that do not run as a user of their own: why → which. They could undo their faults."""
    out: dict[str, list[str]] = {}
    for name, host in hosts.items():
        if host.shares_user:
            out.setdefault(host.shares_user, []).append(name)
    return out


def stop_nodes(hosts: Mapping[str, Host]) -> None:
    """Let every node end by itself, so that its logs and journal are whole. The others end with their hosts."""

    def stop(host: Host) -> None:
        with contextlib.suppress(HarnessError):
            host.stop_node()

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(stop, hosts.values()))


def lenders(options: RunOptions) -> dict[str, Any]:
    """Who lent the hosts, for the ledger: what ``heal`` needs to find them again."""
    if options.hosts is None and not options.host:
        return {}
    return {"hosts_file": None if options.hosts is None else str(options.hosts), "lent": list(options.host)}


def _space_told(run_dir: Path) -> str:
    return f"only {free_bytes(run_dir) >> 20} MiB are free on the disk of the run; {FREE_MIN >> 20} MiB are kept free"


def _seed(options: RunOptions) -> int:
    return options.seed if options.seed is not None else secrets.randbelow(1 << 32)
