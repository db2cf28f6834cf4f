"""What a system claims: which properties, which liveness tiers, within which bounds, under which faults; and why.

A checker judges against the promise, never against what its author believes. Knobs change the promise: the system's
adapter computes it. Out of scope: any judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.hoststate import DISK_MODELS

SAFETY = (
    "one-leader-per-term",
    "one-vote-per-term",
    "term-never-decreases",
    "leader-completeness",
    "log-matching",
    "commit-never-regresses",
    "acknowledged-survives",
    "leader-has-majority",
    "members-only",
    "vote-is-durable",
)
"""Owed by everybody while the realised faults stay inside those under which the promise claims safety."""

LIVENESS = (
    "leader-when-owed",
    "step-down-without-quorum",
    "convergence-after-heal",
    "leader-stability",
    "no-livelock",
)
"""Owed as promised."""

NOISE_MAX_NS: Ns = 50_000_000
"""A host that makes no progress for longer, in one stretch, was disturbed; systems with long timers ride out more."""

NOISE_CAP_NS: Ns = 200_000_000
"""The most that they ride out: what their bounds allow for beyond the timers."""

NOISE_SHARE_MAX_PERCENT = 20
"""Of a run's time: where noise is charged with more, the run shows nothing (``coverage``)."""

STRETCH_SHARE = 6
"""A stall of this part of an election timeout deposes no leader."""


