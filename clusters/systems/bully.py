"""bully: elections by id, and MongoDB's leases before it had terms, as real processes: a negative target.

There are no terms, so no property that needs a term is promised (n/a); ``local_term`` shows a node's own round in its
place, for the matrix. Acknowledged writes must survive, as everywhere, and are lost by design: each part of a cut
cluster elects, and the leader with the highest id overwrites the others.

Source of the promise: specification of the bully target, §6; bounds out of its times.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dethrone.clusters.systems.target import ANY_NUMBER, OF_TERMS, TargetSystem, check_voters
from dethrone.clusters.targets.bully.knobs import KNOBS, BullyKnobs
from dethrone.clusters.targets.bully.replication import LEADING
from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.interfaces import Reading, RunDefaults
from dethrone.harness.core.planted import ExamPlan
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

ALLOWANCE_NS = 500 * MS
LEASES_SPENT = 3
"""Vote leases that pass one after another where exactly a majority is left and its votes split twice. Of 180 honest
runs two took more than one."""
SCALED = {"classic": "0.2", "mongo": "0.05"}

_NO_TERM = NotPromised("there are no terms: a round is a node's own, and says nothing to other nodes")
_NO_QUORUM = NotPromised("a coordinator needs no majority: cut off, it leads on (BU-B1)")
_TOP = NotPromised("a returning node with a higher id or priority deposes a working leader (BU-B6)")


class BullySystem(TargetSystem):
    """See ``dethrone.harness.core.interfaces.System``."""

    name = "bully"
    knob_table = KNOBS
    served = frozenset({"append", "add", "read", "put", "get"})

    def profiles(self) -> Mapping[str, str]:
        """The classic one first."""
        return {
            "classic": "the highest id that answers leads; no quorum, no terms",
            "mongo": "MongoDB before 3.2 in its sense: freshness, vetoes and vote leases; no terms",
        }

    def defaults(self) -> RunDefaults:
        """Timers at a fifth."""
        return RunDefaults(settings={"time_factor": SCALED["classic"]})

    def profile_defaults(self, profile: str) -> RunDefaults:
        """Of ``mongo`` at a twentieth: its vote lease alone lasts 30 s."""
        return msgspec.structs.replace(self.defaults(), settings={"time_factor": SCALED[profile]})

    def exam(self) -> ExamPlan:
        """The classic form; what it loses by its specification is no alarm."""
        usual = super().exam()
        return msgspec.structs.replace(
            usual,
            weak=("acknowledged-survives", "log-matching", "commit-never-regresses"),
            settings={**usual.settings, **self.defaults().settings},
            time_limit_ns=30 * SECOND,
        )

    def rpc_timeout_ns(self, typed: BullyKnobs) -> Ns:
        """As long as an election waits for an answer."""
        return max(typed.ok_timeout, 50 * MS)

    def interpreted(self, found: Reading, knobs: Mapping[str, str]) -> Reading:
        """Who leads, by its role. What was committed may be dropped, so no node owes an earlier position."""
        del knobs
        return msgspec.structs.replace(found, leads=found.role in LEADING, commit=None)

    def observable(self) -> tuple[str, ...]:
        """All but polled commits: those of leaders are witnessed."""
        return tuple(name for name in super().observable() if name != "commit")

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See the head of this module."""
        check_voters(self.name, voters)
        typed: BullyKnobs = self.typed(knobs, profile=profile)
        left = typed.fail_timeout + 2 * typed.heartbeat + ALLOWANCE_NS
        bound = left + typed.ok_timeout + 2 * typed.coord_timeout
        if typed.election == "mongo":
            bound += LEASES_SPENT * typed.vote_lease
        return Promise(
            system=self.name,
            profile=profile,
            source="specification of the bully target, §6",
            election_timeout_ns=typed.fail_timeout,
            noise_max_ns=noise_limit_ns(typed.fail_timeout),
            heartbeat_ns=typed.heartbeat,
            leader_bound_ns=bound,
            later_gap_ns=bound,
            step_down_ns=left if _steps_down(typed) else None,
            converge_ns=bound,
            tiers=("T1", "T2"),
            exempt=_exempt(typed),
            tolerates=ANY_NUMBER,
            leader_bound_to_term=False,
            linearizable_reads=False,
            loss_percent_max=0,
            delay_max_ns=max(MS, typed.ok_timeout // 50),
        )


def _steps_down(knobs: BullyKnobs) -> bool:
    """Whether a leader without a majority stops leading, and does not elect itself again."""
    return knobs.step_down and knobs.majority_to_stand


def _exempt(knobs: BullyKnobs) -> dict[str, NotPromised]:
    out = dict.fromkeys(OF_TERMS, _NO_TERM)
    out["leader-stability"] = _TOP
    if not _steps_down(knobs):
        out["step-down-without-quorum"] = _NO_QUORUM
    return out


SYSTEM = BullySystem()
