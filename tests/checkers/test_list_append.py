"""Transactions over lists: brute force agrees at each level, and each planted anomaly is called by its name."""

from __future__ import annotations

import random  # noqa: TID251 - test data, drawn from a seed that is told
import re

import pytest

from dethrone.checkers import list_append_graph
from dethrone.checkers.list_append import LEVELS, ListAppend
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.operations import ModelOptions
from tests.checkers.seen_oracles import (
    MANY,
    cycle_names,
    explained,
    operations,
    random_transactions,
    seeds,
    torn_transactions,
)

STRICT = ModelOptions()


def see(ops, level="strict-serializable"):
    return ListAppend().see(operations(ops), ModelOptions(consistency=level))


def kinds(ops, level="strict-serializable"):
    return {one.kind for one in see(ops, level).anomalies}


def txn(process, text, invoked, returned, status="ok"):
    """``ax1`` appends 1 to x; ``rx12`` reads x as [1 2], ``rx`` as empty."""
    asked, told = [], []
    for word in text.split():
        if word[0] == "a":
            asked.append(["append", word[1], int(word[2:])])
            told.append(asked[-1])
        else:
            asked.append(["r", word[1], None])
            told.append(["r", word[1], [int(digit) for digit in word[2:]]])
    return {
        "process": process,
        "f": "txn",
        "value": asked,
        "result": told if status == "ok" else None,
        "status": status,
        "invoked": invoked,
        "returned": None if status == "info" else returned,
    }


# --- brute force ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(4))
def test_each_level_passes_exactly_what_some_order_explains(block):
    outcomes = set()
    for seed in seeds(block):
        rng = random.Random(seed)
        make = random_transactions if seed % 4 else torn_transactions
        ops = make(rng, many=rng.randint(2, 5))
        levels = {"serializable": "any", "strong-session-serializable": "process", "strict-serializable": "realtime"}
        for level, order in levels.items():
            right = explained(ops, order=order)
            outcomes.add((level, right))
            assert (not kinds(ops, level)) == right, (seed, level, ops)
    assert MANY < 100 or len(outcomes) == 6


@pytest.mark.parametrize("block", range(4))
def test_cycles_have_the_names_that_the_definitions_give_them(block):
    met = set()
    for seed in seeds(block):
        rng = random.Random(seed)
        make = random_transactions if seed % 4 else torn_transactions
        ops = make(rng, many=rng.randint(2, 6))
        seen = see(ops)
        found = {one.kind for one in seen.anomalies}
        if found & {"phantom", "duplicate", "G1a", "incompatible-order"}:
            continue
        right = cycle_names(ops)
        plain = found & {"G0", "G1c", "G-single", "G2"}
        met |= right
        assert plain <= right, (seed, ops)
        assert bool(plain) == bool(right), (seed, ops)
        strongest = next((name for name in ("G0", "G1c", "G-single", "G2") if name in right), None)
        assert strongest is None or strongest in plain, (seed, right, plain, ops)
    assert MANY < 2000 or met == {"G0", "G1c", "G-single", "G2"}


# --- planted ----------------------------------------------------------------------------------------------------

