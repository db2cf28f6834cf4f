"""The flips of the claims about ZAB that are no planted bugs: each switches off the rule of its claim.

Guarantees: only the claim's own sequence shows them: it takes a crash between two writes of one sync, two nominees of
one epoch, or unequal histories of several epochs; or what is lost is noticed as a gap and mended by another sync. Out
of scope: the claims whose flip is a planted bug.

Source: the issues of Apache ZooKeeper that the comments name, and the violations that its TLA+ specifications list.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.targets.zab.rules import Rules


class CurrentBeforeLog(Rules):  # ZOOKEEPER-4643
    log_before_current = False


class AckBeforeLog(Rules):  # ZOOKEEPER-3911, 4646
    log_before_ack = False


class CommitInSyncLost(Rules):  # near ZOOKEEPER-4394
    keeps_commits = False


class ForwardLate(Rules):  # near ZOOKEEPER-3104
    forwards_at_once = False


class NoEpochCompare(Rules):  # ZOOKEEPER-1082
    compares_epochs = False


class EarlyUpToDate(Rules):
    serves_when_established = False


class RecountEqual(Rules):
    counts_once = False


FLIPS: Mapping[str, type[Rules]] = {
    "c-before-log": CurrentBeforeLog,  # writes currentEpoch before the history that it was synced with
    "ack-before-log": AckBeforeLog,  # acknowledges NEWLEADER before the synced history is on disk
    "commit-in-sync-lost": CommitInSyncLost,  # drops the commits that arrive between NEWLEADER and UPTODATE
    "forward-late": ForwardLate,  # sends a follower new proposals only after it acknowledged NEWLEADER
    "no-epoch-compare": NoEpochCompare,  # compares histories by zxid alone
    "early-uptodate": EarlyUpToDate,  # serves before a quorum acknowledged NEWLEADER
    "recount-equal": RecountEqual,  # lets an epoch be counted again that it accepted before
}
