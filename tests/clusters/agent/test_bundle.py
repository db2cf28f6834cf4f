"""The modules of the agent become one file: whole, plain, the same each time, and of the standard library only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from dethrone.clusters.agent import bundle, host
from dethrone.clusters.agent.host import adopted

from .conftest import AGENT, PYTHON

MODULES = Path(host.__file__).parent
LINES_MAX = 500
OLDEST = (3, 9)
LIMIT_S = 30


def imported(text):
    """What a file imports, at its top and within functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_no_module_is_missing_and_each_is_short():
    assert sorted(bundle.ORDER) == sorted(path.stem for path in MODULES.glob("*.py") if path.stem != "__init__")
    lengths = {path.stem: len(path.read_text().splitlines()) for path in MODULES.glob("*.py")}
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}


def test_what_a_module_defines_is_in_the_file_once_in_the_order_of_the_modules():
    wanted = []
    for name in bundle.ORDER:
        tree = ast.parse((MODULES / f"{name}.py").read_text())
        wanted += [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    tree = ast.parse(bundle.agent())
    assert [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)] == wanted


def test_the_file_and_its_modules_import_the_standard_library_only():
    assert {name.partition(".")[0] for name in imported(bundle.agent())} <= sys.stdlib_module_names
    for name in bundle.ORDER:
        ours = [one for one in imported((MODULES / f"{name}.py").read_text()) if one.startswith("dethrone")]
        earlier = bundle.ORDER[: bundle.ORDER.index(name)]
        assert {one.removeprefix(f"{bundle.PACKAGE}.") for one in ours} <= set(earlier), name


def test_the_file_is_the_same_bytes_each_time(tmp_path):
    again = [sys.executable, "-m", "dethrone.clusters.agent.bundle"]
    made = subprocess.run(again, capture_output=True, check=True, timeout=LIMIT_S, cwd=tmp_path).stdout
    assert made == bundle.agent() == AGENT.read_bytes()


def test_the_file_is_of_a_syntax_that_the_oldest_python_reads():
    ast.parse(bundle.agent(), feature_version=OLDEST)


@pytest.mark.parametrize("verb", ["serve", "relay", "heal", "match"])
def test_the_file_runs_without_anything_that_is_installed(verb, tmp_path):
    argv = [PYTHON, "-I", "-S", str(AGENT), verb, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=tmp_path, env={})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: agent.py {verb}")


def test_an_agent_is_known_by_the_name_of_the_file():
    for verb in ("serve", "relay", "heal", "match"):
        assert adopted.OURS.search(f"python3 -S /var/tmp/dethrone/r/{bundle.NAME} {verb} --socket s")


FUTURE = "from __future__ import annotations\n"
TITLE = f'"""Title."""\n{FUTURE}'


def made(**modules):
    return bundle.bundled({"__init__": '"""The file."""\n', **modules})


def test_modules_follow_each_other_under_one_set_of_imports():
    text = made(
        one=f"{TITLE}import os\nfrom typing import Any, NamedTuple\n\nA: Any = os\n",
        two=f"{TITLE}import os\nimport json\nfrom {bundle.PACKAGE}.one import (\n    A,\n)\n\n\nB = A, json, os\n",
    )
    assert [line for line in text.splitlines() if line and not line.startswith("# ---")] == [
        '"""The file.',
        '"""',
        FUTURE.strip(),
        "import json",
        "import os",
        "from typing import Any",
        "from typing import NamedTuple",
        "# Title.",
        "A: Any = os",
        "# Title.",
        "B = A, json, os",
    ]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("A = 1", "A = 2"),
        ("A = 1", "def A(): pass"),
        ("class A: pass", "B, A = 1, 2"),
        ("import os", "os = 1"),
        ("import time", "from time import time"),
    ],
)
def test_a_name_with_two_meanings_is_refused(one, two):
    with pytest.raises(ValueError, match="means two things"):
        made(one=f"{TITLE}{one}\n", two=f"{TITLE}{two}\n")


@pytest.mark.parametrize(
    "line",
    [
        "import os.path",
        "import os as system",
        "from . import other",
        "from dethrone.harness.core.clock import MS",
        f"from {bundle.PACKAGE} import other",
        f"from {bundle.PACKAGE}.one import A as B",
    ],
)
def test_an_import_that_one_file_cannot_have_is_refused(line):
    with pytest.raises(ValueError, match="one file cannot have"):
        made(one=f"{TITLE}A = 1\n", two=f"{TITLE}{line}\n")


def test_a_module_imports_from_earlier_ones_only():
    with pytest.raises(ValueError, match="no earlier module defines"):
        made(one=f"{TITLE}from {bundle.PACKAGE}.two import A\n", two=f"{TITLE}A = 1\n")


def test_a_file_that_lies_there_is_replaced_only_if_it_is_another(tmp_path):
    path = bundle.put(tmp_path / "deep")
    before = path.stat()
    assert bundle.put(path.parent) == path
    assert path.stat().st_ino == before.st_ino
    path.write_text("of another version")
    assert bundle.put(path.parent).read_bytes() == bundle.agent()
    assert [entry.name for entry in path.parent.iterdir()] == [bundle.NAME]
