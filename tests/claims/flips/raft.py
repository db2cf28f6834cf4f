"""The flips of the claims about Raft: builds in which the very rule of one claim is broken.

Guarantees: a flip overrides one rule and is named ``flip-<source>-<n>`` after its claim (docs/sources.md, claims); a
planted bug that breaks this rule serves as its flip. Out of scope: checkers; only the claim's test must
catch a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.kit.mutants import broken
from dethrone.clusters.targets.raft.rules import Rules
from dethrone.harness.core.clock import SECOND

NeverCampaigns = broken(Rules, may_campaign=False)
SameTermAgain = broken(Rules, retries_same_term=True)
SecondVote = broken(Rules, grants_vote=lambda _, up_to_date, **__: 4 if up_to_date else 3)
FollowerServes = broken(Rules, follower_serves=True)
RareHeartbeats = broken(Rules, heartbeat_interval=lambda rules: 10 * rules.knobs.election_timeout_max)
WaitsAMinute = broken(Rules, deadline=60 * SECOND)
SendsFirst = broken(Rules, appends_before_sending=False)
GivesUp = broken(Rules, tries_again=lambda rules, silence: silence < 2 * rules.knobs.election_timeout_max)
CommitsWhatItStores = broken(Rules, follower_commit=lambda _, last_new, commit, **__: max(commit, last_new))


FLIPS: Mapping[str, type[Rules] | str] = {
    "flip-1-15": "10-resumes-leadership",  # a follower turns leader without ever being a candidate
    "flip-1-16": NeverCampaigns,  # no node ever campaigns
    "flip-1-17": SameTermAgain,  # a lost campaign continues in its term
    "flip-1-18": "02-answer-before-persist",  # votes are asked for before the own vote is stored
    "flip-1-19": SecondVote,  # a vote does not keep from another one in its term
    "flip-1-20": "22-half-is-enough",  # half of an even number elects
    "flip-1-21": "27-refuses-campaigned-term",  # a candidate refuses the leader of its term
    "flip-1-22": "33-no-jitter",  # the timeout is not random
    "flip-1-23": "33-no-jitter",  # candidates that tied wait equally long
    "flip-1-24": FollowerServes,  # followers answer reads
    "flip-1-25": "45-acks-after-local-append",  # a write is acknowledged when the leader alone has it
    "flip-1-26": "plain-wants-every-vote",  # the votes of all are wanted
    "flip-1-27": RareHeartbeats,  # the leader says nothing for seconds
    "flip-1-28": WaitsAMinute,  # the death of a leader is noticed after a minute
    "flip-1-29": SendsFirst,  # entries are sent before the leader writes them
    "flip-1-30": GivesUp,  # a follower that is silent for long is given up
    "flip-1-31": CommitsWhatItStores,  # followers apply what they store before the leader commits it
    "flip-1-32": "plain-never-truncates",  # entries that conflict with the leader's stay
}
