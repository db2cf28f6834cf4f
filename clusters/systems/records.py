"""Parses what our node processes report: the status answer, and lines of the trace log.

Guarantees: anything that is not a proper answer or line of that very node is None, never a guess. What roles mean
beyond "this one leads" is out of scope.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.node import trace
from dethrone.clusters.node.frames import frame
from dethrone.harness.core.interfaces import Reading, TraceLine

LEADER = "LEADER"
"""The role of a leader, in every target of ours that elects one."""

STATUS_REQUEST = frame(b'{"id":0,"status":true}')


class _LogEnd(msgspec.Struct, frozen=True, gc=False):
    term: int
    index: int


class _Group(msgspec.Struct, frozen=True, gc=False):
    """The fields of one group's share of the common observer record that a reading needs."""

    group: str
    role: str
    term: int
    leader: str | None
    voted_for: str | None
    log_end: _LogEnd
    commit: int


class _Status(_Group, frozen=True, gc=False, kw_only=True):
    """The same of a node, of its only group or of the first of several: then ``groups`` has all of them."""

    node: str
    incarnation: int
    groups: tuple[_Group, ...] = ()


class _StatusAnswer(msgspec.Struct, frozen=True, gc=False):
    id: int
    status: _Status


_STATUS = msgspec.json.Decoder(_StatusAnswer)
_LINE = msgspec.json.Decoder(trace.WrittenLine)


def read_status(body: bytes, *, node: str, tells_log: bool, tells_vote: bool) -> Reading | None:
    """The reading in a status answer of ``node``; None if it is none. Of several groups the first one's, with others.

    ``tells_log``: log end and commit are positions in a log; ``tells_vote``: what it calls its vote is one.
    """
    status = _decoded(body, node)
    if status is None:
        return None
    if not status.groups:
        return _reading(status, status.incarnation, tells_log=tells_log, tells_vote=tells_vote)
    told = [
        msgspec.structs.replace(
            _reading(share, status.incarnation, tells_log=tells_log, tells_vote=tells_vote), group=share.group
        )
        for share in status.groups
    ]
    return msgspec.structs.replace(told[0], others=tuple(told[1:]))


def _decoded(body: bytes, node: str) -> _Status | None:
    try:
        status = _STATUS.decode(body).status
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if status.node != node or status.incarnation < 1 or status.term < 0:
        return None
    if any(one.term < 0 for one in status.groups):
        return None
    return status


def _reading(status: _Status | _Group, incarnation: int, *, tells_log: bool, tells_vote: bool) -> Reading:
    return Reading(
        role=status.role,
        leads=status.role == LEADER,
        term=status.term,
        leader=status.leader,
        voted_for=status.voted_for if tells_vote else None,
        log_end=(status.log_end.term, status.log_end.index) if tells_log else None,
        commit=status.commit if tells_log else None,
        atomic=True,
        incarnation=incarnation,
    )


def read_line(line: bytes) -> TraceLine | None:
    """One line of a trace log; None if it is none of ours, or torn by a crash."""
    try:
        parsed = _LINE.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if parsed.seq < 1 or parsed.incarnation < 1 or parsed.mono_ns < 0:
        return None
    return TraceLine(
        incarnation=parsed.incarnation,
        n=parsed.seq,
        mono_ns=parsed.mono_ns,
        name=parsed.event,
        term=parsed.term,
        role=parsed.role,
        source=parsed.source,
        data=parsed.data,
        group=parsed.group,
    )
