"""The net below a restructuring: does every simulated run still do, byte for byte, what it did?

    python -m tests.net record FILE [--jobs N] [--only PREFIX]      before: run the cases, store their digests in FILE
    python -m tests.net compare FILE [--jobs N] [--only PREFIX]     after: run them and report which differ, and in what
    python -m tests.net compare [--jobs N]                          the slice among the tests, in ``hashes.json``
    python -m tests.net record [--jobs N] [--only CASE]             store that slice anew, with CASE in it
    python -m tests.net show --only CASE                            what a case's digests are made of, line by line
    python -m tests.net list [--only PREFIX]

``PREFIX``: of a case's name, such as ``raft`` or ``raft/honest/03``. To see what changed in a case, write ``show`` of
both trees into files and compare those. Exit code 0: nothing differs; 1: something does, or is in one list only.
Differences in ``words`` alone (another choice among the same texts) are reported and do not count.
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
LISTED = 40
"""Cases that are listed one by one."""


def stored(path: Path = HASHES) -> dict[str, str]:
    """Name of the case → its digests, as recorded."""
    return json.loads(path.read_text()) if path.exists() else {}


def store(path: Path, found: dict[str, str]) -> None:
    """One line a case, sorted."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(told)}" for name, told in sorted(found.items()))
    path.write_text(f"{{\n{lines}\n}}\n")


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
    parser.add_argument("file", nargs="?", type=Path, default=HASHES)
    parser.add_argument("--only", metavar="PREFIX", default="")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args(words)
    before = stored(asked.file)
    wanted = [case for case in cases(asked.only or None) if asked.only or asked.file != HASHES or case.name in before]
    if asked.verb == "list":
        print("\n".join(case.name for case in cases(asked.only or None)))
        return 0
    if asked.verb == "show":
        print("\n".join(line for case in wanted for line in lines_of(case)))
        return 0
    if not wanted:
        print("no such case", file=sys.stderr)
        return 1
    found = run(wanted, jobs=asked.jobs, before=before)
    if asked.verb == "record":
        store(asked.file, {**{name: told for name, told in before.items() if asked.only}, **found})
        return 0
    return tell({name: told for name, told in before.items() if name.startswith(asked.only)}, found)


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
    for line in lines[:LISTED]:
        print(line)
    if len(lines) > LISTED:
        print(f"… and {len(lines) - LISTED} more")
    if advice:
        print(f"{len(advice)} cases choose other texts, which is no difference by itself: {advice[0]} …")
    print(f"{len(lines)} of {len({*before, *found})} cases differ")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
