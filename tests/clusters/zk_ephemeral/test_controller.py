from __future__ import annotations

import pytest

from dethrone.clusters.targets.zk_ephemeral import messages as m
from tests.clusters.zk_ephemeral.spec import One, cluster
from tests.world.effects import bodies, names, note


def broker():
    """A broker with the session 5, which is not the controller."""
    one = One("a", profile="controller")
    one.open()
    one.answer(m.OK, owner=5)
    one.answer(m.OK, {"id": "c"}, owner=9)
    return one


def command(leader="b", epoch=4, *, controller_epoch=3, version=1, session=5, isr=("a", "b")):
    return m.LeaderAndIsr(controller_epoch, leader, epoch, isr, version, session)


def office(live="abc", state=None):
    """A broker that is elected controller, with these brokers alive."""
    one = One("a", profile="controller")
    one.open()
    one.answer(m.OK, owner=5)
    one.answer(m.NO_NODE, version=-1)
    assert one.calling() == m.Create(m.CONTROLLER_PATH, {"id": "a"}, ephemeral=True)
    one.answer(m.OK, owner=5)
    assert one.calling() == m.GetNode(m.CONTROLLER_EPOCH_PATH)
    one.answer(m.OK, 2, version=2)
    assert one.calling() == m.Exists(m.CONTROLLER_PATH, watch=True)
    one.answer(m.OK, {"id": "a"}, owner=5)
    assert one.calling() == m.SetNode(m.CONTROLLER_EPOCH_PATH, 3, 2)
    out = one.answer(m.OK, 3, version=3)
    while isinstance(one.calling(), m.GetNode) and one.calling().path == m.CONTROLLER_EPOCH_PATH:
        out += one.answer(m.OK, 3, version=3)
    for name in "abc":
        assert one.calling() == m.Exists(m.IDS + name, watch=True)
        owner = 5 if name == "a" else 20 + ord(name)
        out += one.answer(m.OK, {"id": name}, owner=owner) if name in live else one.answer(m.NO_NODE, version=-1)
    assert one.calling() == m.GetNode(m.STATE_PATH)
    out += one.answer(m.OK, state, version=6) if state else one.answer(m.NO_NODE, version=-1)
    return one, out


def state(leader="b", epoch=4, isr=("a", "b"), controller_epoch=2):
    return {"leader": leader, "leader_epoch": epoch, "isr": list(isr), "controller_epoch": controller_epoch}


def stored(one):
    """The state that the controller is writing, and over which version."""
    op = one.calling()
    return (op.data["leader"], op.data["leader_epoch"], op.data["isr"], getattr(op, "version", None))


# --- the controller -----------------------------------------------------------------------------------------------


def test_the_winner_raises_the_controller_epoch_and_says_so():
    one, out = office()
    assert note(out, "leader_elected")["controller_epoch"] == 3
    assert one.status().extra["controller"] == {"is": True, "id": "a", "epoch": 3, "live": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("live", "before", "wanted"),
    [
        ("bc", None, ("b", 1, ["b", "c"], None)),  # at the first start all live ones are in sync
        ("ac", state(leader="b", isr=("b", "c")), ("c", 5, ["c"], 6)),  # the leader died
        ("ab", state(leader="b", isr=("a", "b", "c")), ("b", 4, ["a", "b"], 6)),  # a follower died
        ("ac", state(leader="b", isr=("b",)), (None, 5, ["b"], 6)),  # the partition is offline
    ],
)
def test_the_first_live_member_of_the_isr_in_assignment_order_leads(live, before, wanted):
    one, out = office(live=live, state=before)
    assert stored(one) == wanted
    assert ("partition_offline" in names(out)) is (wanted[0] is None)


def test_a_new_leader_is_told_once_it_is_stored():
    one, _ = office(live="ac", state=state(leader="b", isr=("b", "c")))
    out = one.answer(m.OK, one.calling().data, version=7)
    (body,) = bodies(out, m.LeaderAndIsr)
    assert (body.leader, body.leader_epoch, body.isr, body.controller_epoch) == ("c", 5, ("c",), 3)
    assert note(out, "isr_change")["why"] == "controller"


def test_nothing_is_said_before_the_state_is_stored():
    one, out = office(live="ac", state=state(leader="b", isr=("b", "c")))
    assert not bodies(out, m.LeaderAndIsr)
    out = one.answer(m.BAD_VERSION, state(leader="b", isr=("b",)), version=8)
    assert not bodies(out, m.LeaderAndIsr)
    assert one.calling() == m.GetNode(m.STATE_PATH)


def test_a_leader_whose_registration_is_another_one_was_away_and_is_replaced():
    one, out = office(state=state(leader="b", isr=("a", "b")))
    assert len(bodies(out, m.LeaderAndIsr)) == 2
    one.hear("zk", m.WatchFired(5, 1, m.IDS + "b", m.NODE_DELETED, 1))
    one.answer(m.OK, {"id": "b"}, owner=77)
    assert stored(one)[:2] == ("a", 5)


