"""Names that an earlier version stored or imported lead to the modules of today."""

from __future__ import annotations

import importlib

import pytest

from dethrone.harness.core import renamed as module
from dethrone.harness.core.renamed import of_import, renamed, with_new_imports

ABOVE = module.__name__.removesuffix("harness.core.renamed")


@pytest.fixture
def moved(monkeypatch):
    monkeypatch.setattr(module, "MODULES", {"clusters.old": "clusters.new", "clusters.old.deep": "harness.shallow"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("clusters.old", "clusters.new"),
        ("clusters.old.raft:TARGET", "clusters.new.raft:TARGET"),
        ("clusters.old.deep.er", "harness.shallow.er"),
        ("clusters.older", "clusters.older"),
        ("harness.core", "harness.core"),
    ],
)
@pytest.mark.usefixtures("moved")
def test_the_longest_entry_decides_and_a_new_name_stays(old, new):
    assert renamed(old) == ABOVE + new
    assert renamed(ABOVE + new) == ABOVE + new


@pytest.mark.parametrize("name", ["", "raft", "mine.harness.core:X", "harnesses.core", "dethrones.harness", "./a.py:X"])
def test_a_name_that_is_not_ours_is_left_alone(name):
    assert renamed(name) == name


def test_every_module_of_the_table_is_there_and_no_entry_leads_to_another():
    for new in module.MODULES.values():
        assert importlib.import_module(renamed(new))
        assert renamed(new) == ABOVE + new


@pytest.mark.usefixtures("moved")
def test_an_import_of_an_old_name_finds_the_new_module_and_an_error_names_it():
    tree = with_new_imports(b"# coding: latin-1\nfrom clusters.old import a\nimport clusters.old.deep as b\n", "x.py")
    assert [tree.body[0].module, tree.body[1].names[0].name] == [f"{ABOVE}clusters.new", f"{ABOVE}harness.shallow"]
    assert f"clusters.old is {ABOVE}clusters.new" in of_import(ImportError(name="clusters.old"))
    assert of_import(ImportError(name="numpy")) == ""
