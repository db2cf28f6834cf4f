"""The data directory of a node in a container: it loses power, and whoever serves it waits for no processor."""

from __future__ import annotations

import pytest

from dethrone.clusters.agent.host.disk_helper import FIRST_IN_LINE
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import OF_MOUNTS
from tests.clusters.docker.conftest import one_host
from tests.waiting import until

SECOND = 1_000_000_000
DATA = "/var/lib/dethrone/data"
NODE = f"""
import os, time
file = os.open("{DATA}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, b"synced")
os.fsync(file)
os.write(file, b" and not")
open("{DATA}/ready", "w").close()
while True: time.sleep(60)
"""
NICENESS = """
import os, pathlib
for process in pathlib.Path("/proc").glob("[0-9]*"):
    said = (process / "cmdline").read_bytes().split(b"\\0")
    if b"disk" in said or b"-c" in said and int(process.name) != os.getpid():
        status = dict(line.split(":\\t") for line in (process / "status").read_text().splitlines())
        tasks = {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in (process / "task").iterdir()}
        print("helper" if b"disk" in said else "node", *tasks, status["CapBnd"])
"""


@pytest.mark.docker
def test_a_node_in_a_container_loses_what_it_did_not_sync_and_its_disk_waits_for_no_processor(run_id):
    with one_host(run_id, NODE, OF_MOUNTS, fails=True) as host:

        def run(*argv):
            return host.run(argv, timeout_ns=5 * SECOND)[1].decode()

        until(lambda: "ready" in run("ls", DATA))
        found = dict(line.split(" ", 1) for line in run("python3", "-c", NICENESS).splitlines())
        assert found["helper"].split()[:-1] == [str(FIRST_IN_LINE)]
        assert found["node"].split() == ["0", "0000000000000000"]
        lost = host.converge(HostState(down="POWER"))
        assert lost.confirmed, lost.why
        assert lost.detail["POWER"]["lost_bytes"] == len(" and not")
        assert run("cat", f"{DATA}/log") == "synced"
        healed = host.converge(HEALTHY)
        assert healed.confirmed, healed.why
