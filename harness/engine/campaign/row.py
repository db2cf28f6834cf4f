"""One run of a campaign as a row, and how far a campaign is, as data.

Guarantees: a row of an earlier version still reads. Out of scope: the file that holds the rows (``row_file``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.verdict import Outcome


class CampaignRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a campaign. ``repeated``: it was run a second time because of host noise; ``excused``: how many
    findings the faults took out of the promise."""

    seed: int
    outcome: Outcome
    exit_code: int
    run_dir: str
    elapsed_ns: Ns
    elections: int
    faults: int
    ops_ok: int
    findings: Sequence[str] = ()
    reason: str = ""
    repeated: bool = False
    repeats: int = 0
    """How many runs of this seed noise had spoiled before this one."""
    by_noise: bool = False
    """``unknown`` because of noise of the hosts alone: not for want of evidence."""
    excused: int = 0
    cuts: Sequence[Mapping[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    """What each cut did, where the run played a list of them."""
    noise_percent: float = 0.0
    """The share of the run that was charged to noise of the hosts."""
    at_once: int = 1
    """The most runs that were under way at any moment of it, itself included."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a campaign is. ``per_s``: runs per second since it began or resumed.

    ``on_the_way``: runs that are done in another process and whose rows have not arrived yet.
    """

    done: int
    total: int
    failing: int
    unknown: int
    per_s: float
    on_the_way: int = 0
