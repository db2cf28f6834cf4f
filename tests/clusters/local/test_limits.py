"""What nodes of real hosts may use: limited and unlimited live, seen from inside, and with nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dethrone.clusters.agent.host.groups import LENT_GROUPS, NODE_GROUP
from dethrone.clusters.local.room import AGENT_DIR
from dethrone.harness.core.hoststate import HEALTHY, HostState
from dethrone.harness.core.interfaces import OF_GROUPS
from tests.clusters.local.conftest import ask
from tests.waiting import until

pytestmark = pytest.mark.namespaces

STARVED = HostState(cpu_percent=5)
CPU, MEMORY = (f"{LENT_GROUPS}/{controller}/{NODE_GROUP}" for controller in ("cpu", "memory"))


@pytest.fixture
def limited(deployed):
    if not deployed.backend.traits.capabilities >= OF_GROUPS:
        pytest.skip("needs control groups that can be written")
    deployed.deploy("n1", "n2", needs=OF_GROUPS)
    deployed.prepare(limits=tuple(sorted(OF_GROUPS)))
    return deployed


def converged(limited, want):
    return limited.backend.converge_all(limited.hosts, {"n2": want})["n2"]


def confirmed(limited, want):
    found = converged(limited, want)
    assert found.confirmed, found.why
    return found.detail


def inside(limited):
    return set(limited.shell("n2", f"cat {CPU}/cgroup.procs")[1].split())


def groups(limited):
    """The groups of its hosts as the machine sees them."""
    return [Path(path) for path in json.loads((limited.state / "hosts" / "groups").read_text())]


def ends(limited):
    """Process → how it ended."""
    return {news.data["pid"]: news.data for news in limited.news if news.kind == "exited"}


def quota(limited):
    return limited.shell("n2", f"cat {CPU}/cpu.cfs_quota_us {CPU}/cpu.max 2>/dev/null")[1].split()[0]


def test_a_node_alone_is_starved_of_cpu_and_fed_again(limited):
    node = [news.data["pid"] for news in limited.news if news.kind == "started" and news.host == "n2"]
    assert inside(limited) == {str(pid) for pid in node}
    begun = confirmed(limited, STARVED)["cpu"]
    assert begun["quota_us"] == 5000
    assert 0 < begun["spin_used_ns"] <= begun["spin_wall_ns"] // 5
    assert begun["throttled_periods"] > 0
    assert "cpu" not in confirmed(limited, HostState(cpu_percent=5, frozen=True)), "it is in force already"
    confirmed(limited, HostState(cpu_percent=5, down="SIGKILL"))
    again = confirmed(limited, STARVED)
    assert again["start"]["ok"]
    assert again["cpu"]["throttled_periods"] > 0
    assert inside(limited) == {str(again["start"]["pid"])}, "it starts where it is starved"
    assert confirmed(limited, HEALTHY)["cpu"]["quota_us"] == -1
    assert quota(limited) in {"-1", "max"}


def test_a_share_that_another_user_changes_is_put_back_and_the_fault_is_in_doubt(limited):
    confirmed(limited, STARVED)
    limited.shell("n2", f"echo -1 > {CPU}/cpu.cfs_quota_us || echo max > {CPU}/cpu.max")
    until(lambda: quota(limited) == "5000", limit_s=20)
    ended = confirmed(limited, HEALTHY)
    assert not ended["before"]["held"]
    assert "the node's CPU quota was" in ended["before"]["why"]
    lost = [news for news in limited.news if news.kind == "noise" and news.data.get("kind") == "rules-lost"]
    assert lost


def test_a_run_that_is_removed_while_a_node_starves_leaves_no_group_and_spares_those_of_others(limited):
    confirmed(limited, STARVED)
    ours = groups(limited)
    assert len(ours) == 4
    foreign = ours[0].parent / f"{ours[0].name}x-of-another"
    foreign.mkdir()
    try:
        for _ in range(2):
            limited.end()
            assert limited.left() == []
        assert [path for path in ours if path.exists()] == []
        assert foreign.exists()
    finally:
        foreign.rmdir()


def test_a_node_outside_of_its_group_is_not_starved_and_the_evidence_says_so(limited):
    (pid,) = inside(limited)
    of_n2 = next(path for path in groups(limited) if path.name.endswith("n2") and (path / "cpu.stat").exists())
    above = of_n2.parent
    here = (of_n2 / NODE_GROUP / "cgroup.procs").read_text().split()
    (above / "cgroup.procs").write_text(here[0])  # as another user's tool may do
    found = converged(limited, STARVED)
    assert not found.confirmed
    assert f"not in its control group: [{pid}]" in found.why
    assert converged(limited, HEALTHY).confirmed


def trouble():
    from dethrone.nemesis.faults.descriptors import TROUBLE

    return TROUBLE


def limit(limited):
    """How many descriptors n2's process may have."""
    (pid,) = inside(limited)
    return int(limited.shell("n2", f"grep '^Max open files' /proc/{pid}/limits")[1].split()[3])


def ask_in_vain(limited):
    """Whether a new connection is not served; the first is, as its descriptor is there since `accept` was called."""
    try:
        return ask(limited.hosts["n2"].address, 0.5) != "n2"
    except OSError:
        return True


def test_a_node_without_free_descriptors_serves_no_new_connection_until_it_has_some_again(limited):
    usual = limit(limited)
    exhausted = HostState(troubles=(trouble(),))
    confirmed(limited, exhausted)
    assert limit(limited) < 32
    confirmed(limited, HostState(troubles=(trouble(),), down="SIGKILL"))
    assert confirmed(limited, exhausted)["start"]["ok"]
    assert limit(limited) < 32, "the next process suffers it, too"
    assert "before" not in confirmed(limited, HEALTHY), "it was in force to the end"
    assert limit(limited) == usual
    assert limited.shell("n2", f"ls {AGENT_DIR}/descriptors-* 2>&1")[0] != 0
    confirmed(limited, exhausted)
    until(lambda: ask_in_vain(limited))
    assert "Too many open files" in limited.shell("n2", "cat /var/log/dethrone/node.log")[1]
    assert "before" not in confirmed(limited, HEALTHY), "it ended of the fault, which was in force to its end"
    until(lambda: ask(limited.hosts["n2"].address) == "n2")


def test_a_node_is_killed_by_the_kernel_for_lack_of_memory_and_starts_again(limited):
    for want in (HostState(down="OOM"), HostState(down="OOM", frozen=True)):
        killed = confirmed(limited, want)["OOM"]
        assert killed["oom_kills"] >= 1
        assert killed["code"] == -9
        assert killed["limit_bytes"] <= killed["used_bytes"]
        until(lambda pid=killed["pid"]: pid in ends(limited))
        assert ends(limited)[killed["pid"]]["asked"], "it is a kill of ours"
        assert "OOM" not in confirmed(limited, HostState(down="OOM", cpu_percent=50)), "it is down already"
        assert confirmed(limited, HEALTHY)["start"]["ok"], "its memory is not limited any more"
    limit = limited.shell("n2", f"cat {MEMORY}/memory.limit_in_bytes {MEMORY}/memory.max 2>/dev/null")[1].split()[0]
    assert limit == "max" or int(limit) > 1 << 50
    assert limited.shell("n2", "true")[0] == 0, "the agent lives"
