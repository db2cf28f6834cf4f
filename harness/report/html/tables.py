"""Tables of the page.

Guarantees: every cell goes through ``escape``. Out of scope: what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.core.duration import show_duration


def time_cell(value: int | None) -> str:
    """A time; ``open`` where it was censored."""
    return "open" if value is None else show_duration(value)


def table_of(headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int]) -> str:
    """A table. ``numbers``: columns that hold numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if index in numbers else ''}>{escape(cell)}</{tag}>" for index, cell in enumerate(row)
        )

    head = f"<thead><tr>{cells('th', headers)}</tr></thead>" if any(headers) else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'
