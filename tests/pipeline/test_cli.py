"""``dethrone corpus`` as people and programs meet it."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from dethrone.harness.cli.main import main


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DETHRONE_CORPUS", raising=False)
    return lambda *words: CliRunner().invoke(main, ["corpus", *words])


def test_adding_says_what_became_of_the_runs(call, night):
    done = call("add", str(night))
    assert done.exit_code == 0
    assert done.stdout.startswith("3 stored  in ")
    assert "3 duplicate" in call("add", str(night)).stdout


def test_with_json_there_is_one_object_with_a_row_a_run(call, night):
    (night / "a" / "run.json").unlink()
    done = call("add", str(night), "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == value["exit_code"] == 3
    assert value["counts"] == {"stored": 2, "refused": 1}
    assert [row["answer"] for row in value["runs"]] == ["refused", "stored", "stored"]
    assert "half written" in value["trouble"][0]
    assert "half written" in done.stderr


def test_the_corpus_may_be_named_in_the_environment(call, night, tmp_path, monkeypatch):
    monkeypatch.setenv("DETHRONE_CORPUS", str(tmp_path / "elsewhere"))
    assert call("add", str(night)).exit_code == 0
    assert (tmp_path / "elsewhere" / "_corpus.json").is_file()


@pytest.mark.parametrize("verb", [["verify"], ["compact"], ["prune", "--keep", "90d"]])
def test_where_there_is_no_corpus_nothing_is_made(call, verb, tmp_path):
    done = call(*verb)
    assert done.exit_code == 64
    assert "there is no corpus here" in done.stderr
    assert "dethrone corpus add" in done.stderr
    assert not (tmp_path / "corpus").exists()


def test_a_directory_without_runs_is_said(call, tmp_path):
    (tmp_path / "empty").mkdir()
    done = call("add", str(tmp_path / "empty"))
    assert done.exit_code == 64
    assert "no run found here" in done.stderr


def test_damage_exits_3_and_names_the_file(call, night, tmp_path):
    call("add", str(night))
    assert call("verify").exit_code == 0
    victim = next((tmp_path / "corpus" / "events").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-1])
    done = call("verify")
    assert done.exit_code == 3
    assert victim.name in done.stdout


@pytest.mark.parametrize("keep", ["90", "three weeks", "-1d"])
def test_how_long_to_keep_is_a_number_of_days(call, night, keep):
    call("add", str(night))
    done = call("prune", "--keep", keep)
    assert done.exit_code == 64
    assert "90d" in done.stderr


def test_help_and_adding_import_neither_pyspark_nor_pandas():
    code = (
        "import sys; from dethrone.harness.cli.main import main\n"
        "for words in (['--help'], ['corpus', '--help'], ['corpus', 'add', '--help']):\n"
        "    try: main(words)\n"
        "    except SystemExit: pass\n"
        "heavy = {'pyspark', 'py4j', 'pandas', 'pyarrow'}\n"
        "sys.exit(str(sorted(heavy & {name.split('.')[0] for name in sys.modules})) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_an_empty_corpus_has_nothing_to_judge_and_says_what_to_do(call, night, tmp_path):
    call("add", str(night))
    done = call("check", "--system", "nacos")
    if "needs Java" in done.stderr:
        pytest.skip("no Java here")
    assert done.exit_code == 2
    assert "nothing to judge: no runs of nacos in" in done.stdout
    assert call("check", "--since", "2026-13-01").exit_code == 64
    value = json.loads(call("check", "--since", "2030-01-01", "--fail-on", "violation", "--json").stdout)
    assert (value["exit_code"], value["verdict"], value["runs"]) == (2, None, [])


@pytest.mark.spark
def test_checking_tells_what_failed_with_its_findings(spark, call, night):
    call("add", str(night))
    done = call("check", "--checker", "leader-has-majority", "--checker", "one-leader-per-term", "--json")
    value = json.loads(done.stdout)
    assert (done.exit_code, value["exit_code"], value["verdict"]) == (1, 1, "fail")
    assert {run["run"]: run["outcome"] for run in value["runs"]} == {
        "raft-a": "pass",
        "raft-b": "pass",
        "raft-c": "fail",
    }
    assert value["judged"]["verdicts"] == 6
    assert {(row["run"], row["checker"]) for row in value["findings"]} == {("raft-c", "leader-has-majority")}
    assert value["trouble"] == []
    assert "FAIL" in done.stderr
    assert "became leader of term" in done.stderr
    again = call("check", "--checker", "leader-has-majority", "--system", "raft", "--since", "2026-11-20")
    assert again.exit_code == 1
    assert "0 new verdicts on 0 runs" in again.stdout
    assert call("check", "--checker", "leader-has-majorty").exit_code == 64


@pytest.mark.spark
def test_a_table_is_shown_and_written(spark, call, night, tmp_path):
    call("add", str(night))
    out = tmp_path / "elections"
    done = call("table", "elections", "--limit", "2", "--out", str(out), "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 0
    assert value["count"] == ds.dataset(out).count_rows() > len(value["rows"]) == 2
    assert {"run", "term", "winner", "rounds", "votes", "duration_ns"} <= set(value["rows"][0])
    assert "there is something already" in call("table", "elections", "--out", str(out)).stderr
    assert "winner" in call("table", "elections").stdout
    assert "did you mean 'elections'" in call("table", "election").stderr


@pytest.mark.spark
def test_a_table_over_events_that_are_gone_names_the_next_command(spark, call, night, tmp_path):
    call("add", str(night))
    next((tmp_path / "corpus" / "events").rglob("*.parquet")).unlink()
    done = call("table", "votes")
    assert done.exit_code == 3
    assert "dethrone corpus verify" in done.stderr
