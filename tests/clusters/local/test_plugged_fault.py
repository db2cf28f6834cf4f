"""A kind of fault of one file on real hosts: begun and proved from inside, put back, healed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dethrone.harness.core import registry
from dethrone.harness.core.hoststate import HEALTHY, healthy_cluster
from tests.waiting import until

pytestmark = pytest.mark.namespaces

SITE = Path(__file__).resolve().parents[2] / "plugged" / "site"
RULES = "iptables -S INPUT | grep dethrone-deafen"


@pytest.fixture
def deaf(monkeypatch):
    """The state of a deafened n2 of three."""
    monkeypatch.syspath_prepend(str(SITE))
    kind = registry.load(registry.FAULTS, "deafen")
    return kind.apply(healthy_cluster(("n1", "n2", "n3")), ("n2",), {})["n2"]


def test_a_kind_of_one_file_is_begun_proved_from_inside_put_back_and_healed(three, deaf):
    assert three.backend.traits.capabilities >= {"commands"}
    begun = three.backend.converge_all(three.hosts, {"n2": deaf})["n2"]
    assert begun.confirmed, begun.why
    assert begun.state == deaf
    assert set(begun.detail["probes"]["arrived"]) & {"n1", "n3"} == set()
    assert len(begun.detail["commands"]["in_force"]) == 2
    assert three.shell("n2", RULES)[1].count("-j DROP") == 2
    assert three.shell("n1", RULES)[1] == ""

    again = three.backend.converge_all(three.hosts, {"n2": deaf})["n2"]  # idempotent
    assert again.confirmed, again.why
    assert three.shell("n2", RULES)[1].count("-j DROP") == 2

    three.shell("n2", "iptables -F INPUT")  # another program takes it away
    until(lambda: any(one.kind == "noise" and one.data.get("kind") == "rules-lost" for one in three.news))
    assert three.shell("n2", RULES)[1].count("-j DROP") == 2

    healed = three.backend.converge_all(three.hosts, {"n2": HEALTHY})["n2"]
    assert healed.confirmed, healed.why
    assert {"n1", "n3"} <= set(healed.detail["probes"]["arrived"])
    assert "deafen was no longer in force" in healed.detail["before"]["why"]
    assert three.shell("n2", RULES)[1] == ""
