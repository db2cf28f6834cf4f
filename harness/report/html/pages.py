"""What all pages without a script share: the document around them, and their tables.

Guarantees: no network address in it, and a policy that forbids all. Out of scope: a run's page (``template.html``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dethrone.harness.core.clean import in_html as escape
from dethrone.harness.report.html import asset

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, body: str, *, style: str = "") -> str:
    """One HTML document; ``body`` and ``style`` as they are."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{asset('style.css')}{style}</style>\n</head>\n<body>\n{body}\n"
        "</body>\n</html>\n"
    )


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str, red: int = 0) -> str:
    """A table under its name. ``rows`` hold HTML, the first ``red`` of them stand out; ``empty``: what there is none
    of, and among how many."""
    body = "".join(
        f"<tr{' class=red' * (place < red)}>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
        for place, row in enumerate(rows)
    )
    if not body:
        return f"<h2>{escape(name)}</h2><p>{escape(empty)}</p>"
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    return f"<h2>{escape(name)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def code(words: str) -> str:
    """Words to be copied."""
    return f"<code>{escape(words)}</code>"