PLANTED = {
    "phantom": [txn(0, "ax1", 0, 1), txn(1, "rx19", 2, 3)],
    "duplicate": [txn(0, "ax1", 0, 1), txn(1, "rx11", 2, 3)],
    "G0": [txn(0, "ax1 ay1", 0, 3), txn(1, "ax2 ay2", 1, 2), txn(2, "rx12", 4, 5), txn(2, "ry21", 6, 7)],
    "G1a": [txn(0, "ax1", 0, 1, "fail"), txn(1, "rx1", 2, 3)],
    "G1b": [txn(0, "ax1 ax2", 0, 3), txn(1, "rx1", 1, 2)],
    "G1c": [txn(0, "ax1 ry1", 0, 3), txn(1, "ay1 rx1", 1, 2)],
    "incompatible-order": [txn(0, "ax1", 0, 9), txn(1, "ax2", 1, 8), txn(2, "rx12", 2, 3), txn(3, "rx21", 4, 5)],
    "internal": [txn(0, "ax1 rx", 0, 1)],
    "lost-update": [txn(0, "rx ax1", 0, 3), txn(1, "rx ax2", 1, 2)],
    "G-single": [txn(0, "ax1 ay1", 0, 3), txn(1, "rx1 ry", 1, 2), txn(2, "rx1 ry1", 4, 5)],
    "G2": [txn(0, "rx ay1", 0, 3), txn(1, "ry ax1", 1, 2), txn(2, "rx1", 4, 5), txn(2, "ry1", 6, 7)],
    "G-single-realtime": [txn(0, "ax1", 0, 1), txn(1, "rx", 2, 3), txn(1, "rx1", 4, 5)],
    "G1c-realtime": [txn(1, "rx1", 0, 1), txn(0, "ax1", 2, 3)],
    "G0-realtime": [txn(0, "ax1", 0, 1), txn(1, "ax2", 2, 3), txn(2, "rx21", 4, 5)],
    "G2-realtime": [txn(0, "ay1", 1, 2), txn(1, "ry ax1", 0, 9), txn(2, "rx", 3, 4), txn(3, "rx1", 10, 11)],
    "G-single-process": [txn(0, "ax1", 0, 1), txn(0, "rx", 2, 3), txn(1, "rx1", 4, 5)],
    "G1c-process": [txn(0, "rx1", 0, 1), txn(0, "ax1", 2, 3)],
    "G0-process": [txn(0, "ax1", 0, 1), txn(0, "ax2", 2, 3), txn(2, "rx21", 4, 5)],
}
WITH_OTHERS = {"G1b", "lost-update"}
"""Where the shortest history of an anomaly shows others as well."""


@pytest.mark.parametrize("kind", PLANTED)
def test_each_anomaly_has_its_name(kind):
    level = "strong-session-serializable" if kind.endswith("-process") else "strict-serializable"
    found = kinds(PLANTED[kind], level)
    assert kind in found
    assert kind in WITH_OTHERS or found == {kind}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_level_that_allows_an_anomaly_counts_it(kind):
    for level, forbidden in LEVELS.items():
        seen = see(PLANTED[kind], level)
        assert {one.kind for one in seen.anomalies} <= forbidden
        assert not {one.kind for one in seen.tolerated} & forbidden


GOOD = {
    "one after the other": [txn(0, "ax1", 0, 1), txn(1, "rx1 ax2", 2, 3), txn(2, "rx12", 4, 5)],
    "a read beside an append may miss it": [txn(0, "ax1", 0, 3), txn(1, "rx", 1, 2)],
    "an unknown append may show up": [txn(0, "ax1", 0, 0, "info"), txn(1, "rx1", 2, 3)],
    "or never": [txn(0, "ax1", 0, 0, "info"), txn(1, "rx", 2, 3)],
    "or late": [txn(0, "ax1", 0, 0, "info"), txn(1, "rx", 2, 3), txn(1, "rx1", 4, 5)],
    "a transaction sees its own appends": [txn(0, "ax1 rx1 ax2 rx12", 0, 1)],
    "two that wrote blindly": [txn(0, "ax1", 0, 3), txn(1, "ax2", 1, 2), txn(2, "rx21", 4, 5)],
}


@pytest.mark.parametrize("name", GOOD)
def test_near_misses_pass(name):
    verdict = ListAppend().judge(operations(GOOD[name]), STRICT)
    assert (verdict.outcome, verdict.reason) == ("pass", "")


def test_an_acknowledged_append_that_later_reads_lack_is_found():
    assert kinds([txn(0, "ax1", 0, 1), txn(1, "rx", 2, 3)]) == {"G-single-realtime"}


