"""The mistakes of known systems that several protocols plant, by number or name: what each build does wrong, and the
checkers that must catch it.

Guarantees: a number means the same mistake in every protocol (docs/sources.md, planted-bugs). A protocol plants it with
``@mutant("12-…")`` on its own rule and says there only what differs. Out of scope: how a protocol breaks its rule, and
mistakes that only one protocol can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dethrone.clusters.targets.kit import by


class Known(NamedTuple):
    """See `Mutant` for the fields."""

    says: str
    caught_by: tuple[str, ...] = ()
    nodes_min: int = 3


KNOWN: Mapping[str, Known] = {
    # NodeDB, etcd 2877, Nacos
    "01": Known("writes the term but not the vote", (by.VOTE, by.LEADER, by.DURABLE)),
    # redis 533d0e0
    "02": Known("answers a vote request before the vote is on disk", (by.VOTE, by.DURABLE)),
    # jraft 1241, DLedger, JoyQueue: that answer is lost with the write, the repeated one is not
    "04": Known("ignores that the vote could not be written", (by.VOTE, by.DURABLE)),
    # jgroups 4c6961f, DLedger
    "05": Known("replaces the file of its vote without fsync", (by.VOTE, by.DURABLE)),
    # DLedger, ZK-4269
    "06": Known("deletes the file of its vote before the new one takes its place", (by.VOTE, by.TERM, by.DURABLE)),
    # DLedger
    "07": Known("treats an unreadable file as a node that never voted", (by.VOTE, by.TERM, by.DURABLE)),
    # KAFKA-10527
    "10": Known("resumes leading its term after a restart", (by.MATCHING,)),
    # KAFKA-10661
    "11": Known("after a restart votes again in a term in which it voted for itself", (by.VOTE, by.LEADER)),
    # Nacos 785; in pre-votes and votes, or the honest one of the two would mask it
    "12": Known("votes for candidates with an older log", (by.COMPLETE, by.ACKED)),
    # DLedger 52
    "14": Known("gives its current term as the term of its last entry", (by.COMPLETE, by.ACKED)),
    # Xraft 33
    "16": Known("counts votes given in an earlier term", (by.LEADER, by.MAJORITY)),
    # JoyQueue, canonical fdce566: steps down without a return, and the answer is tallied all the same
    "17": Known("steps down on an answer with a higher term and tallies it all the same", (by.LEADER, by.MAJORITY)),
    # canonical 0ed4553, JoyQueue
    "18": Known("starts its campaign with the pre-votes as votes", (by.MAJORITY, by.LEADER)),
    # Sentinel f4be6f1, JGroups views
    "21": Known("is elected by a majority of those who answered", (by.MAJORITY, by.LEADER)),
    # The class of braft 3884640
    "22": Known("counts half of an even number as a majority", (by.LEADER, by.MAJORITY), nodes_min=4),
    # hashicorp 477, NATS
    "23": Known("asks and counts nodes that do not vote", (by.MEMBERS, by.LEADER)),
    # NATS 25561f4, WRaft 4
    "25": Known("adopts a lower term from an old message", (by.TERM,)),
    "27": Known("refuses the leader of a term in which it campaigned itself", (by.CONVERGES, by.LIVELOCK)),
    # KAFKA-15489, JoyQueue, Nacos
    "28": Known("keeps leading without a quorum", (by.STEP_DOWN,)),
    # Nacos sendBeat
    "30": Known("counts its own sending as contact with a voter", (by.STEP_DOWN,)),
    # NATS 5fe8be8, tikv 8223
    "31": Known("restarts its timers after every vote request, granted or not", (by.OWED, by.LIVELOCK)),
    # Raft paper, 9.3; etcd 780bbb2
    "33": Known("always waits the shortest times", (by.LIVELOCK, by.OWED)),
    # etcd 15784
    "34": Known("draws its times from one seed on all nodes", (by.LIVELOCK, by.OWED)),
    # canonical 279, etcd 8243
    "37": Known("drops pre-votes of a lower term and leaves askers of a lower term without an answer", (by.OWED,)),
    # Nebula 2419
    "39": Known("refuses the repeated request of the candidate that it voted for", (by.LIVELOCK,)),
    # PySyncObj 169, NATS c8687fc, DLedger, JoyQueue; Raft paper, figure 8
    "40": Known("commits entries of earlier terms by counting replicas", (by.COMMIT, by.ACKED)),
    # PySyncObj 166
    "42": Known("adopts the leader's commit index unchecked", (by.COMMIT,)),
    # RaftOS 26, NATS f871570
    "44": Known("cuts its log at every append, conflict or not", (by.COMMIT, by.ACKED)),
    # Nacos, Redis
    "45": Known("acknowledges a write that only the leader holds", (by.ACKED,)),
    # NATS 2.12, ZK-3911
    "46": Known("acknowledges entries that a power loss can undo", (by.ACKED,)),
    # DLedger
    "52": Known("measures its timers on the wall clock", (by.OWED,)),
    # KAFKA-17333
    "56": Known("serves reads before an entry of its term is committed", (by.ACKED, "linearizable")),
    # An off-by-one on disk, plain enough that any restart of a node shows it
    "plain-writes-term-before": Known(
        "stores each term one too low, so that any restart goes back", (by.TERM, by.DURABLE)
    ),
    "plain-votes-twice": Known("votes for every candidate of a term", (by.VOTE, by.LEADER)),
    # No node is elected while any voter is silent
    "plain-wants-every-vote": Known("is elected only with the votes of all voters", (by.OWED,)),
    # Entries of a deposed leader stay where its successor wrote others
    "plain-never-truncates": Known("keeps entries that conflict with its leader's", (by.MATCHING, by.ACKED)),
    "harmless-longer-jitter": Known("draws its times from a wider range"),
    "harmless-half-heartbeat": Known("sends heartbeats twice as often"),
    "harmless-eager-commit": Known("notifies followers of a commit at once"),
}


def known(name: str) -> Known | None:
    """What is said of the bug of that name in every protocol; None: its protocol says it."""
    return KNOWN.get(name[:2] if name[:1].isdigit() else name)
