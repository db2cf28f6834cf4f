"""Go programs of a described system: built once from what is pinned, and errors that name what to do."""

import hashlib
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from dethrone.clusters.docker.programs import find_go
from dethrone.clusters.own import go_programs, lock
from dethrone.clusters.own.go_programs import check_sources, compiled_files, programs, sources_of
from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.errors import ConfigError, MissingCapability
from tests.clusters.own.described import TEXT, specs

# Programs that need nothing but Go's runtime, so that an empty build cache costs seconds.
MAIN = 'package main\n\nimport "example.org/words"\n\nfunc main() { println(words.Greeting) }\n'
ALONE = 'package main\n\nfunc main() { println("alone") }\n'
WORDS = 'package words\n\nconst Greeting = "from a module"\n'
TOOL = "example.org/tool@v1.0.0"
pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def build_cache(tmp_path_factory):
    """One of Go's build caches for all tests here."""
    return tmp_path_factory.mktemp("go-build")


def publish(proxy, module, version, files):
    """A module in a proxy that is a folder."""
    place = proxy / module / "@v"
    place.mkdir(parents=True, exist_ok=True)
    (place / "list").write_text(f"{version}\n")
    (place / f"{version}.info").write_text(f'{{"Version": "{version}", "Time": "2020-01-01T00:00:00Z"}}')
    (place / f"{version}.mod").write_text(files["go.mod"])
    with zipfile.ZipFile(place / f"{version}.zip", "w") as out:
        for name, text in files.items():
            out.writestr(f"{module}@{version}/{name}", text)


@pytest.fixture
def proxy(tmp_path, monkeypatch, build_cache):
    """A module proxy that is a folder: a library, and a program that needs it."""
    go = find_go("go 1.20", progress=print)
    folder = tmp_path / "proxy"
    publish(folder, "example.org/words", "v1.0.0", {"go.mod": "module example.org/words\n\ngo 1.20\n", "w.go": WORDS})
    needs = "module example.org/tool\n\ngo 1.20\n\nrequire example.org/words v1.0.0\n"
    publish(folder, "example.org/tool", "v1.0.0", {"go.mod": needs, "main.go": MAIN, "lib/lib.go": "package lib\n"})
    monkeypatch.setenv("PATH", f"{Path(go).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GOPROXY", folder.as_uri())
    monkeypatch.setenv("GOSUMDB", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("GOCACHE", str(build_cache))
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    yield folder
    subprocess.run([go, "clean", "-modcache"], check=True, timeout=60)  # its files are read-only


@pytest.fixture
def description(tmp_path):
    """Where the description is, with a directory `node` next to it."""
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "go.mod").write_text("module example.org/node\n\ngo 1.20\n")
    (tmp_path / "node" / "main.go").write_text(ALONE)
    return str(tmp_path / "my.toml")


def printed(program, tmp_path):
    """What a program prints."""
    path = tmp_path / "printed"
    path.write_bytes(program)
    path.chmod(0o755)
    return subprocess.run([path], capture_output=True, text=True, check=True, timeout=60).stderr


def kept(tmp_path):
    return sorted((tmp_path / "state" / "go").glob("*.program"))


# --- what is built ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_directory_becomes_a_static_program_which_is_built_again_only_if_it_changed(proxy, description, tmp_path):
    sources = {"{run_dir}/node": "node"}
    (first,) = programs(sources, description).values()
    assert printed(first, tmp_path) == "alone\n"
    assert str(tmp_path).encode() not in first
    made = kept(tmp_path)[0].stat().st_ino
    assert programs(sources, description) == {"{run_dir}/node": first}
    assert [one.stat().st_ino for one in kept(tmp_path)] == [made]
    (tmp_path / "node" / "main.go").write_text(ALONE.replace("alone", "changed"))
    (second,) = programs(sources, description).values()
    assert printed(second, tmp_path) == "changed\n"
    assert not Path(lock.lock_file(description)).exists()


