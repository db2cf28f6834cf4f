"""What a page says of cuts: what each of a list did, and how long recoveries after heals took.

Guarantees: nothing where there is nothing to say. Out of scope: the figures (``cut_table``, ``recovery``).
"""

from __future__ import annotations

from dethrone.harness.report import cut_table, recovery
from dethrone.harness.report.html.tables import table_of, time_cell
from dethrone.harness.report.rundir import RunFiles


def cuts(files: RunFiles) -> str:
    """What each cut did, where the run played a list of them."""
    rows = cut_table.table(files.judgement)
    if not rows:
        return ""
    return (
        '<section id="cuts"><h2>What each cut did</h2>'
        '<p class="hint">From the cut in force to its heal. “then”: who led in the last third of it, in the highest '
        "term.</p>" + table_of(cut_table.HEADERS, rows, numbers=cut_table.NUMBERS) + "</section>"
    )


def recoveries(files: RunFiles) -> str:
    """Network time and protocol time after heals, apart."""
    count, figures = recovery.summary(files.judgement)
    if not count:
        return ""
    rows = [
        [stage, str(q.count), str(q.censored), *(time_cell(t) for t in (q.median, q.p90, q.longest))]
        for stage, q in figures.items()
    ]
    return (
        "<h3>Recovery after the heal of cuts</h3>"
        '<p class="hint">Of cuts that left clients without a leader. Network: from the order to heal until probes pass '
        "over every link again. Leader and write: from there, so the protocol's own time.</p>"
        + table_of(["figure", "heals", "open", "median", "90 %", "longest seen"], rows, numbers=(1, 2, 3, 4, 5))
    )
