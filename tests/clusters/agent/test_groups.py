"""Control groups of both versions, in made-up trees: where the node is, how it is limited, what is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dethrone.clusters.agent.host.common import Refused
from dethrone.clusters.agent.host.cpu_limit import CpuLimit, parse_quota
from dethrone.clusters.agent.host.groups import (
    AGENT_GROUP,
    NODE_GROUP,
    Group,
    NodeGroups,
    group_places,
    kernel_limits,
    lift_groups,
    own_group,
)
from dethrone.clusters.agent.host.memory_limit import MemoryLimit
from dethrone.clusters.local.groups import base_of

V1 = "4:memory:/docker/1\n1:cpu,cpuacct:/docker/1\n0::/docker/1\n"
V2 = "0::/docker/1\n"


def made(path, **files):
    """A group of a made-up tree; `__` in a name stands for a dot."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


class Unified:
    """A tree of version 2, as far as it matters: files of a new group, and a parent that must be empty."""

    def __init__(self, root, *, controllers="cpu memory", handed_on=""):
        self.base = made(
            root / "docker" / "1",
            cgroup__procs=f"{os.getpid()}\n",
            cgroup__controllers=controllers,
            cgroup__subtree_control=handed_on,
        )
        for name in (NODE_GROUP, AGENT_GROUP):  # as the kernel fills them
            files = {"cgroup__procs": "", "cpu__max": "max 100000\n", "cpu__stat": "nr_throttled 0\n"}
            made(self.base / name, cgroup__controllers="cpu memory", **files)
        self.busy_turns = 0
        self.written = []

    def write(self, group, name, value):
        self.written.append((Path(group.path).name, name, value))
        if name == "cgroup.subtree_control" and self.busy_turns:
            self.busy_turns -= 1
            raise OSError(16, "Device or resource busy")
        if name == "cgroup.procs":
            (self.base / "cgroup.procs").write_text("")
        Path(group.path, name).write_text(value)


@pytest.fixture
def unified(tmp_path, monkeypatch):
    tree = Unified(tmp_path)
    monkeypatch.setattr(Group, "write", lambda *words: tree.write(*words))  # noqa: PLW0108 - a function, to be a method
    return tree


def node_groups(tmp_path, text, remembered=None):
    proc = tmp_path / "cgroup"
    proc.write_text(text)

    def remember():
        if remembered is not None:
            remembered.append(dict(out.undo))

    out = NodeGroups(remember, root=str(tmp_path), lent=str(tmp_path / "lent"), proc=str(proc))
    return out


def test_a_controller_of_version_1_is_looked_for_in_its_own_hierarchy_and_seen_as_the_root_in_a_container():
    assert [group.path for group in group_places(V1, "cpu", "/c")] == [
        *("/c/cpu,cpuacct/docker/1", "/c/cpu/docker/1", "/c/cpu,cpuacct", "/c/cpu"),
        *("/c/docker/1", "/c/unified/docker/1", "/c", "/c/unified"),
    ]
    assert {group.unified for group in group_places(V2, "cpu", "/c")} == {True}


def test_the_own_group_is_the_one_that_lists_this_process(tmp_path):
    proc = tmp_path / "cgroup"
    proc.write_text(V1)
    made(tmp_path / "cpu,cpuacct" / "docker" / "1", cgroup__procs="1\n")
    own = made(tmp_path / "cpu", cgroup__procs="1\n77\n")
    assert own_group("cpu", root=str(tmp_path), proc=str(proc), pid=77) == Group(str(own), unified=False)
    with pytest.raises(Refused, match="no control group for memory"):
        own_group("memory", root=str(tmp_path), proc=str(proc), pid=77)


def test_a_group_without_the_controller_is_not_one_for_it(tmp_path):
    proc = tmp_path / "cgroup"
    proc.write_text(V2)
    made(tmp_path / "docker" / "1", cgroup__procs="77\n", cgroup__controllers="pids")
    with pytest.raises(Refused, match="no control group for cpu"):
        own_group("cpu", root=str(tmp_path), proc=str(proc), pid=77)


