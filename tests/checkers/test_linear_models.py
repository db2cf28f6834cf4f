"""From a file to a verdict: the models judge histories of others as the definitions do."""

from __future__ import annotations

import json
import random  # noqa: TID251 - test data, drawn from a seed that is told

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.foreign.reading import read_pieces
from dethrone.harness.core.foreign.writing import edn
from dethrone.harness.core.operations import ModelOptions
from tests.checkers import linear_random
from tests.checkers.linear_differential import MODELS, has_order
from tests.checkers.seen_oracles import FIRST, MANY

SEEDS = range(FIRST, FIRST + max(1, MANY // 4))


def events(rows):
    """(type, process, f, key, value) in the order in which they happened; equal times overlap."""
    out = []
    for process, row in enumerate(rows):
        out.append((row["call"], 0, ("invoke", process, row["f"], row["key"], row["value"])))
        if row["ret"] is not None:
            told = row["output"] if row["output"] is not None or row["f"] in ("read", "dequeue") else row["value"]
            out.append((row["ret"], 1, (row["status"], process, row["f"], row["key"], told)))
    return [event for _, _, event in sorted(out, key=lambda item: item[:2])]


def as_json(rows):
    names = ("type", "process", "f", "key", "value")
    return "".join(json.dumps(dict(zip(names, event, strict=True))) + "\n" for event in events(rows)).encode()


def as_edn(rows):
    lines = (
        f"{{:type :{kind}, :process {process}, :f :{f}, :value {edn(value)}, :key {edn(key)}}}\n"
        for kind, process, f, key, value in events(rows)
    )
    return "".join(lines).encode()


def judge(name, text, form, **options):
    model = registry.load(registry.MODELS, name)
    return model.judge(read_pieces([text], form, model.functions(), where="h"), ModelOptions(**options))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", ["jsonl", "jepsen-edn"])
def test_random_histories_are_judged_as_the_definition_does(name, form):
    met = set()
    for seed in SEEDS:
        rng = random.Random(f"{name}-{form}-{seed}")
        initial = rng.choice([None, None, 1]) if name.endswith(("register", "kv")) else None
        strict = name in ("cas-register", "kv") and rng.random() < 0.5
        rows = linear_random.rows(name, rng, most=9, initial=initial)
        text = as_json(rows) if form == "jsonl" else as_edn(rows)
        verdict = judge(name, text, form, initial=initial, strict_cas=strict)
        want = has_order(name, rows, strict=strict, initial=initial)
        met.add(want)
        right = {"pass"} if want else {"fail"}
        if verdict.reason.startswith("not exercised"):
            right = {"unknown"}  # a set that nobody read
        assert verdict.outcome in right, (seed, rows, verdict)
    assert MANY < 100 or met == {True, False}


def test_an_operation_that_makes_no_sense_is_told_with_its_line():
    text = b'{"type":"invoke","process":0,"f":"read"}\n{"type":"invoke","process":1,"f":"cas","value":7}\n'
    with pytest.raises(HistoryError) as error:
        judge("cas-register", text, "jsonl")
    assert "line 2" in error.value.where


def test_what_the_search_cannot_decide_is_unknown_with_how_far_it_came():
    at_once = {"call": 0, "ret": 1, "key": None, "output": None, "status": "ok"}
    rows = [{**at_once, "f": "write", "value": number % 3} for number in range(40)]
    rows += [{**at_once, "f": "cas", "value": [number % 3, 3]} for number in range(40)]
    verdict = judge("cas-register", as_json(rows), "jsonl", memory_bytes_max=100_000)
    assert (verdict.outcome, "returns were explained" in verdict.reason) == ("unknown", True)


def test_an_option_that_a_model_has_no_use_for_is_wrong_usage():
    text = b'{"type":"invoke","process":0,"f":"acquire"}\n'
    with pytest.raises(ConfigError):
        judge("mutex", text, "jsonl", initial=3)


def test_a_violation_names_the_lines_of_all_operations_that_prove_it():
    rows = [
        {"call": 0, "ret": 1, "f": "write", "key": None, "value": 1, "output": None, "status": "ok"},
        {"call": 2, "ret": 3, "f": "write", "key": None, "value": 2, "output": None, "status": "ok"},
        {"call": 4, "ret": 5, "f": "read", "key": None, "value": None, "output": 1, "status": "ok"},
    ]
    (finding,) = judge("register", as_json(rows), "jsonl").findings
    assert finding.data["lines"] == [1, 3, 5]
    assert finding.data["bars"]
    assert set(finding.certificate) == {0, 1, 2, 3, 4, 5}
