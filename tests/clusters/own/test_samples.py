"""The samples in Go, Java and Rust print what the validator accepts; each is run where there is its compiler."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dethrone.clusters.docker.programs import find_go
from dethrone.harness.engine.host.line_check import examine_lines

SAMPLES = Path(__file__).parents[3] / "docs" / "samples"
PRINTED = {"recovered", "term_changed", "vote_granted", "elected", "appended", "committed", "stepped_down"}
LIMIT_S = 300


def compiler(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here: an implementer's compiler, not one of ours")
    return found


def output(*argv, cwd=None):
    done = subprocess.run(argv, cwd=cwd, capture_output=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def accepted(printed):
    rows = examine_lines(printed.splitlines(keepends=True))
    assert [row for row in rows if row.seen == "no"] == []
    assert {row.what.split(":")[0] for row in rows} == PRINTED
    assert printed.count(b"\n") == len(PRINTED)


def test_the_go_sample_prints_what_the_validator_accepts():
    accepted(output(find_go("go 1.21", progress=print), "run", "trace.go", cwd=SAMPLES))


@pytest.mark.slow
def test_the_java_sample_prints_what_the_validator_accepts(tmp_path):
    output(compiler("javac"), "-d", str(tmp_path), str(SAMPLES / "Trace.java"))
    accepted(output(compiler("java"), "-cp", str(tmp_path), "Trace"))


def test_the_rust_sample_prints_what_the_validator_accepts(tmp_path):
    output(compiler("rustc"), "-o", str(tmp_path / "trace"), str(SAMPLES / "trace.rs"))
    accepted(output(str(tmp_path / "trace")))


def test_every_sample_is_run_by_a_test_here():
    assert {path.name for path in SAMPLES.iterdir()} == {"trace.go", "Trace.java", "trace.rs"}
