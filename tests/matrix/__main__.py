"""Run the verdict matrix: which invariants hold in which system, and which are broken by design.

python -m tests.matrix [--system NAME …] [--seeds N] [--jobs N] [--out DIR] [--fresh] [--json]
python -m tests.matrix --write        write the table that ``dethrone list matrix`` shows
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dethrone.harness.report.terminal import Screen
from tests.matrix.table import PACKAGED, packaged, run

SEEDS = 20
"""Drawn schedules for each thing that holds."""


def main() -> int:
    """The exit code of the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", action="append", default=[], help="limit to this system or column (repeatable)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"schedules drawn for what holds [{SEEDS}]")
    parser.add_argument("--jobs", type=int, default=1, help="number of worker processes")
    parser.add_argument("--out", type=Path, default=Path("runs/matrix"), help="directory of the rows [runs/matrix]")
    parser.add_argument("--fresh", action="store_true", help="ignore the rows in --out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help="write the packaged table and stop")
    options = parser.parse_args()
    if options.write:
        PACKAGED.write_bytes(packaged())
        return 0
    screen = Screen(json=options.json)
    return run(
        screen,
        systems=options.system,
        seeds=options.seeds,
        jobs=options.jobs,
        out=options.out,
        fresh=options.fresh,
    )


if __name__ == "__main__":
    sys.exit(main())
