"""NATS in the gallery: what its two small programs make of what servers say."""

from __future__ import annotations

import base64
import json
import socket
import threading
from contextlib import contextmanager

import pytest

from dethrone.clusters.gallery.nats import client, status

GROUP = {
    "id": "aaaaaaaa",
    "state": "FOLLOWER",
    "term": 4,
    "committed": 17,
    "leader": "bbbbbbbb",
    "voted_for": "cccccccc",
    "peers": {"bbbbbbbb": {"name": "n2"}, "cccccccc": {"name": "n3"}},
}


def test_servers_have_their_names_and_the_group_of_the_stream_is_chosen():
    groups = {"$G": {"S-R3F-Xy": GROUP, "C-R3F-Zz": {**GROUP, "term": 9}}}
    found = status.understood(groups, "n1")
    assert found == {"state": "FOLLOWER", "term": 4, "committed": 17, "leader": "n2", "voted_for": "n3"}
    alone = {key: value for key, value in GROUP.items() if key not in ("leader", "voted_for")}
    assert status.understood({"$G": {"S-R3F-Xy": alone}}, "n1")["leader"] is None


def test_a_server_names_itself_though_it_is_none_of_its_peers():
    leads = {**GROUP, "state": "LEADER", "leader": "aaaaaaaa", "voted_for": "aaaaaaaa"}
    found = status.understood({"$G": {"S-R3F-Xy": leads}}, "n1")
    assert (found["leader"], found["voted_for"]) == ("n1", "n1")


@pytest.mark.parametrize("groups", [{}, {"$G": {}}, {"$G": {"C-R3F-Zz": GROUP}}])
def test_a_server_without_the_stream_says_nothing(groups):
    with pytest.raises((LookupError, ValueError)):
        status.understood(groups, "n1")


@contextmanager
def server(*answers):
    """One that answers each message with the next of these frames; yields its nodes and what was published."""
    heard = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        peer, _ = listener.accept()
        with peer, peer.makefile("rb") as lines:
            peer.sendall(b'INFO {"headers":true}\r\n')
            assert lines.readline().startswith(b"CONNECT ")
            assert lines.readline() == b"PING\r\n"
            peer.sendall(b"PONG\r\n")
            for answer in answers:
                line = lines.readline()
                while line == b"PONG\r\n":
                    line = lines.readline()
                _, inbox, number = line.split()
                assert lines.readline().split() == [b"UNSUB", number, b"1"]
                _, subject, reply, size = lines.readline().split()
                assert reply == inbox
                heard.append((subject.decode(), json.loads(lines.read(int(size) + 2))))
                peer.sendall(answer(inbox, number))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield {"n1": {"address": "127.0.0.1", "client": listener.getsockname()[1]}}, heard
    finally:
        thread.join(5)
        listener.close()


def says(value):
    """A frame with this JSON, behind a question of the server and a late answer to something else."""
    body = json.dumps(value).encode()
    late = b"MSG _INBOX.old 999 2\r\n{}\r\n"
    return lambda inbox, number: b"PING\r\n%sMSG %s %s %d\r\n%s\r\n" % (late, inbox, number, len(body), body)


def no_responders(inbox, number):
    """What a server says where nothing takes a message."""
    head = b"NATS/1.0 503\r\n\r\n"
    return b"HMSG %s %s %d %d\r\n%s\r\n" % (inbox, number, len(head), len(head), head)


def test_an_append_is_published_once_and_done_once_it_is_acknowledged():
    with server(says({"stream": "values", "seq": 5})) as (nodes, heard):
        assert client.Client(nodes).append("n1", "k", 7) is None
    assert heard == [("values.k", 7)]


def test_an_error_is_doubt_and_what_no_server_takes_is_certain():
    with server(says({"error": {"code": 500}})) as (nodes, _), pytest.raises(ValueError, match="500"):
        client.Client(nodes).append("n1", "k", 7)
    with server(no_responders) as (nodes, _), pytest.raises(client.NotDoneError):
        client.Client(nodes).append("n1", "k", 7)
    nobody = {"n1": {"address": "127.0.0.1", "client": 1}}
    with pytest.raises(client.NotDoneError):
        client.Client(nobody).append("n1", "k", 7)


def test_a_read_asks_for_one_message_after_another():
    held = [
        says({"message": {"seq": seq, "data": base64.b64encode(json.dumps(value).encode()).decode()}})
        for seq, value in ((3, 1), (9, "two"))
    ]
    with server(*held, says({"error": {"code": 404, "err_code": client.NO_MESSAGE}})) as (nodes, heard):
        assert client.Client(nodes).read("n1", "k") == [1, "two"]
    assert [asked["seq"] for _, asked in heard] == [1, 4, 10]
    with server(says({"error": {"code": 404, "err_code": client.NO_STREAM}})) as (nodes, _):
        assert client.Client(nodes).read("n1", "k") == []
    with server(says({"error": {"code": 503}})) as (nodes, _), pytest.raises(ValueError, match="503"):
        client.Client(nodes).read("n1", "k")


def test_a_server_that_hangs_up_is_doubt_and_asked_anew_the_next_time():
    with server(lambda *_: b"") as (nodes, _):
        asking = client.Client(nodes)
        with pytest.raises(ConnectionError):
            asking.append("n1", "k", 7)
    with pytest.raises(client.NotDoneError):
        asking.append("n1", "k", 7)


def test_the_stream_has_a_replica_on_each_member():
    with server(says({"type": "io.nats.jetstream.api.v1.stream_create_response"})) as (nodes, heard):
        client.make_stream("127.0.0.1", str(nodes["n1"]["client"]), "nats://a:1,nats://b:1,nats://c:1")
    ((subject, asked),) = heard
    assert (subject, asked["num_replicas"]) == ("$JS.API.STREAM.CREATE.values", 3)
