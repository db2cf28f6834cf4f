"""The knobs of the KRaft target: typed, scaled, and free of contradictions before anything starts.

Promises: a knob may be spelled as here, or as Kafka spells it, with or without the prefix ``controller.``; an unknown
knob or value is a ConfigError that names the nearest. ``time_factor`` is an exact decimal with at most six places and
scales every timer, so each duration is a whole number of ns. Draws are made in protocol milliseconds, as the original
makes them. Leaves out rules: a known-bad build overrides a rule (`variants`), not a knob.

Source: Apache Kafka 3.3.1, RaftConfig and KafkaRaftClient; KAFKA-15489 and Kafka 3.7 for ``check_quorum``. ``reads``,
``clock``, ``observers``, ``max_records_per_fetch`` and ``time_factor`` are ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

import msgspec

from harness.core.clock import MS, Ns
from harness.core.errors import ConfigError

_MILLION = 1_000_000

KNOBS: Mapping[str, str] = {
    "election_timeout_ms": "1000",
    "fetch_timeout_ms": "2000",
    "election_backoff_max_ms": "1000",
    "request_timeout_ms": "2000",
    "retry_backoff_ms": "20",
    "append_linger_ms": "25",
    "fetch_max_wait_ms": "500",
    "backoff_unit_ms": "100",
    "max_records_per_fetch": "64",
    "check_quorum": "1.0",
    "clock": "mono",
    "reads": "local",
    "observers": "",
    "cluster_id": "dethrone",
    "time_factor": "1",
}
"""Every knob with its default."""

PROFILES: Mapping[str, Mapping[str, str]] = {
    "kraft": dict(KNOBS),
    "kraft-3.7": {**KNOBS, "check_quorum": "1.5"},
    "kraft-3.6": {**KNOBS, "check_quorum": "off"},
}
"""Profile → all its words; the first is the default."""

_CHOICES = {
    "check_quorum": ("1.0", "1.5", "off"),
    "clock": ("mono", "wall"),
    "reads": ("local", "log"),
}
_MAY_BE_ZERO = ("append_linger_ms", "fetch_max_wait_ms", "retry_backoff_ms", "election_backoff_max_ms")
_SPELLINGS = {
    f"{prefix}quorum.{name}": knob
    for prefix in ("controller.", "")
    for name, knob in {
        "election.timeout.ms": "election_timeout_ms",
        "fetch.timeout.ms": "fetch_timeout_ms",
        "election.backoff.max.ms": "election_backoff_max_ms",
        "request.timeout.ms": "request_timeout_ms",
        "retry.backoff.ms": "retry_backoff_ms",
        "append.linger.ms": "append_linger_ms",
    }.items()
}


class KraftKnobs(msgspec.Struct, frozen=True, kw_only=True):
    """One quorum's settings, the same on all its nodes. ``…_ms`` are protocol ms; ``ns`` turns them into time."""

    profile: str
    election_timeout_ms: int
    fetch_timeout_ms: int
    election_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    append_linger_ms: int
    fetch_max_wait_ms: int
    backoff_unit_ms: int
    max_records_per_fetch: int
    check_quorum: str
    clock: str
    reads: str
    observers: tuple[str, ...]
    cluster_id: str
    time_millionths: int

    def ns(self, protocol_ms: int) -> Ns:
        """How long ``protocol_ms`` last on this node's clocks."""
        return protocol_ms * self.time_millionths * MS // _MILLION

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


def parse(settings: Mapping[str, str], *, profile: str | None = None) -> KraftKnobs:
    """Typed knobs from words; ``settings`` win over the profile. Raises ConfigError."""
    name = next(iter(PROFILES)) if profile is None else profile
    if name not in PROFILES:
        raise _bad(f"unknown profile {name!r}", _nearest(name, PROFILES))
    words = dict(PROFILES[name])
    words.update(in_our_spelling(settings))
    for key, choices in _CHOICES.items():
        if words[key] not in choices:
            raise _bad(f"{key} cannot be {words[key]!r}", f"give {' or '.join(choices)}")
    observers = tuple(word.strip() for word in words["observers"].split(",") if word.strip())
    if len(set(observers)) != len(observers):
        raise _bad(f"observers names a node twice: {words['observers']!r}", "name each once, separated by commas")
    if not words["cluster_id"]:
        raise _bad("cluster_id is empty", "give a name")
    return KraftKnobs(
        profile=name,
        observers=observers,
        cluster_id=words["cluster_id"],
        time_millionths=_factor(words["time_factor"]),
        check_quorum=words["check_quorum"],
        clock=words["clock"],
        reads=words["reads"],
        **{key: _whole(key, words[key]) for key in KNOBS if key.endswith("_ms") or key == "max_records_per_fetch"},
    )


def in_our_spelling(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings under this module's names. Raises ConfigError for an unknown one, and for two of one meaning."""
    out: dict[str, str] = {}
    for given, word in settings.items():
        key = _SPELLINGS.get(given, given)
        if key not in KNOBS:
            raise _bad(f"unknown knob {given!r}", _nearest(given, (*KNOBS, *_SPELLINGS)))
        if key in out:
            raise _bad(f"{key} is given twice, in two spellings", "leave one of them out")
        out[key] = word
    return out


def _whole(key: str, word: str) -> int:
    if not (word.isascii() and word.isdigit()) or (int(word) == 0 and key not in _MAY_BE_ZERO):
        raise _bad(f"{key} cannot be {word!r}", "give a whole number, in protocol ms where the name says so")
    return int(word)


def _factor(word: str) -> int:
    try:
        millionths = Decimal(word) * _MILLION
    except InvalidOperation:
        millionths = Decimal(0)
    if not millionths.is_finite() or millionths != int(millionths) or not 1000 <= millionths <= 1000 * _MILLION:
        raise _bad(f"time_factor cannot be {word!r}", "give a decimal from 0.001 to 1000 with at most six places")
    return int(millionths)


def _bad(what: str, next_step: str) -> ConfigError:
    return ConfigError(what, where="knobs of the kraft target", next_step=next_step)


def _nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(sorted(names))}"
