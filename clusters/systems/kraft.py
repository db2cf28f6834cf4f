"""kraft: Kafka's metadata quorum, as real processes. Profiles ``kraft``, ``kraft-3.7`` and ``kraft-3.6``.

No safety violation is known with the file intact and static voters, so all of safety is promised. Not promised: a
leader's stability (there is no pre-vote: KR-B3), elections over half-open links (KR-B4), linearizable reads with
``reads=local`` (KR-B1), and in ``kraft-3.6`` that a cut-off leader ever resigns (KR-B1, KAFKA-15489). A lost or torn
``quorum-state`` counts as absent (KR-B2): no fault that damages disks is tolerated.

Observers: the knob ``observers`` names members that fetch only (``observers=n4,n5``); `voters` says who votes.

Source of the promise: specification of KRaft after Kafka 3.3.1, its invariants.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.operations import OPERATIONS, TRANSFERS
from dethrone.clusters.systems.target import ANY_NUMBER, TargetSystem, check_voters, in_proportion
from dethrone.clusters.targets.kraft.knobs import KNOBS, KraftKnobs
from dethrone.clusters.targets.kraft.rules import LEADER
from dethrone.clusters.targets.kraft.target import TARGET, check_observers
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Reading, RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

ALLOWANCE_NS = 200 * MS
ROUNDS_MAX = 30
"""Rounds in a row that a voter may stand and lose. Of 6,400 honest epochs with messages of 5 to 20 ms the longest row
was 4; but a voter whose log is behind cannot win. It stands again after a back-off of at most one election timeout
(half of it on average), until another voter's timer has run out that its requests do not reset (at most two timeouts)
and that voter has led for long enough to bring it up to date: 13 in a row were seen where disks are slow. No share of
split votes is promised: fetch timers run out together (KR-B7), and a fifth of the epochs was split."""

ROUNDS_RANDOM = 6
"""The back-off is 100 ms times a random number below 2 to the power of the rounds so far, but at most
``controller.quorum.election.backoff.max.ms``: from the tenth round on it is that maximum nearly always, the same for
every candidate. Two candidates that stand at the same moment then do so in every round; two of three voters were seen
in step for 5 s with timers at a quarter, and three of four for 6.7 s over links of 15 ms. So after an outage in which
several stood and lost many times, no time until there is a leader is promised. Kafka had it so until 2025
(KAFKA-18345)."""

DELAY_NS = 20 * MS
LOSS_PERCENT = 0
"""No leader is owed over links that lose requests: each goes once, over connections that are taken to lose
nothing, and its time-out of 2 s is longer than a round. Where three voters of four are left and 30 % is lost, a round
succeeds one time in four."""

CONNECT_LIMIT_MS = 100
"""After this a connect is given up; the request time-out of 2 s is the core's own affair."""

_SOURCE = "specification of KRaft after Kafka 3.3.1: invariants, six rounds of elections; KAFKA-15489"


class KraftSystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``; also ``Electorate``."""

    name = "kraft"
    knob_table = KNOBS
    tells_disk = True
    served = OPERATIONS | TRANSFERS

    def profiles(self) -> Mapping[str, str]:
        """The described one first."""
        return {
            "kraft": "a leader without fetches of a majority for the fetch time-out resigns",
            "kraft-3.7": "the same after one and a half fetch time-outs, as of Kafka 3.7",
            "kraft-3.6": "such a leader never resigns, as Kafka 2.8 to 3.6 really do",
        }

    def defaults(self) -> RunDefaults:
        """Timers at a quarter, so that every hold and every gap is longer than the promised bound."""
        return RunDefaults(
            faults=("partition", "kill", "restart", "pause", "clock"),
            workload="log",
            nemesis_interval_ns=8 * SECOND,
            time_limit_ns=90 * SECOND,
            settings={"time_factor": "0.25"},
        )

    def exam(self) -> ExamPlan:
        """As of all targets, also with four voters: half of them are no majority."""
        return msgspec.structs.replace(super().exam(), nodes=(3, 4, 5))

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """As of all targets; whether the observers are nodes is seen where the nodes are known."""
        words = super().knobs(settings, profile=profile, variant=None)
        if variant is not None:
            TARGET.mutants.rules(variant, self.typed(words, profile=profile or next(iter(self.profiles()))))
        return words

    def rpc_timeout_ns(self, typed: KraftKnobs) -> Ns:
        """Scaled as all timers are; never below what a loaded machine needs."""
        return max(typed.ns(CONNECT_LIMIT_MS), 50 * MS)

    def interpreted(self, found: Reading, knobs: Mapping[str, str]) -> Reading:
        """As of all targets; the role of a leader is spelled ``Leader`` here."""
        del knobs
        return msgspec.structs.replace(found, leads=found.role == LEADER)

    def voters(self, nodes: tuple[str, ...], knobs: Mapping[str, str], *, profile: str) -> tuple[str, ...]:
        """The nodes that are not observers. Raises ConfigError for an unknown observer, or if no voter is left."""
        typed: KraftKnobs = self.typed(knobs, profile=profile)
        check_observers(typed, nodes)
        return typed.voters(nodes)

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: KraftKnobs = self.typed(knobs, profile=profile)
        bound = _leader_bound(typed)
        return Promise(
            system=self.name,
            profile=profile,
            source=_SOURCE,
            election_timeout_ns=typed.ns(2 * typed.election_timeout_ms),
            heartbeat_ns=typed.ns(typed.fetch_max_wait_ms),
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=_step_down(typed),
            converge_ns=bound,
            rounds_max=ROUNDS_MAX,
            rounds_random=ROUNDS_RANDOM,
            loss_percent_max=LOSS_PERCENT,
            tiers=("T1", "T2"),
            exempt=_exempt(typed),
            tolerates=ANY_NUMBER,
            leader_bound_to_term=True,
            linearizable_reads=typed.reads == "log",
            pre_vote=False,
            delay_max_ns=_grown(DELAY_NS, typed),
            noise_max_ns=noise_limit_ns(typed.ns(2 * typed.election_timeout_ms)),
        )


def _grown(allowance: Ns, knobs: KraftKnobs) -> Ns:
    """With the timers, where they are longer than Kafka's."""
    return in_proportion(allowance, timer_ns=knobs.ns(1), usual_timer_ns=MS, least_ns=allowance)


def _leader_bound(knobs: KraftKnobs) -> Ns:
    """F, then six rounds of at most 2 E and a back-off, the last of them won at once: 19 s with the defaults.

    Three would be 10 s; but where two voters are left and disks are slow, both stand in the same epoch again and again:
    five lost rounds were seen.
    """
    rounds_ms = 6 * (2 * knobs.election_timeout_ms + knobs.election_backoff_max_ms)
    return knobs.ns(knobs.fetch_timeout_ms + rounds_ms - knobs.election_timeout_ms) + ALLOWANCE_NS


def _step_down(knobs: KraftKnobs) -> Ns | None:
    """The check's window since the last fetch that was under way when the cut came, and the allowance."""
    window = knobs.check_quorum_ns
    return None if window is None else window + DELAY_NS + ALLOWANCE_NS


def _exempt(knobs: KraftKnobs) -> dict[str, NotPromised]:
    out = {
        "leader-stability": NotPromised(
            "there is no pre-vote: the raised epoch of a healed or restarted voter deposes a working leader, even if "
            "its log is behind (KR-B3)"
        )
    }
    if knobs.check_quorum == "off":
        out["step-down-without-quorum"] = NotPromised(
            "without the check of its quorum a cut-off leader stays in its old epoch without limit (KR-B1); Kafka 2.8 "
            "to 3.6 do so (KAFKA-15489)"
        )
    return out


SYSTEM = KraftSystem()
