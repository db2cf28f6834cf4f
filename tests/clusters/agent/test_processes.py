"""Processes that an agent starts are reaped once, whichever thread comes first, and so are the next ones."""

from __future__ import annotations

import pytest

from .conftest import in_an_agent

pytestmark = pytest.mark.processes


def test_a_program_that_cannot_be_executed_may_be_reaped_before_the_reaper_gets_to_it():
    """``subprocess`` reaps it inside of ``spawn``, while the reaper, who saw it end, waits for the lock."""
    found = in_an_agent(
        "null = os.open(os.devnull, os.O_RDWR)\n"
        "runs = processes.spawn(['sleep', '60'], files=(null, null, null))  # the reaper waits for its end\n"
        "for _ in range(20):\n"
        "    with processes._lock:\n"
        "        child = os.fork()\n"
        "        if not child: os._exit(127)\n"
        "        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)\n"
        "        time.sleep(0.01)  # the reaper sees it as well\n"
        "        os.waitpid(child, 0)\n"
        "codes = [processes.tool([name], limit_s=20)[0] for name in ('/nowhere/tool', 'true', 'false')]\n"
        "processes.signal(runs, signal.SIGKILL, group=True)\n"
        "print(json.dumps([*codes, runs.done.wait(20)]))\n"
    )
    assert found == [127, 0, 1, True]
