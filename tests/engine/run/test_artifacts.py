"""What nodes wrote is copied within limits, after the verdict, and never the disk's last space."""

import pytest

from dethrone.harness.core import store
from dethrone.harness.core.errors import ClusterError, ConfigError
from dethrone.harness.core.interfaces import NodeSpec
from dethrone.harness.engine.run import artifacts, runner
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions


class FloodedHost:
    """A host whose files have these sizes."""

    name = "n1"

    def __init__(self, files):
        self.files = files
        self.asked = []

    def run(self, argv, *, timeout_ns):
        return 0, "".join(f"{path}\n" for path in self.files).encode(), b""

    def read_file(self, path, *, most=None):
        if path not in self.files:
            raise ClusterError("there is no such file")
        self.asked.append((path, most))
        return b"x" * min(self.files[path], most)


class Untraced:
    def trace_path(self, node):
        return None


NODE = NodeSpec(
    name="n1", address="", members={}, knobs={}, profile="", variant=None, seed=0, data_dir="/d", log_dir="/log"
)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(artifacts, "FILE_BYTES_MAX", 4 << 20)
    monkeypatch.setattr(artifacts, "NODE_BYTES_MAX", 6 << 20)
    monkeypatch.setattr(artifacts, "FREE_MIN", 1)


def collect(host, run_dir):
    return artifacts.collect(Untraced(), {"n1": host}, {"n1": NODE}, run_dir)


def test_a_flood_of_logs_is_copied_up_to_the_limits_and_the_rest_is_named(small, tmp_path):
    host = FloodedHost({"/log/node.log": 1 << 40, "/log/a": 1 << 30, "/log/b": 5})
    found = collect(host, tmp_path)
    assert found.trouble == []
    place = tmp_path / store.NODES / "n1"
    assert (place / "node.log").stat().st_size == 4 << 20
    assert (place / "a").stat().st_size == 2 << 20
    assert not (place / "b").exists()
    assert [line.split(": ")[1] for line in found.cut] == ["/log/node.log", "/log/a", "/log/b"]
    assert (place / artifacts.CUT).read_text().count("\n") == 3


def test_a_copied_log_shows_where_each_incarnation_of_the_node_begins(tmp_path):
    files = {
        "/log/node.log": b"one\nhalf a li" + b"two\n" + b"three\n",
        "/log/node.log.starts": b"1 0\n2 13\nx y\n3 17\n",
    }
    host = FloodedHost({name: len(content) for name, content in files.items()})
    host.read_file = lambda path, most: files[path]
    assert collect(host, tmp_path).trouble == []
    assert (tmp_path / store.NODES / "n1" / "node.log").read_text().splitlines() == [
        "=== incarnation 1 starts ===",
        "one",
        "half a li",
        "=== incarnation 2 starts ===",
        "two",
        "=== incarnation 3 starts ===",
        "three",
    ]


def test_a_hundred_thousand_files_are_a_bounded_number(small, tmp_path):
    found = collect(FloodedHost({f"/log/{number:06}": 1 for number in range(5_000)}), tmp_path)
    assert len(list((tmp_path / store.NODES / "n1").iterdir())) <= artifacts.FILES_MAX + 1
    assert "4901 of 5001 files were not copied" in found.cut[-1]


def test_files_within_the_limits_are_whole_and_nothing_is_said(small, tmp_path):
    found = collect(FloodedHost({"/log/node.log": 1000, "/log/journal.jsonl": 10}), tmp_path)
    assert found == artifacts.Collected([], [])
    assert (tmp_path / store.NODES / "n1" / "node.log").stat().st_size == 1000


def test_the_last_free_space_is_left_alone(small, monkeypatch, tmp_path):
    monkeypatch.setattr(artifacts, "FREE_MIN", 1 << 60)
    found = collect(FloodedHost({"/log/node.log": 1000}), tmp_path)
    assert "too little free space" in found.cut[0]
    assert not (tmp_path / store.NODES / "n1" / "node.log").exists()


class Closes:
    def close(self):
        pass


def course(monkeypatch, tmp_path, *, direct):
    """A run whose parts only say that they were called."""
    called = []

    class Parts(runner._Run):
        def __init__(self):
            self.run_dir, self.trouble, self.figures, self.listener = tmp_path, [], {}, Silence()

        def _direct(self, *_):
            called.append("direct")
            direct()

        def directed(self, _):
            called.append("directed")

        def judge(self):
            called.append("judge")

        def seal(self):
            called.append("seal")

        def _collect(self, *_):
            called.append("collect")

    return Parts(), called


def test_a_run_is_judged_before_its_logs_are_copied(monkeypatch, tmp_path):
    run, called = course(monkeypatch, tmp_path, direct=lambda: None)
    run._finish_course(None, Closes(), None, {}, {}, keep=True)
    assert called == ["direct", "directed", "judge", "collect", "seal"]


def test_the_logs_of_a_run_that_breaks_off_are_copied_too(monkeypatch, tmp_path):
    def broken():
        raise ClusterError("gone")

    run, called = course(monkeypatch, tmp_path, direct=broken)
    with pytest.raises(ClusterError):
        run._finish_course(None, Closes(), None, {}, {}, keep=True)
    assert called == ["direct", "directed", "collect"]


def test_a_run_does_not_begin_on_a_disk_that_is_nearly_full(monkeypatch, tmp_path):
    monkeypatch.setattr(artifacts, "FREE_MIN", 1 << 60)
    monkeypatch.setattr(runner, "FREE_MIN", 1 << 60)
    out = tmp_path / "new" / "run"
    with pytest.raises(ConfigError, match="are kept free"):
        runner.run(RunOptions(system="raft", backend="sim", seed=1, out=out), Silence())
    assert not out.exists()
