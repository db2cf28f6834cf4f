from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dethrone.clusters.attach import targets
from dethrone.clusters.attach.backend import AttachBackend
from dethrone.harness.core.errors import ConfigError


def details(name="kv-1", *, running=True, paused=False, mode="kv_default", networks=None):
    addresses = {"kv_default": "10.0.0.2"} if networks is None else networks
    return {
        "Id": f"id-{name}",
        "Name": f"/{name}",
        "State": {"Running": running, "Paused": paused},
        "HostConfig": {"NetworkMode": mode},
        "NetworkSettings": {
            "Networks": {key: {"IPAddress": one, "Gateway": "10.0.0.1"} for key, one in addresses.items()}
        },
    }


class Engine:
    """Answers as the engine's interface does."""

    def __init__(self, *found, labels=None):
        self.found = {one["Id"]: one for one in found}
        self.labels = labels or {}
        self.api = self

    def containers(self, **_):
        return [{"Id": key, "Names": [one["Name"]], "Labels": self.labels} for key, one in self.found.items()]

    def inspect_container(self, identity):
        return self.found[identity]


def find(engine, count):
    return targets.find_targets(engine, ("app=kv",), [f"n{number}" for number in range(1, count + 1)])


def test_words_become_labels():
    assert targets.parse_words(["project=shop", "label=app=kv", "label=beta"]) == (
        "com.docker.compose.project=shop",
        "app=kv",
        "beta",
    )


@pytest.mark.parametrize("word", ["shop", "project=", "n1=root@192.0.2.1", "label"])
def test_a_word_that_names_no_containers_is_refused(word):
    with pytest.raises(ConfigError, match="names no containers"):
        targets.parse_words([word])


@given(st.permutations([1, 2, 9, 10, 11]))
def test_numbers_in_names_count_as_numbers(order):
    engine = Engine(*[details(f"kv-{number}") for number in order])
    found = find(engine, 5)
    assert [one.name for one in found] == ["kv-1", "kv-2", "kv-9", "kv-10", "kv-11"]
    assert [one.node for one in found] == ["n1", "n2", "n3", "n4", "n5"]


@example(["¹"])
@given(st.lists(st.text(max_size=8), max_size=6))
def test_any_names_can_be_sorted(names):
    assert len(sorted(names, key=targets.natural)) == len(names)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (details(running=False), "does not run"),
        (details(paused=True), "paused already"),
        (details(mode="host"), "network mode host"),
        (details(mode="container:abc"), "network is not its own"),
        (details(networks={}), "share no network"),
    ],
)
def test_what_cannot_be_a_host_is_refused_with_the_reason(one, why):
    with pytest.raises(ConfigError, match=why):
        find(Engine(one), 1)


def test_the_number_of_nodes_must_be_that_of_the_containers():
    with pytest.raises(ConfigError, match="2 containers match, but the run is for 3") as caught:
        find(Engine(details("a"), details("b")), 3)
    assert caught.value.next_step == "give --nodes 2"


def test_addresses_are_those_of_a_network_that_all_share():
    engine = Engine(
        details("a", networks={"front": "10.1.0.2", "back": "10.2.0.2"}),
        details("b", networks={"back": "10.2.0.3"}),
    )
    assert [(one.network, one.address) for one in find(engine, 2)] == [("back", "10.2.0.2"), ("back", "10.2.0.3")]


@pytest.mark.parametrize("labels", [{"dethrone.owner": "run"}, {"dethrone.owner": "sidecar"}])
def test_containers_of_ours_are_nobody_elses(labels):
    with pytest.raises(ConfigError, match="0 containers match"):
        find(Engine(details(), labels=labels), 1)


def test_what_nodes_write_into_their_files_or_were_told_of_their_start_is_not_believed():
    assert AttachBackend().shows(("traced", "witness", "observed", "ops", "commit", "incarnation")) == (
        "observed",
        "ops",
        "commit",
    )


def test_nothing_is_guessed(monkeypatch):
    with pytest.raises(ConfigError, match="no containers were named"):
        AttachBackend().refuse(None)
