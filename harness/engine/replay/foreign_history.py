"""Judging the history of another tool: its file, its format, a model, and how to read it.

The verdicts are those of a run. Guarantees: a file that cannot be read is an error with its line; a model that crashes,
or runs out of memory, gives ``unknown``, never ``pass``. Formats (``dethrone.harness.core.foreign``) and models come
through the entry points ``dethrone.models``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dethrone.harness.core import registry
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.foreign.pairing import OPERATIONS_MAX
from dethrone.harness.core.foreign.reading import read_file
from dethrone.harness.core.operations import ModelOptions, Operations
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.engine.run.judgement import Judgement

if TYPE_CHECKING:
    from dethrone.harness.core.interfaces import Model


class ForeignCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What was judged, and the result."""

    form: str
    model: str
    operations: Operations
    judgement: Judgement


def check_file(path: Path, *, form: str, model: str, options: ModelOptions, most: int | None = None) -> ForeignCheck:
    """Judge one file. ``most``: operations that are read of it; None: as many as the model takes.

    HistoryError: it is no such history; ConfigError: there is no such model or option.
    """
    with no_garbage():
        judge: Model = registry.load(registry.MODELS, model)
        if most is None:
            most = int(getattr(judge, "operations_max", OPERATIONS_MAX))
        by_times = bool(getattr(judge, "timed", False))
        operations = read_file(path, form, judge.functions(), most=most, timed=by_times)
        began = time.monotonic_ns()
        clocked = msgspec.structs.replace(options, elapsed=lambda: time.monotonic_ns() - began)
        verdict = _judged(judge, operations, clocked)
    judgement = Judgement(outcome=verdict.outcome, reason=verdict.reason, verdicts=(verdict,))
    return ForeignCheck(form=form, model=model, operations=operations, judgement=judgement)


def _judged(model: Model, operations: Operations, options: ModelOptions) -> Verdict:
    if not operations.rows:  # only the nemesis did something: nothing can be wrong, and the headline says how little
        return Verdict(
            checker=model.name,
            version="",
            kind="safety",
            outcome="pass",
            reason="0 operations judged",
            evidence=operations.notes,
        )
    try:
        return model.judge(operations, options)
    except HarnessError:
        raise
    except MemoryError:
        reason = f"not enough memory to judge {len(operations)} operations"
    except Exception as error:  # noqa: BLE001 - a model that dies is unknown, never pass
        reason = f"the model crashed: {type(error).__name__}: {error}"
    return Verdict(checker=model.name, version="", kind="safety", outcome="unknown", reason=reason)
