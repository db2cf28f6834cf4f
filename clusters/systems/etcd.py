"""etcd 3.4, 3.5 and 3.7, through the same door as our own targets: each release a system of its own.

``etcd`` is 3.4 (Debian's package), ``etcd-3.5`` is 3.5.1 (a package of the Python index carries the binary) and
``etcd-3.7`` is 3.7.3 (built from its Go module). By default 3.4 runs without pre-vote, the others with it.

It is observed at ``/debug/vars``: the Raft status there (role, term, leader, commit) is taken in the Raft loop, at one
moment. The status call of the API is not used, for its ``raftTerm`` is the term of the last APPLIED entry: a member
that campaigns or was just elected shows an old one there (seen: 3 where Raft was in term 19), so two honest leaders
would seem to share a term. Member ids are computed as etcd does for an initial cluster, so nothing needs to be asked
first. The port in ``--cors`` carries the incarnation: the same answer shows it among the process' arguments, and no
client of ours sends an Origin.

Guarantees: what etcd's channels cannot show is ``not observable``, not passed. A member that is removed returns as a
new one, with nothing stored. Learners are out of scope.

Source: etcd documentation of each release (API guarantees, failures, tuning, configuration flags); its raft package
(CheckQuorum, pre-vote); Raft's safety does not depend on timing (Ongaro, Ousterhout, 2014, 5.6). Its timers, and the
leases and locks on them, count monotonic time (Go's ``time.Now`` carries it), which clock faults leave alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from dethrone.clusters.docker.labels import BIN
from dethrone.clusters.systems.etcd_client import EtcdClient
from dethrone.clusters.systems.membership import MEMBER_ID, Changes, Request, membership_files
from dethrone.clusters.systems.operations import OPERATIONS, TRANSACTIONS, TRANSFERS
from dethrone.clusters.systems.released import Choice, Knob, Released, bad_knob, milliseconds, not_observable
from dethrone.clusters.systems.target import check_voters
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.interfaces import (
    Available,
    Client,
    Command,
    No,
    NodeSpec,
    Reading,
    RunDefaults,
    StatusCall,
    Yes,
)
from dethrone.harness.core.promise import UNTIMED, NotPromised, Promise, noise_limit_ns

BINARY = "/usr/bin/etcd"
"""Of Debian's package; the program of another release is called like its recipe."""

CLIENT_PORT = 2379
PEER_PORT = 2380
TOKEN = "dethrone"  # noqa: S105 - a cluster's name, no secret
_MARK = "http://incarnation.invalid:"
HOUR_S = 3600
HOUR_NS = HOUR_S * SECOND
ADDED_WITHIN_S = 6 * HOUR_S
_STATE = "initial-cluster-state"

LEADER_BOUND_NS = 10 * SECOND
ALLOWANCE_NS = 500 * MS

PRE_VOTE_SINCE = (3, 5)
"""The first release that runs with pre-vote by default."""

_SWITCH = ("on", "off", "true", "false")
_KNOBS: Mapping[str, Knob] = {
    "pre_vote": Choice("off", _SWITCH),
    "heartbeat_interval_ms": milliseconds("100", 1, 60_000),
    "election_timeout_ms": milliseconds("1000", 10, 50_000),
}

_NO_TRACE = "etcd writes no trace of its votes, and a polled vote may not be on disk yet"
_NO_LOG = "etcd does not report the term and index of its log's end"


class _RaftStatus(msgspec.Struct, frozen=True, gc=False, rename={"state": "raftState"}):
    id: str
    term: int
    commit: int
    lead: str
    state: Literal["StateFollower", "StateCandidate", "StatePreCandidate", "StateLeader"]


class _Memory(msgspec.Struct, frozen=True, gc=False, rename={"last_gc_ns": "LastGC"}):
    last_gc_ns: int = 0
    """The member's wall clock, at most some minutes ago; 0: nothing was collected yet."""


class _Vars(msgspec.Struct, frozen=True, gc=False, rename={"status": "raft.status", "stats": "memstats"}):
    cmdline: list[str]
    status: _RaftStatus
    stats: _Memory = _Memory()


_VARS = msgspec.json.Decoder(_Vars)


