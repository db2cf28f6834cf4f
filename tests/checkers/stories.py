"""Stories: for each checker a shortest bad history and near-miss good ones, with their verdicts.

    == one-leader-per-term, workload: election          the checker, and what is true of all its stories
    FAIL two leaders in one term: n1 and n3 both lead   the verdict, the story's name, words of the finding or reason
        [nodes: 5]                                      what is true of this story only: fields of ``Story``
        elected(n1, 1, n1 n2) elected(n3, 1, n2 n3)     its steps: methods of ``Teller``

Arguments are YAML; ``key: value`` is a keyword argument. Faults and operations are numbered from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import FaultEvent
from tests.checkers.histories import ALL, Tale, plan, promise

PANIC = ("starting", "panic: runtime error: index out of range [3]", "goroutine 1 [running]:", "exit status 2")
VERDICTS = {"FAIL": "fail", "PASS": "pass", "UNKNOWN": "unknown", "N/A": "n/a"}
STEP = re.compile(r'(\w+)\(((?:[^()"]|"[^"]*")*)\)')


@dataclass(frozen=True)
class Story:
    """A history with a known verdict. ``words`` stand in the finding's sentence or the reason."""

    checker: str
    outcome: str
    words: str = ""
    steps: str = ""
    nodes: int = 3
    promised: dict[str, Any] = field(default_factory=dict)
    workload: str = "log"
    own_shell: bool = False
    """Whether the nodes run in our own shell."""
    evidence: str = ""

    def tell(self) -> Tale:
        tale = Teller(self.nodes)
        for name, told in STEP.findall(self.steps):
            values, named = _given(f"[{told}]")
            getattr(tale, name)(*values, **named)
        return tale

    def plan(self) -> Any:
        observable = (*ALL, "shell") if self.own_shell else ALL
        made = plan(self.nodes, given=promise(**self.promised), workload=self.workload, observable=observable)
        return msgspec.structs.replace(made, evidence=tuple(self.evidence.split()))


