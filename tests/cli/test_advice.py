"""What messages advise can be done where only the package is installed: there is no Makefile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dethrone.harness.core.renamed import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PROSE = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def messages(source: str) -> Iterator[str]:
    """The texts of a module, without its docstrings."""
    tree = ast.parse(source)
    prose = {id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, PROSE) and _documented(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def _documented(node) -> bool:
    return bool(node.body) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)


@pytest.mark.slow
def test_no_message_advises_a_target_of_the_makefile():
    targets = re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"setup", "engine", "images"} <= set(targets)
    advice = re.compile(rf"\bmake ({'|'.join(map(re.escape, targets))})\b|Makefile")
    files = [file for name in PACKAGES for file in sorted((ROOT / name).rglob("*.py"))]
    assert len(files) > 400
    found = [
        f"{file.relative_to(ROOT)}: {text[:80]!r}"
        for file in files
        for text in messages(file.read_text(encoding="utf-8"))
        if advice.search(text)
    ]
    assert found == []


def test_a_text_that_does_is_found():
    assert [*messages('"""make setup"""\ndef f():\n    """make engine"""\n    raise OSError("run make images")\n')] == [
        "run make images"
    ]