class EtcdSystem(Released):
    """See ``dethrone.harness.core.interfaces.System``. ``release``: its two numbers."""

    name = "etcd"
    build = "3.4"
    release = (3, 4)
    recipe = "etcd"
    binary = BINARY
    served = OPERATIONS | TRANSACTIONS | TRANSFERS | frozenset({"acquire", "release", "use"})
    channels = ("observed", "ops", "commit", "atomic")

    def log_patterns(self) -> Mapping[str, str]:
        """What its raft package logs of a change of state, in every release."""
        return {
            name: rf"became {role} at term (?P<term>\d+)"
            for name, role in (("leads", "leader"), ("campaigns", "candidate"), ("follows", "follower"))
        }

    def known_knobs(self) -> Mapping[str, Knob]:
        """Pre-vote is on by default since 3.5."""
        return {**_KNOBS, "pre_vote": Choice("on" if self.release >= PRE_VOTE_SINCE else "off", _SWITCH)}

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """All knobs as words. Raises ConfigError."""
        knobs = dict(super().knobs(settings, profile=profile, variant=variant))
        knobs["pre_vote"] = "on" if knobs["pre_vote"] in {"on", "true"} else "off"
        if int(knobs["election_timeout_ms"]) < 5 * int(knobs["heartbeat_interval_ms"]):
            word = knobs["election_timeout_ms"]
            raise bad_knob(self.name, "election_timeout_ms", word, "at least five times heartbeat_interval_ms")
        return knobs

    def profiles(self) -> Mapping[str, str]:
        """One."""
        usual = "on unless the knob pre_vote is off" if self.release >= PRE_VOTE_SINCE else "off unless the knob is on"
        return {"etcd": f"as released: check-quorum on, pre-vote {usual}"}

    def defaults(self) -> RunDefaults:
        """Cuts, ends and pauses; holds and gaps above the bound, so that liveness is exercised."""
        return RunDefaults(
            faults=("partition", "kill", "pause"),
            workload="log",
            nemesis_interval_ns=12 * SECOND,
            time_limit_ns=150 * SECOND,
        )

    def files(self, node: NodeSpec) -> Mapping[str, bytes]:
        """How its members change: flags configure everything else."""
        return membership_files(node, _changes(node))

    def changes_members(self) -> Available:
        """See ``dethrone.harness.core.interfaces.Remaking``."""
        return Yes()

    def command(self, node: NodeSpec) -> Command:
        """One member of a new cluster; its data directory makes later starts restarts. A member that was removed and
        added again is a new one of the existing cluster."""
        peer = peer_url(node.address)
        client = f"http://{node.address}:{CLIENT_PORT}"
        flags = {
            "name": node.name,
            "data-dir": f"{node.data_dir}/etcd",
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "initial-cluster": ",".join(f"{name}={peer_url(address)}" for name, address in node.members.items()),
            "initial-cluster-token": TOKEN,
            _STATE: "new",
            "heartbeat-interval": node.knobs["heartbeat_interval_ms"],
            "election-timeout": node.knobs["election_timeout_ms"],
            "cors": f"{_MARK}{{incarnation}}",
            "logger": "zap",
        }
        if self.release >= PRE_VOTE_SINCE or node.knobs["pre_vote"] == "on":
            flags["pre-vote"] = "true" if node.knobs["pre_vote"] == "on" else "false"
        new, again = (
            (self.binary, *(f"--{name}={value}" for name, value in {**flags, _STATE: state}.items()))
            for state in ("new", "existing")
        )
        return Command(argv=new, env={"ETCD_UNSUPPORTED_ARCH": "arm64"}, rejoining=again)

    def status_call(self, node: NodeSpec) -> StatusCall:
        """The published variables; see the head of this module."""
        request = f"GET /debug/vars HTTP/1.1\r\nHost: {node.address}:{CLIENT_PORT}\r\n\r\n"
        return StatusCall(port=CLIENT_PORT, request=request.encode(), framing="http")

    def reading(self, node: NodeSpec, body: bytes) -> Reading | None:
        """What they say of the member's Raft; None if it is another node's, or none yet.

        A member that was added again is known by its name among the arguments, and to others by the second in which it
        was added; if that is not found, who follows it does not say whom.
        """
        try:
            found = _VARS.decode(body)
            raft = found.status
            own, lead = int(raft.id, 16), int(raft.lead, 16)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        names = {member_id(address): name for name, address in node.members.items()}
        if own not in names and own and f"--name={node.name}" in found.cmdline:
            names[own] = node.name
        if names.get(own) != node.name:
            return None
        leads = raft.state == "StateLeader"
        if lead and lead not in names:
            address = added_member(lead, tuple(node.members.values()), found.stats.last_gc_ns // HOUR_NS)
            names.update((lead, name) for name, one in node.members.items() if one == address)
        return Reading(
            role=raft.state.removeprefix("State").lower(),
            leads=leads,
            term=raft.term,
            leader=names.get(lead),
            tells_leader=not lead or lead in names,
            commit=raft.commit,
            atomic=True,
            incarnation=_incarnation(found.cmdline),
        )

    def client(self, nodes: Mapping[str, NodeSpec]) -> Client:
        """A new client of the JSON gateway."""
        ids = {name: member_id(spec.address) for name, spec in nodes.items()}
        return EtcdClient(nodes, port=CLIENT_PORT, ids=ids)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """What its documentation claims."""
        check_voters(self.name, voters)
        election = int(knobs["election_timeout_ms"]) * MS
        heartbeat = int(knobs["heartbeat_interval_ms"]) * MS
        pre_vote = knobs["pre_vote"] == "on"
        bound = max(LEADER_BOUND_NS, 10 * election)
        any_number: dict[str, int | None] = dict.fromkeys(("partition", "kill", "stop", "restart", "pause", "clock"))
        return Promise(
            system=self.name,
            profile=profile,
            source=f"etcd {self.documented()} documentation: guarantees, failures, tuning "
            f"(election timeout {show_duration(election)})",
            election_timeout_ns=2 * election,  # drawn from [1, 2) times the setting
            noise_max_ns=noise_limit_ns(2 * election),
            heartbeat_ns=heartbeat,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            # Quorum activity is tested once an election timeout, over the timeout that has passed.
            step_down_ns=2 * election + heartbeat + ALLOWANCE_NS,
            converge_ns=bound,
            tiers=("T1", "T2"),
            exempt=_exempt(pre_vote=pre_vote),
            tolerates=any_number,
            safe_under=UNTIMED,
            leader_bound_to_term=True,
            linearizable_reads=True,
            pre_vote=pre_vote,
        )

    def documented(self) -> str:
        """The release whose documentation promises it."""
        return ".".join(map(str, self.release))

    def fault_support(self, kind: str) -> Available:
        """All kinds, but for ``drift`` a static Go program is needed, which Debian's package is not."""
        if kind == "drift" and self.binary == BINARY:
            return No("Debian's etcd uses libc, whose waits a rate of monotonic time would falsify", "run etcd-3.7")
        return Yes()

    def unpreloaded(self) -> str:
        """See ``dethrone.harness.core.interfaces.Unpreloaded``."""
        return "a static Go binary reads its clocks without libc"


def peer_url(address: str) -> str:
    """Where a member listens to its peers."""
    return f"http://{address}:{PEER_PORT}"


def _changes(node: NodeSpec) -> Changes:
    """Members are known by their peer URLs: one that was just added has no name yet."""
    own = json.dumps([peer_url(node.address)], separators=(",", ":"))
    bodies = {"members": {}, "remove": {"ID": MEMBER_ID}, "add": {"peerURLs": [peer_url(node.address)]}}
    paths = {"members": "list", "remove": "remove", "add": "add"}

    def ask(what: str, of: str) -> Request:
        return Request(
            address=node.members[of],
            port=CLIENT_PORT,
            method="POST",
            path=f"/v3/cluster/member/{paths[what]}",
            body=json.dumps(bodies[what]),
            headers={"Content-Type": "application/json"},
        )

    return Changes(ask=ask, member=rf'\{{"ID":"(?P<id>\d+)"[^{{}}]*"peerURLs":{re.escape(own)}', fresh=True)


def member_id(address: str, added_s: int | None = None) -> int:
    """The id that etcd computes for a member: SHA-1 of its peer URLs and the cluster's token; of one that was added
    later, of its peer URLs and the second since 1970 in which it was."""
    with_them = TOKEN if added_s is None else str(added_s)
    digest = hashlib.sha1(f"{peer_url(address)}{with_them}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big")


@functools.lru_cache(maxsize=256)
def added_member(member: int, addresses: tuple[str, ...], hour: int) -> str | None:
    """Which of these members was added and has this id since; looked for up to the end of the next hour (since 1970),
    and some hours back."""
    last = (hour + 2) * HOUR_S
    seconds = range(last, last - ADDED_WITHIN_S, -1) if hour else ()
    return next((one for second in seconds for one in addresses if member_id(one, second) == member), None)


def _incarnation(arguments: list[str]) -> int | None:
    for argument in arguments:
        _, mark, number = argument.partition(_MARK)
        if mark and number.isascii() and number.isdigit() and int(number):
            return int(number)
    return None


def _exempt(*, pre_vote: bool) -> dict[str, NotPromised]:
    out = not_observable(_NO_TRACE, "one-vote-per-term", "leader-has-majority", "members-only", "vote-is-durable")
    out |= not_observable(_NO_LOG, "leader-completeness", "log-matching")
    if not pre_vote:
        out["leader-stability"] = NotPromised(
            "without pre-vote, the default of 3.4, a healed member's higher term deposes the leader once"
        )
    return out


class Etcd35System(EtcdSystem):
    """3.5.1."""

    name = "etcd-3.5"
    build = "3.5.1"
    release = (3, 5)
    recipe = "etcd-3.5"
    binary = f"{BIN}/etcd-3.5"


class Etcd37System(EtcdSystem):
    """3.7.3."""

    name = "etcd-3.7"
    build = "3.7.3"
    release = (3, 7)
    recipe = "etcd-3.7"
    binary = f"{BIN}/etcd-3.7"


SYSTEM = EtcdSystem()
SYSTEM_3_5 = Etcd35System()
SYSTEM_3_7 = Etcd37System()
