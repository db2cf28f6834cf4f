from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


def load_synthetic():
    if "dethrone_synthetic" not in sys.modules:
        path = Path(__file__).parent / "synthetic.py"
        spec = importlib.util.spec_from_file_location("dethrone_synthetic", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["dethrone_synthetic"] = module
        spec.loader.exec_module(module)
    return sys.modules["dethrone_synthetic"]


@pytest.fixture(scope="session")
def synthetic():
    return load_synthetic()


@pytest.fixture(scope="session")
def passing_dir(tmp_path_factory, synthetic):
    return synthetic.passing_run(tmp_path_factory.mktemp("runs") / "passing")


@pytest.fixture(scope="session")
def failing_dir(tmp_path_factory, synthetic):
    return synthetic.failing_run(tmp_path_factory.mktemp("runs") / "failing")


@pytest.fixture(scope="session")
def passing(passing_dir):
    from dethrone.harness.report.rundir import read_run

    return read_run(passing_dir)


@pytest.fixture(scope="session")
def failing(failing_dir):
    from dethrone.harness.report.rundir import read_run

    return read_run(failing_dir)
