"""What a process says on its way to be a host, and in which order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dethrone.clusters.local import box

pytestmark = pytest.mark.namespaces

NO_NETWORK = {"ip": [], "settings": {}, "filter": "*filter\nCOMMIT\n"}

LATE_PARENT = f"""
import os, sys, time
sys.path.insert(0, {str(Path(box.__file__).parent)!r})
import box

forked = os.fork

def fork():
    pid = forked()
    if pid:
        time.sleep(0.5)  # the machine has other things to do than this one
    return pid

os.fork = fork
sys.exit(box.main())
"""


def test_its_number_comes_first_however_late_the_one_who_tells_it_runs(root):
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", LATE_PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    said = []
    try:
        process.stdin.write(json.dumps({"kind": "switch"}) + "\n" + json.dumps(NO_NETWORK) + "\n")
        process.stdin.flush()
        said += [json.loads(process.stdout.readline()) for _ in range(2)]
    finally:
        process.stdin.close()
        process.wait(10)
        for one in said:
            if "pid" in one:
                os.kill(one["pid"], signal.SIGKILL)
    assert [list(one) for one in said] == [["pid"], ["made"]]