def test_the_same_sources_give_the_same_bytes(proxy, description, tmp_path):
    (first,) = programs({"{run_dir}/node": "node"}, description).values()
    for one in kept(tmp_path):
        one.unlink()
    (second,) = programs({"{run_dir}/node": "node"}, description).values()
    assert hashlib.sha256(first).digest() == hashlib.sha256(second).digest()


def test_a_package_and_version_is_pinned_once_and_then_built_from_its_pins_alone(proxy, description, tmp_path):
    (first,) = programs({"{run_dir}/tool": TOOL}, description).values()
    assert printed(first, tmp_path) == "from a module\n"
    text = lock.lock_file(description).read_text()
    assert f"# for: {TOOL}\n" in text
    assert "example.org/words v1.0.0 h1:" in text
    assert sources_of({"{run_dir}/tool": TOOL}, description) == [("{run_dir}/tool", f"{TOOL} (2 modules in my.lock)")]
    for one in kept(tmp_path):
        one.unlink()
    changed = {"go.mod": "module example.org/words\n\ngo 1.20\n", "w.go": WORDS.replace("from", "not from")}
    publish(proxy, "example.org/words", "v1.0.0", changed)
    assert programs({"{run_dir}/tool": TOOL}, description) == {"{run_dir}/tool": first}
    assert lock.lock_file(description).read_text() == text


def test_a_module_that_is_not_what_was_pinned_is_refused(proxy, description, tmp_path):
    programs({"{run_dir}/tool": TOOL}, description)
    text = lock.lock_file(description).read_text()
    (line,) = [one for one in text.splitlines() if one.startswith("example.org/words v1.0.0 h1:")]
    wrong = f"example.org/words v1.0.0 h1:{'A' * 43}="
    lock.lock_file(description).write_text(text.replace(line, wrong))
    with pytest.raises(ConfigError, match="cannot be built") as error:
        programs({"{run_dir}/tool": TOOL}, description)
    assert "checksum mismatch" in error.value.cause
    assert "do not trust what was fetched" in error.value.next_step


def test_pins_of_go_and_python_stand_next_to_each_other_and_what_is_no_longer_named_goes(description):
    python = lock.block("python", "a==1", "with hashes", "a==1 --hash=sha256:00")
    lock.store(python, description)
    lock.store(lock.block("go", "x.org/a@v1.0.0", "modules", "x.org/a v1.0.0 h1:0="), description)
    lock.store(lock.block("go", "x.org/b@v1.0.0", "modules", ""), description, keep=["x.org/a@v1.0.0"])
    assert [one.wanted for one in lock.blocks(description)] == ["a==1", "x.org/a@v1.0.0", "x.org/b@v1.0.0"]
    lock.store(lock.block("go", "x.org/b@v2.0.0", "modules", ""), description, keep=["x.org/b@v2.0.0"])
    assert [one.wanted for one in lock.blocks(description)] == ["a==1", "x.org/b@v2.0.0"]
    assert lock.found("python", "a==1", description) == python


def test_what_a_build_reads_counts_and_what_else_lies_there_does_not(tmp_path):
    other, module = tmp_path / "other", tmp_path / "module"
    for place in (other, module / "inner", module / "runs", module / "testdata", module / "tools"):
        place.mkdir(parents=True)
    (module / "go.mod").write_text("module m\n\nreplace example.org/other => ../other\n")
    (other / "go.mod").write_text("module example.org/other\n")
    (other / "other.go").write_text("package other\n")
    (module / "main.go").write_text('package main\n\n//go:embed page.html "in*"\nvar pages embed.FS\n')
    (module / "main_test.go").write_text("package main\n")
    (module / "tools" / "go.mod").write_text("module tools\n")
    (module / "tools" / "tool.go").write_text("package main\n")
    (module / "testdata" / "x.go").write_text("package x\n")
    for name in ("page.html", "inner/words.txt", "runs/history.jsonl"):
        (module / name).write_text("x")
    found = {os.path.relpath(path, module) for path in compiled_files(module)}
    assert found == {"go.mod", "main.go", "page.html", "inner/words.txt", "../other/go.mod", "../other/other.go"}


