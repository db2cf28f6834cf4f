"""Stands in for the command line in tests of a night: tells what a run would, as its system's name says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(words: list[str]) -> int:
    if words[0] == "heal":
        print(json.dumps({"healed": [], "left": ["run-7"] if os.environ.get("FAKE_LEFT") else []}))
        return 0
    system = words[1]
    pairs = [word for word in words[2:] if word != "--json"]
    given = dict(zip(pairs[::2], pairs[1::2], strict=False))
    out = Path(given["--out"])
    out.mkdir()
    (out / "history").mkdir()
    (out / "history" / "000000000000.jsonl").write_text("history")
    (out / "nodes").mkdir()
    (out / "verdict.json").write_text("{}")
    (out / "asked.json").write_text(json.dumps({"words": words, "set": os.environ.get("DETHRONE_SET")}))
    told = {
        "verdict": "pass",
        "reason": "held",
        "exit_code": 0,
        "checkers": {},
        "trouble": [],
        "figures": {"faults": 3},
    }
    if system == "fails":
        finding = {"sentence": "two lead in term 2", "excused": None}
        excused = {"sentence": "no leader", "excused": "no quorum"}
        told |= {"verdict": "fail", "exit_code": 1, "report": str(out / "report.html")}
        told["checkers"] = {"one-leader-per-term": {"verdict": "fail", "findings": [finding, excused]}}
    if system == "causes":
        known = Path(given["--known"]).read_text() if "--known" in given else ""
        found = [
            {"sentence": cause, "excused": None, "signature": cause, "known": "ours" if cause in known else ""}
            for cause in os.environ.get("FAKE_CAUSES", "").split()
        ]
        failed = any(not one["known"] for one in found)
        told |= {"verdict": "fail", "exit_code": 1} if failed else {}
        told["checkers"] = {"log": {"verdict": "fail" if failed else "pass", "findings": found}}
    if system == "meets":
        meet(out.parent, int(os.environ["FAKE_MEETS"]))
    if system == "noisy":
        told |= {"verdict": "unknown", "exit_code": 2, "host_noise": True}
    if system == "nonsense":
        print("Traceback")
        return 1
    if system == "refused":
        told = {"verdict": None, "exit_code": 64, "error": {"what": "unknown system", "where": "here", "cause": ""}}
    if system == "hangs" and os.environ.get("FAKE_HANGS"):
        return hang(out, told)
    print(json.dumps(told))
    return int(told["exit_code"])


def meet(place: Path, number: int) -> None:
    """Until so many runs are under way, or it takes too long."""
    (place / f"here-{os.getpid()}").touch()
    deadline = time.monotonic() + 20
    while len(list(place.glob("here-*"))) < number and time.monotonic() < deadline:
        time.sleep(0.01)


def hang(out: Path, told: dict[str, object]) -> int:
    """Until Ctrl-C, which Python hears only where it was not ignored from the start, as any run."""
    try:
        (out.parent / "running").write_text(str(os.getpid()))
        while True:
            signal.pause()
    except KeyboardInterrupt:
        (out / "rolled-back").touch()
        (out.parent / "rolled-back").touch()
        print(json.dumps(told | {"verdict": None, "interrupted": True, "exit_code": 130}))
        return 130


sys.exit(main(sys.argv[1:]))
