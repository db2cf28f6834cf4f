"""The knobs of the KRaft target; each may also be spelled as Kafka spells it, with or without ``controller.``.

Draws are made in protocol milliseconds, as the original makes them.

Source: Apache Kafka 3.3.1, RaftConfig and KafkaRaftClient; KAFKA-15489 and Kafka 3.7 for ``check_quorum``. ``reads``,
``clock``, ``observers``, ``max_records_per_fetch`` and ``time_factor`` are ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated

from dethrone.clusters.targets.kit.knobs import Knob, KnobTable, Settings, one_of, protocol_ms, scaling, text, whole
from dethrone.harness.core.clock import Ns


def _kafka(default: str, name: str, says: str, *, least: int = 1) -> Knob:
    """A time that Kafka knows by this name."""
    return protocol_ms(default, says, least=least, original=(f"controller.quorum.{name}", f"quorum.{name}"))


def _observers(word: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in word.split(",") if part.strip())
    if len(set(names)) != len(names):
        raise ValueError(word)
    return names


def _some(word: str) -> str:
    if not word:
        raise ValueError(word)
    return word


class KraftKnobs(Settings, frozen=True, kw_only=True):
    """One quorum's settings. ``…_ms`` are protocol ms; ``ns`` turns them into time."""

    time_factor: Annotated[Fraction, scaling("0.001", "1000")]
    election_timeout_ms: Annotated[int, _kafka("1000", "election.timeout.ms", "E: a candidate waits from E to 2 E")]
    fetch_timeout_ms: Annotated[
        int, _kafka("2000", "fetch.timeout.ms", "a follower without a fetch for so long campaigns")
    ]
    election_backoff_max_ms: Annotated[
        int, _kafka("1000", "election.backoff.max.ms", "the longest back-off of a lost election", least=0)
    ]
    request_timeout_ms: Annotated[int, _kafka("2000", "request.timeout.ms", "how long an answer is waited for")]
    retry_backoff_ms: Annotated[int, _kafka("20", "retry.backoff.ms", "pause before a request is repeated", least=0)]
    append_linger_ms: Annotated[int, _kafka("25", "append.linger.ms", "how long records gather in a batch", least=0)]
    fetch_max_wait_ms: Annotated[int, protocol_ms("500", "how long a leader holds a fetch without records", least=0)]
    backoff_unit_ms: Annotated[int, protocol_ms("100", "the first back-off; it doubles")]
    max_records_per_fetch: Annotated[int, whole("64", "records of one answer to a fetch")]
    check_quorum: Annotated[str, one_of("1.0", ("1.0", "1.5", "off"), "fetch timeouts without a majority to resign")]
    clock: Annotated[str, one_of("mono", ("mono", "wall"), "the clock behind the timers")]
    reads: Annotated[str, one_of("local", ("local", "log"), "from what was applied, or as records of the log")]
    observers: Annotated[
        tuple[str, ...],
        text("", _observers, "node names, separated by commas, each once", "nodes that fetch and never vote"),
    ]
    cluster_id: Annotated[str, text("dethrone", _some, "a name", "requests of another cluster are refused")]

    @property
    def check_quorum_ns(self) -> Ns | None:
        """How long a leader stays without a majority that fetches; None: for ever."""
        if self.check_quorum == "off":
            return None
        fetch = self.ns(self.fetch_timeout_ms)
        return fetch if self.check_quorum == "1.0" else fetch * 3 // 2

    def voters(self, members: Iterable[str]) -> tuple[str, ...]:
        """Those of ``members`` that are no observers, in their order."""
        return tuple(name for name in members if name not in self.observers)


KNOBS = KnobTable(
    "kraft",
    KraftKnobs,
    profiles={"kraft": {}, "kraft-3.7": {"check_quorum": "1.5"}, "kraft-3.6": {"check_quorum": "off"}},
)
