"""What a Spark session needs is said before it starts, and its noise stays out of the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.pipeline import session
from dethrone.harness.pipeline.java import java_version
from dethrone.harness.pipeline.session import SparkOptions, parse_conf, settings


def java(directory: Path, told: str) -> dict[str, str]:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory), "PATH": os.defpath}


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19', 21),
        ('openjdk version "25-ea"', 25),
    ],
)
def test_a_java_that_is_new_enough_is_taken(tmp_path, told, version):
    assert java_version(java(tmp_path / "jdk", told)) == version


@pytest.mark.parametrize("told", ['java version "1.8.0_392"', 'openjdk version "11.0.22" 2024-01-16'])
def test_a_java_too_old_is_said_with_the_package_to_install(tmp_path, told):
    with pytest.raises(MissingCapability, match=r"needs Java 17 or newer, this is Java (8|11)\b") as error:
        java_version(java(tmp_path / "jdk", told))
    assert "openjdk-17-jre-headless" in error.value.next_step


def test_no_java_is_said_with_the_package_to_install(tmp_path):
    for env in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}):
        with pytest.raises(MissingCapability, match="there is none") as error:
            java_version(env)
        assert "apt-get install" in error.value.next_step


def test_a_missing_or_unfit_package_is_said(monkeypatch):
    def installed(name):
        return {"pyspark": "4.1.0", "pandas": "3.0.1"}[name]

    monkeypatch.setattr(session, "version", installed)
    with pytest.raises(MissingCapability, match=r"pandas ≥ 2\.2, < 3; 3\.0\.1 is installed") as error:
        session.check_installed()
    assert "dethrone[spark]" in error.value.next_step


@pytest.mark.slow
def test_java_is_looked_at_before_pyspark_is_imported(call_check, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    done = call_check()
    assert done.returncode == 3
    assert "Spark needs Java, and there is none" in done.stderr
    assert "starting Spark" not in done.stdout + done.stderr


@pytest.fixture
def call_check(tmp_path, night):
    import subprocess
    import sys

    def call():
        words = [sys.executable, "-P", "-m", "dethrone.harness.cli", "corpus"]
        place = ["--corpus", str(tmp_path / "c")]
        subprocess.run([*words, "add", str(night), *place], check=True, capture_output=True, timeout=60)
        return subprocess.run(
            [*words, "check", *place, "--json"], capture_output=True, text=True, timeout=60, check=False
        )

    return call


def test_settings_of_the_user_come_last(tmp_path):
    conf = parse_conf(("spark.driver.memory=3g", "spark.hadoop.fs.s3a.endpoint=http://here:9000"))
    ours = settings(SparkOptions(conf=conf), cores=2, directory=tmp_path, env={})
    assert ours["spark.driver.memory"] == "3g"
    assert ours["spark.hadoop.fs.s3a.endpoint"] == "http://here:9000"
    assert (ours["spark.master"], ours["spark.ui.enabled"]) == ("local[2]", "false")
    assert "spark.driver.host" not in settings(
        SparkOptions(master="spark://m:7077"), cores=2, directory=tmp_path, env={}
    )


@pytest.mark.parametrize(
    ("conf", "env", "there"),
    [
        ({"spark.master": "local[2]", "spark.pyspark.python": "/x"}, {"PYSPARK_PYTHON": "/y"}, sys.executable),
        ({"spark.master": "yarn", "spark.pyspark.python": "/x"}, {"PYSPARK_PYTHON": "/y"}, "/x"),
        ({"spark.master": "yarn"}, {"PYSPARK_PYTHON": "/y"}, "/y"),
        ({"spark.master": "yarn"}, {}, sys.executable),
    ],
)
def test_workers_of_a_cluster_may_have_a_python_of_their_own(conf, env, there):
    assert session.pythons(conf, env) == {"PYSPARK_PYTHON": there, "PYSPARK_DRIVER_PYTHON": sys.executable}


@pytest.mark.parametrize("word", ["spark.ui.enabled", "ui=1", "=x"])
def test_a_setting_that_is_none_is_said(word):
    with pytest.raises(ConfigError, match="no setting of Spark"):
        parse_conf((word,))


@pytest.mark.spark
def test_workers_run_this_interpreter_and_a_second_session_is_the_first(spark):
    import sys

    def who(batches):
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([sys.executable])], names=["who"])

    [row] = spark.range(1).mapInArrow(who, "who string").toArrow().to_pylist()
    assert row["who"] == sys.executable
    with session.session(SparkOptions()) as same:
        assert same is spark
    assert spark.range(3).count() == 3  # and it still runs


@pytest.mark.spark
def test_what_spark_says_goes_to_a_file(spark, capfd):
    spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getLogger("x").error("for the file")
    spark.sparkContext._jvm.java.lang.System.err.println("so does this")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_whoever_chose_a_garbage_collector_keeps_it(name, tmp_path):
    key = "spark.driver.extraJavaOptions"
    ours = settings(SparkOptions(), cores=2, directory=tmp_path, env={name: "-Xss2m"})
    theirs = settings(SparkOptions(), cores=2, directory=tmp_path, env={name: "-Xss2m -XX:+UseZGC"})
    assert "-XX:+UseParallelGC" in ours[key]
    assert "GC" not in theirs[key].split("-Dlog4j2")[0]
