"""The live world: real hosts behind the ``World`` interface, with threads for everything that blocks.

One thread per client process, one for what faults ask of the system, one poller, one worker that converges hosts (one
transaction after another), reader threads of the agents; one queue back. Guarantees: ``submit`` never blocks; every
thread ends at ``close``. Decisions and files are out of scope.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import Ns, Span
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.hoststate import HostState, flows_to_reset
from dethrone.harness.core.interfaces import (
    Backend,
    Client,
    Evidence,
    Host,
    HostNews,
    NodeSpec,
    OpOutcome,
    System,
)
from dethrone.harness.core.limits import ERROR_MAX, value_trouble
from dethrone.harness.engine.run.status_poller import Poller

BATCH_MAX = 4096


class LiveWorld:
    """Created with deployed hosts; ``close`` ends its threads and leaves the hosts alone."""

    def __init__(
        self,
        *,
        system: System,
        backend: Backend,
        hosts: Mapping[str, Host],
        nodes: Mapping[str, NodeSpec],
        origin_ns: Ns,
        processes: int,
        observe_interval_ns: Ns,
        inbox: queue.SimpleQueue[w.Happening],
    ) -> None:
        self._system = system
        self._backend = backend
        self._hosts = hosts
        self._nodes = nodes
        self._origin_ns = origin_ns
        self._inbox = inbox
        put = inbox.put if _numbered(backend) else self._put_unnumbered
        self._poller = Poller(system, nodes, interval_ns=observe_interval_ns, clock=self.now, put=put)
        self._polling = False
        self._orders: queue.SimpleQueue[w.Converge | w.StartNodes | None] = queue.SimpleQueue()
        self._host_worker = threading.Thread(target=self._work_hosts, name="hosts", daemon=True)
        self._host_worker.start()
        self._requests: queue.SimpleQueue[w.Request | None] = queue.SimpleQueue()
        self._requester: threading.Thread | None = None
        self._work: list[queue.SimpleQueue[w.InvokeOp | None]] = [queue.SimpleQueue() for _ in range(processes)]
        self._clients = [
            threading.Thread(target=self._serve_client, args=(work,), name=f"client-{number}", daemon=True)
            for number, work in enumerate(self._work)
        ]
        for thread in self._clients:
            thread.start()

    def now(self) -> Ns:
        """Ns since the run began."""
        return time.monotonic_ns() - self._origin_ns

    def submit(self, action: w.Action) -> None:
        """Hand an action to the thread that can block on it."""
        if type(action) is w.InvokeOp:
            self._work[action.thread].put(action)
        elif type(action) is w.Request:
            if self._requester is None:
                self._requester = threading.Thread(target=self._serve_requests, name="requests", daemon=True)
                self._requester.start()
            self._requests.put(action)
        elif isinstance(action, w.Converge | w.StartNodes):
            self._orders.put(action)
            if type(action) is w.StartNodes and not self._polling:
                self._polling = True
                self._poller.start()

    def wait(self, until: Ns) -> Sequence[w.Happening]:
        """Everything that has happened, at most ``BATCH_MAX``; waits for the first until ``until``."""
        timeout = (until - self.now()) / 1e9
        try:
            first = self._inbox.get(timeout=timeout) if timeout > 0 else self._inbox.get_nowait()
        except queue.Empty:
            return ()
        batch = [first]
        while len(batch) < BATCH_MAX:
            try:
                batch.append(self._inbox.get_nowait())
            except queue.Empty:
                break
        return batch

    def close(self) -> None:
        """End all threads; bounded even if a client hangs."""
        for work in self._work:
            work.put(None)
        self._orders.put(None)
        self._requests.put(None)
        if self._polling:
            self._poller.stop()
        deadline = time.monotonic() + 10
        for thread in [*self._clients, self._host_worker, *filter(None, [self._requester])]:
            thread.join(timeout=max(0.1, deadline - time.monotonic()))

    def _put_unnumbered(self, happening: w.Happening) -> None:
        """An incarnation that a foreign program passed to the node is not our count."""
        if isinstance(happening, w.Polled) and happening.reading is not None:
            reading = msgspec.structs.replace(happening.reading, incarnation=None)
            happening = msgspec.structs.replace(happening, reading=reading)
        self._inbox.put(happening)

    # --- threads ----------------------------------------------------------------------------------------------

    def _serve_client(self, work: queue.SimpleQueue[w.InvokeOp | None]) -> None:
        client: Client = self._system.client(self._nodes)
        put, now = self._inbox.put, self.now
        while (order := work.get()) is not None:
            outcome = _asked(client, order)
            put(w.OpDone(order.op, order.thread, now(), outcome))
        client.close()

    def _serve_requests(self) -> None:
        client: Client = self._system.client(self._nodes)
        while (order := self._requests.get()) is not None:
            outcome = _asked(client, order)
            self._inbox.put(w.RequestDone(order.token, self.now(), outcome))
        client.close()

    def _work_hosts(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                if isinstance(order, w.StartNodes):
                    for host in self._hosts.values():
                        host.start_node()
                else:
                    self._inbox.put(self._converge(order))
            except HarnessError as error:
                self._inbox.put(w.Broken("host", str(error)))
            except Exception as error:  # noqa: BLE001 - the director must learn of every error
                self._inbox.put(w.Broken("harness", f"{type(error).__name__}: {error}"))

    def _converge(self, order: w.Converge) -> w.ConvergeDone:
        begin = self.now()
        evidence: dict[str, Evidence] = {}
        broken = ""
        try:
            evidence = dict(self._backend.converge_all(self._hosts, order.wants))
        except HarnessError as error:
            broken = str(error)
        resets = self._reset_flows(order.before, order.wants) if order.reset and not broken else {}
        if broken:
            self._inbox.put(w.Broken("host", broken))
        return w.ConvergeDone(order.token, Span(begin, self.now()), evidence, resets)

    def _reset_flows(
        self, before: Mapping[str, HostState], wants: Mapping[str, HostState]
    ) -> dict[str, Mapping[str, object]]:
        out: dict[str, Mapping[str, object]] = {}
        for name, want in wants.items():
            healed = flows_to_reset(before[name], want)
            if healed:
                out[name] = dict(self._hosts[name].reset_flows(healed))
        return out


def _asked(client: Client, order: w.InvokeOp | w.Request) -> OpOutcome:
    try:
        outcome = client.invoke(order.plan.f, order.plan.value, target=order.plan.target, timeout_ns=order.timeout_ns)
    except Exception as error:  # noqa: BLE001 - a client's bug must neither lose the op nor stop the run
        outcome = OpOutcome(status="info", error=f"client raised {type(error).__name__}: {error}")
    return within_limits(outcome)


def within_limits(outcome: OpOutcome) -> OpOutcome:
    """The same; or ``info`` with the reason, where its value is over a limit: what it says cannot be kept."""
    error = outcome.error
    if error is not None and len(error) > ERROR_MAX:
        outcome = msgspec.structs.replace(outcome, error=f"{error[:ERROR_MAX]}…")
    trouble = value_trouble(outcome.value)
    if not trouble:
        return outcome
    return OpOutcome(status="info", error=f"an answer over a limit: {trouble}", node=outcome.node)


def _numbered(backend: Backend) -> bool:
    return "incarnation" in backend.traits.shows(("incarnation",))


def news_into(inbox: queue.SimpleQueue[w.Happening]) -> Callable[[HostNews], None]:
    """A callback for agents that puts their news into the inbox."""

    def put(news: HostNews) -> None:
        inbox.put(w.HostSaid(news))

    return put
