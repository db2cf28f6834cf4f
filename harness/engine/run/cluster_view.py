"""What the harness believes of the nodes right now: last answers, who leads, whether all is well.

Pure: fed with happenings, asked with a moment. Beliefs serve selectors and the live view; verdicts never rest on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.harness.core.clock import MS, SECOND, Ns, Span
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import ClusterView, Reading
from dethrone.harness.core.version_limits import VersionLimits

FRESH_NS = 1 * SECOND
HEALTH_FRESH_NS = 400 * MS


class ViewKeeper:
    """Last answers of each node.

    ``voters``: who must know the leader for all to be well; others need only answer. ``led``: False where no leader is
    owed: then answers are enough. ``zones``: node → its zone.
    ``versions``: those at hand. ``version_limits``: which may run side by side.
    """

    def __init__(
        self,
        nodes: tuple[str, ...],
        *,
        voters: tuple[str, ...] | None = None,
        led: bool = True,
        zones: Mapping[str, str] | None = None,
        versions: tuple[str, ...] = (),
        version_limits: VersionLimits | None = None,
    ) -> None:
        self.nodes = nodes
        self.versions = versions
        self.version_limits = version_limits or VersionLimits()
        self.version_of: dict[str, str] = {}
        """Node → as which version its process was started last."""
        self.zones = zones or {}
        self.voters = nodes if voters is None else voters
        self.led = led
        self.state: dict[str, HostState] = dict.fromkeys(nodes, HEALTHY)
        self.readings: dict[str, tuple[Span, Reading]] = {}
        self.incarnation: dict[str, int] = dict.fromkeys(nodes, 0)
        self.rtt_max_ns: Ns = 0

    def answered(self, node: str, span: Span, reading: Reading) -> None:
        """A node answered."""
        self.readings[node] = (span, reading)
        took = span.hi - span.lo
        if took > self.rtt_max_ns:  # noqa: PLR1730 - a call less, at every poll
            self.rtt_max_ns = took

    def silent(self, node: str, now: Ns) -> None:
        """A node did not answer; an old answer is forgotten once it is no longer fresh."""
        last = self.readings.get(node)
        if last is not None and now - last[0].hi > FRESH_NS:
            del self.readings[node]

    def leader(self, now: Ns) -> str | None:
        """The node that leads in the highest term and said so freshly."""
        leading = [
            (reading.term, node)
            for node, (span, reading) in self.readings.items()
            if reading.leads and now - span.hi <= FRESH_NS
        ]
        return max(leading)[1] if leading else None

    def view(self, now: Ns) -> ClusterView:
        """The picture that selectors and generators get."""
        leader = self.leader(now)
        roles: dict[str, str] = {}
        terms: dict[str, int] = {}
        for node in self.nodes:
            last = self.readings.get(node)
            if last is None or now - last[0].hi > FRESH_NS:
                roles[node] = "unknown"
                continue
            terms[node] = last[1].term
            roles[node] = "leader" if node == leader else last[1].role.lower()
        state = {node: state.suffered for node, state in self.state.items()}
        return ClusterView(
            nodes=self.nodes,
            leader=leader,
            roles=roles,
            terms=terms,
            state=state,
            voters=self.voters,
            zones=self.zones,
            versions=self.versions,
            version_of=dict(self.version_of),
            version_limits=self.version_limits,
        )

    def answering(self, now: Ns) -> tuple[str, ...]:
        """Nodes with a fresh answer."""
        return tuple(
            node for node in self.nodes if node in self.readings and now - self.readings[node][0].lo <= FRESH_NS
        )

    def apart(self) -> str:
        """``groups_apart`` by the voters' last answers."""
        return groups_apart({node: self.readings[node][1] for node in self.voters if node in self.readings})

    def healthy(self, now: Ns, *, since: Ns = 0) -> bool:
        """Every host is healthy, all nodes answered just now, all voters name one leader, which leads in no lower term.

        Where no leader is owed, no node need name one; where nodes do not say whom they follow, exactly one must lead.
        Only answers to polls sent after ``since`` count. A follower may know a lower term: Nacos' beats keep it.
        """
        if any(not state.healthy for state in self.state.values()):
            return False
        leaders: set[str | None] = set()
        highest = 0
        voters = set(self.voters)
        for node in self.nodes:
            last = self.readings.get(node)
            if last is None or last[0].lo < since or now - last[0].lo > HEALTH_FRESH_NS:
                return False
            if node in voters:
                if last[1].tells_leader:
                    leaders.add(last[1].leader)
                elif last[1].leads:
                    leaders.add(node)
                highest = max(highest, last[1].term)
        if self.apart():
            return False
        if not self.led:
            return True
        if len(leaders) != 1:
            return False
        leader = leaders.pop()
        if leader not in self.readings:
            return False
        reading = self.readings[leader][1]
        return reading.leads and reading.term >= highest


def groups_apart(told: Mapping[str, Reading]) -> str:
    """Which of these nodes is not in a consensus group that another one is in; "" : none.

    Quorums of a group are counted among all voters.
    """
    if not any(reading.others or reading.group for reading in told.values()):
        return ""
    of = {node: {one.group for one in (reading, *reading.others)} for node, reading in told.items()}
    for group in sorted(set().union(*of.values())):
        members = [node for node in of if group in of[node]]
        if len(members) < len(of):
            return f"{min(set(of) - set(members))} is not in the group {group}, in which {members[0]} is"
    return ""


def changed(before: Mapping[str, HostState], after: Mapping[str, HostState]) -> dict[str, HostState]:
    """The hosts whose desired state differs, with the new one."""
    return {host: state for host, state in after.items() if before[host] != state}
