from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dethrone.harness.cli.main import main
from dethrone.harness.engine.run.exit_status import exit_code
from dethrone.harness.engine.run.judgement import RunResult
from dethrone.harness.engine.run.listener import Drawn


@pytest.fixture(scope="session")
def synthetic():
    name = "dethrone_synthetic"
    if name not in sys.modules:
        path = Path(__file__).parent.parent / "report" / "synthetic.py"
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def templates(tmp_path_factory, synthetic):
    base = tmp_path_factory.mktemp("templates")
    return {"pass": synthetic.passing_run(base / "pass"), "fail": synthetic.failing_run(base / "fail")}


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """Each test in a directory, state directory and environment of its own."""
    import os

    for name in list(os.environ):
        if name.startswith(("DETHRONE_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call():
    """The command line in this process: exit code, stdout and stderr apart."""

    def run(*words: str):
        return CliRunner().invoke(main, list(words))

    return run


class FakeEngine:
    """An engine that hands out made-up runs: what it was asked is in ``asked``."""

    def __init__(self, templates) -> None:
        self.templates = templates
        self.asked = []
        self.story = "pass"
        self.trouble: tuple[str, ...] = ()
        self.interrupted = False
        self.raises: BaseException | None = None
        self.raises_before: BaseException | None = None
        self.stories: dict[str, list[str]] = {}

    def run(self, options, listener):
        from dethrone.harness.report.rundir import read_run

        if self.raises_before:
            raise self.raises_before
        self.asked.append(options)
        plan_of = self.stories.get(options.system)
        story = plan_of.pop(0) if plan_of else self.story
        out = options.out or Path("runs") / f"run-{len(self.asked)}"
        shutil.copytree(self.templates[story], out, dirs_exist_ok=True)
        files = read_run(out)
        listener.drawn(Drawn(plan=files.plan, run_dir=out, versions={"dethrone": "0"}))
        listener.progress("judging")
        if self.raises:
            raise self.raises
        return RunResult(
            run_dir=out,
            seed=options.seed if options.seed is not None else 7,
            plan=files.plan,
            judgement=files.judgement,
            trouble=self.trouble,
            interrupted=self.interrupted,
            exit_code=exit_code(
                outcome=files.judgement.outcome,
                trouble=bool(self.trouble),
                interrupted=self.interrupted,
                fail_on=options.fail_on,
            ),
            figures={"elections": 3, "elapsed_s": 1.5, "ok": 9, "faults": 2},
        )


@pytest.fixture
def engine(templates, monkeypatch):
    from dethrone.harness.engine.campaign import campaign, live_seeds
    from dethrone.harness.engine.run import runner

    fake = FakeEngine(templates)
    monkeypatch.setattr(runner, "run", fake.run)
    monkeypatch.setattr(campaign, "run", fake.run)
    monkeypatch.setattr(live_seeds, "run", fake.run)
    return fake
