from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HEALTHY, healthy_cluster
from dethrone.harness.core.quorum import minority, quorum
from dethrone.harness.core.rng import Rng
from dethrone.nemesis import selectors
from tests.nemesis.views import nodes_of, view_of, views_with_leader

seeds = st.integers(0, 2**64 - 1)


def resolve(text, view, seed=1):
    return selectors.resolve(selectors.parse(text), view, Rng(seed))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("leader", {"kind": "leader"}),
        (" Leader ", {"kind": "leader"}),
        ("follower:2", {"kind": "follower", "count": 2}),
        ("minority with leader", {"kind": "minority-with-leader"}),
        ("minority-with-leader", {"kind": "minority-with-leader"}),
        ("random 2", {"kind": "random", "count": 2}),
        ("random:2", {"kind": "random", "count": 2}),
        ("random", {"kind": "random", "count": 1}),
        ("node:n3", {"kind": "node", "names": ("n3",)}),
        ("node N3, n1", {"kind": "node", "names": ("N3", "n1")}),
        ("all", {"kind": "all"}),
    ],
)
def test_selectors_are_read_as_people_write_them(text, expected):
    assert selectors.parse(text) == selectors.Selector(**expected)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("leadr", "did you mean 'leader'"),
        ("majorty", "did you mean 'majority'"),
        ("", "known:"),
        ("random:two", "not a number"),
        ("random:0", "not a number"),
        ("leader:2", "takes no number"),
        ("node", "names no node"),
        ("node:", "names no node"),
        ("💥", "known:"),
    ],
)
def test_a_wrong_selector_is_a_config_error_that_helps(text, hint):
    with pytest.raises(ConfigError) as error:
        selectors.parse(text)
    assert hint in str(error.value)


@given(st.text(max_size=30))
def test_no_text_raises_anything_but_a_config_error(text):
    with contextlib.suppress(ConfigError):
        selectors.parse(text)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("random:6", 5), ("follower:5", 5), ("follower", 1), ("node:n6", 5), ("node:a,b,c,d", 3), ("minority", 2)],
)
def test_more_or_other_victims_than_nodes_are_refused(text, nodes):
    with pytest.raises(ConfigError):
        selectors.check(text, nodes=nodes)


@given(views_with_leader(), seeds, st.data())
def test_every_selector_that_passes_the_check_gives_different_nodes_of_the_cluster(view, seed, data):
    count = len(view.nodes)
    texts = ["leader", "follower", "minority-with-leader", "minority", "majority", "cut-off", "all", "node:n1"]
    texts += [f"random:{data.draw(st.integers(1, count))}", f"follower:{data.draw(st.integers(1, count))}"]
    for text in texts:
        try:
            selector = selectors.check(text, nodes=count)
        except ConfigError:
            continue
        victims = selectors.resolve(selector, view, Rng(seed))
        assert not isinstance(victims, str)
        assert len(set(victims)) == len(victims) == selectors.size(selector, count)
        assert set(victims) <= set(view.nodes)
        assert list(victims) == sorted(victims)


def test_an_outsider_is_a_node_that_does_not_vote():
    view = msgspec.structs.replace(view_of(3), voters=("n1", "n2"))
    assert {resolve("outsider", view, seed) for seed in range(10)} == {("n3",)}
    assert resolve("outsider", view_of(3)) == "every node votes"


@given(views_with_leader(st.integers(3, 7)), seeds)
def test_selectors_mean_what_they_say(view, seed):
    count, leader = len(view.nodes), view.leader
    assert resolve("leader", view, seed) == (leader,)
    assert leader not in resolve("follower", view, seed)
    assert leader in resolve("minority-with-leader", view, seed)
    assert len(resolve("minority-with-leader", view, seed)) == minority(count)
    assert leader not in resolve("minority", view, seed)
    assert len(resolve("majority", view, seed)) == quorum(count)


def test_without_a_leader_the_reason_is_told_and_nobody_is_guessed():
    view = view_of(5, leader=None)
    for text in ("leader", "follower", "minority-with-leader", "minority"):
        assert resolve(text, view) == "no leader is known"
    assert len(resolve("random:2", view)) == 2
    assert resolve("all", view) == nodes_of(5)


def test_a_node_of_another_cluster_is_a_reason_not_a_crash():
    assert "no node zed" in resolve("node:zed", view_of(3))


def test_a_follower_is_chosen_among_those_that_run():
    state = healthy_cluster(nodes_of(3))
    state["n2"] = msgspec.structs.replace(HEALTHY, down="SIGKILL")
    assert {resolve("follower", view_of(3, state=state), seed) for seed in range(20)} == {("n3",)}
    state["n3"] = msgspec.structs.replace(HEALTHY, frozen=True)
    assert "0 running followers" in resolve("follower", view_of(3, state=state))


def test_cut_off_finds_the_isolated_node_and_else_a_follower():
    state = healthy_cluster(nodes_of(3))
    state["n1"] = msgspec.structs.replace(HEALTHY, cuts=("n3",))
    state["n2"] = msgspec.structs.replace(HEALTHY, cuts=("n3",))
    view = view_of(3, state=state)
    assert {resolve("cut-off", view, seed) for seed in range(20)} == {("n3",)}
    assert resolve("cut-off", view_of(3)) in {("n2",), ("n3",)}


@given(seeds)
def test_whoever_does_not_vote_is_no_follower_and_counts_for_no_quorum(seed):
    seen = msgspec.structs.replace(view_of(4), voters=nodes_of(3))
    for text, count in (("follower:2", 2), ("minority", 1), ("minority-with-leader", 1), ("majority", 2)):
        chosen = resolve(text, seen, seed)
        assert len(chosen) == count
        assert "n4" not in chosen
    assert resolve("cut-off", seen, seed)[0] in {"n2", "n3"}
    assert "n4" in resolve("all", seen, seed)
    assert any("n4" in resolve("random", seen, each) for each in range(30))


def test_two_voters_have_no_minority_however_many_nodes_there_are():
    seen = msgspec.structs.replace(view_of(4), voters=nodes_of(2))
    assert resolve("minority", seen) == "2 voters have no minority"
