"""The report as ONE offline HTML file: texts and tables drawn here, space-time and plots by the script from the data.

Guarantees: deterministic from the files; no network address in it (and a policy that forbids all); texts of the system
under test can neither become markup nor end the script. ``dethrone.harness.report.report_files`` writes the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files as resources
from typing import Any

import msgspec

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.core.clean import in_json
from dethrone.harness.report import page_data
from dethrone.harness.report.html import sections
from dethrone.harness.report.rundir import RunFiles

SCRIPTS = ("app.js", "lanes.js", "plots.js")


def render(files: RunFiles, *, trouble: Sequence[str] = ()) -> str:
    """The whole page."""
    data = page_data.page(files)
    parts = {
        "title": escape(sections.title(files)),
        "style": asset("style.css"),
        "header": sections.header(files, trouble),
        "nav": sections.nav(files),
        "findings": sections.findings(files, data["proofs"]) + sections.cards(files),
        "sections": sections.tail(files),
        "caps": sections.caps(data["caps"]),
        "footer": sections.footer(files),
        "data": embed(data),
        "script": '"use strict";\n(() => {\n' + "\n".join(asset(name) for name in SCRIPTS) + "\n})();\n",
    }
    pieces = asset("template.html").split("@@")
    # names stand at the odd places; filling piece by piece, so that a text that holds such a name stays a text
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def embed(value: Any) -> str:
    """JSON that is safe inside a script element, regardless of its strings."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    text = in_json(text)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def asset(name: str) -> str:
    """One of the files next to this module."""
    return (resources("dethrone.harness.report.html") / name).read_text(encoding="utf-8")
