"""Runs that are done once: the result of each is kept beside its directory, and later slices only read it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.acceptance.simulated import Unfinished, Until, command


def run(place: Path, words: Sequence[str | Path], *, until: Until) -> dict[str, Any]:
    """The result of ``dethrone run`` into ``place``, from an earlier slice if it was done then. Unfinished: stopped."""
    kept = place.with_name(f"{place.name}.json")
    if kept.is_file():
        return dict(json.loads(kept.read_text(encoding="utf-8")))
    if place.exists():
        shutil.rmtree(place)  # stopped half way
    place.parent.mkdir(parents=True, exist_ok=True)
    result = command(["run", *words, "--out", place], until=until)
    if result.get("interrupted") or "verdict" not in result:
        raise Unfinished(f"{place.name}: stopped")
    kept.write_text(json.dumps(result), encoding="utf-8")
    return result


def of(result: dict[str, Any], verdict: str) -> list[str]:
    """The checkers with that verdict."""
    return sorted(name for name, found in result.get("checkers", {}).items() if found["verdict"] == verdict)
