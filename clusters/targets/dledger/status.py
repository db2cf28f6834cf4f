"""What a DLedger node reports about itself.

Guarantees: no side effect; while a term or vote is still being written, the node reports the ones on disk, as a
candidate without a leader. Role, term, log end and commit are reported as observers count (`node.shown`); ``extra``
holds DLedger's own names and numbers. Out of scope: the fields of the observer record that the shell adds.

Source: DLedger 0.2.7, fields of ``MemberState``, ``DLedgerLeaderElector`` and ``DLedgerEntryPusher``.
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.dledger.node import Node
from dethrone.clusters.targets.dledger.rules import CANDIDATE, LEADER, NEVER
from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.machine import Glance


def glance(n: Node) -> Glance:
    """The main fields of ``status``."""
    end = (n.end_term + 1, n.log.last + 1)
    if n.votes_in_flight:
        return CANDIDATE, n.durable.term + 1, None, n.durable.voted_for, end, n.committed + 1
    return n.role, n.term + 1, n.leader, n.voted_for, end, n.committed + 1


def shown(n: Node) -> dict[str, Any]:
    """The other fields of the observer record."""
    wait = max(0, _ms(n.next_vote - n.now()) or 0) if n.role == CANDIDATE else 0
    return {"timers": {"next_vote": wait}, "extra": _extra(n)}


def _ms(span: Ns) -> int | None:
    return None if abs(span) > -NEVER // 2 else span // MS


def _extra(n: Node) -> dict[str, Any]:
    now = n.now()
    extra: dict[str, Any] = {
        "profile": n.knobs.profile,
        "currTerm": n.term,
        "currVoteFor": n.voted_for,
        "leaderId": n.leader,
        "ledgerBeginIndex": n.log.begin,
        "ledgerEndIndex": n.log.last,
        "ledgerEndTerm": n.end_term,
        "committedIndex": n.committed,
        "knownMaxTermInGroup": n.known_max_term,
        "lastParseResult": n.last_result,
        "needIncreaseTermImmediately": n.flag,
        "next_vote_ms": _ms(n.next_vote - now),
        "last_leader_heartbeat_ms": _ms(now - n.last_beat),
        "last_sent_ms": _ms(now - n.last_sent),
        "last_success_ms": _ms(now - n.last_success),
        "term_file": None if n.term_file is None else n.term_file.decode(errors="replace"),
        "pending": len(n.pending),
        "buffered": len(n.buffer),
    }
    lead = n.leading
    if n.role == LEADER and lead is not None:
        extra["marks"] = dict(lead.marks)
        extra["pushers"] = {
            peer: {
                "state": p.state,
                "compareIndex": p.compare,
                "writeIndex": p.write,
                "inFlight": len(p.in_flight),
            }
            for peer, p in lead.pushers.items()
        }
    return extra
