from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.local import room
from dethrone.harness.core.errors import MissingCapability

MACHINE = room.Machine(
    top={"bin": "usr/bin", "usr": None, "etc": None, "tmp": None, "var": None, "run": None, "proc": None, "opt": None},
    opt=("dethrone", "java"),
    python="/usr/bin/python3.11",
    version="python3.11",
    prefix="/var/lib/pythons/3.11",
    environment="/tmp/venv",
    sites=("/tmp/venv/lib/python3.11/site-packages",),
    packages={name: f"/src/{name}" for name in room.SHOWN},
)


def made(machine=MACHINE, **programs):
    return room.steps(machine, box="/box", files={"/etc/hosts": "/hosts"}, programs=programs)


def test_nothing_of_the_machine_is_lent_but_the_hosts_own_directories():
    lent = [step for step in made() if step[0] == "lend"]
    assert {step[1] for step in lent} == {room.AGENT_DIR, room.RUN_DIR, room.DATA_ROOT, room.LOG_ROOT}
    assert all(str(step[2]).startswith("/box/") for step in lent)


def test_what_goes_on_on_the_machine_is_not_shown():
    shown = {step[1] for step in made() if step[0] == "show"}
    assert not shown & {"/run", "/tmp", "/var", "/proc", "/opt/dethrone"}
    assert {"/usr", "/etc", "/opt/java"} <= shown


def test_homes_and_data_of_this_machine_are_not_there():
    machine = msgspec.structs.replace(MACHINE, top={**MACHINE.top, **dict.fromkeys(("root", "home", "srv", "data"))})
    shown = {step[1] for step in made(machine) if step[0] in {"show", "lend"}}
    assert not shown & {"/root", "/home", "/srv", "/data", "/dev", "/sys/kernel"}


def test_what_a_description_names_is_shown_and_only_that():
    steps = room.steps(MACHINE, box="/box", programs={}, shown=("/home/me/app", "/usr/bin/app"))
    assert ("show", "/home/me/app", "/home/me/app") in steps
    assert not [step for step in steps if step[1] == "/usr/bin/app"], "it is there already"


def test_through_proc_nothing_of_the_machine_is_changed_and_its_secrets_are_hidden():
    steps = [step[:2] for step in made()]
    for path in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger"):
        assert steps.index(("guard", path)) > steps.index(("proc", "/proc"))
    for path in ("/etc/shadow", "/etc/ssh", "/proc/kcore"):
        assert ("hide", path) in steps


def test_the_nodes_account_is_added_unless_the_machine_has_one_of_that_number():
    line = "dethrone:x:7003:7003::/:/bin/sh"
    assert room.accounts("root:x:0:0::/root:/bin/sh\n", line) == f"root:x:0:0::/root:/bin/sh\n{line}\n"
    assert room.accounts("me:x:7003:7003::/:/bin/sh\n", line) == "me:x:7003:7003::/:/bin/sh\n"


def test_links_stay_links():
    assert ("link", "/bin", "usr/bin") in made()


def test_a_python_below_a_hidden_directory_is_shown_by_itself():
    shown = [step[1] for step in made() if step[0] == "show"]
    assert "/var/lib/pythons/3.11" in shown
    assert "/tmp/venv" in shown, "whose bin/python starts the agent"
    assert "/tmp/venv/lib/python3.11/site-packages" in shown


def test_what_lies_in_the_machines_tmp_is_shown_after_the_hosts_own_tmp_or_it_would_be_covered():
    steps = [step[:2] for step in made()]
    for path in ("/tmp/venv", "/tmp/venv/lib/python3.11/site-packages", "/var/lib/pythons/3.11"):
        assert steps.index(("show", path)) > steps.index(("tmpfs", "/tmp"))


def test_a_program_that_lies_elsewhere_is_laid_where_the_system_looks_for_it():
    steps = made(**{"/usr/bin/etcd": "/home/me/etcd"})
    assert ("overlay", "/usr/bin", ["/box/programs", "/usr/bin"]) in steps
    assert steps[-1] == ("show", "/usr/bin/etcd", "/home/me/etcd")


def test_a_program_that_is_where_it_should_be_needs_nothing():
    steps = made(**{"/usr/bin/etcd": "/usr/bin/etcd"})
    assert not [step for step in steps if "/usr/bin/etcd" in step]


def test_a_program_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(room.shutil, "which", lambda _: None)
    with pytest.raises(MissingCapability, match="etcd is not installed"):
        room.programs_of("etcd")


def test_a_recipe_made_of_downloads_is_refused_by_name():
    with pytest.raises(MissingCapability, match="made for containers"):
        room.programs_of("zookeeper")


def test_this_machine_is_seen():
    machine = room.this_machine()
    assert "usr" in machine.top
    assert set(machine.packages) == set(room.SHOWN)
    assert all(Path(place).exists() for place in machine.packages.values())
