"""The knobs of the ephemeral-node target: typed, scaled, free of contradictions before anything starts.

Guarantees: every time is an integer of ns, scaled exactly by ``time_factor``; Kafka's own spelling of a name (with
dots) is accepted; an unknown knob or a bad value is a ConfigError that names the nearest. Out of scope: rules: planted
bugs override a rule (`planted_bugs`), not a knob.

Source: docs/sources.md, zk-ephemeral: the defaults of Kafka 3.3.1 in ZooKeeper mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from dethrone.clusters.targets.kit.knobs import KnobTable, Settings, one_of, switch, text, time, whole
from dethrone.harness.core.clock import MS, Ns

LAST = "last"


class ZkKnobs(Settings, frozen=True, kw_only=True):
    """One cluster's settings."""

    mode: Annotated[str, one_of("race", ("race", "controller"), "who decides: the first to create, or a controller")]
    fencing: Annotated[
        bool,
        one_of("", {"off": False, "epochs": True}, "old leaders are refused by epoch; empty: epochs with a controller"),
    ]
    session_timeout: Annotated[
        Ns, time("18000", "a session without a sign of life for so long ends", name="zookeeper_session_timeout_ms")
    ]
    replica_lag_time_max: Annotated[Ns, time("30000", "a follower that lags for so long leaves the ISR")]
    unclean_leader_election: Annotated[
        bool, switch("false", "a replica outside the ISR may lead", name="unclean_leader_election_enable")
    ]
    min_insync_replicas: Annotated[int, whole("1", "the smallest ISR that takes writes")]
    acks: Annotated[str, one_of("1", ("1", "all"), "whose copies a write waits for: the leader's, or the ISR's")]
    step_down_on_disconnect: Annotated[
        bool, switch("false", "a leader without a connection to the service takes no writes")
    ]
    truncate: Annotated[
        str,
        one_of("", ("hw", "epoch", "off"), "by what a follower cuts its log; empty: follows the mode"),
    ]
    isr_in_force: Annotated[
        str, one_of("published", ("published", "local"), "which ISR a write waits for: the service's, or the leader's")
    ]
    rewatch: Annotated[bool, switch("on", "a watch that fired is set again")]
    service_clock: Annotated[str, one_of("mono", ("mono", "wall"), "the clock behind sessions")]
    coordinator: Annotated[str, text(LAST, str, "last, or a node's name", "the member that is the service")]
    fetch_wait_max: Annotated[
        Ns, time("500", "how long a leader holds a fetch without records", name="replica_fetch_wait_max_ms")
    ]
    hw_checkpoint_interval: Annotated[Ns, time("5000", "between two checkpoints of the high watermark")]
    call_retry: Annotated[Ns, time("500", "how long a call to the service is waited for")]

    def coordinator_of(self, members: tuple[str, ...]) -> str:
        """The member that is the coordination service."""
        return members[-1] if self.coordinator == LAST else self.coordinator

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """See `Settings`."""
        if self.session_timeout < 3 * MS:
            yield "the session timeout must be at least 3 ms after scaling", "choose a larger time_factor"
        if self.fetch_wait_max >= self.replica_lag_time_max:
            yield (
                "replica_fetch_wait_max_ms must be below replica_lag_time_max_ms",
                "a follower whose fetch is kept waiting would leave the ISR",
            )


def _fill(words: dict[str, str]) -> None:
    controller = words["mode"] == "controller"
    words["fencing"] = words["fencing"] or ("epochs" if controller else "off")
    words["truncate"] = words["truncate"] or ("epoch" if controller else "hw")


KNOBS = KnobTable(
    "zk-ephemeral",
    ZkKnobs,
    profiles={
        "race": {},
        "controller": {"mode": "controller"},
        "race-strict": {
            "fencing": "epochs",
            "truncate": "epoch",
            "acks": "all",
            "min_insync_replicas": "2",
            "step_down_on_disconnect": "true",
        },
    },
    fill=_fill,
    spelled=True,
)
