"""Tries what a description says of members and leadership, on a cluster that runs only for that.

The other nodes are asked who the members are; a node is removed and added again by the fault ``member`` itself, and a
leader asked to hand leadership over. Guarantees: bounded; the node is healed before the last row; no member is removed
on hosts that another user lent. Out of scope: starting the cluster, and what these faults do to elections.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import Described, Fault, Host, NodeSpec, Reading, System
from dethrone.harness.engine.host.doctor_row import DoctorRow

STEP = "members"
LOOK_LIMIT_NS = 5 * SECOND
TRANSFER_LIMIT_NS = 2 * SECOND
NODES_MIN = 3
SHOWN = 160
Ask = Callable[[NodeSpec], "Reading | None"]
"""Asks a node for its status; None: no answer that is understood."""


class MembershipCheck:
    """The steps on one cluster. ``limit_ns``: how long a leader, or an answer, is waited for."""

    def __init__(self, hosts: Mapping[str, Host], nodes: Mapping[str, NodeSpec], *, ask: Ask, limit_ns: Ns) -> None:
        self._hosts = hosts
        self._nodes = nodes
        self._ask = ask
        self._limit_ns = limit_ns

    def transferred(self, system: System) -> Iterator[DoctorRow]:
        """Whether leadership moves when the leader is asked to hand it over."""
        found = self._until(self._leader)
        if found is None or len(self._nodes) < 2:
            yield self._untried("leadership is handed over on request", "there is no other node", found)
            return
        leader, term = found
        to = next(name for name in self._nodes if name != leader)
        what = f"{leader} hands leadership over when asked to"
        client = system.client(self._nodes)
        try:
            outcome = client.invoke("transfer", to, target=leader, timeout_ns=TRANSFER_LIMIT_NS)
        finally:
            client.close()
        if outcome.status == "fail":
            why = f"{outcome.status}: {outcome.error}"
            yield DoctorRow(step=STEP, what=what, seen="no", why=why, what_to_do="look at transfer in [membership]")
            return
        later = self._until(lambda: self._leader(since=term, other_than=leader))
        if later is None:
            why = f"the answer was {outcome.status}, but no other node was seen to lead a later term than {term}"
            yield DoctorRow(step=STEP, what=what, seen="no", why=why, what_to_do="look at transfer in [membership]")
        else:
            yield DoctorRow(step=STEP, what=f"{what}: {later[0]} leads term {later[1]} after term {term}")

    def changed(self, described: Described, *, lent: bool) -> Iterator[DoctorRow]:
        """What the others say of a follower, and whether it can be removed and added again."""
        found = self._until(self._leader)
        what = "a node is removed from the members and added again"
        if found is None or len(self._nodes) < 2:
            yield self._untried(what, "there is no other node", found)
            return
        name = next(name for name in self._nodes if name != found[0])
        listed = self._listed(described, name)
        yield listed
        if listed.seen != "yes":
            return
        if lent or len(self._nodes) < NODES_MIN or len(self._nodes) % 2 == 0:
            why = "another user owns the hosts" if lent else "it takes an odd number of nodes, from 3"
            yield self._untried(what, why, found)
            return
        yield self._removed(name)

    def _untried(self, what: str, why: str, leader: object) -> DoctorRow:
        why = why if leader is not None else "no node leads"
        step = "" if leader is None else "give --nodes 3"
        return DoctorRow(step=STEP, what=what, seen="not seen", why=f"not tried: {why}", what_to_do=step)

    def _listed(self, described: Described, name: str) -> DoctorRow:
        """What the members are, as the others say it and as it is understood."""
        argv = described.look_at_members(self._nodes[name])
        code, out, err = self._hosts[name].run(argv, timeout_ns=LOOK_LIMIT_NS)
        what = f"the others list {name} as a member"
        try:
            others: list[dict[str, Any]] = json.loads(out)["others"]
        except (ValueError, LookupError):
            why = f"exit code {code}: {err.decode('utf-8', 'replace').strip()[-SHOWN:]}"
            return DoctorRow(step=STEP, what=what, seen="no", why=why, what_to_do="look at members in [membership]")
        for key, lacks, why in (
            ("done", "members", "no answer to members that counts: "),
            ("listed", "member", "the pattern does not find it in: "),
        ):
            wrong = [one for one in others if not one[key]]
            if wrong:
                step = f"look at {lacks} in [membership]"
                return DoctorRow(step=STEP, what=what, seen="no", why=why + _short(wrong[0]["said"]), what_to_do=step)
        known = f", under the id {others[0]['id']!r}" if others[0]["id"] else ""
        return DoctorRow(step=STEP, what=f"{what}, {len(others)} of {len(others)}{known}: {_short(others[0]['said'])}")

    def _removed(self, name: str) -> DoctorRow:
        """Whether the fault comes about, and ends."""
        fault: Fault = registry.load(registry.FAULTS, "member")
        host, what = self._hosts[name], f"{name} is removed from the members and added again"
        try:
            began = host.converge(fault.apply(dict.fromkeys(self._nodes, HEALTHY), (name,), {})[name])
            ended = self._until(lambda: True if host.converge(HEALTHY).confirmed else None)
        except HarnessError as error:
            return DoctorRow(step=STEP, what=what, seen="no", why=error.what)
        if not began.confirmed:
            step = "look at remove in [membership]"
            return DoctorRow(step=STEP, what=what, seen="no", why=began.why, what_to_do=step)
        if ended is None:
            why = host.converge(HEALTHY).why
            return DoctorRow(step=STEP, what=what, seen="no", why=why, what_to_do="look at add in [membership]")
        after = self._until(lambda: self._ask(self._nodes[name]))
        if after is None:
            why = "it does not answer any more"
            return DoctorRow(step=STEP, what=what, seen="no", why=why, what_to_do="look at its log; must it be fresh?")
        return DoctorRow(step=STEP, what=f"{what}, and answers in term {after.term}")

    def _leader(self, *, since: int = 0, other_than: str = "") -> tuple[str, int] | None:
        """A node that leads in a term after ``since``, and the term."""
        for name, node in self._nodes.items():
            reading = self._ask(node)
            if reading is not None and reading.leads and reading.term > since and name != other_than:
                return name, reading.term
        return None

    def _until(self, look: Callable[[], Any]) -> Any:
        """What ``look`` finds, as soon as it is not None; None if it stays so."""
        deadline = time.monotonic_ns() + self._limit_ns
        while (found := look()) is None and time.monotonic_ns() < deadline:
            time.sleep(0.1)
        return found


def _short(said: Any) -> str:
    return " ".join(str(said).split())[:SHOWN]
