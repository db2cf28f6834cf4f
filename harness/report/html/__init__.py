"""The report as one offline HTML file."""

from __future__ import annotations

import html
from collections.abc import Sequence

from harness.report.rundir import RunFiles


def render(files: RunFiles, *, trouble: Sequence[str] = ()) -> str:
    """The page."""
    return f"<!doctype html><title>{html.escape(files.history.begin.system)}</title>{len(trouble)}"