def test_version_2_moves_the_agent_aside_before_its_group_hands_a_controller_on(tmp_path, unified):
    unified.busy_turns = 2
    remembered = []
    groups = node_groups(tmp_path, V2, remembered)
    groups.make(["cpu"])
    base = unified.base
    assert groups.made == {"cpu": Group(f"{base}/{NODE_GROUP}", unified=True)}
    assert remembered[0] == {"cpu": [f"{base}/{NODE_GROUP}", True]}, "what undoes it is known before it is made"
    assert (AGENT_GROUP, "cgroup.procs", str(os.getpid())) in unified.written
    handed_on = [value for _, name, value in unified.written if name == "cgroup.subtree_control"]
    assert handed_on == ["+cpu"] * 3, "a process was there twice"
    with groups.entered() as enter:
        assert enter is not None
        enter()
    assert (base / NODE_GROUP / "cgroup.procs").read_text() == "0"


def test_version_2_refuses_a_controller_that_is_not_handed_down(tmp_path, unified):
    (unified.base / "cgroup.controllers").write_text("memory")
    with pytest.raises(Refused, match="no control group for cpu"):
        node_groups(tmp_path, V2).make(["cpu"])


@pytest.mark.parametrize(("percent", "written"), [(5, "5000 100000"), (None, "max 100000")])
def test_version_2_is_limited_in_one_file_and_by_what_the_kernel_counts(tmp_path, unified, percent, written):
    limit = cpu_limit(tmp_path, used_ns=15_000_000, throttled=2)
    limit.apply(5)
    found = limit.apply(percent)
    assert (unified.base / NODE_GROUP / "cpu.max").read_text() == written
    assert found["quota_us"] == (5000 if percent else -1)
    assert limit.stands(percent)


def cpu_limit(tmp_path, *, used_ns, throttled):
    """A limit whose spin uses so much, and is throttled so often."""
    groups = node_groups(tmp_path, V2)
    groups.make(["cpu"])

    class Spun(CpuLimit):
        def _spin(self, group):
            counted = group.number("cpu.stat", "nr_throttled") + self.throttled
            Path(group.path, "cpu.stat").write_text(f"usage_usec 1\nnr_throttled {counted}\n")
            return used_ns, 250_000_000

    limit = Spun(groups, None, lambda: ())
    limit.throttled = throttled
    return limit


@pytest.mark.parametrize(
    ("used_ns", "throttled", "why"),
    [(100_000_000, 2, "more than 5 %"), (14_000_000, 0, "throttled nothing")],
)
@pytest.mark.usefixtures("unified")
def test_a_quota_that_does_not_bind_is_not_in_force(tmp_path, used_ns, throttled, why):
    limit = cpu_limit(tmp_path, used_ns=used_ns, throttled=throttled)
    with pytest.raises(Refused, match=why):
        limit.apply(5)
    assert not limit.stands(5), "it is tried and proved again, not believed"
    limit.apply(None)
    assert limit.stands(None)


@pytest.mark.usefixtures("unified")
def test_a_process_that_a_busy_machine_held_back_tries_the_quota_again(tmp_path):
    limit = cpu_limit(tmp_path, used_ns=130_000_000, throttled=0)
    spin, counts = limit._spin, iter((0, 0, 1))

    def later(group):
        limit.throttled = next(counts)
        return spin(group)

    limit._spin = later
    assert limit.apply(50)["throttled_periods"] == 1
    assert limit.stands(50)


def test_an_agent_that_is_gone_is_undone_from_what_it_left_on_disk_and_nothing_else_is(tmp_path):
    one = made(tmp_path / NODE_GROUP, cpu__cfs_quota_us="5000", memory__limit_in_bytes="4096")
    two = made(tmp_path / "v2" / NODE_GROUP, cpu__max="5000 100000")
    gone = tmp_path / "gone" / NODE_GROUP
    assert lift_groups({"cpu": [str(one), False], "memory": [str(one), False], "x": [str(gone), True]}) == ""
    assert (one / "cpu.cfs_quota_us").read_text().startswith("-1")
    assert (one / "memory.limit_in_bytes").read_text().startswith("-1")
    assert lift_groups({"cpu": [str(two), True]}) == ""
    assert (two / "cpu.max").read_text().startswith("max")
    foreign = made(tmp_path / "another", cpu__max="1000 100000")
    with pytest.raises(ValueError, match="no group of ours"):
        lift_groups({"cpu": [str(foreign), True]})
    assert (foreign / "cpu.max").read_text() == "1000 100000"


