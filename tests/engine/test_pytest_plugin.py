from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np  # noqa: F401 - cannot be loaded twice, and pytester forgets what is loaded inside its sessions
import pytest

pytest_plugins = ["pytester"]

FAKE = """
    import importlib.util, shutil, sys
    import pytest
    from pathlib import Path

    @pytest.fixture(autouse=True)
    def made_up(monkeypatch):
        import msgspec
        from dethrone.harness.core import plan as plans, store
        from dethrone.harness.engine.run import judgement as judgements, runner
        spec = importlib.util.spec_from_file_location("synthetic", {synthetic!r})
        synthetic = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(synthetic)
        def run(options, listener):
            story = synthetic.failing_run if options.system.endswith(("nacos", ".toml")) else synthetic.passing_run
            story(options.out)
            stored = store.read_json(options.out / "verdict.json", dict)
            judgement = msgspec.convert(stored["judgement"], judgements.Judgement)
            plan = store.read_json(options.out / "plan.json", plans.Plan)
            row = (options.seed, options.nodes, options.time_limit_ns, options.out, options.schedule)
            Path("asked.txt").open("a").write(" ".join(map(str, row)) + "\\n")
            trouble = ("the engine is gone",) if options.system == "trouble" else ()
            return judgements.RunResult(
                run_dir=options.out, seed=options.seed or 7, plan=plan, judgement=judgement, trouble=trouble,
                interrupted=False, exit_code=0,
            )
        monkeypatch.setattr(runner, "run", run)
"""


@pytest.fixture
def site(pytester, monkeypatch):
    """A user's test directory whose runs are made up."""
    if not importlib.util.find_spec("dethrone"):
        pytest.skip("not installed")
    synthetic = Path(__file__).parent.parent / "report" / "synthetic.py"
    pytester.makeconftest(FAKE.format(synthetic=str(synthetic)))
    return pytester


def test_a_run_that_holds_is_a_passing_test(site):
    site.makepyfile(
        """
        import pytest

        def test_safe(chaos):
            result = chaos("raft", nodes=3, time_limit="20s").assert_valid()
            assert result.outcome == "pass"
            assert result.verdicts["one-leader-per-term"].outcome == "pass"
            assert result.report.name == "report.html" and result.report.exists()
        """
    )
    site.runpytest("--chaos-seed", "5", "--strict-markers").assert_outcomes(passed=1)
    seed, nodes, limit, *_ = (site.path / "asked.txt").read_text().split()
    assert (seed, nodes, limit) == ("5", "3", "20000000000")


def test_a_violation_shows_proof_commands_and_report(site):
    site.makepyfile('def test_unsafe(chaos):\n    chaos("nacos", on="docker").assert_valid()\n')
    done = site.runpytest("--chaos-out", "kept")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "FAIL: one-leader-per-term: n2 and n4 were both elected leader of term 7",
            "one-leader-per-term: n2 and n4 were both elected leader of term 7",
            "*+13.008 s  n2 was elected leader of term 7 by the votes of n2, n3 and n5",
            "check again  dethrone check */kept/test_a_violation*unsafe/run-1",
            "run again    dethrone run nacos --seed 42 *schedule.planned.json",
            "replay       dethrone replay */run-1",
            "report       */run-1/report.html",
        ]
    )
    assert not any("Traceback" in line for line in done.outlines)


@pytest.mark.slow
def test_the_command_that_runs_a_described_system_again_names_its_file_and_its_knobs(site):
    site.makepyfile('def test_unsafe(chaos):\n    chaos("./mine.toml", settings={"quick": "a b"}).assert_valid()\n')
    done = site.runpytest("--chaos-out", "kept")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["run again    dethrone run mine.toml --seed 42 * --set 'quick=a b' --schedule */*.json"])


def test_a_schedule_may_be_named_by_a_text_and_one_that_is_not_there_is_named(site):
    (site.path / "x.toml").write_text("")
    site.makepyfile(
        """
        import pytest

        def test_text(chaos):
            chaos("raft", schedule="x.toml").assert_valid()

        def test_absent(chaos):
            with pytest.raises(pytest.UsageError, match="names no file: y.toml"):
                chaos("raft", schedule="y.toml")
        """
    )
    site.runpytest().assert_outcomes(passed=2)
    assert (site.path / "asked.txt").read_text().split()[-1] == "x.toml"


