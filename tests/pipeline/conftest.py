from __future__ import annotations

import os
import shutil

import pytest

from tests.pipeline import nights


@pytest.fixture(scope="session")
def sims():
    """Simulated runs by name: an honest one, and one with a planted bug that its checkers find."""
    return {
        "honest": nights.simulated(3, seconds=20),
        "bug": nights.simulated(5, seconds=20, variant="10-resumes-leadership"),
    }


@pytest.fixture(scope="session")
def template(tmp_path_factory, sims):
    base = tmp_path_factory.mktemp("template") / "night"
    honest, bug = sims["honest"], sims["bug"]
    nights.store_run(base / "a", honest.history, honest.plan, run="raft-a")
    nights.store_run(base / "b", honest.history, honest.plan, run="raft-b", started_at="2026-11-21T01:30:00+05:00")
    nights.store_run(base / "deep" / "c", bug.history, bug.plan, run="raft-c", started_at="2026-11-21T00:10:00Z")
    return base


@pytest.fixture
def night(tmp_path, template):
    """A directory of three runs: two honest ones, one of them told in another zone, and the one with the bug."""
    return shutil.copytree(template, tmp_path / "night")


@pytest.fixture(scope="session")
def java():
    """What Spark needs is installed. Where it is not, CI fails; elsewhere the tests that ask for it are skipped."""
    from dethrone.harness.core.errors import MissingCapability
    from dethrone.harness.pipeline.session import check_installed

    try:
        check_installed()
    except MissingCapability as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(tmp_path_factory, java):
    """The one session of the whole test run."""
    from dethrone.harness.pipeline.session import SparkOptions, session

    place = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DETHRONE_STATE_DIR", str(place))
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # short queries: start-up counts
        small = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
        small |= {"spark.sql.adaptive.enabled": "false"}
        with session(SparkOptions(master="local[2]", conf=small)) as running:
            yield running
