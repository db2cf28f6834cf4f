"""``dethrone corpus follow`` and ``kill -9``: the process itself, killed at chosen moments, and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import nights
import pytest

from harness.pipeline import following, journal
from harness.pipeline.corpus import open_corpus

pytestmark = [
    pytest.mark.spark,
    pytest.mark.nightly("several starts of Spark; a follower that dies at any step is tested without it"),
]

LIMIT_S = 300


class Followers:
    """Followers of one corpus, one after another: all that they printed, and all that the command heard."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.corpus = open_corpus(str(base / "corpus"), make=True)
        (base / "runs").mkdir()
        self.number = 0

    @contextlib.contextmanager
    def started(self, *words: str, command: str = "cat >> heard"):
        self.number += 1
        line = [sys.executable, "-P", "-m", "harness.cli", "corpus", "follow", "runs", "--json", *words]
        small = {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"}
        line += [word for key, value in small.items() for word in ("--spark-conf", f"{key}={value}")]
        environment = {**os.environ, "DETHRONE_STATE_DIR": str(self.base / f"state-{self.number}")}
        environment |= {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        with (
            (self.base / f"out-{self.number}").open("w", encoding="utf-8") as out,
            (self.base / f"err-{self.number}").open("w", encoding="utf-8") as err,
        ):
            process = subprocess.Popen(
                [*line, "--on-finding", command], stdout=out, stderr=err, cwd=self.base, env=environment
            )
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait(30)

    def until(self, condition, process) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.005)

    def ended(self, process) -> int:
        return process.wait(LIMIT_S)

    def said(self) -> str:
        return "\n".join((self.base / f"err-{number}").read_text() for number in range(1, self.number + 1))

    def land(self, run, number: int) -> None:
        """As a run ends: its directory is there in one step."""
        nights.store_run(self.base / "made" / str(number), run.history, run.plan, run=f"raft-{number}x")
        (self.base / "made" / str(number)).rename(self.base / "runs" / str(number))

    def lines(self) -> list[dict]:
        texts = "".join((self.base / f"out-{number}").read_text() for number in range(1, self.number + 1))
        return [value for value in map(json.loads, texts.splitlines()) if value["event"] == "finding"]

    def heard(self) -> list[dict]:
        text = (self.base / "heard").read_text() if (self.base / "heard").exists() else ""
        found, decoder = [], json.JSONDecoder()
        while text:
            value, end = decoder.raw_decode(text)
            found.append(value)
            text = text[end:]
        return found

    def raised(self) -> list[str]:
        raw = (following.home(self.corpus) / journal.NAME).read_bytes()
        lines = [msgspec.json.decode(line, type=journal.Line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]
        return [line.news.run for line in lines if isinstance(line, journal.Raised)]


@pytest.fixture
def followers(tmp_path, java):
    return Followers(tmp_path)


def test_killed_while_a_run_is_judged_and_while_the_command_hears_of_one_nothing_is_lost_or_repeated(followers, sims):
    bugs = [1, 2, 4]
    for number in (0, 1, 2):
        followers.land(sims["bug" if number in bugs else "honest"], number)

    with followers.started(command="cat >> heard; kill -9 $PPID; sleep 1") as first:  # the first finding is its last
        assert followers.ended(first) == -signal.SIGKILL, followers.said()
    (once,) = followers.heard()
    assert once["again"] is False

    for number in (3, 4):
        followers.land(sims["bug" if number in bugs else "honest"], number)
    with followers.started() as second:  # added, and not judged
        followers.until((followers.corpus.place.root / "runs" / "raft-4x.parquet").exists, second)
        second.kill()
        assert followers.ended(second) == -signal.SIGKILL

    with followers.started("--once") as third:
        code = followers.ended(third)
    with followers.started("--once") as fourth:
        assert followers.ended(fourth) == 0, followers.said()

    assert code == 0, followers.said()  # what the third judged has the cause that the first raised
    first_of_its_cause = [once["run"]]
    assert sorted(followers.raised()) == [f"raft-{number}x" for number in bugs]
    heard = followers.heard()
    assert [one["run"] for one in heard if not one["again"]] == first_of_its_cause
    assert {one["run"] for one in heard if one["again"]} <= {once["run"]}
    assert followers.corpus.findings().num_rows == len(bugs)
    rows = followers.corpus.verdicts("run", "checker").to_pylist()
    assert len(rows) == len({(row["run"], row["checker"]) for row in rows})
