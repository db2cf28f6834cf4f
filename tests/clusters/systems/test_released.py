"""What every adapter of a released system refuses, and the values that its knobs have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.systems.released import Choice, Number, Released
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError

SYSTEMS = {name: system for name, system in registry.load_all(registry.SYSTEMS).items() if isinstance(system, Released)}


def test_each_comes_through_the_same_door_as_our_own_and_has_its_image():
    assert all(system.name == name for name, system in SYSTEMS.items())
    assert {name: system.image() for name, system in SYSTEMS.items()} == {
        **{name: name for name in ("etcd", "etcd-3.5", "etcd-3.7", "etcd-rolling", "kafka-rolling", "zookeeper")},
        "kafka-kraft": "kafka-4.1",
        "kafka-kraft-3.9": "kafka-3.9",
        "rocketmq-dledger": "dledger-0.4.3",
        **{f"rocketmq-dledger-{release}": f"dledger-{release}" for release in ("0.3.2", "0.2.2")},
    }


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_each_refuses_by_its_own_name_what_it_does_not_have(name):
    system = SYSTEMS[name]
    knob, known = next((knob, known) for knob, known in system.known_knobs().items() if isinstance(known, Number))
    choices = [name for name, one in system.known_knobs().items() if isinstance(one, Choice)]
    for settings, profile, variant in (
        ({}, "no such", None),
        ({}, None, "01-vote-not-written"),
        ({"no_such": "1"}, None, None),
        ({knob: str(known.most + 1)}, None, None),
        ({knob: str(known.least - 1)}, None, None),
        ({knob: "²"}, None, None),
        ({knob: "soon"}, None, None),
        *(({choice: "perhaps"}, None, None) for choice in choices),
    ):
        with pytest.raises(ConfigError, match=rf"\b{name}\b"):
            system.knobs(settings, profile=profile, variant=variant)
    assert system.variants() == {}


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_the_values_that_a_release_comes_with_and_those_of_its_runs_are_within_its_limits(name):
    system = SYSTEMS[name]
    assert all(knob.admits(knob.default) for knob in system.known_knobs().values())
    for settings in ({}, system.defaults().settings):
        for profile in (None, *system.profiles()):
            found = system.knobs(settings, profile=profile, variant=None)
            assert list(found) == list(system.known_knobs())
            assert {knob: found[knob] for knob in settings} == dict(settings)


@given(st.integers(), st.integers(0, 1000), st.integers(0, 1000))
def test_a_number_is_admitted_within_its_limits_only(value, least, more):
    assert Number("0", least, least + more).admits(str(value)) == (least <= value <= least + more)


@given(st.text())
def test_a_choice_admits_its_words_only(word):
    assert Choice("on", ("on", "off")).admits(word) == (word in {"on", "off"})
