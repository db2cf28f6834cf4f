"""Every rule of Paxos that a planted bug or a flip may override, one small method each.

Guarantees: the honest build is exactly this class; a planted bug overrides the rule that it is named for, and
nothing else decides what the rule decides. Rules take values and return values; only `backoff` and `silence` draw, from
the generator that they are given. Out of scope: what no knob and no variant changes; the handlers hold that.

Source: Lamport, "Paxos Made Simple", 2001, 2.2-2.4.
"""

# ruff: noqa: ARG002 - a broken rule may look at what the honest one ignores

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Literal

from dethrone.clusters.targets.kit import by
from dethrone.clusters.targets.kit.mutants import Switched, mutant
from dethrone.clusters.targets.paxos.knobs import PaxosKnobs
from dethrone.clusters.targets.paxos.messages import Prepare, Value
from dethrone.clusters.targets.paxos.storage import Acceptor, DiskRecord, Loaded, Promised, Stored, load
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import DiskImage
from dethrone.harness.core.quorum import quorum
from dethrone.harness.core.rng import Rng

Report = tuple[int, Value] | None
"""What a promise carries: the latest accepted (number, value), if any."""

Tally = Mapping[int, tuple[Value, set[str]]]
"""Number → the value accepted under it, and by whom."""

AGREE = "agreement"
ELECTION = {"election": "true"}


