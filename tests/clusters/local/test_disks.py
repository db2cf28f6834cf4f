"""Disks of real hosts that lose power, fail and hang: from inside, and with nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.hoststate import HEALTHY, DiskTrouble, HostState
from dethrone.harness.core.interfaces import OF_MOUNTS

pytestmark = pytest.mark.namespaces

DATA = "/var/lib/dethrone/data"
SYNCED = f"printf kept > {DATA}/f && sync {DATA}/f && printf 'kept and lost' > {DATA}/f && printf lost > {DATA}/g"
PROBLEMS = (
    DiskTrouble(kind="full"),
    DiskTrouble(kind="readonly"),
    DiskTrouble(kind="eio"),
    DiskTrouble(kind="eio", of="reads"),
    DiskTrouble(kind="slow", latency_ns=60 * SECOND),
)
CODES = {"full": "ENOSPC", "readonly": "EROFS", "eio": "EIO"}


@pytest.fixture
def failing(deployed):
    if not deployed.backend.traits.capabilities >= OF_MOUNTS:
        pytest.skip("needs /dev/fuse")
    deployed.deploy("n1", "n2", needs=OF_MOUNTS)
    deployed.prepare(fails=True)
    return deployed


def converged(failing, want):
    found = failing.backend.converge_all(failing.hosts, {"n2": want})["n2"]
    assert found.confirmed, found.why
    return found


def test_a_host_loses_what_was_not_synced_and_its_disk_fails_and_is_well_again(failing):
    assert failing.shell("n2", SYNCED) == (0, "")
    lost = converged(failing, HostState(down="POWER")).detail["POWER"]
    assert (lost["lost_names"], lost["lost_files"]) == (3, 2)  # g appeared, f was cut and written anew
    assert failing.shell("n2", f"ls {DATA}; cat {DATA}/f") == (0, "f\nkept")
    converged(failing, HEALTHY)
    for trouble in PROBLEMS:
        begun = converged(failing, HostState(disk=trouble))
        assert begun.detail["disk"]["probe"] == {"full": "ENOSPC", "readonly": "EROFS", "eio": "EIO"}.get(
            trouble.kind, "written"
        )
        converged(failing, HostState(down="POWER", disk=trouble))
        assert converged(failing, HEALTHY).detail["start"]["ok"]
    assert failing.shell("n2", f"printf new > {DATA}/g && sync {DATA}/g && cat {DATA}/f {DATA}/g") == (0, "keptnew")


def test_a_run_that_is_removed_in_the_middle_of_it_leaves_no_mount(failing):
    converged(failing, HostState(disk=PROBLEMS[-1]))
    for _ in range(2):
        failing.end()
        assert failing.left() == []
    assert failing.run_id not in Path("/proc/self/mountinfo").read_text()
