"""Re-executes one node of a stored run from its journal: the same core, the same inputs, every effect compared.

For a planted bug it also shows the first step at which the build without the bug acts differently on the same inputs.

Guarantees: a step whose effects differ from the live run is an error that names the step. Other nodes are out of scope.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dethrone.harness.core import registry, store
from dethrone.harness.core.errors import HistoryError, MissingCapability
from dethrone.harness.core.world import Simulable
from dethrone.harness.engine.replay.stored_run import read_stored
from dethrone.harness.report.terminal import Screen

JOURNAL = "journal.jsonl"


def show(screen: Screen, run_dir: Path, *, node: str, incarnation: int | None, trust: bool) -> dict[str, Any]:
    """Re-execute and say what was seen. HistoryError for a missing journal, or a step that differs."""
    from dethrone.harness.core.interfaces import Rerunnable

    stored = read_stored(run_dir, trust=trust, hosts_given=True)
    system = registry.load(registry.SYSTEMS, stored.plan.system)
    if not isinstance(system, Rerunnable) or not isinstance(system, Simulable):
        raise MissingCapability(
            f"{stored.plan.system} is an external program: its nodes keep no journal",
            next_step="replay the whole run, without --node",
        )
    path = run_dir / store.NODES / node / JOURNAL
    if not path.is_file():
        raise HistoryError(
            f"no journal of {node} found here",
            where=str(path),
            cause="nodes of a simulated run keep no journal: the seed replays them",
            next_step="replay the whole run, without --node",
        )
    events: Counter[str] = Counter()
    effects: Counter[str] = Counter()
    variant = stored.plan.variant
    for event, gave in system.rerun(path, incarnation=incarnation, variant=variant):
        events[event] += 1
        effects.update(gave)
    steps = sum(events.values())
    same = "every effect as it was live" if steps else "so nothing was compared"
    screen.say(f"{node}: {steps} steps re-executed, {same}", level=-1)
    for name, count in events.most_common():
        screen.say(f"  {count:>8} {name}")
    screen.say(f"  {sum(effects.values()):>8} effects: {', '.join(f'{name} {n}' for name, n in effects.most_common())}")
    differs = system.contrast(path, incarnation=incarnation, variant=variant) if variant else None
    if differs is not None:
        screen.say(f"step {differs.step} is the first that differs without {variant}: {differs.event}", level=-1)
        _show_effects(screen, "did", differs.did)
        _show_effects(screen, "would", differs.would)
    elif variant:
        screen.say(f"without {variant} it would have done the same, step by step", level=-1)
    return {
        "schema": 1,
        "command": "replay",
        "node": node,
        "steps": steps,
        "events": dict(events),
        "effects": dict(effects),
        "differs": differs,
    }


def _show_effects(screen: Screen, word: str, effects: tuple[str, ...]) -> None:
    for effect in effects or ("nothing",):
        screen.say(f"  {word:<6} {effect}", level=-1)
