"""What the adapters of all our own protocols have in common: the door, words, configurations, and the exam."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.node.config import NodeConfig, load_target
from dethrone.clusters.systems.target import TargetSystem
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Yes
from tests.clusters.systems.specs import specs

NAMES = ("bully", "dledger", "joyqueue", "kraft", "master-slave", "nacos", "paxos", "raft", "zab", "zk-ephemeral")
SYSTEMS = {name: registry.load(registry.SYSTEMS, name) for name in NAMES}
SETTINGS = {
    "dledger": [{"K1": "immediate", "heartBeatTimeIntervalMs": "500"}, {"K4": "on"}],
    "joyqueue": [{"groups": "2"}],
    "kraft": [{"quorum.fetch.timeout.ms": "700", "observers": "n3"}, {"check_quorum": "1.5"}],
    "raft": [{"electionTimeoutMax": "400", "persist": "false"}, {"safe_reads": "on", "noop": "true"}],
}
each = pytest.mark.parametrize("name", NAMES)


@each
def test_it_comes_through_the_same_door_as_a_plug_in_and_suffers_what_its_default_run_brings(name):
    system = SYSTEMS[name]
    assert isinstance(system, TargetSystem)
    assert all(system.fault_support(kind) == Yes() for kind in system.defaults().faults)


@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, one) for name in NAMES for one in ({}, {"time_factor": "2"}, *SETTINGS.get(name, ()))],
)
def test_words_mean_the_same_to_the_node_as_to_the_user_and_a_node_is_told_what_differs(name, settings):
    system, target = SYSTEMS[name], SYSTEMS[name].target()
    for profile in system.profiles():
        words = system.knobs(settings, profile=profile, variant=None)
        if name != "raft":  # where a word that is the default may contradict another
            assert system.knobs(words, profile=profile, variant=None) == words
        assert system.typed(words, profile=profile) == target.knobs(settings, profile=profile)
        content = system.files(specs(system, settings, profile=profile)["n2"]).popitem()[1]
        told = msgspec.json.decode(content, type=NodeConfig)
        given = {**system.defaults().settings, **settings}
        assert (load_target(told.target), told.profile) == (target, profile)
        assert target.knobs(told.knobs, profile=profile) == target.knobs(given, profile=profile)
        assert told.rpc_timeout_ms >= 50


@each
def test_the_exam_knows_every_planted_bug_with_the_knobs_that_it_needs(name):
    system = SYSTEMS[name]
    for one in system.planted().values():
        system.knobs({**system.defaults().settings, **one.settings}, profile=None, variant=one.name)


@each
def test_a_wrong_knob_profile_or_variant_is_told_before_anything_starts(name):
    system = SYSTEMS[name]
    profile, variant = next(iter(system.profiles())), next(iter(system.variants()))
    for settings, asked, bug, hint in (
        ({"time_faktor": "2"}, None, None, "time_factor"),
        ({}, profile[:-1], None, profile),
        ({}, None, variant[:-1], variant),
    ):
        with pytest.raises(ConfigError) as error:
            system.knobs(settings, profile=asked, variant=bug)
        assert hint in str(error.value)
    with pytest.raises(ConfigError):
        system.promise(system.knobs({}, profile=None, variant=None), profile=profile, voters=0)