def test_a_command_is_repeated_until_it_is_answered():
    one, out = office(state=state(leader="b", isr=("a", "b")))
    sent_to = {body.broker_session for body in bodies(out, m.LeaderAndIsr)}
    assert len(sent_to) == 2
    assert len(bodies(one.fire("resend", after_ms=500), m.LeaderAndIsr)) == 2
    one.hear("b", m.LeaderAndIsrReply(3, 4, 6, m.ACCEPTED))
    assert len(bodies(one.fire("resend", after_ms=500), m.LeaderAndIsr)) == 1


def test_it_stops_acting_when_its_session_expires():
    one, _ = office(state=state(leader="b", isr=("a", "b")))
    out = one.hear("zk", m.SessionExpired(5))
    assert "controller_resigned" in names(out)
    assert not bodies(one.fire("resend", after_ms=500), m.LeaderAndIsr)


def test_it_stops_acting_when_a_broker_knows_a_newer_one():
    one, _ = office(state=state(leader="b", isr=("a", "b")))
    out = one.hear("b", m.LeaderAndIsrReply(9, 4, 6, m.STALE_CONTROLLER))
    assert "controller_resigned" in names(out)


# --- the brokers --------------------------------------------------------------------------------------------------


def test_a_command_makes_a_leader_or_a_follower():
    one = broker()
    out = one.hear("c", command("b", 4))
    assert (one.status().role, one.status().leader, one.status().term) == ("FOLLOWER", "b", 4)
    assert bodies(out, m.LeaderAndIsrReply) == [m.LeaderAndIsrReply(3, 4, 1, m.ACCEPTED)]
    one.hear("c", command("a", 5, version=2))
    assert (one.status().role, one.status().term) == ("LEADER", 5)
    one.hear("c", command(None, 6, version=3))
    assert (one.status().role, one.status().leader) == ("FOLLOWER", None)


@pytest.mark.parametrize(
    ("stale", "code"),
    [
        (command("c", 9, controller_epoch=2), m.STALE_CONTROLLER),
        (command("c", 9, session=4), m.STALE_BROKER),
        (command("c", 3), m.OLD_EPOCH),
    ],
)
def test_stale_commands_are_refused_and_change_nothing(stale, code):
    one = broker()
    one.hear("c", command("b", 4))
    out = one.hear("c", stale)
    assert [body.code for body in bodies(out, m.LeaderAndIsrReply)] == [code]
    assert note(out, "leader_and_isr")["answer"] == "refused"
    assert (one.status().leader, one.status().term) == ("b", 4)


def test_a_stale_controllers_metadata_is_refused():
    one = broker()
    one.hear("c", command("b", 4))
    one.hear("c", m.UpdateMetadata(3, "b", 4, ("a", "b")))
    out = one.hear("b", m.UpdateMetadata(2, "c", 3, ("c",)))
    assert "fenced" in names(out)
    assert one.core.live == ("a", "b")


def test_a_leader_takes_over_a_newer_isr_of_its_own_epoch():
    one = broker()
    one.hear("c", command("a", 5, version=2, isr=("a", "b", "c")))
    one.hear("c", command("a", 5, version=3, isr=("a", "b")))
    assert one.status().extra["isr"] == ["a", "b"]
    one.hear("c", command("a", 5, version=2, isr=("a", "b", "c")))
    assert one.status().extra["isr"] == ["a", "b"]


def test_a_broker_does_not_race_for_the_partition():
    one = broker()
    out = one.hear("c", command("b", 4))
    assert "contend" not in names(out)
    assert one.calling() is None


# --- a cluster ----------------------------------------------------------------------------------------------------


def controller(world):
    return [b.name for b in world.boxes.values() if b.alive and (b.status().extra.get("controller") or {}).get("is")]


def test_controller_and_leader_may_be_different_brokers_and_each_dies_without_the_other():
    world = cluster(profile="controller")
    (first,) = controller(world)
    world.kill(first)
    assert world.run(10_000, until=lambda: len(controller(world)) == 1 and len(world.with_role()) == 1)
    world.start(first)
    world.run(5000)
    assert {b.status().leader for b in world.boxes.values() if b.name != "zk"} == set(world.with_role())
    assert not world.problems


def test_a_returning_broker_becomes_a_follower_and_joins_the_isr():
    world = cluster(profile="controller")
    (leader,) = world.with_role()
    world.kill(leader)
    assert world.run(10_000, until=lambda: len(world.with_role()) == 1)
    (second,) = world.with_role()
    assert world.write(second, "while away")
    world.start(leader)
    assert world.run(20_000, until=lambda: leader in world.boxes[second].status().extra["isr"])
    assert world.boxes[leader].core.log.end == 1
