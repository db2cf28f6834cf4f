"""The knobs of the DLedger target. Where DLedger itself is unsafe or two of its sources disagree, that IS a knob.

Source: DLedger 0.2.7, ``DLedgerConfig`` and ``DLedgerLeaderElector``; where the profile ``dledger`` differs from it,
the safer reading was taken, and ``dledger-upstream`` has the original's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, switch, time, whole
from dethrone.harness.core.clock import Ns


class DledgerKnobs(Settings, frozen=True, kw_only=True):
    """One group's settings."""

    clock: Annotated[str, one_of("wall", ("wall", "monotonic"), "the clock behind every timestamp of the election")]
    persist_mode: Annotated[
        str,
        one_of(
            "atomic",
            ("atomic", "upstream", "none"),
            "how the term file is written; atomic stops the node on an error",
            original=("K3",),
        ),
    ]
    ledger_end_term: Annotated[
        str,
        one_of(
            "entry",
            ("entry", "curr_term"),
            "the term of the log's end: the last entry's, or the current one when it was stored",
        ),
    ]
    count_expired_ledger: Annotated[bool, switch("true", "REJECT_EXPIRED_LEDGER_TERM counts as a longer log in case 4")]
    flag_handling: Annotated[
        str,
        one_of(
            "bump_only",
            ("bump_only", "immediate"),
            "a raised term is voted for 300 to 1000 ms later, or at once",
            original=("K1",),
        ),
    ]
    has_leader_delay: Annotated[
        str,
        one_of("0", ("0", "leak"), "the extra delay of case 2: none, or maxHeartBeatLeak periods", original=("K2",)),
    ]
    leader_checks_max_term_first: Annotated[
        bool,
        switch("false", "a leader steps down for a higher term before it counts successes", original=("K4",)),
    ]
    commit_own_term_only: Annotated[bool, switch("true", "a leader commits by counting only entries of its own term")]
    get_committed_only: Annotated[bool, switch("true", "a leader serves committed entries only")]
    push_checks_leader: Annotated[bool, switch("true", "all four pushes must come from the leader that is followed")]
    fsync: Annotated[str, one_of("each", ("each", "async"), "log entries are synced before they count, or every 10 ms")]
    noop_on_elect: Annotated[
        bool, switch("false", "a new leader appends a blank entry, which commits what it inherited")
    ]
    fail_pending_on_step_down: Annotated[bool, switch("true", "a deposed leader answers its callers")]
    max_heart_beat_leak: Annotated[int, whole("3", "periods without success before giving up")]
    max_pending_requests_num: Annotated[int, whole("10000", "unanswered appends")]
    max_in_flight: Annotated[int, whole("1000", "entries pushed to a peer and unanswered")]
    heart_beat_interval: Annotated[Ns, time("2000", "period of heartbeats", name="heart_beat_time_interval_ms")]
    min_vote_interval: Annotated[Ns, time("300", "least delay of a campaign")]
    max_vote_interval: Annotated[Ns, time("1000", "its upper bound, and the extra delay of case 4")]
    vote_wait: Annotated[Ns, time("2000", "fixed part of the longest wait for votes")]
    loop_period: Annotated[Ns, time("10", "sleep between two passes of the maintenance loop")]
    max_wait_ack_time: Annotated[Ns, time("2500", "how long an append waits for a majority")]
    max_push_time_out: Annotated[Ns, time("1000", "an unanswered push is sent again")]
    compare_time_out: Annotated[Ns, time("3000", "longest wait for the answer to COMPARE or TRUNCATE")]
    push_retry: Annotated[Ns, time("500", "pause of a pusher that starts over")]
    commit_interval: Annotated[Ns, time("1000", "period of COMMIT when there is nothing to send")]
    flush_interval: Annotated[Ns, time("10", "period of syncs with fsync=async")]
    check_point_interval: Annotated[Ns, time("3000", "period of the checkpoint file")]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        if self.min_vote_interval >= self.max_vote_interval:
            yield (
                "min_vote_interval_ms must lie below max_vote_interval_ms: a campaign's delay is drawn between them",
                "leave them at 300 and 1000",
            )


KNOBS = KnobTable(
    "dledger",
    DledgerKnobs,
    profiles={
        "dledger": {},
        "dledger-mended": {"leader_checks_max_term_first": "true", "clock": "monotonic", "noop_on_elect": "true"},
        "dledger-upstream": {
            "persist_mode": "upstream",
            "has_leader_delay": "leak",
            "commit_own_term_only": "false",
            "get_committed_only": "false",
            "push_checks_leader": "false",
            "fsync": "async",
            "fail_pending_on_step_down": "false",
        },
    },
)