class Teller(Tale):
    """A tale with what several stories tell, or what takes a loop."""

    def strikes(self, kind: str, victims: str) -> int:
        """A fault that changes no state of a host."""
        return self.fault(kind, victims, self.state)

    def transfers(self, node: str, outcome: str = "installed") -> Tale:
        """A fault asked this leader to hand over; nothing of it is left."""
        number = self.fault("transfer", node, self.state, node, outcome)
        if outcome == "skipped":
            return self
        del self.active[number]
        over = self.events[-1].span.hi
        ended = {"phase": "end", "span": Span(over, over), "outcome": "healed"}
        self.add(FaultEvent, fault=number, step=0, kind="transfer", victims=(node,), **ended)
        return self

    def asked(self, times: int, node: str = "n1", first: int = 0) -> Tale:
        """So many processes, from this one on, append, and are not answered."""
        for process in range(first, first + times):
            self.invoke("append", ["k", process], node, process=process)
        return self

    def acks(self, nodes: str, term: int, index: int) -> Tale:
        for node in nodes.split():
            self.acked(node, term, index)
        return self

    def panics(self, node: str) -> Tale:
        return self.died(node, 2, *PANIC)

    # --- what was written ---------------------------------------------------------------------------------------

    def committed(self) -> Tale:
        self.elected("n1", 1, "n1 n2").log("n1", (1, 1, "a")).log("n2", (1, 1, "a"))
        return self.acked("n2", 1, 1).commit("n1", 1, 1)

    def grown(self) -> Tale:
        self.elected("n1", 1, "n1 n2 n3").log("n1", (2, 1, "c")).config("n1", 1, 2, "n1 n2 n3 n4")
        return self.acked("n2", 1, 2)

    def numbers(self, node: str, *events: Any, disk: Any, file: str = "read", complete: bool = True) -> Tale:
        """A Paxos acceptor says (promised or accepted, instance, number), starts again and finds ``disk``."""
        for name, instance, number in events:
            self.traced(node, name, abs(instance), instance=instance, id=number)
        self.restarted(node)
        return self.traced(node, "found", 0, file=file, instances=disk, complete=complete)

    def serves_nobody(self) -> Tale:
        self.up()
        for value in range(6):
            op = self.invoke("append", ["k", value], "n1", process=value % 2)
            self.polls(500, 1, "n1").back(op, "info")
        return self.polls(500, 1, "n1")

    def phases(self, *, acknowledged_under_faults: int) -> Tale:
        self.up().elected("n1", 1, "n1 n2").mark("warmup").append(0).polls(1000, 1, "n1").mark("faults")
        for value in range(1, 41):
            self.append(value, status="ok" if value <= acknowledged_under_faults else "info")
        self.polls(1000, 1, "n1").mark("heal").mark("quiet").append(41).polls(1000, 1, "n1")
        return self.mark("stop")

    def answers_alone(self, node: str) -> Tale:
        """In the quiet phase nobody else was heard of."""
        quiet = next(at for at, event in enumerate(self.events) if getattr(event, "name", "") == "quiet")
        heard = [event for event in self.events[quiet:] if getattr(event, "role", "") == "" or event.node == node]
        told = [*self.events[:quiet], *heard]
        self.events[:] = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(told)]
        return self

    # --- rounds and votes ---------------------------------------------------------------------------------------

    def asks_in_vain(self, times: int, every_ms: int = 150) -> Tale:
        for _ in range(times):
            self.core("n1", "prevote_started", 1, reqTerm=2).wait(every_ms)
        return self

    def wins_pre_vote(self, node: str, term: int) -> Tale:
        """It won the round for that term, and then votes for itself."""
        self.core(node, "prevote_started", term - 1, reqTerm=term)
        return self.core(node, "prevote_result", term - 1, result="won", reqTerm=term).vote(node, term, node)

    def stands(self, node: str, terms: int) -> Tale:
        for term in range(1, terms + 1):
            self.vote(node, term, node).wait(200)
        return self

    def stands_in_vain(self, nodes: str) -> Tale:
        cut = self.up().isolate("n3", "n3")
        for term in range(1, 4):
            for node in nodes.split():
                self.vote(node, term, node).wait(100)
        return self.heal(cut).polls(3000, 3, None)

    def votes_in_vain(self, terms: int, nodes: str, last: int = 2100) -> Tale:
        """One vote split a term, 100 ms each, and then no leader for a while more."""
        self.up()
        for term in range(1, terms + 1):
            for node in nodes.split():
                self.vote(node, term, node)
            self.polls(100, term, None)
        return self.polls(last, terms, None)

    def goes_on_in_step(self) -> Tale:
        """Two that could not win stood three times; then nothing is in their way, and they go on."""
        cut = self.up().isolate("n3", "n3")
        for term in range(1, 12):
            if term == 4:
                self.heal(cut)
            self.vote("n1", term, "n1").vote("n2", term, "n2").wait(100 if term < 4 else 200)
        return self.wait(1200)

    def splits_votes(self, *, until: int, won_from: int) -> Tale:
        """Of two terms one is split; and won nevertheless, from that one on."""
        for term in range(1, until, 2):
            self.vote("n1", term, "n1").vote("n2", term, "n2").wait(350)
            if term >= won_from:
                self.elected("n1", term, "n1 n3")
            self.elected("n3", term + 1, "n2 n3").acks("n1 n2", term + 1, 1).wait(50)
        return self

    def splits_after_a_heal(self, last: int) -> Tale:
        self.up().polls(500, 1, "n1")
        cut = self.isolate("n3")
        self.polls(500, 1, "n1", except_="n3=1").heal(cut)
        return self.vote("n2", 2, "n2").vote("n3", 2, "n3").polls(2100, 2, None).polls(last, 3, "n2")

    def lags(self, node: str, times: int) -> Tale:
        """All follow n1 and have committed up to 4, but this node only up to 3."""
        for _ in range(times):
            for each in self.nodes:
                self.poll(each, 1, "n1", commit=3 if each == node else 4)
            self.wait(247)
        return self

    # --- trouble ------------------------------------------------------------------------------------------------

    def resumes(self, fault: int, node: str) -> Tale:
        self.alive[node] = True
        return self.heal(fault)

    def needed_when_it_heals(self, begun_ms: int) -> Tale:
        """A node that is no voter is broken that long after a heal, and the returned one finds no leader without it."""
        self.up().polls(500, 1, "n1")
        cut = self.isolate("n3")
        self.polls(500, 1, "n1", except_="n3=1").heal(cut)
        if begun_ms:
            self.polls(begun_ms, 1, "n1", except_="n3=1")
        self.strikes("partition", "service")
        return self.polls(3000, 1, "n1", except_="n3=1")

    def slow_syncs(self, sync_ms: int, later_ms: int = 0) -> Tale:
        """The shells of all nodes record a sync of about that length, and later n4 leads; no canary saw it."""
        self.up().elected("n2", 4, "n2 n4 n5").polls(3000, 4, "n2")
        self.wait(sync_ms)
        for number, node in enumerate(self.nodes):
            self.traced(node, "fsync_slow", 4, ms=sync_ms - 2 * number, token=9)
        if later_ms:
            self.polls(later_ms, 4, "n2")
        return self.elected("n4", 5, "n1 n4 n5").polls(1000, 5, "n4")

    def short_stalls(self, times: int) -> Tale:
        for _ in range(times):
            self.polls(250, 1, None).noise("n1", 49).noise("n2", 49)
        return self

    def own_shell_stalls(self, **explained: int) -> Tale:
        self.up().elected("n2", 4, "n2 n3").polls(3000, 4, "n2").wait(400)
        self.traced("n2", "stall", 4, ms=400, ns=400_000_000, where="turn", **explained)
        return self.elected("n3", 5, "n1 n3").polls(1000, 5, "n3")

    # --- instances ----------------------------------------------------------------------------------------------

    def propose(self, instance: int, value: Any, *, node: str = "n1", decided: Any = ..., status: str = "ok") -> Tale:
        op = self.invoke("propose", [instance, value], node)
        if status == "lost":
            return self
        return self.back(op, status, (value if decided is ... else decided) if status == "ok" else None, node)

    def learn(self, instance: int, value: Any, *, node: str = "n1") -> Tale:
        return self.back(self.invoke("learn", instance, node), "ok", value, node)

    def learned(self, node: str, instance: int, value: Any, **data: Any) -> Tale:
        return self.core(node, "learned", instance, instance=instance, value=value, **data)

    def accepted(self, nodes: str, number: int, instance: int, value: Any, **data: Any) -> Tale:
        for node in nodes.split():
            self.traced(node, "accepted", instance, instance=instance, id=number, value=value, **data)
        return self


def _given(told: str) -> tuple[list[Any], dict[str, Any]]:
    """A list in YAML: its values, and those with names."""
    values: list[Any] = yaml.safe_load(told)
    named = {name: value for one in values if isinstance(one, dict) for name, value in one.items()}
    return [one for one in values if not isinstance(one, dict)], named


def read(text: str) -> Iterator[tuple[str, Story]]:
    """The stories by their names, words joined by ``_``."""
    shared: dict[str, Any] = {}
    for block in re.split(r"\n{2,}", text.strip()):
        head, *lines = block.splitlines()
        if head.startswith("== "):
            (checker,), more = _given(f"[{head.removeprefix('== ')}]")
            shared = {"checker": checker, **more}
            continue
        verdict, _, title = head.partition(" ")
        name, _, words = title.partition(": ")
        own = _given(lines.pop(0))[1] if lines[0].startswith("    [") else {}
        story = Story(**{**shared, **own}, outcome=VERDICTS[verdict], words=words, steps=" ".join(lines))
        yield name.replace(" ", "_"), story


STORIES = dict(read((Path(__file__).parent / "stories.txt").read_text()))
