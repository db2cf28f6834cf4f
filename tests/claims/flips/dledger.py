"""The flips of the claims about DLedger: builds in which the very rule of one claim is broken.

Guarantees: each class overrides one small rule and is named after its claim (docs/sources.md, claims). Out of scope:
planted bugs, some of which break the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from dethrone.clusters.targets.dledger.rules import FOLLOWER, LEADER, NEVER, Rules
from dethrone.clusters.targets.dledger.tally import Campaign, Round
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.rng import Rng


class Flip02(Rules):
    def follower_gives_up_after(self) -> Ns:
        return 1 << 50


class Flip03(Rules):
    def leads(self, role: str) -> bool:
        del role
        return False


class Flip04(Rules):
    def initial_role(self) -> str:
        return FOLLOWER


class Flip05(Rules):
    def next_term(self, current: int, known_max: int) -> int:
        del known_max
        return max(0, current - 1)


class Flip06(Rules):
    def quorum(self, members: int) -> int:
        return max(1, members // 2)


class Flip07(Rules):
    def campaign_at(self, next_time: Ns, *, flag: bool) -> Ns:
        del next_time, flag
        return NEVER


class Flip08(Rules):
    def still_candidate(self, role: str) -> bool:
        return role != LEADER


class Flip09(Rules):
    def raises_term(self, *, vote_next: bool, flag: bool) -> bool:
        del vote_next, flag
        return True


class Flip10(Rules):
    def asked(self, members: Sequence[str], me: str) -> Sequence[str]:
        return [name for name in members if name != me]


class Flip11(Rules):
    def is_member(self, name: str, members: Collection[str], what: Literal["vote", "heartbeat"]) -> bool:
        return what == "vote" or name in members


class Flip12(Rules):
    def older_ledger_term(self, asked: int, own: int) -> bool:
        del asked, own
        return False


class Flip13(Rules):
    def shorter_ledger(self, asked: int, own: int) -> bool:
        del asked, own
        return False


class Flip14(Rules):
    def log_before_term(self) -> bool:
        return False


class Flip15(Rules):
    def vote_expired(self, asked: int, own: int) -> bool:
        del asked, own
        return False


class Flip16(Rules):
    def vote_left(self, voted_for: str | None, candidate: str) -> bool:
        del voted_for, candidate
        return True


class Flip17(Rules):
    def flags_higher_term(self, source: Literal["vote", "heartbeat"]) -> bool:
        return source != "vote"


class Flip18(Rules):
    def below_ledger(self, asked: int, own_ledger_term: int) -> bool:
        del asked, own_ledger_term
        return False


class Flip19(Rules):
    def is_valid(self, result: str) -> bool:
        del result
        return True


class Flip20(Rules):
    def vote_wait(self, rng: Rng) -> Ns:
        del rng
        return self.knobs.vote_wait


class Flip21(Rules):
    def case_1(self, tally: Campaign) -> bool:
        del tally
        return False


class Flip22(Rules):
    def case_2(self, tally: Campaign) -> bool:
        del tally
        return False


class Flip23(Rules):
    def case_3(self, tally: Campaign) -> bool:
        del tally
        return False


class Flip24(Rules):
    def extra_delay(self, case: int) -> Ns:
        del case
        return 0


class Flip25(Rules):
    def case_4(self, tally: Campaign) -> bool:
        return not self.has_quorum(tally.valid, tally)


class Flip26(Rules):
    def wins(self, case: int) -> bool:
        return case in (5, 6)


class Flip27(Rules):
    def case_6(self, tally: Campaign) -> bool:
        del tally
        return False


class Flip28(Rules):
    def delays_after(self, case: int) -> bool:
        return case not in (5, 6, 7)


class Flip29(Rules):
    def heartbeat_interval(self) -> Ns:
        return self.knobs.heart_beat_interval * 2


class Flip30(Rules):
    def is_member(self, name: str, members: Collection[str], what: Literal["vote", "heartbeat"]) -> bool:
        return what == "heartbeat" or name in members


class Flip31(Rules):
    def names_me(self, leader: str, me: str) -> bool:
        del leader, me
        return False


class Flip32(Rules):
    def beat_expired(self, asked: int, own: int) -> bool:
        del asked, own
        return False


class Flip33(Rules):
    def renews_on_beat(self) -> bool:
        return False


class Flip34(Rules):
    def follows_unknown(self, *, campaigned: bool) -> bool:
        del campaigned
        return False


class Flip35(Rules):
    def accepts_other_leader(self) -> bool:
        return True


class Flip36(Rules):
    def flags_higher_term(self, source: Literal["vote", "heartbeat"]) -> bool:
        return source != "heartbeat"


class Flip37(Rules):
    def checks_max_term_first(self) -> bool:
        return True


class Flip38(Rules):
    def beats_again(self, tally: Round) -> bool:
        del tally
        return False


class Flip39(Rules):
    def steps_down_on(self, what: Literal["max_term", "inconsistent"]) -> bool:
        del what
        return False


class Flip40(Rules):
    def leader_gives_up(self, silence: Ns) -> bool:
        del silence
        return False


class Flip41(Rules):
    def follower_gives_up_after(self) -> Ns:
        return self.follower_looks_after()


_CLASSES = (
    Flip02, Flip03, Flip04, Flip05, Flip06, Flip07, Flip08, Flip09, Flip10, Flip11, Flip12, Flip13, Flip14, Flip15,
    Flip16, Flip17, Flip18, Flip19, Flip20, Flip21, Flip22, Flip23, Flip24, Flip25, Flip26, Flip27, Flip28, Flip29,
    Flip30, Flip31, Flip32, Flip33, Flip34, Flip35, Flip36, Flip37, Flip38, Flip39, Flip40, Flip41,
)  # fmt: skip

FLIPS: Mapping[str, type[Rules]] = {f"flip-0-{int(cls.__name__[4:])}": cls for cls in _CLASSES}
