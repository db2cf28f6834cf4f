"""Operations of several requests on etcd, against a store that carries out its transactions by the reference."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.systems.etcd_talks import TRIES_MAX, Ask, Refused, b64, talk_for, text

COMPARED = {"MOD": "mod_revision", "CREATE": "create_revision", "VALUE": "value"}


class Store:
    """Keys with value, create and mod revision, as strings as the gateway tells them; no time passes."""

    def __init__(self):
        self.kvs, self.revision, self.leases = {}, 1, 0

    def answer(self, ask):
        if ask.path == "/v3/lease/grant":
            self.leases += 1
            return {"ID": str(self.leases), "TTL": str(max(2, int(ask.body["TTL"])))}
        if ask.path == "/v3/lease/revoke":
            return {}
        assert ask.path == "/v3/kv/txn"
        before = self.revision
        answer = self.txn(ask.body, before + 1)
        assert ask.changes or self.revision == before
        return answer

    def txn(self, body, revision):
        holds = all(map(self.compare, body["compare"]))
        out = [self.step(step, revision) for step in body["success" if holds else "failure"]]
        return {"responses": out, **({"succeeded": True} if holds else {})}  # proto3 leaves out what is false

    def compare(self, one):
        kv = self.kvs.get(one["key"])
        if kv is None and one["target"] == "VALUE":
            return False
        field = COMPARED[one["target"]]
        held, given = (kv or {field: "0"})[field], one[field]
        held, given = (text(held), text(given)) if field == "value" else (int(held), int(given))
        return held == given if one["result"] == "EQUAL" else held < given

    def step(self, step, revision):
        ((kind, what),) = step.items()
        if kind == "request_txn":
            return {"response_txn": self.txn(what, revision)}
        kv = self.kvs.get(what["key"])
        if kind == "request_range":
            return {"response_range": {"kvs": [kv]} if kv else {}}
        self.revision = revision
        if kind == "request_put":
            created = kv["create_revision"] if kv else str(revision)
            told = {"create_revision": created, "mod_revision": str(revision), "value": what["value"]}
            self.kvs[what["key"]] = {"key": what["key"], **told}
            return {"response_put": {}}
        self.kvs.pop(what["key"], None)
        return {"response_delete_range": {}}


def done(store, f, value, *, between=None):
    """The value of a talk; ``between`` is called before each request that changes something."""
    talk = talk_for(f, value)
    try:
        ask = next(talk)
        while True:
            if between is not None and ask.changes:
                between()
            ask = talk.send(store.answer(ask))
    except StopIteration as end:
        return end.value


def test_a_transaction_reads_and_appends_in_order_and_sees_itself():
    store = Store()
    steps = [["r", "x", None], ["append", "x", 1], ["r", "x", None], ["append", "y", 2]]
    assert done(store, "txn", steps) == [["r", "x", []], ["append", "x", 1], ["r", "x", [1]], ["append", "y", 2]]
    assert done(store, "txn", [["r", "y", None], ["r", "x", None]]) == [["r", "y", [2]], ["r", "x", [1]]]


def test_one_that_was_overtaken_begins_again_with_what_is_there_now():
    store, others = Store(), iter([["append", "x", 7]])

    def overtake():
        for step in others:
            done(store, "txn", [step])
            break

    told = done(store, "txn", [["r", "x", None], ["append", "y", 1]], between=overtake)
    assert told == [["r", "x", [7]], ["append", "y", 1]]


def test_one_that_is_always_overtaken_is_given_up_without_effect():
    store = Store()
    count = 0

    def overtake():
        nonlocal count
        count += 1
        done(store, "txn", [["append", "x", count]])

    with pytest.raises(Refused):
        done(store, "txn", [["append", "x", -1]], between=overtake)
    assert done(store, "txn", [["r", "x", None]]) == [["r", "x", list(range(1, TRIES_MAX + 1))]]


def test_a_lock_is_given_once_and_tokens_rise():
    store = Store()
    first = done(store, "acquire", ["l", "a", 300])
    with pytest.raises(Refused, match="held"):
        done(store, "acquire", ["l", "b", 300])
    with pytest.raises(Refused, match="not held"):
        done(store, "release", ["l", "b"])
    assert done(store, "release", ["l", "a"]) == first
    with pytest.raises(Refused, match="not held"):
        done(store, "release", ["l", "a"])
    assert done(store, "acquire", ["l", "b", 300]) > first


def test_a_lease_is_never_shorter_than_asked():
    asked = next(talk_for("acquire", ["l", "a", 2001]))
    assert asked == Ask("/v3/lease/grant", {"TTL": "3"}, changes=False)
    talk = talk_for("acquire", ["l", "a", 2001])
    next(talk)
    with pytest.raises(Refused):
        talk.send({"ID": "1", "TTL": "2"})


def test_a_guard_refuses_a_token_below_one_that_it_accepted():
    store = Store()
    assert [done(store, "use", ["l", token]) for token in (9, 9, 10, 100)] == [9, 9, 10, 100]
    with pytest.raises(Refused, match="older"):
        done(store, "use", ["l", 99])
    assert done(store, "use", ["m", 1]) == 1


@pytest.mark.parametrize(
    ("f", "value"), [("txn", []), ("txn", [["w", "x", 1]]), ("acquire", ["l", "a"]), ("use", ["l", -1]), ("fly", 1)]
)
def test_what_is_none_of_these_has_no_talk(f, value):
    assert talk_for(f, value) is None


lists = st.sampled_from("xy")
step = st.one_of(st.tuples(st.just("append"), lists, st.integers()), st.tuples(st.just("r"), lists, st.none()))


@given(st.lists(st.lists(step.map(list), min_size=1, max_size=4), max_size=8))
def test_one_after_the_other_they_are_what_plain_lists_would_say(transactions):
    store, plain = Store(), {"x": [], "y": []}
    for steps in transactions:
        expected = []
        for word, key, item in steps:
            plain[key] = [*plain[key], item] if word == "append" else plain[key]
            expected.append([word, key, item if word == "append" else plain[key]])
        assert done(store, "txn", steps) == expected
    held = {text(name): json.loads(text(kv["value"])) for name, kv in store.kvs.items()}
    assert held == {f"txn/{key}": items for key, items in plain.items() if items}
    assert all(kv["key"] == b64(text(name)) for name, kv in store.kvs.items())
