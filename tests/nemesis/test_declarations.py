"""What kinds of faults declare is the only place that knows them: no other module keeps a list of kinds."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.interfaces import FaultTraits, declarations, declared
from dethrone.harness.core.interfaces.faults import UNDECLARED

ROOT = Path(__file__).resolve().parents[2]
KINDS = tuple(registry.names(registry.FAULTS))
TELLING = set(KINDS) - {"clock", "cpu", "descriptors", "disk", "link", "member", "memory", "stop", "transfer"}
"""Those whose names mean nothing else: parts of a host's state, phases of a run and operations share the others."""
CHOICES = (
    "clusters/own/system.py",
    "clusters/ssh/hosts.py",
    "clusters/systems/",
    "harness/commands/demo.py",
    "harness/core/interfaces/system.py",
    "harness/core/promise.py",
    "nemesis/strategies/",
)
"""Where a list of kinds is a choice or a claim: what a system bears or is run under, what an owner allows, a taste."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_declares_itself(kind):
    traits = declared(kind)
    assert traits != UNDECLARED
    assert bool(traits.touches) != bool(traits.asks)
    assert traits == registry.load(registry.FAULTS, kind).traits


def test_what_is_not_installed_claims_nothing():
    assert declared("no-such-kind") == FaultTraits()


def test_one_obligation_is_asked_for_by_one_kind():
    owed = [shown.name for traits in declarations().values() for shown in traits.owes]
    assert len(owed) == len(set(owed))


def test_the_page_on_new_kinds_asks_for_everything_that_is_declared():
    page = (ROOT / "docs" / "new-fault.md").read_text()
    assert [name for name in FaultTraits.__struct_fields__ if f"`{name}`" not in page] == []


def listed(path: Path) -> list[str]:
    """The places of a module where two kinds or more stand in one literal."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        words = [one.value for one in parts if isinstance(one, ast.Constant) and one.value in KINDS]
        words = words if set(words) & TELLING else []
        if len(words) >= 2:
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {', '.join(words)}")
    return found


def test_no_other_module_keeps_a_list_of_kinds():
    found = []
    for folder in ("harness", "checkers", "clusters", "nemesis", "workloads"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(CHOICES):
                found += listed(path)
    assert found == []
