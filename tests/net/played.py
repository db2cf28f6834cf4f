"""One case, run in this process, and everything that counts as behaviour in it, line by line.

Besides the history: what the director made of the schedule, the plan with its promise, each message as it leaves, each
answer to a client, each batch that a disk carried out, what each process found on its disk, the files and the status of
each node at the end, and what the checkers say. Promises: listening changes nothing about the run; a case that is
refused or breaks off is a line like others. Leaves out which runs (``cases``) and what counts (``normal``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.events import AnyEvent, Traced
from dethrone.harness.core.interfaces import Checker
from dethrone.harness.core.log_marks import Remembering
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Target, Unlink, Witness, Witnessed, Write
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import Rehearsed, rehearse_draft
from tests.net.cases import Case
from tests.net.normal import Digests

OPS: Mapping[type, str] = {Write: "write", Fsync: "fsync", Rename: "rename", Unlink: "unlink"}


def told_of(case: Case) -> str:
    """The digests of one case, in one line."""
    return _played(case).told()


def named(case: Case) -> tuple[str, str]:
    """Its name and its digests: what a worker process answers, which cannot be asked for things of ``__main__``."""
    return case.name, told_of(case)


def lines_of(case: Case) -> list[str]:
    """What they are digests of."""
    return _played(case, keep=True).lines or []


def _played(case: Case, *, keep: bool = False) -> Digests:
    variant = case.options.variant
    out = Digests(keep=keep, told_as=None if variant in {None, case.build} else (variant, case.build))
    try:
        with no_garbage():
            drafted = draft(case.options, seed=case.seed)
            listening = _Listening(drafted.backend, out)
            done = rehearse_draft(msgspec.structs.replace(drafted, backend=listening), _checkers())
            _rehearsed(done, out)
            listening.finish()
    except HarnessError as error:
        out.add("refused", {"error": str(error)})
    return out


@cache
def _checkers() -> Mapping[str, Checker]:
    return load_checkers()


# --- after the run ------------------------------------------------------------------------------------------------


def _rehearsed(done: Rehearsed, out: Digests) -> None:
    out.add("plan", _plan(done.plan))
    out.add("realised", done.realised)
    for event in done.history:
        _event(event, out)
    for verdict in done.judgement.verdicts:
        out.add("verdicts", _verdict(verdict))


def _plan(plan: Plan) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(plan, order="sorted")
    told["promise"]["source"] = ""
    if plan.data_in == "disk":  # plans of the time when the digests were recorded did not say so
        del told["data_in"]
    told["promise"]["exempt"] = sorted(plan.promise.exempt)
    return told


def _event(event: AnyEvent, out: Digests) -> None:
    kind = event.source if isinstance(event, Traced) else str(event.__struct_config__.tag)
    out.add_line("order", kind.encode())
    out.add(kind, msgspec.structs.replace(event, seq=0))  # it changes wherever another kind has one more: see ``order``


def _verdict(verdict: Verdict) -> list[Any]:
    findings = [
        (finding.certificate, finding.nodes, finding.term, finding.excused is None) for finding in verdict.findings
    ]
    return [verdict.checker, verdict.outcome, findings]


# --- while it lasts -----------------------------------------------------------------------------------------------


class _Listening:
    """The simulated backend; its world's nodes are listened to."""

    def __init__(self, backend: Any, out: Digests) -> None:
        self._backend = backend
        self._out = out
        self._world: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    # Spelled out, for the loop asks whether this backend has them.
    @property
    def name(self) -> str:
        return self._backend.name

    def simulates(self, system: Any) -> Any:
        return self._backend.simulates(system)

    def settings(self, words: Mapping[str, str]) -> Mapping[str, str]:
        return self._backend.settings(words)

    def world(self, system: Any, plan: Plan) -> Any:
        world = self._world = self._backend.world(system, plan)
        first = next(iter(world._nodes.values()))
        first._build.target = _Target(first._build.target, world, self._out)  # one build, one pair of ears a world
        ears, answered = first._ears, first._ears.answered

        def also(node: str, number: int, body: Any) -> None:
            self._out.add("replies", (world.now(), node, number, body))
            answered(node, number, body)

        ears.answered = also
        return world

    def finish(self) -> None:
        """What is left: files, and what each node would say of itself."""
        world, out = self._world, self._out
        for name, node in sorted(world._nodes.items()):
            for path, digest in _image(node.disk.image()):
                out.add("files", (name, path, digest))
            core = node._core if node.alive else None
            if core is not None:
                clocks = node.clock.read(world.now())
                out.add("status", (name, core.statuses(clocks) if hasattr(core, "statuses") else core.status(clocks)))


class _Target:
    """A target whose witnesses are listened to."""

    def __init__(self, target: Target, world: Any, out: Digests) -> None:
        self._target = target
        self._world = world
        self._out = out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def witness(self, *, node: str, members: tuple[str, ...]) -> Witness:
        return _Witness(self._target.witness(node=node, members=members), node, self._world, self._out)


class _Witness:
    """A witness that also writes down what it is shown."""

    def __init__(self, witness: Witness, node: str, world: Any, out: Digests) -> None:
        self._witness = witness
        self._node = node
        self._now = world.now
        self._out = out
        self.received = witness.received
        if hasattr(witness, "hears"):
            self.hears = witness.hears
        if isinstance(witness, Remembering):
            self.marks = witness.marks

    def booted(self, disk: DiskImage) -> list[Witnessed]:
        self._out.add("found", (self._now(), self._node, _image(disk)))
        if isinstance(self._witness, Remembering):
            self._witness.marks = self.marks
        return self._witness.booted(disk)

    def sent(self, to: str, body: Any) -> list[Witnessed]:
        self._out.add("sent", (self._now(), self._node, to, body))
        return self._witness.sent(to, body)

    def synced(self, ops: tuple[DiskOp, ...]) -> list[Witnessed]:
        self._out.add("batches", (self._now(), self._node, [(OPS[type(op)], op) for op in ops]))
        return self._witness.synced(ops)


def _image(disk: DiskImage) -> list[tuple[str, str]]:
    return [
        (path, content if isinstance(content, str) else f"{len(content)}:{hashlib.blake2b(content).hexdigest()[:32]}")
        for path, content in sorted(disk.items())
    ]