def test_hosts_of_version_2_are_limited_below_the_nearest_group_that_hands_a_controller_on(tmp_path):
    proc = tmp_path / "proc"
    proc.write_text("0::/user/harness\n")
    made(tmp_path, cgroup__procs="1\n", cgroup__controllers="cpu", cgroup__subtree_control="cpu")
    above = made(tmp_path / "user", cgroup__procs="", cgroup__controllers="cpu", cgroup__subtree_control="")
    made(above / "harness", cgroup__procs="77\n", cgroup__controllers="cpu", cgroup__subtree_control="")
    assert base_of("cpu", root=str(tmp_path), proc=str(proc), pid=77).path == str(tmp_path)
    (above / "cgroup.subtree_control").write_text("cpu")
    assert base_of("cpu", root=str(tmp_path), proc=str(proc), pid=77).path == str(above)
    (above / "cgroup.subtree_control").write_text("")
    (tmp_path / "cgroup.subtree_control").write_text("")
    with pytest.raises(Refused, match="hands cpu on"):
        base_of("cpu", root=str(tmp_path), proc=str(proc), pid=77)


def test_what_a_kernel_can_limit_is_read_in_either_version(tmp_path):
    listed = tmp_path / "cgroups"
    listed.write_text("#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t5\t1\nmemory\t0\t1\t0\n")
    root = made(tmp_path / "root")
    assert kernel_limits("cpu", proc=str(listed), root=str(root))
    assert not kernel_limits("memory", proc=str(listed), root=str(root))
    made(root, cgroup__controllers="cpu memory")
    assert kernel_limits("memory", proc=str(listed), root=str(root))


@pytest.mark.parametrize(
    ("text", "unified", "quota"),
    [("max 100000\n", True, -1), ("5000 100000\n", True, 5000), ("-1\n", False, -1), ("2000\n", False, 2000)],
)
def test_quotas_are_read_in_either_version(text, unified, quota):
    assert parse_quota(text, unified=unified) == quota


class Kernel:
    """What a kernel does when memory is limited: version 1 refuses what is used, version 2 kills for it."""

    def __init__(self, path, *, unified, kills):
        self.path, self.unified, self.kills, self.written = path, unified, kills, []
        made(path, cgroup__procs="7\n", memory__usage_in_bytes="1000000\n", memory__current="1000000\n")
        made(path, memory__oom_control="oom_kill_disable 0\noom_kill 0\n", memory__events="max 0\noom_kill 0\n")

    def write(self, group, name, value):
        self.written.append((name, value))
        if not self.unified and name == "memory.limit_in_bytes" and 0 <= int(value) < 1_000_000:
            raise OSError(16, "Device or resource busy")

    def gone(self, limit_s):
        if self.kills:
            made(self.path, memory__oom_control="oom_kill 1\n", memory__events="oom_kill 1\n")
        return self.kills


@pytest.mark.parametrize(
    ("unified", "limits"),
    [
        (False, [("memory.limit_in_bytes", "500000"), ("memory.limit_in_bytes", "1000000")]),
        (True, [("memory.swap.max", "0"), ("memory.max", "500000")]),
    ],
)
@pytest.mark.parametrize("kills", [True, False])
def test_memory_is_limited_below_what_is_used_and_only_what_the_kernel_counted_is_a_kill(
    tmp_path, monkeypatch, unified, limits, kills
):
    kernel = Kernel(tmp_path / NODE_GROUP, unified=unified, kills=kills)
    monkeypatch.setattr(Group, "write", lambda *words: kernel.write(*words))  # noqa: PLW0108 - a function, to be a method
    groups = NodeGroups(lambda: None)
    groups.made["memory"] = Group(str(kernel.path), unified)
    memory = MemoryLimit(groups, None)
    monkeypatch.setattr(memory, "_press", lambda group, pid: None)
    if kills:
        assert memory.exhaust(7, kernel.gone)["oom_kills"] == 1
    else:
        with pytest.raises(Refused, match="killed nothing"):
            memory.exhaust(7, kernel.gone)
    assert kernel.written[: len(limits)] == limits
    assert kernel.written[-1][1] in {"-1", "max"}, "it is lifted in any case"


def test_a_process_outside_of_its_group_is_not_squeezed(tmp_path):
    kernel = Kernel(tmp_path / NODE_GROUP, unified=False, kills=True)
    groups = NodeGroups(lambda: None)
    groups.made["memory"] = Group(str(kernel.path), unified=False)
    with pytest.raises(Refused, match="not in its control group"):
        MemoryLimit(groups, None).exhaust(os.getpid(), kernel.gone)
    assert kernel.written == []
