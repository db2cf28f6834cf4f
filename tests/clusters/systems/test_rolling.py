"""etcd and Kafka of several releases on one host: how each starts, what a node says it is, and what is refused."""

import json

import msgspec
import pytest

from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.systems.etcd_rolling import SYSTEM as ETCD
from dethrone.clusters.systems.kafka import SYSTEM as KAFKA_4_1
from dethrone.clusters.systems.kafka_rolling import SYSTEM as KAFKA
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.interfaces import Upgradable
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from tests.clusters.systems.specs import specs
from tests.clusters.systems.test_etcd import published
from tests.clusters.systems.test_kafka import told

ETCD_NODE = specs(ETCD, network="127.0.1")["n1"]
KAFKA_NODE = specs(KAFKA, network="127.0.1")["n1"]


@pytest.mark.parametrize("system", [ETCD, KAFKA])
def test_nodes_begin_with_the_oldest_release_unless_the_knob_says_otherwise(system):
    assert isinstance(system, Upgradable)
    names = system.versions()
    for settings, first in (({}, names[0]), ({"version": "newest"}, names[-1]), ({"version": names[1]}, names[1])):
        node = specs(system, settings)["n1"]
        assert system.begins_with(node.knobs) == first
        assert system.command(node) == system.commands(node)[first]
    with pytest.raises(ConfigError, match="version"):
        system.knobs({"version": "2.3"}, profile=None, variant=None)
    promise = system.promise(node.knobs, profile=next(iter(system.profiles())), voters=3)
    for borne in (promise.tolerates, promise.tolerated_for_safety):
        assert {"upgrade", "downgrade", "kill"} <= set(borne)


def test_each_release_of_etcd_is_a_program_of_its_own_over_the_same_data():
    commands = ETCD.commands(ETCD_NODE)
    assert list(commands) == ["3.4", "3.5", "3.6", "3.7"]
    programs = ["/usr/bin/etcd", *(f"/opt/dethrone/bin/etcd-{name}" for name in ("3.5.35", "3.6", "3.7"))]
    assert [command.argv[0] for command in commands.values()] == programs
    for command in commands.values():
        assert "--data-dir=/x/n1/data/etcd" in command.argv
        assert "--pre-vote=true" in command.argv
    brought = ingredients_of("etcd-rolling")
    assert brought.packages == ("etcd-server",)
    assert [f"/opt/dethrone/bin/{program.name}" for program in brought.artifacts.go] == programs[1:]


def test_snapshots_of_etcd_come_as_released_unless_the_knob_says_after_how_many_entries():
    assert not any("snapshot-count" in word for one in ETCD.commands(ETCD_NODE).values() for word in one.argv)
    often = specs(ETCD, {"snapshot_count": "50"})["n1"]
    for command in ETCD.commands(often).values():
        assert "--snapshot-count=50" in command.argv
        assert "--snapshot-count=50" in command.rejoining


def test_a_member_of_etcd_is_the_release_that_its_own_process_says_it_is():
    call = ETCD.status_call(ETCD_NODE)
    assert (call.answers, call.request.count(b"GET "), call.request.count(b"GET /version HTTP/1.1")) == (2, 2, 1)

    def version(said):
        return ETCD.reading(ETCD_NODE, published() + b"\0" + said).version

    assert version(b'{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}') == "3.4"
    assert version(b'{"etcdserver":"3.6.16","etcdcluster":"3.5.0","storage":"3.5.0"}') == "3.6"
    assert version(b'{"etcdserver":"3.40.1"}') == "3.40.1"
    for silence in (published(), published() + b"\0", b"\0" + b'{"etcdserver":"3.4.23"}', b"\0\0"):
        assert ETCD.reading(ETCD_NODE, silence) is None


def test_etcd_goes_one_release_at_a_time_and_back_only_while_a_member_is_still_there():
    limits, versions = ETCD.limits(), ETCD.versions()
    assert not limits.refused(versions, {"n1": "3.4", "n2": "3.4"}, "3.5")
    assert not limits.refused(versions, {"n1": "3.5", "n2": "3.4"}, "3.4")
    assert "more than 1 step from 3.5" in limits.refused(versions, {"n1": "3.5", "n2": "3.5"}, "3.7")
    assert "every node runs 3.5 or newer" in limits.refused(versions, {"n1": "3.5", "n2": "3.6"}, "3.4")


def test_each_release_of_kafka_has_its_own_jars_and_classes_and_metadata_stay_those_of_the_older():
    old, new = (" ".join(command.argv) for command in KAFKA.commands(KAFKA_NODE).values())
    assert ("kafka_2.13-3.9.1.jar" in old, "4.1.0.jar" in old) == (True, False)
    assert ("kafka_2.13-4.1.0.jar" in new, "3.9.1.jar" in new) == (True, False)
    assert "/run/dethrone/classes-kafka-3.9" in old
    assert "/run/dethrone/classes-kafka-4.1" in new
    assert (old.split()[-1], new.split()[-1]) == ("3.9", "3.9")
    assert KAFKA_4_1.command(KAFKA_NODE).argv[-1] == "broker,controller"
    alone = [set(ingredients_of(name).artifacts.jars) for name in ("kafka-3.9", "kafka-4.1")]
    assert set(ingredients_of("kafka-rolling").artifacts.jars) == alone[0] | alone[1]
    assert alone[0] & alone[1]


def test_a_node_of_kafka_is_the_release_that_its_own_process_says_it_is():
    assert KAFKA.reading(KAFKA_NODE, told(version="3.9.1")).version == "3.9"
    assert KAFKA.reading(KAFKA_NODE, told(version="4.1.0")).version == "4.1"
    assert KAFKA.reading(KAFKA_NODE, told(version="unknown")).version == "unknown"
    assert KAFKA.reading(KAFKA_NODE, b"") is None
    assert KAFKA_4_1.reading(KAFKA_NODE, told(version="4.1.0")).version is None


def test_a_run_of_etcd_that_only_goes_back_is_refused_with_the_reason_and_one_that_goes_on_stores_its_limits():
    common = {"system": "etcd-rolling", "backend": "docker"}
    with pytest.raises(MissingCapability, match=r"none may become older than that \(etcd's upgrade guides\)"):
        draft(RunOptions(**common, faults=("downgrade",), settings={"version": "newest"}), seed=1)
    plan = draft(RunOptions(**common, faults=("upgrade", "downgrade")), seed=1).plan
    assert plan.version_limits == ETCD.limits()
    assert json.loads(msgspec.json.encode(plan))["version_limits"]["steps"] == 1
    assert next(fault.kind for step in plan.schedule.steps for fault in step.faults) == "upgrade"
