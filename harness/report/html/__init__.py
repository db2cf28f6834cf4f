"""The report as an offline HTML file: texts and tables drawn here, space-time and plots by the script from the data.

One file; the details of a long run are in side files of the same disk (``side_files``). Guarantees: deterministic from
the files; no network address in it (and a policy that forbids all); texts of the system under test can neither become
markup nor end the script. ``dethrone.harness.report.report_files`` writes the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files as resources

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.report import page_data
from dethrone.harness.report.html import sections
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.side_files import Folder, embed

SCRIPTS = ("app.js", "lanes.js", "plots.js")
LONG_SCRIPTS = ("details.js", "app.js", "lanes.js", "side_files.js", "plots.js")
"""Of a page whose details are in side files."""

_NO_FILES, _SIDE_FILES = "script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'self' file:"


def render(files: RunFiles, *, trouble: Sequence[str] = (), folder: Folder | None = None) -> str:
    """The whole page. ``folder`` takes the details of a long run; without one, the page has what its caps let in."""
    drawn = page_data.drawn(files, folder)
    data = drawn.data
    scripts = LONG_SCRIPTS if drawn.long else SCRIPTS
    parts = {
        "scripts from": _SIDE_FILES if drawn.long else _NO_FILES,
        "title": escape(sections.title(files, drawn)),
        "style": asset("style.css"),
        "header": sections.header(files, drawn, trouble),
        "nav": sections.nav(files),
        "findings": sections.findings(files, data["proofs"]) + sections.cards(files),
        "where": sections.where_details_are(drawn),
        "elections": sections.elections(drawn),
        "sections": sections.tail(files, drawn),
        "caps": sections.caps(data["caps"]),
        "footer": sections.footer(drawn),
        "data": embed(data),
        "script": '"use strict";\n(() => {\n' + "\n".join(asset(name) for name in scripts) + "\n})();\n",
    }
    pieces = asset("template.html").split("@@")
    # names stand at the odd places; filling piece by piece, so that a text that holds such a name stays a text
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


@cache
def asset(name: str) -> str:
    """One of the files next to this module."""
    return (resources("dethrone.harness.report.html") / name).read_text(encoding="utf-8")
