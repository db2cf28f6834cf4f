"""A flow that a packet filter cut is dialled anew soon after the heal: not TCP's back-off, ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("cut_and_heal.py")


def can_cut():
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in ("unshare", "ip", "iptables")):
        return False
    probe = ["unshare", "-n", "iptables", "-A", "INPUT", "-s", "127.0.0.9", "-j", "DROP"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.namespaces
@pytest.mark.skipif(not can_cut(), reason="needs root, unshare, ip and iptables")
@pytest.mark.parametrize("target", ["toy_target:TARGET", "toy_http.target:TARGET"])
def test_peers_hear_each_other_soon_after_a_heal(tmp_path, target):
    command = ["unshare", "-n", sys.executable, str(SCRIPT), str(tmp_path), target, "1.5"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    result = json.loads(done.stdout)
    # TCP alone would retransmit first 1.4 s after the heal; two ticks of the toy alone take 100 ms.
    assert result["heal_ms"] < 1000
    if "http" not in target:
        assert result["counters"]["shell_link_timeout"] >= 1
