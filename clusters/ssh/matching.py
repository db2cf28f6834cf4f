"""A user's pattern over the command lines of a machine, matched by a process of its own.

Guarantees: a pattern that runs away costs a limited number of milliseconds of that process and is an error, while
everything else continues; the same program and the same limits as the agent's. Out of scope: which command lines these
are (``processes``).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import msgspec

from dethrone.clusters.agent import bundle
from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.patterns import MATCH_WAIT_S, found_by
from dethrone.harness.core.errors import ClusterError
from dethrone.harness.core.ledger import state_dir


def matching(pattern: str, texts: Sequence[str], *, where: str) -> list[int]:
    """The places of those texts that match. Raises ClusterError: it cannot be known in time."""
    asked = msgspec.json.encode({"pattern": pattern, "texts": texts}) + b"\n"
    try:
        argv = [sys.executable, "-S", str(bundle.put(state_dir() / "agent")), "match", "--socket", "-"]
        done = subprocess.run(argv, input=asked, capture_output=True, timeout=MATCH_WAIT_S, check=True)
        return found_by(pattern, texts, msgspec.json.decode(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = f"the pattern {pattern!r} cannot be matched: {error}"
    except Refused as error:
        why = str(error)
    raise ClusterError(why, where=where, next_step="write target.pattern without repetitions of repetitions")