def test_only_the_newest_programs_are_kept(proxy, description, tmp_path, monkeypatch):
    monkeypatch.setattr(go_programs, "KEPT", 1)
    programs({"{run_dir}/node": "node"}, description)
    old = kept(tmp_path)
    (tmp_path / "node" / "main.go").write_text(ALONE.replace("alone", "changed"))
    programs({"{run_dir}/node": "node"}, description)
    assert len(kept(tmp_path)) == 1
    assert kept(tmp_path) != old


# --- what cannot be built -----------------------------------------------------------------------------------------


def refused(source, description, error=ConfigError):
    with pytest.raises(error) as caught:
        programs({"{run_dir}/node": source}, description)
    return caught.value


def test_the_lines_of_the_compiler_are_shown(proxy, description, tmp_path):
    (tmp_path / "node" / "main.go").write_text("package main\n\nfunc main() { nothing() }\n")
    error = refused("node", description)
    assert "./main.go:3:15: undefined: nothing" in error.cause
    assert error.where == f"{description}: [node] go"


def test_a_package_that_is_no_program_is_refused(proxy, description, tmp_path):
    (tmp_path / "node" / "main.go").write_text("package node\n")
    assert "node is no main package" in str(refused("node", description))
    assert "is no main package" in str(refused("example.org/tool/lib@v1.0.0", description))


def test_a_module_that_is_not_pinned_asks_for_go_mod_tidy(proxy, description, tmp_path):
    (tmp_path / "node" / "main.go").write_text(MAIN)
    error = refused("node", description)
    assert "example.org/words" in error.cause
    assert error.next_step == f"run `go mod tidy` in {tmp_path / 'node'}"


@pytest.mark.parametrize("source", ["example.org/tool@v1.0.1", "example.org/none@v1.0.0", "example.org/tool/x@v1.0.0"])
def test_a_version_module_or_package_that_is_not_there_is_named(proxy, description, source):
    error = refused(source, description)
    assert f"{source} cannot be resolved" in str(error)
    assert source.partition("@")[0] in error.cause
    assert "GOPROXY" in error.next_step
    assert not lock.lock_file(description).exists()


def test_a_directory_that_is_not_there_or_in_no_module_is_named(proxy, description, tmp_path):
    assert "there is no directory nowhere" in str(refused("nowhere", description))
    (tmp_path / "node" / "go.mod").unlink()
    assert "go mod init" in refused("node", description).next_step


def test_without_go_its_debian_package_is_named(proxy, description, monkeypatch):
    def none(module, *, progress):
        raise MissingCapability("pip cannot")

    monkeypatch.setattr(go_programs, "find_go", none)
    error = refused("node", description, MissingCapability)
    assert "it needs 1.20" in str(error)
    assert "apt-get install golang-go" in error.next_step


# --- in a description ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source", ["github.com/x/y@latest", "github.com/x/y@", "x@v1.0.0", "github.com/x/y@v1", "-@v1.0.0"]
)
def test_a_package_without_an_exact_version_is_refused(source):
    with pytest.raises(ConfigError, match="which package in which version"):
        check_sources({"{run_dir}/x": source}, where="my.toml: [node] go")


def test_nodes_get_the_program_where_the_description_says_with_a_right_to_run_it(proxy, description, tmp_path):
    text = TEXT.replace("ports = {", 'go = { "{run_dir}/mine" = "node" }\nports = {')
    system = OwnSystem(parse(text, path=description, read=lambda name: FileRead(b"", executable=False)))
    node = specs(system)["n1"]
    assert printed(system.files(node)["/r/mine"], tmp_path) == "alone\n"
    assert "/r/mine" in system.command(node).argv
    assert "{run_dir}/mine, built from the Go package in node, with the modules of its go.sum" in system.started()
