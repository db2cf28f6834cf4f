"""A scenario that is written reads back as itself."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.scenario import Expected, Scenario, parse_scenario
from dethrone.harness.core.scenario_text import scenario_toml
from dethrone.harness.core.schedule import AfterFault, OnEvent, PlannedFault, Schedule, Step
from dethrone.harness.engine.run.scenario_lookup import all_scenarios

SCENARIOS = all_scenarios()


def read(text, name):
    return parse_scenario(tomllib.loads(text), name=name, where=name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_of_ours_reads_back(name):
    scenario = SCENARIOS[name]
    again = read(scenario_toml(scenario), name)
    assert again.schedule.steps == scenario.schedule.steps
    assert again == scenario


times = st.integers(0, 10**12)
words = st.text(max_size=12)
params = st.dictionaries(
    st.sampled_from(["shape", "offset_ns", "latency_ns", "links", "rate_ppm", "a b", "path"]),
    st.one_of(times, st.booleans(), st.lists(st.lists(words, max_size=2), max_size=2)),
    max_size=3,
)
events = st.builds(
    OnEvent,
    event=st.sampled_from(["elected", "write-acked"]),
    within_ns=st.integers(1, 10**11),
    count=st.integers(1, 9),
    by=st.sampled_from(["anybody", "leader"]),
    where=st.dictionaries(st.sampled_from(["term", "name"]), st.one_of(times, words), max_size=2),
)
first = st.builds(
    PlannedFault, kind=words, victims=words, hold_ns=times, delay_ns=times, params=params, name=st.just("old")
)
second = st.builds(
    PlannedFault,
    kind=words,
    victims=words,
    hold_ns=times,
    when=st.one_of(st.just(AfterFault(fault="old")), events),
    until=st.one_of(st.none(), events),
)
steps = st.builds(lambda one, two, gap: Step(faults=(one, two), gap_ns=gap), first, second, times)


@settings(max_examples=50)
@given(st.lists(steps, max_size=3), times, words, st.dictionaries(words, words, max_size=2))
def test_any_scenario_reads_back(made, limit, text, knobs):
    schedule = Schedule(seed=0, strategy="scenario x", steps=tuple(made), health_bound_ns=limit)
    scenario = Scenario(
        name="x",
        source=text,
        title=text,
        text=text,
        system="raft",
        nodes=5,
        rate_per_s=3,
        settings=knobs,
        time_limit_ns=limit,
        schedule=schedule,
        expected=Expected(verdict="fail", fails=("one-leader-per-term",)),
    )
    assert read(scenario_toml(scenario, comment="one\ntwo"), "x") == scenario


def test_times_are_written_in_the_largest_unit_that_is_exact():
    fault = PlannedFault(kind="kill", victims="leader", hold_ns=1500 * MS, delay_ns=7)
    schedule = Schedule(seed=0, strategy="x", steps=(Step(faults=(fault,), gap_ns=2 * SECOND),))
    scenario = Scenario(
        name="x",
        source="s",
        title="t",
        text="t",
        system="raft",
        schedule=schedule,
        expected=Expected(verdict="pass"),
    )
    text = scenario_toml(scenario)
    assert 'gap = "2s"' in text
    assert 'hold = "1500ms"' in text
    assert 'delay = "7ns"' in text
