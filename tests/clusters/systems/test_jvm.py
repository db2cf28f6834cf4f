from __future__ import annotations

import os
import subprocess

import msgspec
import pytest

from dethrone.clusters.systems import jvm
from dethrone.clusters.systems.kafka import SYSTEM
from tests.clusters.systems.specs import specs

JAVA = """#!/bin/sh
echo "$@" >> "$0.log"
while [ $# -gt 0 ]; do
  if [ "$1" = -d ]; then mkdir -p "$2"; [ -z "$JAVA_FAILS" ] || exit 1; exit 0; fi
  shift
done
"""


@pytest.fixture
def host(tmp_path):
    """A node whose run directory is ``tmp_path``, and a ``java`` that notes how it is called."""
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(JAVA)
    java.chmod(0o755)
    node = msgspec.structs.replace(specs(SYSTEM)["n1"], run_dir=str(tmp_path))
    command = jvm.command(node, "KafkaNode", ("last",), recipe="kafka-4.1", heap_mb=64, options=("-Dx=y",))

    def start(**environment):
        env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **environment}
        done = subprocess.run(command.argv, env=env, capture_output=True, check=False)
        calls = (tmp_path / "bin" / "java.log").read_text().splitlines()
        return done.returncode, calls

    return tmp_path, start


def test_what_runs_beside_is_compiled_at_the_first_start_only(host):
    root, start = host
    code, calls = start()
    assert code == 0
    assert "-jar /opt/dethrone/jars/ecj-3.36.0.jar" in calls[0]
    assert calls[0].endswith(f"-d {root}/classes-kafka-4.1.new {root}/java/*.java")
    assert (root / "classes-kafka-4.1").is_dir()
    assert calls[1].startswith("-Xmx64m ")
    assert calls[1].endswith(f"KafkaNode 10.0.0.1 7002 {root}/clock.sock last")
    _, calls = start()
    assert len(calls) == 3
    assert calls[2] == calls[1]


def test_what_cannot_be_compiled_is_not_started_and_tried_again_the_next_time(host):
    root, start = host
    code, calls = start(JAVA_FAILS="1")
    assert code != 0
    assert len(calls) == 1
    assert not (root / "classes-kafka-4.1").exists()
    code, calls = start()
    assert (code, len(calls)) == (0, 3)


def test_sources_lie_beside_the_common_one():
    node = specs(SYSTEM)["n1"]
    found = jvm.sources(node, "DLedgerNode")
    assert sorted(found) == ["/run/dethrone/java/Beside.java", "/run/dethrone/java/DLedgerNode.java"]
    assert all(b"final class" in content for content in found.values())
