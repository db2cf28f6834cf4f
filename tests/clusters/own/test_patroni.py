"""Patroni in the gallery: what its small program makes of what servers say."""

from __future__ import annotations

import http.client

import pytest

from dethrone.clusters.gallery.patroni import status

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
