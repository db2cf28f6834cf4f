"""vote-is-durable: what a node said about terms and votes, its disk still says when the next process looks at it.

Judged at each ``found``: what a new incarnation found stored, read by the shell before the node makes anything of it.

* its term is at least every term in which an earlier incarnation voted, led, acknowledged, answered or learned that
  its state is stored;
* the vote of that very term, if one was given, is for the candidate to whom it was given (where votes are reported:
  what some protocols call the vote is also set when a leader is heard);
* where votes are numbers of an instance (Paxos), not terms: the number promised there is at least every one that the
  node promised, and what it accepted has at least the number of what it reported last (`durable_numbers`);
* a file that cannot be read holds nothing: then this incarnation must stay silent (halt). Votes, acknowledgements and
  answers of it are findings; that it ended is no finding here (`coverage` shows it).

A run whose schedule ends no process, and in which none was started again, shows nothing: ``n/a``; so does one in which
only others were than those that keep votes (a coordination service). Out of scope: what a node
said only about itself (status), and who damaged the disk: a fault beyond the promise excuses.

Source: Raft paper, figure 2, "Persistent state on all servers (updated on stable storage before responding to RPCs)".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dethrone.checkers.base import Base, finding
from dethrone.checkers.durable_numbers import Numbers
from dethrone.checkers.facts import in_group
from dethrone.checkers.traces import traces
from dethrone.harness.core.events import NodeProcess, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.interfaces import declared
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Finding, Verdict

ANSWERS = frozenset({"vote", "elected", "acked", "answered", "persisted"})
"""Shell events whose term the node was in, and must not forget."""
SAID = traces("found", *sorted(ANSWERS | Numbers.NAMES), once="acked")
"""What is judged."""
SAYS = {
    "vote": "voted",
    "elected": "led",
    "acked": "acknowledged entries",
    "answered": "answered",
    "persisted": "had stored its state",
}


@dataclass(slots=True)
class _Said:
    """What one node has said so far: the highest term with the event that shows it, and its vote of each term."""

    term: int = 0
    said: Traced | None = None
    votes: dict[int, Traced] | None = None

    def hear(self, event: Traced) -> None:
        if event.term > self.term:
            self.term, self.said = event.term, event
        if event.name == "vote":
            if self.votes is None:
                self.votes = {}
            self.votes.setdefault(event.term, event)


class VoteIsDurable(Base):
    name = "vote-is-durable"
    kind = "safety"
    channels = ("found",)
    views = (SAID,)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        findings: list[Finding] = []
        audits = unreadable = 0
        for (group, node), events in SAID(history).items():
            audited, damaged, found = _audit(history, promise, group, node, events)
            audits += audited
            unreadable += damaged
            findings += found
        again = {event.node for event in history.of(NodeProcess) if event.incarnation > 1}
        planned = any(declared(kind).ends_process for kind in plan.schedule.kinds)
        if not audits and not findings and history.complete:
            keepers = {
                event.node
                for events in SAID(history).values()
                for event in events
                if event.name == "found" and event.source == "shell"
            }
            if not again and not planned:
                return self.na("not exercised: nothing in this schedule ends a process")
            if keepers and again and not keepers & again:
                return self.na("not exercised: no node that keeps votes was restarted")
        return self.conclude(
            history,
            findings=sorted(findings, key=lambda one: one.certificate),
            judged=audits,
            nothing="no node that had answered in a term was restarted",
            evidence={"audits": audits, "unreadable": unreadable},
        )


def _audit(
    history: History, promise: Promise, group: str, node: str, events: Sequence[Traced]
) -> tuple[int, int, list[Finding]]:
    """(disks compared, disks that could not be read, findings: at most one a node)."""
    said = _Said()
    numbers = Numbers()
    audits = damaged = 0
    findings: list[Finding] = []
    blind: Traced | None = None
    """What this incarnation found, if it could not be read although the node had said something before."""
    before: Traced | None = None
    for event in events:
        if event.source != "shell":
            continue
        if event.name == "found" and "instances" in event.data:
            audits += numbers.said
            damaged += numbers.said and event.data.get("file") == "unreadable"
            if not findings:
                findings += numbers.compare(history, promise, event)
        elif event.name in Numbers.NAMES:
            if not findings:
                findings += numbers.hear(history, promise, event)
        elif event.name == "found":
            blind = None
            if said.said is None:
                continue
            audits += 1
            before = said.said
            if event.data.get("file") == "unreadable":
                damaged += 1
                blind = event
            elif not findings and (found := _compare(history, promise, node, said, event)) is not None:
                findings.append(found)
        elif event.name in ANSWERS and event.term > 0:
            if blind is not None and blind.incarnation == event.incarnation and before is not None and not findings:
                findings.append(
                    finding(
                        history,
                        promise,
                        f"{node} {SAYS[before.name]} in term {before.term}{in_group(group)}, could not read its vote"
                        f" file after a restart, and continued: it {SAYS[event.name]} in term {event.term}.",
                        (before.seq, blind.seq, event.seq),
                        nodes=(node,),
                        term=before.term,
                        remembering=node,
                    )
                )
            said.hear(event)
    return audits, damaged, findings


def _compare(history: History, promise: Promise, node: str, said: _Said, found: Traced) -> Finding | None:
    absent = found.data.get("file") == "absent"
    lies = "nothing" if absent else f"term {found.term}"
    group = in_group(found.group)
    if said.said is not None and found.term < said.term:
        return finding(
            history,
            promise,
            f"{node} {SAYS[said.said.name]} in term {said.term}{group}, and after a restart its disk holds {lies}.",
            (said.said.seq, found.seq),
            nodes=(node,),
            term=said.term,
            remembering=node,
        )
    given = (said.votes or {}).get(found.term)
    if given is None or "voted_for" not in found.data or found.data.get("voted_for") == given.data.get("candidate"):
        return None
    held = found.data.get("voted_for")
    return finding(
        history,
        promise,
        f"{node} voted for {given.data.get('candidate')} in term {found.term}{group}, and after a restart its disk"
        f" holds {f'a vote for {held}' if held else 'no vote'} of that term.",
        (given.seq, found.seq),
        nodes=(node,),
        term=found.term,
        remembering=node,
    )


CHECKER = VoteIsDurable()
