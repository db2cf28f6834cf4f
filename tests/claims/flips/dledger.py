"""The flips of the claims about DLedger: builds in which the very rule of one claim is broken.

Guarantees: each class overrides one small rule and is named after its claim (docs/sources.md, claims). Out of scope:
planted bugs, some of which break the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.dledger.rules import FOLLOWER, LEADER, NEVER, Rules
from dethrone.clusters.targets.kit.mutants import broken

Flip02 = broken(Rules, follower_gives_up_after=1 << 50)
Flip03 = broken(Rules, leads=False)
Flip04 = broken(Rules, initial_role=FOLLOWER)
Flip05 = broken(Rules, next_term=lambda _, current, *_more: max(0, current - 1))
Flip06 = broken(Rules, quorum=lambda _, members: max(1, members // 2))
Flip07 = broken(Rules, campaign_at=NEVER)
Flip08 = broken(Rules, still_candidate=lambda _, role: role != LEADER)
Flip09 = broken(Rules, raises_term=True)
Flip10 = broken(Rules, asked=lambda _, members, me: [name for name in members if name != me])
Flip11 = broken(Rules, is_member=lambda _, name, members, what: what == "vote" or name in members)
Flip12 = broken(Rules, older_ledger_term=False)
Flip13 = broken(Rules, shorter_ledger=False)
Flip14 = broken(Rules, log_before_term=False)
Flip15 = broken(Rules, vote_expired=False)
Flip16 = broken(Rules, vote_left=True)
Flip17 = broken(Rules, flags_higher_term=lambda _, source: source != "vote")
Flip18 = broken(Rules, below_ledger=False)
Flip19 = broken(Rules, is_valid=True)
Flip20 = broken(Rules, vote_wait=lambda rules, *_: rules.knobs.vote_wait)
Flip21 = broken(Rules, case_1=False)
Flip22 = broken(Rules, case_2=False)
Flip23 = broken(Rules, case_3=False)
Flip24 = broken(Rules, extra_delay=0)
Flip25 = broken(Rules, case_4=lambda rules, tally: not rules.has_quorum(tally.valid, tally))
Flip26 = broken(Rules, wins=lambda _, case: case in (5, 6))
Flip27 = broken(Rules, case_6=False)
Flip28 = broken(Rules, delays_after=lambda _, case: case not in (5, 6, 7))
Flip29 = broken(Rules, heartbeat_interval=lambda rules: rules.knobs.heart_beat_interval * 2)
Flip30 = broken(Rules, is_member=lambda _, name, members, what: what == "heartbeat" or name in members)
Flip31 = broken(Rules, names_me=False)
Flip32 = broken(Rules, beat_expired=False)
Flip33 = broken(Rules, renews_on_beat=False)
Flip34 = broken(Rules, follows_unknown=False)
Flip35 = broken(Rules, accepts_other_leader=True)
Flip36 = broken(Rules, flags_higher_term=lambda _, source: source != "heartbeat")
Flip37 = broken(Rules, checks_max_term_first=True)
Flip38 = broken(Rules, beats_again=False)
Flip39 = broken(Rules, steps_down_on=False)
Flip40 = broken(Rules, leader_gives_up=False)
Flip41 = broken(Rules, follower_gives_up_after=lambda rules: rules.follower_looks_after())

FLIPS: Mapping[str, type[Rules]] = {
    f"flip-0-{int(name[4:])}": rules for name, rules in list(vars().items()) if name.startswith("Flip")
}
