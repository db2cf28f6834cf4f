"""Which version ran on which node, as lines: for terminals and pages.

Guarantees: a version that its node did not report is said to be unproved. Out of scope: finding it
(``dethrone.harness.core.versions_ran``).
"""

from __future__ import annotations

from itertools import groupby

from dethrone.harness.core.versions_ran import Ran
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report.words import at


def version_rows(judgement: Judgement | None) -> list[tuple[str, str]]:
    """Node → ``2.12.1, 2.15.2 since 21.3 s``; nothing, where only one version was at hand."""
    ran = (judgement.versions or ()) if judgement is not None else ()
    out = []
    for node, of_node in groupby(ran, key=lambda one: one.node):
        lives = [next(lives) for _, lives in groupby(of_node, key=lambda one: (one.version, one.reported))]
        first, *rest = lives
        out.append((node, ", ".join([_named(first), *(f"{_named(one)} since {at(one.since_ns)}" for one in rest)])))
    return out


def _named(one: Ran) -> str:
    if one.reported == one.version:
        return one.version
    return f"{one.version} (it reported {one.reported})" if one.reported else f"{one.version} (it reported none)"
