"""Helper processes that end: the agent waits for the end of one, and sees that of another before it is reaped."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dethrone.clusters.agent.host.disks import NodeDisk
from dethrone.clusters.agent.host.processes import Child, process_stat, same_process
from dethrone.clusters.agent.host.qualities import end_shaper
from tests.waiting import until

pytestmark = pytest.mark.processes


@pytest.fixture
def helper():
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        one.stdout.readline()
        yield one
        one.kill()


def test_a_helper_that_shapes_links_is_gone_once_it_was_ended(helper):
    start = process_stat(helper.pid).start
    end_shaper(helper.pid, start)
    assert not same_process(helper.pid, start)


def test_the_process_that_has_a_helpers_number_since_is_spared(helper):
    end_shaper(helper.pid, process_stat(helper.pid).start - 1)
    helper.stdin.close()
    assert helper.wait(5) == 0


def test_a_disk_has_lapsed_as_soon_as_its_helper_ended_even_if_nobody_has_reaped_it(helper, tmp_path):
    disk = NodeDisk(None, "r1", [], lambda: None)  # nobody reaps here
    disk._directory, disk._helper = str(tmp_path), Child(helper.pid, None)
    assert "no longer served" in disk.lapsed()
    helper.stdin.close()
    until(lambda: process_stat(helper.pid).state == "Z", 5)
    assert disk._helper.code is None
    assert disk.lapsed() == "the helper that serves the disk has ended"
