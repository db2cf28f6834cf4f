"""The net below a restructuring: does every simulated run still do, byte for byte, what it did?

    python -m tests.net record  [--jobs N] [--only PREFIX]     run the cases and store their digests in hashes.json
    python -m tests.net compare [--jobs N] [--only PREFIX]     run them and tell which differ, in which kinds
    python -m tests.net show CASE                              what a case's digests are made of, line by line
    python -m tests.net list [--only PREFIX]

``PREFIX``: of a case's name, such as ``raft`` or ``raft/honest/03``. To see what changed in a case, write ``show`` of
both trees into files and compare those. Exit code 0: nothing differs; 1: something does, or is in one list only.
Differences in ``words`` alone (another choice among the same texts) are told and do not count.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dethrone.harness.engine.campaign.worker_processes import spread
from tests.net.cases import Case, cases
from tests.net.normal import WORDS, differing
from tests.net.played import lines_of, named

HASHES = Path(__file__).with_name("hashes.json")
TOLD = 40
"""Cases that are told one by one."""


def stored() -> dict[str, str]:
    """Name of the case → its digests, as recorded."""
    return json.loads(HASHES.read_text()) if HASHES.exists() else {}


def store(found: dict[str, str]) -> None:
    """One line a case, sorted."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(told)}" for name, told in sorted(found.items()))
    HASHES.write_text(f"{{\n{lines}\n}}\n")


def run(wanted: Sequence[Case], *, jobs: int, before: dict[str, str]) -> dict[str, str]:
    """The digests of each; how many differ is told as they come. SIGTERM ends the workers, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    found: dict[str, str] = {}
    differ = 0

    def keep(answer: tuple[str, str]) -> None:
        nonlocal differ
        name, found[name] = answer
        differ += found[name] != before.get(name)
        print(f"\r{len(found)}/{len(wanted)}, {differ} differ ", end="", file=sys.stderr, flush=True)

    spread(named, wanted, jobs=jobs, keep=keep)
    print(f"in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return found


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net", description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=("record", "compare", "show", "list"))
    parser.add_argument("case", nargs="?", default=None)
    parser.add_argument("--only", metavar="PREFIX", default=None)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args(words)
    wanted = cases(asked.case or asked.only)
    if not wanted:
        print("no such case", file=sys.stderr)
        return 1
    if asked.verb == "list":
        print("\n".join(case.name for case in wanted))
        return 0
    if asked.verb == "show":
        print("\n".join(line for case in wanted for line in lines_of(case)))
        return 0
    before = stored()
    found = run(wanted, jobs=asked.jobs, before=before)
    only = asked.only or asked.case
    if asked.verb == "record":
        kept = {} if only is None else {name: told for name, told in before.items() if not name.startswith(only)}
        store({**kept, **found})
        return 0
    return tell(before if only is None else {name: one for name, one in before.items() if name.startswith(only)}, found)


def tell(before: dict[str, str], found: dict[str, str]) -> int:
    """Print what differs; the exit code."""
    lines, advice = [], []
    for name in sorted({*before, *found}):
        if name not in found or name not in before:
            lines.append(f"{name}: {'no such case any more' if name in before else 'not recorded'}")
        elif before[name] != found[name]:
            kinds = differing(before[name], found[name])
            (advice if [kind.partition(" ")[0] for kind in kinds] == [WORDS] else lines).append(
                f"{name}: {', '.join(kinds)}"
            )
    for line in lines[:TOLD]:
        print(line)
    if len(lines) > TOLD:
        print(f"… and {len(lines) - TOLD} more")
    if advice:
        print(f"{len(advice)} cases choose other texts, which is no difference by itself: {advice[0]} …")
    print(f"{len(lines)} of {len({*before, *found})} cases differ")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
