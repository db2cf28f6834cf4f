"""`leads` as conditions: all of them hold, one that fails is enough, and what is not there is unknown."""

import json

import pytest

from dethrone.clusters.own.answers import explain, reading
from dethrone.clusters.own.spec import ProbeTable
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import No, Yes
from tests.clusters.own.described import described, specs, system

LEADS = ("role is master", "sentinel.address is {address}", "sentinel.ok")
PROBE = ProbeTable(http="/s", leads=LEADS, term="epoch")
WORDS = {"name": "n1", "address": "10.0.0.1"}
IDS = {"n1": "n1"}


def answer(**changed):
    return {"role": "master", "epoch": 3, "sentinel": {"address": "10.0.0.1", "ok": True}, **changed}


def sentinel(**changed):
    return answer(sentinel={"address": "10.0.0.1", "ok": True, **changed})


def leads(said, probe=PROBE):
    found = reading(probe, IDS, json.dumps(said).encode(), own="n1", words=WORDS)
    return None if found is None else found.leads


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (answer(), True),
        (answer(role="MASTER"), True),
        (answer(role="slave"), False),
        (sentinel(address="10.0.0.2"), False),
        (sentinel(address=None), False),
        (sentinel(ok=0), False),
        (sentinel(ok="maybe"), None),
        (answer(sentinel={}), None),
        (answer(sentinel={}, role="slave"), False),
        (answer(role=["master"]), None),
    ],
)
def test_a_node_leads_while_all_conditions_hold_and_what_decides_nothing_is_unknown(said, expected):
    assert leads(said) is expected


def test_a_node_that_does_not_lead_has_the_role_that_its_answer_names_or_is_another():
    found = reading(PROBE, IDS, json.dumps(answer(role="slave")).encode(), own="n1", words=WORDS)
    assert (found.role, found.leads, found.leader) == ("other", False, None)
    probe = ProbeTable(http="/s", role="role", leads=LEADS, term="epoch")
    found = reading(probe, IDS, json.dumps(sentinel(address="10.0.0.2")).encode(), own="n1", words=WORDS)
    assert (found.role, found.leads) == ("master", False)


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("a is true", True, True),
        ("a is false", True, False),
        ("a is null", None, True),
        ("a is 3", 3.0, True),
        ("a is 3", "3", True),
        ("a is not now", "not now", True),
        ("a", 1, True),
        ("a is", {"is": 1}, None),
    ],
)
def test_one_condition_may_stand_alone_and_values_are_compared_as_json_writes_them(condition, value, expected):
    assert leads({"a": value, "epoch": 1}, ProbeTable(http="/s", leads=condition, term="epoch")) is expected


def test_a_command_that_prints_json_has_conditions_too():
    probe = ProbeTable(command="ctl", leads=("role is master",), term="epoch")
    body = json.dumps({"code": 0, "out": json.dumps(answer()), "incarnation": 2}).encode()
    assert reading(probe, IDS, body, own="n1").leads


def test_metrics_are_no_conditions_so_that_labels_may_hold_any_word():
    probe = ProbeTable(metrics="/m", leads='state{of="a is b"}', term="epoch")
    assert reading(probe, IDS, b'state{of="a is b"} 1\nepoch 2\n', own="n1").leads


def test_doctor_shows_each_condition_what_is_there_and_what_it_must_be():
    rows = explain(PROBE, IDS, json.dumps(answer(sentinel={"address": "10.0.0.2"})).encode(), WORDS)
    assert rows[0] == ("leads: role holds 'master', which is master", Yes())
    assert rows[1] == ("leads: sentinel.address holds '10.0.0.2', which is not 10.0.0.1", Yes())
    assert rows[2][0] == "leads: sentinel.ok holds nothing"
    assert isinstance(rows[2][1], No)


@pytest.mark.parametrize(
    ("leads", "said"),
    [
        ('["role is {adress}"]', "{adress}"),
        ('["role is {tenant}"]', "{tenant}"),
        ('["role is "]', "is no condition"),
        ('[""]', "is no condition"),
        ("[]", "leads is empty"),
    ],
)
def test_conditions_that_cannot_be_meant_are_refused_with_their_place(leads, said):
    with pytest.raises(ConfigError) as refused:
        described(('role = "raft.state"', f"leads = {leads}"))
    assert said in str(refused.value)
    assert "[probe]" in str(refused.value)


def test_a_list_of_conditions_does_not_fit_metrics():
    with pytest.raises(ConfigError, match="of metrics, `leads` names the one"):
        described(('http = "/status"\nrole = "raft.state"', 'metrics = "/m"\nleads = ["a", "b"]'))


def test_words_are_those_of_the_node_that_was_asked():
    of = system(('role = "raft.state"', 'leads = ["raft.state is leader", "raft.at is {address}:{peer}"]'))
    nodes = specs(of)
    body = json.dumps({"raft": {"state": "Leader", "term": 2, "at": f"{nodes['n2'].address}:7000"}}).encode()
    assert [of.reading(node, body).leads for node in nodes.values()] == [False, True, False]
    assert any("which is not" in what for what, _ in of.explain(nodes["n1"], body))
