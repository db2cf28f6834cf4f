"""The etcd logs that Porcupine is tested with, against the verdicts that its own tests expect.

    python -m tests.benchmarks.porcupine_logs [DIR]

``DIR`` is a copy of Porcupine with its tests; without it the Go module of ``tests/benchmarks/porcupine`` is asked for.
Prints each disagreement and a line of figures; exit code 1 if there is any. A log without operations has no verdict.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.operations import ModelOptions
from dethrone.harness.engine.replay.foreign_history import check_file

HERE = Path(__file__).resolve().parent
_EXPECTED = re.compile(r"checkJepsen\(t, (\d+), (true|false)\)")


def module() -> Path:
    """Where the Go module lies, fetched if it has to be."""
    asked = ["go", "mod", "download", "-json", "github.com/anishathalye/porcupine"]
    done = subprocess.run(asked, cwd=HERE / "porcupine", capture_output=True, check=True)
    return Path(json.loads(done.stdout)["Dir"])


def main() -> int:
    """Judge all logs, with and without strict cas: failed ones say nothing that these verdicts turn on."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else module()
    expected = {
        int(number): word == "true" for number, word in _EXPECTED.findall((root / "porcupine_test.go").read_text())
    }
    tally: Counter[str] = Counter()
    wrong = 0
    began = time.process_time()
    for strict in (False, True):
        for number, linearizable in sorted(expected.items()):
            path = root / "test_data" / "jepsen" / f"etcd_{number:03d}.log"
            try:
                found = check_file(
                    path, form="jepsen-log", model="cas-register", options=ModelOptions(strict_cas=strict)
                )
                outcome = found.judgement.outcome
            except HistoryError as error:
                outcome = error.what
            tally[outcome] += 1
            if outcome != ("pass" if linearizable else "fail"):
                wrong += 1
                print(f"etcd_{number:03d}: {outcome}, but Porcupine expects linearizable={linearizable}")
    taken = time.process_time() - began
    print(f"{len(expected)} logs, twice: {dict(tally)}, {wrong} disagreements, {taken:.2f} s of this core")
    return 1 if wrong or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
