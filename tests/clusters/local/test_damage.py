"""Damaged and wiped files on real hosts: read back from inside, lasting, and gone with the host."""

from __future__ import annotations

import pytest

from dethrone.harness.core.hoststate import HEALTHY, DiskTrouble, HostState

pytestmark = pytest.mark.namespaces

VOTE = "/var/lib/dethrone/data/vote"


@pytest.mark.parametrize(
    ("trouble", "left"),
    [
        (DiskTrouble(kind="emptied", path="v*"), "0\n"),
        (DiskTrouble(kind="removed", age="newest"), "none\n"),
        (DiskTrouble(kind="wiped"), "none\n"),
    ],
)
def test_a_host_damages_the_files_of_a_node_that_is_down_and_it_starts_on_what_is_left(three, trouble, left):
    def size():
        return three.shell("n2", f"[ -e {VOTE} ] && wc -c < {VOTE} || echo none")[1]

    assert three.backend.traits.capabilities >= {"files"}
    three.shell("n2", f"printf 'term 7' > {VOTE}")
    begun = three.backend.converge_all(three.hosts, {"n2": HostState(down="SIGKILL", disk=trouble)})["n2"]
    assert begun.confirmed, begun.why
    assert begun.detail["disk"]["damaged"] in {"vote", "wiped"}
    assert size() == left
    healed = three.backend.converge_all(three.hosts, {"n2": HEALTHY})["n2"]
    assert healed.confirmed, healed.why
    assert healed.detail["start"]["ok"]
    assert size() == left
