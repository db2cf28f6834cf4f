"""A stored run, run again on a screen, once or several times.

Guarantees: the schedule that was run lies in the new run's directory, and a run reproduces only if a checker fails that
failed in the stored run. Out of scope: shrinking (``shrink``) and reading the stored run
(``dethrone.harness.engine.replay``).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.commands.run import Done, run_and_report
from dethrone.harness.core import store
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.replay.failure_rate import Rate, failing, seed_of
from dethrone.harness.engine.replay.place import Place, failed_in, options_at, stored_at
from dethrone.harness.engine.replay.stored_run import How, schedule_of
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_VIOLATION
from dethrone.harness.report.terminal import Screen


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run, run again. ``checkers``: those that failed in it; ``done``: the first run that failed one of them,
    else the last; ``rate``: how many did."""

    checkers: tuple[str, ...]
    done: Done
    rate: Rate

    @property
    def exit_code(self) -> int:
        """The run's own; 1 if any run reproduced it."""
        code = self.done.result.exit_code
        return EXIT_VIOLATION if code == EXIT_PASS and self.rate.failed else code

    def told(self) -> dict[str, Any]:
        """For the JSON object."""
        rate = self.rate
        return {"checkers": list(self.checkers), "failed": rate.failed, "of": rate.of, "troubled": rate.troubled}


def replay(
    screen: Screen, run_dir: Path, *, place: Place, how: How | None, out: Path | None, repeat: int = 1
) -> Replayed:
    """The stored run once more, at that place; ``repeat`` times, to see how often it fails."""
    stored = stored_at(run_dir, place)
    wanted = failed_in(run_dir, stored.options.checkers)
    target = place.backend or stored.options.backend
    enter(target)
    chosen: How = how or "triggers"  # between worlds roles mean more than names, and events more than times
    schedule = schedule_of(stored, chosen)
    options = options_at(stored, target, place)
    screen.say(f"replaying {run_dir} as {chosen} on {target}: {len(schedule.steps)} steps")
    kept: Done | None = None
    rate = Rate(0, 0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, store.PLANNED)
        store.write_json(file, schedule)
        for number in range(repeat):
            directory = out if out is None or repeat == 1 else out / str(number + 1)
            again = msgspec.structs.replace(options, schedule=file, out=directory, seed=seed_of(options, number))
            done = run_and_report(again, screen)
            hit = bool(failing(done.result) & set(wanted))
            rate = Rate(rate.failed + hit, rate.of + 1, rate.troubled + (bool(done.result.trouble) and not hit))
            if kept is None or rate.failed == 0 or (hit and rate.failed == 1):
                kept = done
            if wanted:
                screen.say(f"reproduced    {rate}: {', '.join(wanted)}", level=-1)
            if done.result.interrupted:
                break
    if kept is None:
        raise ConfigError(f"{repeat} runs", next_step="give --repeat 1 or more")
    return Replayed(checkers=wanted, done=kept, rate=rate)
