"""Damage to the files of a node that is down: read back, done once, undone if it was interrupted."""

from __future__ import annotations

import json
import os
import stat
from os.path import lexists as exists

import msgspec
import pytest

from dethrone.clusters.agent.host import damage
from dethrone.clusters.agent.host.damage import UNDO, DataFiles, put_back
from dethrone.clusters.agent.host.healing import heal_alone
from dethrone.harness.core.hoststate import DAMAGES, HEALTHY, DiskTrouble, HostState
from tests.waiting import until

VOTE, LOG = b"term 7 vote n2", bytes(range(256)) * 40


class Disk:
    """A data directory, and what is remembered of its damage."""

    def __init__(self, tmp_path):
        self.dir, self.noted = tmp_path / "data", []
        (self.dir / "wal").mkdir(parents=True)
        (self.dir / "vote").write_bytes(VOTE)
        (self.dir / "wal" / "1").write_bytes(LOG)
        (self.dir / "wal" / "2").write_bytes(LOG[:999])
        (self.dir / "empty").touch()
        (self.dir / "link").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").write_bytes(b"not ours")
        for age, name in enumerate(("wal/1", "vote", "wal/2")):
            os.utime(self.dir / name, ns=(age, age))
        self.files = DataFiles(str(tmp_path / "older"), lambda: self.noted.append(self.files.undo))

    def damage(self, kind, path="", age="", turn=1):
        return self.files.damage(str(self.dir), {"kind": kind, "path": path, "age": age}, turn=turn)

    def image(self):
        return {name: (self.dir / name).read_bytes() for name, _ in damage.data_files(str(self.dir))}


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("flipped", lambda new: sum((a ^ b).bit_count() for a, b in zip(new, LOG, strict=True)) == 1),
        ("truncated", lambda new: LOG.startswith(new) and len(new) < len(LOG)),
        ("emptied", lambda new: new == b""),
        ("removed", lambda new: new is None),
        ("stale", lambda new: new == b"old"),
    ],
)
def test_one_file_is_damaged_in_one_way_and_read_back(disk, kind, right):
    (disk.dir / "wal" / "1").write_bytes(b"old")
    disk.files.starting(str(disk.dir), copies=True)
    (disk.dir / "wal" / "1").write_bytes(LOG)
    (disk.dir / "wal" / "1").chmod(0o640)
    before = disk.image()
    why, found = disk.damage(kind, "wal/1")
    assert not why
    assert found["damaged"] == "wal/1"
    after = disk.image()
    assert right(after.pop("wal/1", None))
    assert after == {name: data for name, data in before.items() if name != "wal/1"}
    if kind != "removed":
        assert stat.S_IMODE((disk.dir / "wal" / "1").stat().st_mode) == 0o640
        assert found["bytes_after"] == (disk.dir / "wal" / "1").stat().st_size
    assert disk.noted == [{"path": str(disk.dir / "wal" / "1"), "kept": str(disk.dir / "wal" / "1") + UNDO}, None]
    assert not list(disk.dir.rglob(f"*{UNDO}*"))


def test_an_unreadable_file_has_no_permission_left(disk):
    assert disk.damage("unreadable", "vote")[0] == ""
    assert stat.S_IMODE((disk.dir / "vote").stat().st_mode) == 0


def test_all_files_are_wiped_links_too_and_nothing_behind_them(disk, tmp_path):
    why, found = disk.damage("wiped")
    assert not why
    assert (found["files_before"], found["bytes_before"]) == (4, len(VOTE) + len(LOG) + 999)
    assert list(disk.dir.iterdir()) == []
    assert (tmp_path / "elsewhere").read_bytes() == b"not ours"


@pytest.mark.parametrize(
    ("path", "age", "chosen"),
    [("", "newest", "wal/2"), ("", "oldest", "wal/1"), ("w*", "newest", "wal/2"), ("v?te", "", "vote")],
)
def test_a_file_is_chosen_by_its_name_and_age(disk, path, age, chosen):
    assert disk.damage("emptied", path, age)[1]["damaged"] == chosen


def test_a_file_that_no_one_names_is_drawn_from_all_but_empty_ones_and_links(tmp_path):
    found = {Disk(tmp_path / str(turn)).damage("flipped", turn=turn)[1]["damaged"] for turn in range(40)}
    assert found == {"vote", "wal/1", "wal/2"}


@pytest.mark.parametrize(
    ("kind", "path"), [("flipped", "no*"), ("flipped", "empty"), ("stale", ""), ("flipped", "link")]
)
def test_damage_that_finds_no_file_says_so_and_changes_nothing(disk, kind, path):
    before = disk.image()
    assert "to damage" in disk.damage(kind, path)[0]
    assert (disk.image(), disk.noted) == (before, [])