def noise_limit_ns(election_timeout_ns: Ns) -> Ns:
    """``noise_max_ns`` of a system with such a timeout, at the time scale of 1."""
    return min(NOISE_CAP_NS, max(NOISE_MAX_NS, election_timeout_ns // STRETCH_SHARE))


UNTIMED: Mapping[str, int | None] = dict.fromkeys(
    ("partition", "kill", "stop", "restart", "pause", "clock", "link", "hold", "drift")
)
"""Fault kinds that change when things happen, and nothing that is stored: a protocol whose safety does not depend on
timing is safe under any number of them (Raft, 5.6: "safety must not depend on timing")."""

Tier = Literal["T1", "T2", "T3", "T4", "T5"]


class NotPromised(msgspec.Struct, frozen=True):
    """Why a property is not owed, or cannot be shown by this system's channels, with the source of that statement."""

    reason: str
    kind: Literal["not promised", "not observable"] = "not promised"


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One system's promise under one set of knobs. All durations in ns, already scaled.

    ``exempt``: property → why it is ``n/a``. ``tiers``: when a leader is owed. ``leader_bound_ns`` is B (a window
    shorter than B is not exercised), ``later_gap_ns`` is B′. ``step_down_ns``: a leader cut from the majority stops
    claiming within it. ``converge_ns``: from the last heal to convergence. ``tolerates``: the faults under which all
    that is promised holds, liveness too; fault kind → most victims at once (None: any number). ``safe_under``: the
    faults under which safety holds, in the same form; None, as in promises of older versions: under ``tolerates`` only.
    Safety depends on no clock in most protocols, so this map usually holds more kinds. A kind that a map does not name
    takes everything it touches out of that half of the promise (``excused``). Of kinds that concern a file,
    ``kind:path`` is borne for that file alone, and ``kind:path:how`` only in that way. With a ``model`` of disks other
    than the usual one a kind is borne as ``kind:model`` and no other way: who names the kind does not mean that.
    ``rounds_max``: how often in a row a node may stand for election and lose among voters that all hear each other.
    ``rounds_random``: after more lost rounds the waits before the next one are no longer random, and no bound holds;
    None: they always are. ``splits_max``: where nodes draw their timeouts from a small set, split votes are common; up
    to this number in a row are chance, and each adds an election timeout to a bound; 0: the bounds cover likely splits.
    ``split_vote_percent``: the largest chance that a term in which a node stands ends without
    a winner because several stood at once, over links without added loss or delay. ``leader_bound_to_term``: two nodes
    naming different leaders for one term is a violation. ``owed_in_calm``: nodes that do not vote are needed, too, so a
    leader is owed only while nothing at all is broken. ``delay_max_ns`` is D. ``leader_serves``: writes at a leader
    that a quorum recognises succeed in time; False: it may have to catch up for longer. ``drift_ppm_max``: by how much
    one clock may run faster than another before leases are off; None: no bound is stated. ``loss_percent_max``: a link
    that loses more messages than this owes nothing. ``quorum``: votes needed; None: ⌊n/2⌋ + 1. ``leaderless``: no node
    ever leads, so faults hit any node, and no election is asked for.
    """

    system: str
    profile: str
    source: str
    election_timeout_ns: Ns
    heartbeat_ns: Ns
    leader_bound_ns: Ns
    later_gap_ns: Ns
    step_down_ns: Ns | None = None
    converge_ns: Ns | None = None
    rounds_max: int | None = None
    rounds_random: int | None = None
    splits_max: int = 0
    split_vote_percent: int | None = None
    tiers: tuple[Tier, ...] = ()
    exempt: Mapping[str, NotPromised] = {}
    tolerates: Mapping[str, int | None] = {}
    safe_under: Mapping[str, int | None] | None = None
    leader_bound_to_term: bool = True
    leader_serves: bool = True
    owed_in_calm: bool = False
    linearizable_reads: bool = False
    pre_vote: bool = False
    drift_ppm_max: int | None = None
    delay_max_ns: Ns = 20_000_000
    loss_percent_max: int = 30
    noise_max_ns: Ns = NOISE_MAX_NS
    """A stall of a host longer than this makes liveness there unknown."""
    quorum: int | None = None
    leaderless: bool = False
    exits_ok: tuple[int, ...] = ()
    """Exit codes with which a node may end by itself."""
    sometimes: tuple[str, ...] = ()
    """Assertions of the system's own that must hold at least once in a run, or it has shown too little."""

    @property
    def tolerated_for_safety(self) -> Mapping[str, int | None]:
        """The faults under which safety is claimed."""
        return self.tolerates if self.safe_under is None else self.safe_under

    def bears(self, kind: str, params: Mapping[str, Any]) -> str | None:
        """The key of ``tolerates`` under which such a fault is borne; None: it is not."""
        return borne_as(self.tolerates, kind, params)

    def bearing(self, kinds: Mapping[str, tuple[str, ...]]) -> Promise:
        """The same, of kinds of faults that it does not name: borne, in either half, if all that they are like are.

        ``kinds``: kind → those that it is borne like, as its module declares.
        """
        named = {key.partition(":")[0] for key in (*self.tolerates, *(self.safe_under or {}))}
        fresh = {kind: like for kind, like in kinds.items() if like and kind not in named}
        if not fresh:
            return self
        safe_under = None if self.safe_under is None else _with_alike(self.safe_under, fresh)
        return msgspec.structs.replace(self, tolerates=_with_alike(self.tolerates, fresh), safe_under=safe_under)

    def doing(self, kinds: Iterable[str]) -> Promise:
        """The same, which also bears these kinds of faults, in any number: what the system does when it is asked to."""
        any_number: dict[str, int | None] = dict.fromkeys(kinds)
        if not any_number:
            return self
        safe_under = None if self.safe_under is None else {**any_number, **self.safe_under}
        return msgspec.structs.replace(self, tolerates={**any_number, **self.tolerates}, safe_under=safe_under)

    def owes(self, name: str) -> bool:
        """Whether the property is owed at all."""
        return name not in self.exempt


def _with_alike(tolerated: Mapping[str, int | None], fresh: Mapping[str, tuple[str, ...]]) -> Mapping[str, int | None]:
    """The map with each kind whose likes it holds, in the smallest of their numbers."""
    out = dict(tolerated)
    for kind, like in sorted(fresh.items()):
        if all(one in tolerated for one in like):
            out[kind] = min((most for one in like if (most := tolerated[one]) is not None), default=None)
    return out


def with_model(kind: str, params: Mapping[str, Any]) -> str:
    """The kind, with the model of a disk if it is not the usual one: ``powerloss:posix``."""
    model = params.get("model", DISK_MODELS[0])
    return kind if model == DISK_MODELS[0] else f"{kind}:{model}"


def borne_as(tolerated: Mapping[str, int | None], kind: str, params: Mapping[str, Any]) -> str | None:
    """The key of such a map under which a fault is borne; None: it is not."""
    named = with_model(kind, params)
    if named in tolerated or named != kind:
        return named if named in tolerated else None
    file = f"{kind}:{params.get('path', '')}"
    keys = (file, f"{file}:{params.get('how', '')}")
    return next((key for key in keys if key in tolerated), None)
