"""Patroni in the gallery: what its two small programs make of what servers say."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import threading
from contextlib import contextmanager

import pytest

from dethrone.clusters.gallery.patroni import client, status

LEASE = {"kvs": [{"key": "L3NlcnZpY2Uva2VlcC9sZWFkZXI=", "value": "bjI="}]}


@pytest.fixture
def says(monkeypatch):
    """What Patroni and etcd answer, by path; what is missing is not answered."""
    answers = {}

    def asked(_address, _port, path, given=None):
        assert given in (None, {"key": LEASE["kvs"][0]["key"], "serializable": True})
        if path not in answers:
            raise http.client.HTTPException("nothing")
        return answers[path]

    monkeypatch.setattr(status, "asked", asked)
    return answers


def test_a_standby_names_who_holds_the_lease_and_a_primary_itself(says):
    says["/v3/kv/range"] = LEASE
    says["/health"] = {"role": "replica", "timeline": 3, "state": "running", "xlog": {}}
    assert status.status("n1", "", 0, 0, last=0) == {"role": "replica", "timeline": 3, "leader": "n2"}
    says["/health"] = {"role": "primary", "timeline": 4, "state": "running"}
    assert status.status("n1", "", 0, 0, last=0)["leader"] == "n1"


def test_without_etcd_a_standby_follows_nobody_and_without_a_server_nothing_is_said(says):
    says["/health"] = {"role": "replica", "timeline": 3, "state": "running"}
    assert status.status("n1", "", 0, 0, last=0)["leader"] is None
    says["/v3/kv/range"] = {"header": {}}
    assert status.status("n1", "", 0, 0, last=0)["leader"] is None
    says["/health"] = {"role": "primary", "state": "unknown"}
    with pytest.raises(LookupError):
        status.status("n1", "", 0, 0, last=3)


def test_a_primary_that_stops_leads_no_more_and_has_the_timeline_that_it_had(says):
    says["/health"] = {"role": "primary", "state": "stopping"}
    assert status.status("n1", "", 0, 0, last=3) == {"role": "stopping", "timeline": 3, "leader": None}
    with pytest.raises(LookupError):
        status.status("n1", "", 0, 0, last=0)


@pytest.mark.parametrize(
    ("roles", "synchronous", "code"),
    [
        (["leader", "replica"], "false", 0),
        (["leader", "replica"], "true", 1),
        (["leader", "sync_standby", "replica"], "true", 0),
        (["replica", "replica"], "false", 1),
        (["leader"], "false", 1),
    ],
)
def test_a_cluster_is_settled_once_a_standby_may_follow_the_primary(says, roles, synchronous, code):
    assert status.settled("", "0", synchronous) == 1
    says["/cluster"] = {"members": [{"name": "n1", "role": role} for role in roles]}
    assert status.settled("", "0", synchronous) == code


# --- clients ------------------------------------------------------------------------------------------------------


def message(kind, body=b""):
    return kind + struct.pack("!i", 4 + len(body)) + body


READY = message(b"Z", b"I")
WELCOME = message(b"R", bytes(4)) + message(b"S", b"server_version\x0015\0") + READY


def done(tag):
    return message(b"C", tag + b"\0") + READY


def row(value):
    return message(b"D", struct.pack("!hi", 1, len(value)) + value)


def told(kind, severity, code):
    return message(kind, b"S%s\0V%s\0C%s\0Mwords\0\0" % (severity, severity, code))


@contextmanager
def server(*answers, welcome=WELCOME):
    """One that answers each statement with the next of these; yields its nodes and the statements."""
    heard = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        peer, _ = listener.accept()
        with peer, peer.makefile("rb") as stream:
            (size,) = struct.unpack("!i", stream.read(4))
            assert stream.read(size - 4)[4:] == b"user\0postgres\0database\0postgres\0\0"
            peer.sendall(welcome)
            for answer in answers:
                sent = {}
                for kind in (b"P", b"B", b"E", b"S"):
                    assert stream.read(1) == kind
                    (size,) = struct.unpack("!i", stream.read(4))
                    sent[kind] = stream.read(size - 4)
                heard.append((sent[b"P"].strip(b"\0").decode(), sent[b"B"]))
                peer.sendall(message(b"1") + message(b"2") + answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield {"n1": {"address": "127.0.0.1", "sql": listener.getsockname()[1]}}, heard
    finally:
        thread.join(5)
        listener.close()


def test_each_operation_is_one_statement_over_a_kept_connection():
    held = row(json.dumps([1, "it's"]).encode()) + done(b"SELECT 1")
    with server(done(b"INSERT 0 1"), held, done(b"SELECT 0"), done(b"UPDATE 1")) as (nodes, heard):
        asking = client.Client(nodes)
        assert asking.append("n1", "k", "it's") is None
        assert asking.read("n1", "k") == [1, "it's"]
        assert asking.get("n1", "k") is None
        assert asking.cas("n1", "k", 1, 2) is True
    assert [statement for statement, _ in heard] == [client.APPEND, client.READ, client.GET, client.REPLACE]
    assert heard[0][1] == b'\0\0\0\0\0\2\0\0\0\1k\0\0\0\x08["it\'s"]\0\0'


def test_a_statement_that_changed_nothing_is_no_claim_about_the_register():
    for old, answer in ((None, b"INSERT 0 0"), (1, b"UPDATE 0")):
        with server(done(answer)) as (nodes, _), pytest.raises(client.NotDoneError):
            client.Client(nodes).cas("n1", "k", old, 2)


def test_a_standbys_refusal_is_certain_and_any_other_error_is_doubt():
    refused = told(b"E", b"ERROR", client.READ_ONLY.encode()) + READY
    with server(refused) as (nodes, _), pytest.raises(client.NotDoneError):
        client.Client(nodes).put("n1", "k", 7)
    for answer in (told(b"E", b"ERROR", b"40001") + READY, told(b"E", b"FATAL", b"57P01")):
        with server(answer) as (nodes, _), pytest.raises(client.ServerError, match="words"):
            client.Client(nodes).put("n1", "k", 7)


def test_a_commit_with_a_warning_is_doubt_since_it_may_not_be_replicated():
    warning, notice = told(b"N", b"WARNING", b"01000"), told(b"N", b"NOTICE", b"00000")
    with server(warning + done(b"INSERT 0 1")) as (nodes, _), pytest.raises(ValueError, match="warned"):
        client.Client(nodes).put("n1", "k", 7)
    with server(notice + done(b"INSERT 0 1")) as (nodes, _):
        assert client.Client(nodes).put("n1", "k", 7) is None


def test_what_was_never_sent_is_certain_and_a_server_that_hangs_up_is_doubt():
    for welcome in (told(b"E", b"FATAL", b"57P03"), message(b"R", struct.pack("!i", 3)), b""):
        with server(welcome=welcome) as (nodes, _), pytest.raises(client.NotDoneError):
            client.Client(nodes).append("n1", "k", 7)
    with server(message(b"C", b"INSERT 0 1\0")[:4]) as (nodes, _):
        asking = client.Client(nodes)
        with pytest.raises(ConnectionError):
            asking.append("n1", "k", 7)
    with pytest.raises(client.NotDoneError):
        asking.append("n1", "k", 7)
