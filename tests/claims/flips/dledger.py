"""The flips of the claims about DLedger: builds in which the very rule of one claim is broken.

Guarantees: each class overrides one small rule and is named after its claim (docs/sources.md, claims). Out of scope:
planted bugs, some of which break the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from dethrone.clusters.targets.dledger.rules import FOLLOWER, LEADER, NEVER, Rules
from dethrone.clusters.targets.dledger.tally import Campaign
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng
from tests.claims.always import always

Flip02 = always(Rules, follower_gives_up_after=1 << 50)
Flip03 = always(Rules, leads=False)
Flip04 = always(Rules, initial_role=FOLLOWER)


class Flip05(Rules):
    def next_term(self, current: int, known_max: int) -> int:
        del known_max
        return max(0, current - 1)


class Flip06(Rules):
    def quorum(self, members: int) -> int:
        return max(1, members // 2)


Flip07 = always(Rules, campaign_at=NEVER)


class Flip08(Rules):
    def still_candidate(self, role: str) -> bool:
        return role != LEADER


Flip09 = always(Rules, raises_term=True)


class Flip10(Rules):
    def asked(self, members: Sequence[str], me: str) -> Sequence[str]:
        return [name for name in members if name != me]


class Flip11(Rules):
    def is_member(self, name: str, members: Collection[str], what: Literal["vote", "heartbeat"]) -> bool:
        return what == "vote" or name in members


Flip12 = always(Rules, older_ledger_term=False)
Flip13 = always(Rules, shorter_ledger=False)
Flip14 = always(Rules, log_before_term=False)
Flip15 = always(Rules, vote_expired=False)
Flip16 = always(Rules, vote_left=True)


class Flip17(Rules):
    def flags_higher_term(self, source: Literal["vote", "heartbeat"]) -> bool:
        return source != "vote"


Flip18 = always(Rules, below_ledger=False)
Flip19 = always(Rules, is_valid=True)


class Flip20(Rules):
    def vote_wait(self, rng: Rng) -> Ns:
        del rng
        return self.knobs.vote_wait


Flip21 = always(Rules, case_1=False)
Flip22 = always(Rules, case_2=False)
Flip23 = always(Rules, case_3=False)
Flip24 = always(Rules, extra_delay=0)


class Flip25(Rules):
    def case_4(self, tally: Campaign) -> bool:
        return not self.has_quorum(tally.valid, tally)


class Flip26(Rules):
    def wins(self, case: int) -> bool:
        return case in (5, 6)


Flip27 = always(Rules, case_6=False)


class Flip28(Rules):
    def delays_after(self, case: int) -> bool:
        return case not in (5, 6, 7)


class Flip29(Rules):
    def heartbeat_interval(self) -> Ns:
        return self.knobs.heart_beat_interval * 2


class Flip30(Rules):
    def is_member(self, name: str, members: Collection[str], what: Literal["vote", "heartbeat"]) -> bool:
        return what == "heartbeat" or name in members


Flip31 = always(Rules, names_me=False)
Flip32 = always(Rules, beat_expired=False)
Flip33 = always(Rules, renews_on_beat=False)
Flip34 = always(Rules, follows_unknown=False)
Flip35 = always(Rules, accepts_other_leader=True)


class Flip36(Rules):
    def flags_higher_term(self, source: Literal["vote", "heartbeat"]) -> bool:
        return source != "heartbeat"


Flip37 = always(Rules, checks_max_term_first=True)
Flip38 = always(Rules, beats_again=False)
Flip39 = always(Rules, steps_down_on=False)
Flip40 = always(Rules, leader_gives_up=False)


class Flip41(Rules):
    def follower_gives_up_after(self) -> Ns:
        return self.follower_looks_after()


FLIPS: Mapping[str, type[Rules]] = {
    f"flip-0-{int(name[4:])}": found for name, found in list(globals().items()) if name.startswith("Flip")
}