def test_damage_is_done_once_while_the_process_is_down_and_a_change_of_it_is_seen(disk):
    disk.damage("flipped", "vote")
    once = disk.image()
    assert disk.damage("flipped", "vote") == ("", {**disk.files._done["found"], "again": True})
    assert disk.image() == once
    assert disk.files.changed(str(disk.dir)) == ""
    (disk.dir / "vote").write_bytes(VOTE)
    assert "changed" in disk.files.changed(str(disk.dir))
    disk.files.starting(str(disk.dir), copies=False)
    assert disk.files.changed(str(disk.dir)) == ""
    assert disk.damage("flipped", "vote")[0] == ""
    assert disk.image()["vote"] != VOTE


class Killed(BaseException):
    """The agent dies here."""


CALLS = ("os.rename", "os.open", "os.fsync", "os.unlink", "os.chmod", "os.mkdir", "shutil.rmtree")


@pytest.mark.parametrize("kind", ["wiped", *DAMAGES])
@pytest.mark.parametrize("death", [f"{call} {number}" for call in CALLS for number in range(3)])
def test_damage_whose_agent_was_killed_never_happened_or_is_whole(disk, monkeypatch, tmp_path, kind, death):
    disk.files.starting(str(disk.dir), copies=True)
    (disk.dir / "vote").write_bytes(VOTE + b"!")
    before = disk.image()
    call, number = death.split()
    module, name = call.split(".")
    owner, calls = getattr(damage, module), []
    real = getattr(owner, name)

    def dies(*words, **more):
        calls.append(words)
        if len(calls) > int(number):
            raise Killed
        return real(*words, **more)

    killed = False
    try:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dies)
            disk.damage(kind, "vote")
    except Killed:
        killed = True
    noted = disk.noted[-1] if disk.noted else None
    whole = bool(disk.noted) and (noted is None or "gone" in noted or ("kept" in noted and not exists(noted["kept"])))
    state = tmp_path / "agent.state"
    state.write_text(json.dumps({"damage": noted} if disk.noted else {}))
    for _ in range(2):
        answer = heal_alone(NoTools(), "r1", str(state))
        assert answer["confirmed"], answer["why"]
    assert not list(disk.dir.rglob(f"*{UNDO}*"))
    assert killed or whole
    if not whole:
        assert disk.image() == before


class NoTools:
    """A host without any tool."""

    def tool(self, argv, **_):
        return 127, b"", b""


def test_what_cannot_be_done_is_undone_and_told(disk, monkeypatch):
    before = disk.image()

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(damage.os, "fsync", full)
    assert disk.damage("truncated", "wal/1") == ("truncated: No space left on device", {})
    assert disk.image() == before
    assert disk.noted[-1] is None


def test_putting_back_twice_is_putting_back_once(disk):
    kept = disk.dir / f"vote{UNDO}"
    (disk.dir / "vote").rename(kept)
    for _ in range(2):
        put_back({"path": str(disk.dir / "vote"), "kept": str(kept)})
        assert disk.image()["vote"] == VOTE


# --- through an agent -------------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["wiped", *DAMAGES])
def test_an_agent_damages_while_the_node_is_down_and_the_node_starts_on_what_is_left(box, kind):
    box.meet()
    vote = box.directory / "data" / "vote"
    vote.parent.mkdir(parents=True)
    vote.write_bytes(b"older")
    box.host.prepare(msgspec.structs.replace(box.start(), keeps_copies=True), {}, dead_man_ns=0)
    box.start_node()
    vote.write_bytes(VOTE)
    want = HostState(down="SIGKILL", disk=DiskTrouble(kind=kind, path="v*" if kind in DAMAGES else ""))
    begun = box.host.converge(want)
    assert begun.confirmed, begun.why
    assert begun.detail["disk"]["how"] == kind
    left = vote.read_bytes() if vote.exists() else None
    assert left != VOTE or kind == "unreadable"
    assert begun.detail["disk"]["damaged"] == ("vote" if kind in DAMAGES else "wiped")
    again = box.host.converge(msgspec.structs.replace(want, cpu_percent=None))
    assert again.confirmed, again.why
    assert (vote.read_bytes() if vote.exists() else None) == left
    healed = box.host.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert "before" not in healed.detail
    assert until(lambda: len(box.kinds("started")) == 2)


@pytest.mark.processes
def test_files_of_a_running_process_and_other_troubles_are_left_alone(box, running):
    assert "only while it is down" in running.converge(HostState(disk=DiskTrouble(kind="flipped"))).why
    assert "not available" in running.converge(HostState(disk=DiskTrouble(kind="eio"))).why
    assert running.converge(HEALTHY).confirmed


@pytest.mark.processes
def test_a_damaged_file_that_something_else_mended_is_reported_at_the_end(box, running):
    vote = box.directory / "data" / "vote"
    vote.write_bytes(VOTE)
    assert running.converge(HostState(down="SIGKILL", disk=DiskTrouble(kind="emptied"))).confirmed
    vote.write_bytes(VOTE)
    healed = running.converge(HEALTHY)
    assert healed.confirmed
    assert "changed that while the process was down" in healed.detail["before"]["why"]