def test_a_transaction_that_reads_what_it_appends_later_is_internal():
    assert kinds([txn(0, "rx1 ax1", 0, 1)], "serializable") == {"internal"}


def test_every_edge_of_a_cycle_has_a_sentence_and_a_drawing():
    (anomaly,) = see(PLANTED["G2"]).anomalies
    assert [edge["kind"] for edge in anomaly.data["edges"]] == ["rw", "rw"]
    assert all(re.search(r"T\d is before T\d, as ", edge["why"]) for edge in anomaly.data["edges"])
    drawing = anomaly.data["drawing"]
    ids = {node["id"] for node in drawing["nodes"]}
    assert ids == {"T1", "T2"}
    assert all(edge["from"] in ids and edge["to"] in ids for edge in drawing["edges"])
    assert all(0 <= node["x"] <= drawing["width"] and 0 <= node["y"] <= drawing["height"] for node in drawing["nodes"])
    assert "read x as [] without T" in anomaly.sentence


def test_a_cycle_over_real_time_names_both_ends():
    (anomaly,) = see(PLANTED["G-single-realtime"]).anomalies
    assert "had returned before" in anomaly.sentence
    assert {edge["kind"] for edge in anomaly.data["edges"]} == {"rw", "realtime"}


def test_many_clients_take_three_edges_of_real_time_each():
    ops = [txn(process, f"ax{process}", process, 1000 + process) for process in range(100)]
    graph = list_append_graph.build(list_append_graph_observed(ops))
    assert len(graph.edges) == 300


def list_append_graph_observed(ops):
    from dethrone.checkers.list_append_observed import observe

    return observe(operations(ops))


def test_the_search_for_short_cycles_is_bounded_and_still_names_one(monkeypatch):
    monkeypatch.setattr(list_append_graph, "EDGES_MAX", 0)
    seen = see(PLANTED["G2"])
    assert [one.kind for one in seen.anomalies] == ["G2"]
    assert "search" in seen.evidence


def test_values_that_are_not_unique_are_a_doubt():
    verdict = ListAppend().judge(operations([txn(0, "ax1", 0, 1), txn(1, "ax1", 2, 3), txn(1, "rx1", 4, 5)]), STRICT)
    assert (verdict.outcome, "more than once" in verdict.reason) == ("unknown", True)


@pytest.mark.parametrize(
    "value",
    [7, [7], [["r", "x"]], [["w", "x", 1]], None],
)
def test_what_is_no_transaction_is_a_doubt_and_accuses_nobody(value):
    odd = {**txn(0, "ax1", 0, 1), "value": value}
    verdict = ListAppend().judge(operations([odd, txn(1, "rx1", 2, 3)]), STRICT)
    assert (verdict.outcome, "line 1" in verdict.reason) == ("unknown", True)


def test_a_result_with_other_steps_is_a_doubt():
    odd = {**txn(0, "ax1", 0, 1), "result": [["append", "x", 2]]}
    assert ListAppend().judge(operations([odd, txn(1, "rx", 2, 3)]), STRICT).outcome == "unknown"


def test_an_unknown_level_is_wrong_usage():
    with pytest.raises(ConfigError, match="consistency"):
        see([], "linearizable")


def test_a_long_history_with_one_old_read_tells_a_short_cycle():
    ops = []
    for number in range(400):
        key = "xy"[number % 2]
        ops.append(
            {
                "process": number % 7,
                "f": "txn",
                "value": [["append", key, number], ["r", key, None]],
                "result": [["append", key, number], ["r", key, list(range(number % 2, number + 1, 2))]],
                "status": "ok",
                "invoked": 2 * number,
                "returned": 2 * number + 1,
            }
        )
    assert see(ops).anomalies == []
    ops.append(txn(9, "rx", 800, 801))
    (anomaly,) = see(ops).anomalies
    assert (anomaly.kind, len(anomaly.data["edges"])) == ("G-single-realtime", 2)