@pytest.mark.slow
def test_a_second_session_keeps_the_runs_of_the_first(site):
    site.makepyfile('def test_safe(chaos):\n    chaos("raft").assert_valid()\n    chaos("raft", shared=True)\n')
    for _ in range(2):
        site.runpytest("--chaos-out", "kept").assert_outcomes(passed=1)
    runs = [line.split()[3].split("/")[-2:] for line in (site.path / "asked.txt").read_text().splitlines()]
    assert [number for _, number in runs] == ["run-1", "run-1", "run-2", "run-2"]
    assert len({tuple(run) for run in runs}) == 4


@pytest.mark.slow
def test_trouble_of_the_harness_is_an_error_and_no_verdict(site):
    site.makepyfile(
        """
        import pytest
        from dethrone.harness.core.errors import ClusterError

        def test_trouble(chaos):
            with pytest.raises(ClusterError, match="the engine is gone"):
                chaos("trouble").assert_valid()
        """
    )
    site.runpytest().assert_outcomes(passed=1)


@pytest.mark.slow
def test_the_marker_gives_defaults_that_a_call_overrides(site):
    site.makepyfile(
        """
        import pytest

        @pytest.mark.chaos(nodes=7, time_limit="40s")
        def test_defaults(chaos):
            chaos("raft", nodes=3)
            chaos("raft")

        @pytest.mark.chaos(knodes=7)
        def test_unknown(chaos):
            chaos("raft")
        """
    )
    done = site.runpytest("--strict-markers")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*does not know*knodes*"])
    rows = [line.split() for line in (site.path / "asked.txt").read_text().splitlines()]
    assert [row[1:3] for row in rows] == [["3", "40000000000"], ["7", "40000000000"]]
    assert rows[0][3] != rows[1][3]


@pytest.mark.slow
def test_tests_that_share_get_one_run_and_each_judges_a_property_of_its_own(site):
    site.makepyfile(
        """
        import pytest

        @pytest.mark.chaos(shared=True, nodes=3)
        class TestElection:
            def test_is_safe(self, chaos):
                self.seen = chaos("raft").assert_holds("one-leader-per-term").run_dir

            def test_is_live(self, chaos):
                chaos("raft").assert_holds("leader-when-owed")

            def test_another_size_is_another_run(self, chaos):
                chaos("raft", nodes=5).assert_holds("one-leader-per-term")

            def test_unknown_property(self, chaos):
                with pytest.raises(pytest.UsageError, match="no property"):
                    chaos("raft").assert_holds("one-leder")

        @pytest.mark.chaos(shared=True)
        def test_fails(chaos):
            chaos("nacos").assert_holds("one-leader-per-term")

        @pytest.mark.chaos(shared=True)
        def test_not_the_property_that_failed(chaos):
            held = [name for name, v in chaos("nacos").verdicts.items() if v.outcome == "pass"]
            chaos("nacos").assert_holds(*held)
        """
    )
    done = site.runpytest("--chaos-out", "kept")
    done.assert_outcomes(passed=5, failed=1)
    done.stdout.fnmatch_lines(["one-leader-per-term: FAIL: *", "*dethrone replay */kept/shared-*/run-3*"])
    assert len((site.path / "asked.txt").read_text().splitlines()) == 3


@pytest.mark.slow
def test_the_seed_can_come_from_the_commit_that_is_tested(site, monkeypatch):
    monkeypatch.setenv("GITHUB_SHA", "00000a0f" + 32 * "b")
    site.makepyfile('def test_safe(chaos):\n    chaos("raft").assert_valid()\n')
    site.runpytest("--chaos-seed", "commit").assert_outcomes(passed=1)
    assert (site.path / "asked.txt").read_text().split()[0] == str(0xA0F)
    monkeypatch.setenv("GITHUB_SHA", "no sha")
    done = site.runpytest("--chaos-seed", "commit")
    assert done.ret != 0
    done.stderr.fnmatch_lines(["*needs a git checkout*"])
    assert site.runpytest("--chaos-seed", "tuesday").ret != 0


def test_a_bad_duration_is_told_as_such(site):
    site.makepyfile('def test_bad(chaos):\n    chaos("raft", time_limit="30")\n')
    done = site.runpytest()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*'30' is not a duration*"])


def test_the_plugin_imports_nothing_of_the_harness_before_it_is_used():
    code = (
        "import sys, dethrone.harness.engine.pytest_plugin; "
        "print([name for name in sys.modules if name.split('.')[0] in ('msgspec', 'numpy', 'docker', 'rich', 'click') "
        "or name.startswith('dethrone.harness.core')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
