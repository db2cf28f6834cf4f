"""Three hundred hostile files and answers: none hangs, none shows a traceback, none takes the machine's memory."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SEED = int(os.environ.get("DETHRONE_HOSTILE_SEED", "1"))
COUNT = int(os.environ.get("DETHRONE_HOSTILE_COUNT", "360"))
LIMIT_S = 600


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hostile")
    script = Path(__file__).with_name("try_all.py")
    done = subprocess.run(
        [sys.executable, str(script), str(SEED), str(COUNT), str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env={**os.environ, "DETHRONE_STATE_DIR": str(directory / "state")},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_hostile_input_is_read_or_refused_within_its_limits(tried):
    assert len(tried) == COUNT
    assert [row for row in tried if row["broken"]] == []


def test_every_kind_of_input_was_tried_several_times(tried):
    kinds = Counter(row["kind"] for row in tried)
    assert len(kinds) >= 20
    assert min(kinds.values()) >= COUNT // 30


def test_no_single_input_takes_seconds(tried):
    assert max(row["s"] for row in tried) < 10
