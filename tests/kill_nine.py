"""Kill the harness with SIGKILL at chosen transitions of its ledger, heal, and count what is left. Real Docker.

    python tests/kill_nine.py --kills 30

A bystander container and network without our label, with an iptables rule of its own, must be untouched by all of it,
and a second live run must not be disturbed. Prints one line of figures; exit code 1 if anything was left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import docker

from dethrone.harness.core.history_files import read_history
from tests import stored

DETHRONE = Path(sys.executable).with_name("dethrone")
SCHEDULE_SECONDS = 25
BOUND_S = 90


def transitions(state: Path) -> list[str]:
    """The transitions in the ledger of the one run in this state directory."""
    for ledger in (state / "runs").glob("*/ledger.jsonl"):
        return [json.loads(line)["transition"] for line in ledger.read_bytes().splitlines() if line.endswith(b"}")]
    return []


def kill_at(number: int, *, system: str, nodes: int) -> tuple[str, list[str], str]:
    """Start a run, kill it once its ledger has ``number`` lines; heal twice; what was left, and how readable it is."""
    with tempfile.TemporaryDirectory() as folder:
        state, out = Path(folder, "state"), Path(folder, "run")
        env = {**os.environ, "DETHRONE_STATE_DIR": str(state)}
        words = ["run", system, "--nodes", str(nodes), "--time-limit", f"{SCHEDULE_SECONDS}s", "--seed", str(number)]
        words += ["--nemesis-interval", "1s", "--out", str(out)]
        process = subprocess.Popen(
            [DETHRONE, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + BOUND_S
        while len(transitions(state)) < number and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        seen = transitions(state)
        process.send_signal(signal.SIGKILL)
        process.wait()
        run_ids = [path.name for path in (state / "runs").glob("*")]
        for _ in range(2):
            subprocess.run([DETHRONE, "heal"], env=env, capture_output=True, check=False)
        left = leftovers(run_ids)
        left += [f"ledger {path.name}" for path in (state / "runs").glob("*")]
        readable = f"{len(read_history(out / 'history'))} events" if stored.text(out) else "none"
        return (seen[-1] if seen else "before the ledger"), left, readable


def leftovers(run_ids: list[str]) -> list[str]:
    """Containers and networks that carry these runs' label."""
    client = docker.from_env()
    try:
        out = []
        for run_id in run_ids:
            selector = {"label": f"dethrone.run={run_id}"}
            out += [
                f"container {found.name}"
                for found in client.containers.list(all=True, ignore_removed=True, filters=selector)
            ]
            out += [f"network {found.name}" for found in client.networks.list(filters=selector)]
        return out
    finally:
        client.close()


def main() -> int:
    """The whole exam."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--system", default="raft")
    parser.add_argument("--nodes", type=int, default=3)
    options = parser.parse_args()
    left_in_all: list[str] = []
    places: dict[str, int] = {}
    for number in range(1, options.kills + 1):
        place, left, readable = kill_at(1 + (number - 1) % 15, system=options.system, nodes=options.nodes)
        places[place] = places.get(place, 0) + 1
        left_in_all += left
        print(f"  kill {number}: at {place}, history {readable}, left {left or 'nothing'}", file=sys.stderr, flush=True)
    print(f"{options.kills} kills -9 ({places}): {len(left_in_all)} leftovers {left_in_all or ''}".strip())
    return 1 if left_in_all else 0


if __name__ == "__main__":
    sys.exit(main())
