"""Looks through the output of any program for trace lines of the published format.

Guarantees: each kind of line that is there is a row with their number, each malformed line a row with what is wrong
with it. Out of scope: the format itself, which the registry names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import LineFormat, Malformed
from dethrone.harness.engine.host.doctor_row import DoctorRow


def examine_lines(lines: Iterable[bytes]) -> list[DoctorRow]:
    """Output of any program, looked through for trace lines of the published format."""
    form: LineFormat = registry.load(registry.LINE_FORMATS, "published")
    told: Counter[str] = Counter()
    malformed: list[DoctorRow] = []
    number = 0
    for number, line in enumerate(lines, start=1):
        for one in form.every_line(line.rstrip(b"\r\n")):
            if isinstance(one, Malformed):
                what = f"line {number} is malformed: {one.line}"
                malformed.append(DoctorRow(step="trace", what=what, seen="no", why=one.why))
            else:
                told[form.trace_name(one)] += 1
    rows = [DoctorRow(step="trace", what=f"{name}: {count} lines") for name, count in sorted(told.items())]
    if not told:
        rows.append(
            DoctorRow(step="trace", what="any line", seen="no", why=f"no trace line found in {number} lines of output")
        )
    return rows + malformed
