"""OpenSearch in the gallery: what its two small programs make of what nodes say."""

from __future__ import annotations

import io
import json
import sys
from functools import partial

import pytest

from dethrone.clusters.gallery.opensearch import client, status
from tests.clusters.own.answering import answering

STATE = {
    "cluster_manager_node": "bbbb",
    "nodes": {"aaaa": {"name": "n1"}, "bbbb": {"name": "n2"}},
    "metadata": {"cluster_coordination": {"term": 4}, "indices": {"keep": {"in_sync_allocations": {"0": ["cccc"]}}}},
}


class Asking(client.Client):
    """With the port of its node, as a word."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.port = str(nodes["n1"]["http"])


node = partial(answering, Asking)


# --- what a node is -------------------------------------------------------------------------------------------------


def test_nodes_are_called_by_their_names_and_only_the_cluster_manager_itself_leads():
    assert status.understood(STATE, "n1") == {"role": "member", "term": 4, "cluster_manager": "n2"}
    assert status.understood(STATE, "n2") == {"role": "cluster_manager", "term": 4, "cluster_manager": "n2"}


def test_a_node_that_follows_none_keeps_the_term_of_its_state():
    state = {key: value for key, value in STATE.items() if key != "cluster_manager_node"}
    assert status.understood(state, "n1") == {"role": "member", "term": 4, "cluster_manager": None}


def test_a_cluster_of_elasticsearch_calls_its_manager_a_master():
    state = {"master_node" if key == "cluster_manager_node" else key: value for key, value in STATE.items()}
    expected = {"role": "cluster_manager", "term": 4, "cluster_manager": "n2"}
    assert status.understood(state, "n2", "master") == expected
    with node((200, state)) as (asking, asked):
        assert status.Node("127.0.0.1", int(asking.port), "master").state() == state
    assert asked[0][0].startswith("GET /_cluster/state/master_node,nodes,metadata?local=true&filter_path=master_node,")


@pytest.mark.parametrize("indices", [{}, {"indices": {"keep": {"in_sync_allocations": {"0": []}}}}])
def test_a_node_without_a_state_in_which_the_index_has_a_primary_says_nothing(indices):
    with pytest.raises(LookupError):
        status.understood({"metadata": {"cluster_coordination": {"term": 1}, **indices}}, "n1")


def test_a_node_that_cannot_answer_is_unknown(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    with node((503, {"error": "not yet"})) as (asking, asked):
        status.main("n1", "127.0.0.1", asking.port)
    assert "error" in json.loads(capsys.readouterr().out)
    assert [path for path, _ in asked] == [f"GET {status.PATH.format(manager='cluster_manager')}"]


# --- sets -----------------------------------------------------------------------------------------------------------

ALL = {"_shards": {"total": 3, "successful": 3, "failed": 0}}
ONE = {"_shards": {"total": 3, "successful": 2, "failed": 1}}
FOUND = {"total": {"value": 2}, "hits": [{"_source": {"value": 7}}, {"_source": {"value": "x"}}]}


def test_an_element_is_a_document_of_its_own_and_a_copy_that_failed_was_dropped_before_the_answer():
    with node((201, ONE)) as (asking, asked):
        assert asking.add("n1", "s0", 7) is None
    assert asked == [("PUT /keep/_doc/s0.7?timeout=3s", {"set": "s0", "value": 7})]


def test_a_set_is_searched_for_once_all_copies_were_refreshed():
    with node((200, ALL), (200, {**ALL, "hits": FOUND})) as (asking, asked):
        assert asking.read("n1", "s0") == [7, "x"]
    assert [path for path, _ in asked] == ["POST /keep/_refresh", "POST /keep/_search"]
    assert asked[1][1]["query"] == {"term": {"set": "s0"}}


@pytest.mark.parametrize(
    ("refreshed", "searched"),
    [
        (ONE, {**ALL, "hits": FOUND}),
        (ALL, {**ONE, "hits": FOUND}),
        (ALL, {**ALL, "hits": {**FOUND, "total": {"value": 3}}}),
    ],
)
def test_a_search_that_may_not_see_all_is_no_answer(refreshed, searched):
    with node((200, refreshed), (200, searched)) as (asking, _), pytest.raises(ValueError, match="not all"):
        asking.read("n1", "s0")


# --- registers ------------------------------------------------------------------------------------------------------

ABSENT = (404, {"_index": "keep", "_id": "k", "found": False})
HELD = (200, {"found": True, "_seq_no": 12, "_primary_term": 3, "_source": {"value": 5}})
CONFLICT = (409, {"error": {"type": "version_conflict_engine_exception"}})


def test_a_register_is_what_its_document_holds():
    with node(HELD, ABSENT) as (asking, _):
        assert (asking.get("n1", "k"), asking.get("n1", "k")) == (5, None)


def test_a_document_is_written_only_where_it_is_the_one_that_was_read():
    with node(HELD, (200, ALL), ABSENT, (201, ALL), HELD, (200, ALL)) as (asking, asked):
        assert asking.put("n1", "k", 6) is None
        assert asking.put("n1", "k", 7) is None
        assert asking.cas("n1", "k", 5, 8) is True
    assert asked[1::2] == [
        ("PUT /keep/_doc/k?if_seq_no=12&if_primary_term=3&timeout=3s", {"value": 6}),
        ("PUT /keep/_doc/k?op_type=create&timeout=3s", {"value": 7}),
        ("PUT /keep/_doc/k?if_seq_no=12&if_primary_term=3&timeout=3s", {"value": 8}),
    ]


def test_a_conflict_is_doubt_as_the_node_may_have_sent_the_request_twice():
    with node(HELD, CONFLICT) as (asking, _), pytest.raises(ValueError, match="409"):
        asking.put("n1", "k", 6)


@pytest.mark.parametrize("read", [(503, {"error": "no copy"}), (404, {"error": "no index"}), (200, b"{")])
def test_nothing_is_written_where_nothing_could_be_read(read):
    with node(read) as (asking, asked), pytest.raises(client.NotDoneError):
        asking.put("n1", "k", 6)
    assert len(asked) == 1


def test_another_value_in_a_copy_is_no_claim_about_the_register():
    with node(HELD) as (asking, asked), pytest.raises(client.NotDoneError, match="something else"):
        asking.cas("n1", "k", 4, 8)
    assert len(asked) == 1


def test_a_node_that_cannot_be_reached_did_nothing():
    asking = client.Client({"n1": {"address": "127.0.0.1", "http": 1}})
    with pytest.raises(client.NotDoneError):
        asking.add("n1", "s0", 7)


# --- the index ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("members", "replicas"), [("a:1", 0), ("a:1,b:1,c:1", 2), ("a:1,b:1,c:1,d:1,e:1", 2)])
def test_the_index_has_two_replicas_where_there_are_three_nodes(members, replicas):
    with node((200, {}), (200, {}), (200, {})) as (asking, asked):
        client.make_index("127.0.0.1", asking.port, members)
    assert asked[1][0] == "PUT /keep"
    assert asked[1][1]["settings"] == {"number_of_shards": 1, "number_of_replicas": replicas}
    assert f"wait_for_nodes={len(members.split(','))}" in asked[0][0]


def test_an_index_that_is_there_is_waited_for_until_all_its_copies_are():
    there = (400, {"error": {"type": "resource_already_exists_exception"}})
    with node((200, {}), there, (408, {"timed_out": True})) as (asking, _), pytest.raises(ValueError, match="408"):
        client.make_index("127.0.0.1", asking.port, "a:1,b:1,c:1")
