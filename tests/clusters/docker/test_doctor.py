import pytest

from dethrone.clusters.docker import doctor
from dethrone.clusters.docker.doctor import PROBES, Probe, probed, rows
from dethrone.clusters.docker.image import ensure_image
from dethrone.harness.core.interfaces import No, Yes
from dethrone.harness.engine.host import fault_support

PROBE = Probe(name="docker: x", script="x", why="there is no x", what_to_do="get x")


def test_a_probe_that_works_is_a_yes():
    assert probed(PROBE, lambda _: (0, "noise")) == ("docker: x", Yes())


def test_a_probe_that_fails_tells_why_what_was_said_last_and_what_to_do():
    row = probed(PROBE, lambda _: (2, "first\nError: x is unknown\n\n"))
    assert row == ("docker: x", No(why="there is no x (Error: x is unknown)", what_to_do="get x"))


def test_too_small_a_machine_is_told():
    assert doctor._size(2, 4 * 1024**3) == Yes()
    assert isinstance(doctor._size(1, 4 * 1024**3), No)
    assert isinstance(doctor._size(2, 1024**3), No)


def test_an_engine_on_another_machine_is_told(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    answer = doctor._local()
    assert isinstance(answer, No)
    assert "engine's machine" in answer.what_to_do


@pytest.mark.docker
def test_every_probe_has_an_answer_and_what_partitions_need_works(client):
    ensure_image(client)
    found = dict(rows())
    assert {probe.name for probe in PROBES} <= set(found)
    assert found["docker: engine"] == Yes()
    assert found["docker: NET_ADMIN in a container"] == Yes()
    assert found["docker: iptables in a container"] == Yes()
    assert found["docker: libfaketime skews a clock"] == Yes()
    for answer in found.values():
        assert isinstance(answer, Yes) or (answer.why and answer.what_to_do)


@pytest.mark.docker
def test_probing_leaves_no_container(client):
    ensure_image(client)
    rows()
    assert client.api.containers(all=True, filters={"label": "dethrone.owner=probe"}) == []


@pytest.mark.docker
def test_without_an_image_nothing_is_built(client, monkeypatch):
    monkeypatch.setattr(doctor, "cached_tag", lambda *_args, **_kwargs: None)
    found = dict(rows())
    assert isinstance(found["docker: image built"], No)
    assert not {probe.name for probe in PROBES} & set(found)


@pytest.mark.docker
def test_every_fault_is_live_on_hosts_that_were_tried(client):
    ensure_image(client)
    found = fault_support.probed("docker")
    assert [row for row in found if row.state != "live"] == []


def test_without_an_engine_no_capability_is_claimed(monkeypatch):
    monkeypatch.setattr(doctor, "rows", lambda: [("docker: engine", No(why="no engine", what_to_do="start it"))])
    found = doctor.capabilities()
    assert {"signals", "iptables", "links", "power", "disks", "vdso"} <= set(found)
    assert set(found.values()) == {No(why="no engine", what_to_do="start it")}
