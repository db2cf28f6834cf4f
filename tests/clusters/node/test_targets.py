"""Real processes around the real protocols: they elect, survive kills and pauses, and their journals re-execute."""

from __future__ import annotations

import signal

import pytest

from dethrone.clusters.node.config import load_target
from dethrone.clusters.node.journal import replay
from tests.clusters.node.node_cluster import wait_for

pytestmark = pytest.mark.processes

RAFT = {"target": "raft", "rpc_timeout_ms": 150, "knobs": {"time_factor": "3"}}
NACOS = {"target": "nacos", "rpc_timeout_ms": 400, "knobs": {"time_factor": "0.05"}}
BOTH = pytest.mark.parametrize("config", [RAFT, NACOS], ids=["raft", "nacos"])


def statuses(nodes):
    return {node.name: node.status() for node in nodes}


def agreed(nodes, *, above=None):
    """The one leader that all of ``nodes`` name; None if they do not agree (yet). With ``above``, all of them in a term
    above it: for Raft alone, since a beat of Nacos does not raise the term of a node that was not there to vote."""
    seen = statuses(nodes)
    leaders = {name for name, status in seen.items() if status["role"] == "LEADER"}
    named = {status["leader"] for status in seen.values()}
    terms = {status["term"] for status in seen.values()}
    if len(leaders) == 1 and named == leaders and (above is None or min(terms) > above):
        return leaders.pop()
    return None


def elected(clusters, config):
    """A started cluster of three, its nodes, and the leader that they name."""
    cluster = clusters(3, **config)
    cluster.start()
    nodes = list(cluster.nodes.values())
    return cluster, nodes, wait_for(lambda: agreed(nodes))


def write(node, value):
    client = node.client()
    try:
        return client.ask("append", key="k", value=value)
    finally:
        client.close()


@BOTH
def test_a_leader_is_elected_and_replaced_when_it_is_killed(clusters, config):
    cluster, nodes, leader = elected(clusters, config)
    term = cluster.nodes[leader].status()["term"]
    assert write(cluster.nodes[leader], 1)["type"] == "ok"
    lines = cluster.nodes[leader].events("elected")
    assert [line["source"] for line in lines if line["term"] == term].count("shell") == 1
    cluster.nodes[leader].kill()
    rest = [node for node in nodes if node.name != leader]
    second = wait_for(lambda: agreed(rest, above=term if config is RAFT else None))
    assert second != leader
    cluster.nodes[leader].start()
    wait_for(lambda: agreed(nodes))
    for node in nodes:
        node.signal(signal.SIGTERM)
    assert [node.wait() for node in nodes] == [0, 0, 0]
    target = load_target(config["target"])
    for node in nodes:
        for incarnation in range(1, node.incarnation + 1):
            assert sum(1 for _ in replay(node.journal_path, target, incarnation=incarnation)) > 5


def test_a_killed_raft_node_keeps_its_vote_and_its_log(clusters):
    cluster, nodes, leader = elected(clusters, RAFT)
    for value in range(5):
        assert write(cluster.nodes[leader], value)["type"] == "ok"
    before = statuses(nodes)
    for node in nodes:
        node.kill()
    for node in nodes:
        node.start()
        after = node.status()  # alone: no majority that could move its term
        assert (after["term"], after["voted_for"]) == (before[node.name]["term"], before[node.name]["voted_for"])
        assert after["persisted"]["term"] == after["term"]
        assert after["log_end"]["index"] >= before[node.name]["commit"]
        node.kill()


def test_a_paused_raft_leader_is_replaced_and_follows_when_it_goes_on(clusters):
    cluster, nodes, leader = elected(clusters, RAFT)
    paused = cluster.nodes[leader]
    term = paused.status()["term"]
    paused.signal(signal.SIGSTOP)
    rest = [node for node in nodes if node.name != leader]
    seen = wait_for(lambda: [s for s in statuses(rest).values() if s["role"] == "LEADER" and s["term"] > term])
    paused.signal(signal.SIGCONT)
    wait_for(lambda: agreed(nodes, above=term))
    assert paused.events("stall")
    assert not [line for line in paused.events("elected") if line["term"] == seen[0]["term"]]


def test_single_votes_and_leaders_in_all_traces_together(clusters):
    cluster = clusters(3, **RAFT)
    cluster.start()
    nodes = list(cluster.nodes.values())
    for _ in range(2):
        leader = wait_for(lambda: agreed(nodes))
        cluster.nodes[leader].kill()
        wait_for(lambda gone=leader: agreed([node for node in nodes if node.name != gone]))
        cluster.nodes[leader].start()
    wait_for(lambda: agreed(nodes))
    votes, elected = {}, {}
    for node in nodes:
        for line in node.trace():
            if line["source"] == "shell" and line["event"] == "vote":
                votes.setdefault((node.name, line["term"]), set()).add(line["data"]["candidate"])
            elif line["source"] == "shell" and line["event"] == "elected":
                elected.setdefault(line["term"], set()).add(node.name)
    assert len(elected) >= 3
    assert all(len(each) == 1 for each in [*votes.values(), *elected.values()])
