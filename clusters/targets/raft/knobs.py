"""The knobs of the Raft target.

Knobs of the Raft paper's own safety rules (``persist``, ``log_check`` ...) may be off; every other rule is overridden
by a planted bug.

Source: Raft paper, 5.6 (timing), 9.3 (150-300 ms); thesis 4.2.3, 6.2, 6.4, 9.6 for the extensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, number, one_of, switch, time, whole
from dethrone.harness.core.clock import Ns

READ_MODES = ("local", "log", "readindex", "lease")
MEMBERSHIPS = ("static", "single_server")


class RaftKnobs(Settings, frozen=True, kw_only=True):
    """One group's settings."""

    pre_vote: Annotated[bool, switch("on", "a node asks whether it could win before it raises its term")]
    prevote_leader_check: Annotated[bool, switch("on", "a node that hears a leader grants no pre-vote")]
    check_quorum: Annotated[bool, switch("on", "a leader that hears no majority steps down")]
    stickiness: Annotated[bool, switch("on", "a node that hears a leader ignores requests for votes")]
    noop: Annotated[bool, switch("on", "a new leader appends an entry of its own term")]
    reads: Annotated[str, one_of("readindex", READ_MODES, "what a read waits for")]
    clock_drift_bound: Annotated[Fraction, number("1.1", "by how much clocks may differ in rate, for leases")]
    vote_holdoff_after_start: Annotated[
        bool, switch("", "no vote for a timeout after a start; empty: on with leases, else off")
    ]
    membership: Annotated[str, one_of("static", MEMBERSHIPS, "whether nodes can be added and removed, one at a time")]
    config_needs_own_commit: Annotated[
        bool, switch("on", "a leader changes the membership only after a commit in its own term")
    ]
    transfer: Annotated[bool, switch("off", "whether leadership can be handed over")]
    log_check: Annotated[bool, switch("on", "voters compare logs")]
    prev_check: Annotated[bool, switch("on", "followers compare the entry before those that are appended")]
    persist: Annotated[bool, switch("on", "term and vote are on disk before a vote leaves")]
    commit_current_term_only: Annotated[bool, switch("on", "counting replicas commits entries of the own term only")]
    retry_same_term: Annotated[bool, switch("off", "a candidate whose election failed keeps its term")]
    eager_commit_notice: Annotated[bool, switch("off", "followers learn of a commit at once")]
    max_entries_per_append: Annotated[int, whole("64", "entries of one append request")]
    election_timeout_min: Annotated[Ns, time("150", "the shortest silence after which a node campaigns")]
    election_timeout_max: Annotated[Ns, time("300", "the longest such silence")]
    heartbeat_interval: Annotated[Ns, time("50", "between two rounds of heartbeats")]
    rpc_timeout: Annotated[Ns, time("50", "how long one call may take")]
    check_quorum_window: Annotated[Ns, time("", "of check_quorum; empty: election_timeout_max_ms")]
    sticky_window: Annotated[Ns, time("", "of stickiness; empty: election_timeout_min_ms")]

    def lease_allowed(self) -> str:
        """Why a lease read cannot be served with these knobs; empty when it can."""
        for name, on in (
            ("noop", self.noop),
            ("stickiness", self.stickiness),
            ("vote_holdoff_after_start", self.vote_holdoff_after_start),
        ):
            if not on:
                return f"lease reads need {name}=on"
        return ""


def _fill(words: dict[str, str]) -> None:
    words["vote_holdoff_after_start"] = words["vote_holdoff_after_start"] or (
        "on" if words["reads"] == "lease" else "off"
    )
    words["check_quorum_window_ms"] = words["check_quorum_window_ms"] or words["election_timeout_max_ms"]
    words["sticky_window_ms"] = words["sticky_window_ms"] or words["election_timeout_min_ms"]


class _Table(KnobTable[RaftKnobs]):
    """``safe_reads`` is another word for ``reads``."""

    def given(self, settings: Mapping[str, str]) -> dict[str, str]:
        """See the base class."""
        safe = settings.get("safe_reads")
        given = super().given({name: word for name, word in settings.items() if name != "safe_reads"})
        if safe is None:
            return given
        if safe not in {"on", "true", "off", "false"}:
            raise self.wrong(f"knob safe_reads of raft cannot be {safe!r}", "give on|off")
        reads = given.setdefault("reads", "readindex" if safe in {"on", "true"} else "local")
        if (safe in {"on", "true"}) == (reads == "local"):
            raise self.wrong(f"safe_reads and reads={reads} contradict", "give only reads")
        return given

    def contradictions(self, knobs: RaftKnobs, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """A knob whose need is off: always an error where safety or liveness hangs on it, else only when asked for."""
        single = knobs.membership == "single_server"
        for active, what, needed, met in (
            (knobs.stickiness, "stickiness=on", "check_quorum=on", knobs.check_quorum),
            (given.get("prevote_leader_check") == "on", "prevote_leader_check=on", "pre_vote=on", knobs.pre_vote),
            (knobs.reads in ("readindex", "lease"), f"reads={knobs.reads}", "noop=on", knobs.noop),
            (knobs.reads == "lease", "reads=lease", "stickiness=on", knobs.stickiness),
            (knobs.reads == "lease", "reads=lease", "vote_holdoff_after_start=on", knobs.vote_holdoff_after_start),
            (single, "membership=single_server", "noop=on", knobs.noop),
            ("config_needs_own_commit" in given, "config_needs_own_commit", "membership=single_server", single),
        ):
            if active and not met:
                yield f"{what} needs {needed}", f"set {needed}, or {what.split('=')[0]} to something else"
        if knobs.clock_drift_bound < 1:
            yield "clock_drift_bound is a ratio of two rates, at least 1", "clock_drift_bound=1.1"
        if knobs.election_timeout_min > knobs.election_timeout_max:
            yield "election_timeout_min_ms is above election_timeout_max_ms", "exchange the two"
        if knobs.heartbeat_interval * 2 > knobs.election_timeout_min:
            yield (
                "heartbeat_interval_ms must be well below election_timeout_min_ms (at most half of it)",
                "shorten the heartbeat or lengthen the timeout",
            )
        if knobs.reads == "lease" and knobs.sticky_window < knobs.election_timeout_min:
            yield (
                "reads=lease counts on voters that stay sticky for election_timeout_min_ms; sticky_window_ms is less",
                "leave sticky_window_ms at its default",
            )
        if knobs.check_quorum and knobs.check_quorum_window <= knobs.heartbeat_interval:
            yield "check_quorum_window_ms must be longer than heartbeat_interval_ms", "leave it at its default"


KNOBS = _Table(
    "raft",
    RaftKnobs,
    profiles={
        "raft": {},
        "raft-paper": {
            "pre_vote": "off",
            "prevote_leader_check": "off",
            "check_quorum": "off",
            "stickiness": "off",
            "noop": "off",
            "reads": "local",
        },
    },
    fill=_fill,
)