@mutant(
    "harmless-half-heartbeat", says="sends heartbeats twice as often", scales={"heartbeat_interval": Fraction(1, 2)}
)
class Rules:
    """The honest rules under these knobs. One object per core."""

    def __init__(self, knobs: PaxosKnobs) -> None:
        self.knobs = knobs

    # --- numbers ------------------------------------------------------------------------------------------------

    def next_counter(self, cnt: int, *, seen: int, place: int, nodes: int) -> int:
        """The counter of a fresh number: above every one used here, and above ``seen``, the highest number seen."""
        if self.knobs.id_scheme == "plain_counter":
            return max(cnt, seen) + 1
        least = seen // nodes + (place <= seen % nodes)
        return max(cnt + 1, least)

    def number(self, cnt: int, *, place: int, nodes: int) -> int:
        """The number made of a counter. ``place``: the own one among the nodes, from 0."""
        return cnt if self.knobs.id_scheme == "plain_counter" else cnt * nodes + place

    # --- acceptor -----------------------------------------------------------------------------------------------

    def promises(self, number: int, *, max_id: int) -> bool:
        """Phase 1b: only a number above every one promised."""
        return number > max_id

    def promised(self, number: int, *, max_id: int) -> int:
        """The highest number promised, once ``number`` was."""
        return max(number, max_id)

    @mutant(
        "12-promise-hides-accepted",
        answers=None,
        says="promises without reporting what it accepted",
        caught_by=(AGREE,),
    )
    def reports(self, acceptor: Acceptor) -> Report:
        """What the promise reports of earlier acceptances."""
        if acceptor.accepted_value is None:
            return None
        return acceptor.accepted_id, acceptor.accepted_value

    def accepts(self, number: int, acceptor: Acceptor) -> bool:
        """Phase 2b, by ``accept_rule``: at the promised number, or also above it, regardless of earlier acceptances."""
        if self.knobs.accept_rule == "eq":
            return number == acceptor.max_id
        return number >= acceptor.max_id

    def max_after_accept(self, number: int, *, max_id: int) -> int:
        """Accepting a number above the promised one promises it; the literal prose forgets to say so."""
        return max_id if self.knobs.accept_rule == "ge_literal" else number

    def tells(self, learners: Collection[str], proposer: str) -> Collection[str]:
        """Who gets a report of an acceptance: the proposer and every learner."""
        return learners

    # --- proposer -----------------------------------------------------------------------------------------------

    def may_start(self, reachable: int, *, own: bool, acceptors: int) -> bool:
        """Whether a number is worth trying. ``reachable``: other acceptors heard lately; ``own``: this is one."""
        if self.knobs.start_needs == "one":
            return reachable > 0 or acceptors == own
        return reachable + own >= quorum(acceptors)

    def resumes(self, acceptor: Acceptor, *, place: int, nodes: int) -> int:
        """A number of an earlier life under which to propose without asking again: none (0)."""
        return 0

    def prepare(self, instance: int, number: int, value: Value | None) -> Prepare:
        """PREPARE carries the number only."""
        return Prepare(instance, number)

    def majority(self, acceptors: int, *, reachable: int) -> int:
        """How many acceptors make a majority."""
        return quorum(acceptors)

    def counts_promise(self, number: int, *, current: int) -> bool:
        """Only promises of the number under way count."""
        return number == current

    # A refusal with a higher number is tallied all the same
    @mutant("17-refusal-is-promise", answers=True, says="tallies a refusal as a promise", caught_by=(AGREE,))
    def nack_is_promise(self) -> bool:
        """A refusal is no promise."""
        return False

    def select(self, reports: Mapping[str, Report], own: Value | None) -> tuple[Value | None, int]:
        """The value to propose, and under which number it was accepted (0: it is the proposer's own).

        The value of the highest number that any promise of the majority reports; the own one only if none does.
        """
        best = max((report for report in reports.values() if report is not None), key=lambda one: one[0], default=None)
        return (own, 0) if best is None else (best[1], best[0])

    def propose_number(self, number: int) -> int:
        """PROPOSE carries the number that was promised."""
        return number

    # A majority of the first phase is taken for one of the second
    @mutant(
        "18-promises-are-acceptances",
        answers=True,
        says="treats a majority of promises as a decision",
        caught_by=(AGREE,),
    )
    def promises_choose(self) -> bool:
        """A majority of promises chooses nothing yet."""
        return False

    retries = True
    """A failed round is followed by another one."""

    def backoff(self, rng: Rng, failures: int) -> Ns:
        """The wait after that many failures (from 1 on): a range that doubles until its end reaches the cap."""
        knobs = self.knobs
        if knobs.backoff == "none":
            return 0
        doubled = 1 << min(failures - 1, 30)
        most = min(knobs.retry_backoff_max * doubled, knobs.retry_backoff_cap)
        least = min(knobs.retry_backoff_min * doubled, most * knobs.retry_backoff_min // knobs.retry_backoff_max)
        return rng.between(least, most)

    # --- learner ------------------------------------------------------------------------------------------------

    def chosen(self, tally: Tally, number: int, *, majority: int) -> bool:
        """A value is chosen once a majority accepted it under the SAME number."""
        return len(tally[number][1]) >= majority

    def answer(self, chosen: Value, own: Value | None) -> Value:
        """The answer to a client: the chosen value, regardless of its proposer."""
        return chosen

    def instance(self, number: int) -> int:
        """Each instance has its own state."""
        return number

    # --- disk ---------------------------------------------------------------------------------------------------

    # Unlike 01, what was accepted is on disk; promises are not
    @mutant(
        "plain-promise-not-written",
        answers=None,
        says="stores what it accepted but no promise",
        caught_by=(AGREE, by.DURABLE),
    )
    def promised_record(self, instance: int, acceptor: Acceptor) -> DiskRecord | None:
        """What is written when a number is promised."""
        return Promised(instance, acceptor.max_id)

    def accepted_record(self, instance: int, acceptor: Acceptor) -> DiskRecord | None:
        """What is written when a proposal is accepted."""
        if acceptor.accepted_value is None:
            return None
        return Stored(instance, acceptor.max_id, acceptor.accepted_id, acceptor.accepted_value)

    def waits_for_disk(self, what: Literal["promise", "accepted"]) -> bool:
        """An answer leaves only when what it says is on disk."""
        return True

    syncs = Switched("05-not-synced", says="appends to its file without fsync", caught_by=(AGREE, by.DURABLE))
    """Each batch ends with fsync."""

    # The answer of that moment is lost with the write, later ones are not
    @mutant(
        "04-ignore-failed-write",
        answers="ignore",
        says="ignores that its file could not be written",
        caught_by=(AGREE, by.DURABLE),
    )
    def on_persist_error(self) -> Literal["halt", "ignore"]:
        """A node that cannot write stops."""
        return "halt"

    def load(self, disk: DiskImage, *, node: int, nodes: int) -> Loaded:
        """What the disk holds; raises `Unreadable`."""
        return load(disk)

    # --- epochs -------------------------------------------------------------------------------------------------

    def silence(self, rng: Rng) -> Ns:
        """How long a node hears nothing of the epoch's leader before it contends."""
        return rng.between(self.knobs.heartbeat_timeout_min, self.knobs.heartbeat_timeout_max)

    @mutant(
        "52-timers-on-wall-clock",
        answers="wall",
        says="measures all times on the wall clock",
        caught_by=(by.OWED,),
        needs=ELECTION,
    )
    def clock(self) -> Literal["mono", "wall"]:
        """The clock of all timers."""
        return "mono"

    # --- harmless latitude ----------------------------------------------------------------------------------------

    def order(self, peers: tuple[str, ...]) -> tuple[str, ...]:
        """In which order peers are sent to."""
        return peers

    @mutant("harmless-double-proposals", answers=2, says="sends every proposal twice")  # Sends every PROPOSE twice
    def copies(self) -> int:
        """How often a PROPOSE is sent."""
        return 1

    @mutant("harmless-silent-refusals", answers=False, says="never says that it refuses")
    def nacks(self) -> bool:
        """Whether a refusal is sent."""
        return self.knobs.nack
