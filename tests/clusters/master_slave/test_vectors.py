from __future__ import annotations

import pytest

from dethrone.clusters.targets.client_api import Append, Cas, ChangeConfig, Get, NotLeader, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.master_slave import messages as m
from dethrone.clusters.targets.master_slave.client import Routes
from dethrone.clusters.targets.master_slave.knobs import Place
from dethrone.clusters.targets.master_slave.place import CONF, conf_ops, load_place
from dethrone.clusters.targets.master_slave.target import TARGET
from dethrone.clusters.targets.zk_ephemeral.log import LOG
from dethrone.clusters.targets.zk_ephemeral.messages import Record
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.machine import Disk, Fired, Fsync, SendFailed
from tests.clusters.master_slave.spec import One, cluster, promote, scaled, send, slaves, values
from tests.world.effects import bodies, halted, notes, replies

RECORDS = (Record(4, 0, Append("k", 1)), Record(5, 0, Put("k", 2)))


def following(master="m", **more):
    one = One("s1", **more)
    one.hear("ns", m.RegisterAnswer("a", master))
    return one


# --- layouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("deployment", "count"), [("DP1", 3), ("DP5", 3), ("DP2", 1), ("DP4", 0)])
def test_a_deployment_that_does_not_fit_is_refused(deployment, count):
    members = tuple(f"n{i}" for i in range(count + 1))
    with pytest.raises(ConfigError, match=deployment):
        TARGET.knobs({"deployment": deployment}).layout(members)


# --- roles --------------------------------------------------------------------------------------------------------


def test_a_slave_refuses_writes_and_names_its_master():
    one = following()
    out = one.ask(Append("k", 1))
    assert replies(out) == [NotLeader("m")]
    assert notes(out, "write_refused") == [{"id": 1}]


def test_masters_and_slaves_serve_reads_and_nothing_else_is_served():
    for one in (One("m"), following()):
        assert replies(one.ask(Get("k"))) == [Ok(None)]
        assert isinstance(replies(one.ask(Cas("k", 1, 2)))[0], Refused)


def test_the_status_says_what_is_configured():
    master, slave = One("m").status(), following().status()
    assert (master.role, master.term, master.leader, master.extra["broker_id"]) == ("MASTER", 0, "m", 0)
    assert (slave.role, slave.leader, slave.extra["broker_id"], slave.extra["writable"]) == ("SLAVE", "m", 1, False)


def test_an_operators_change_is_on_disk_before_it_is_confirmed_and_takes_effect_at_the_restart():
    world = cluster()
    promote(world, "s1")
    assert "s1" in world.with_role("MASTER")
    one = One("s1", slow=True)
    out = one.ask(ChangeConfig(add="s1"))
    kinds = [type(effect).__name__ for effect in out]
    assert kinds.index("Disk") < kinds.index("Await") < kinds.index("Reply")
    assert one.status().role == "SLAVE"
    assert isinstance(replies(one.ask(ChangeConfig(add="m")))[0], Refused)


def test_a_demoted_master_is_a_slave_after_its_restart():
    world = cluster()
    world.ask("m", ChangeConfig(remove="m"))
    assert world.with_role("MASTER") == ["m"]
    world.restart("m")
    assert world.with_role("MASTER") == []


# --- sends --------------------------------------------------------------------------------------------------------


def test_an_asynchronous_master_confirms_what_is_written():
    one = One("m", slow=True)
    assert not replies(one.ask(Append("k", 1)))
    out = one.done()
    assert replies(out) == [Ok(1)]
    assert notes(out, "write") == [{"offset": 0, "status": "SEND_OK"}]


def test_a_synchronous_master_confirms_what_a_slave_holds():
    one = One("m", profile="sync")
    one.hear("s1", m.HaAck(0))
    assert not replies(one.ask(Append("k", 1)))
    assert replies(one.hear("s1", m.HaAck(1))) == [Ok(1)]


def test_without_a_slave_it_stores_and_says_that_none_was_there():
    one = One("m", profile="sync")
    assert replies(one.ask(Append("k", 1))) == [Unknown("SLAVE_NOT_AVAILABLE")]
    assert one.core.log.end == 1


def test_a_slave_too_far_behind_is_none():
    one = One("m", profile="sync", ha_slave_fallbehind_max=100)
    one.hear("s1", m.HaAck(0))
    assert not replies(one.ask(Append("k", "x")))
    assert replies(one.ask(Append("k", "y" * 200))) == [
        Unknown("SLAVE_NOT_AVAILABLE"),
        Unknown("SLAVE_NOT_AVAILABLE"),
    ]


def test_a_hung_disk_is_a_timeout_of_its_own():
    one = One("m", slow=True, profile="sync")
    one.ask(Append("k", 1))
    out = one.give(Fired("send_limit"), after_ms=5000)
    assert replies(out) == [Unknown("FLUSH_DISK_TIMEOUT")]


def test_flushing_is_a_barrier_with_every_write_or_one_some_time_later():
    for flush, barrier in (("SYNC_FLUSH", True), ("ASYNC_FLUSH", False)):
        one = One("m", flush_disk_type=flush)
        (batch,) = [effect for effect in one.ask(Append("k", 1)) if isinstance(effect, Disk)]
        assert any(isinstance(op, Fsync) for op in batch.ops) is barrier
    later = [effect for effect in one.give(Fired("flush"), after_ms=500) if isinstance(effect, Disk)]
    assert later[0].ops == (Fsync(LOG),)


# --- copying ------------------------------------------------------------------------------------------------------


def test_a_slave_finds_its_master_through_the_name_server_and_tells_how_far_it_is():
    one = One("s1")
    assert [body.broker_id for body in bodies(one.booted, m.RegisterBroker)] == [1]
    assert bodies(one.hear("ns", m.RegisterAnswer("a", "m")), m.HaAck) == [m.HaAck(0)]
    assert not bodies(one.hear("ns", m.RegisterAnswer("b", "x")))


def test_a_slave_appends_in_order_and_acknowledges_what_is_written():
    one = following(slow=True)
    out = one.hear("m", m.HaTransfer(0, RECORDS, 2, 0))
    assert not bodies(out, m.HaAck)
    assert bodies(one.done(), m.HaAck) == [m.HaAck(2)]
    assert one.hear("m", m.HaTransfer(9, RECORDS, 11, 2)) == []
    assert one.core.log.end == 2


def test_an_old_transfer_proves_nothing_about_lengths():
    one = following()
    one.hear("m", m.HaTransfer(0, RECORDS, 2, 0))
    out = one.hear("m", m.HaTransfer(0, (), 0, 0))
    assert not notes(out, "ha_closed")
    out = one.hear("m", m.HaTransfer(0, (), 0, 2))
    assert notes(out, "ha_closed")[0]["why"] == "shorter log"
    assert not bodies(one.give(Fired("ha"), after_ms=5000), m.HaAck)


def test_a_master_does_not_count_a_slave_whose_log_is_longer():
    one = One("m", profile="sync")
    (body,) = bodies(one.hear("s1", m.HaAck(7)), m.HaTransfer)
    assert (body.master_end, body.slave_end) == (0, 7)
    assert replies(one.ask(Append("k", 1))) == [Unknown("SLAVE_NOT_AVAILABLE")]


def test_what_is_not_acknowledged_is_sent_again_with_the_heartbeat():
    one = One("m")
    one.hear("s1", m.HaAck(0))
    assert len(bodies(one.ask(Append("k", 1)), m.HaTransfer)) == 1
    assert not bodies(one.ask(Append("k", 2)), m.HaTransfer)
    (body,) = bodies(one.give(Fired("ha"), after_ms=5000), m.HaTransfer)
    assert [record.command.value for record in body.records] == [1, 2]


def test_a_silent_peer_is_closed_on_both_sides_after_the_housekeeping_interval():
    master = One("m")
    master.hear("s1", m.HaAck(0))
    assert not notes(master.give(Fired("ha"), after_ms=19_999), "ha_closed")
    assert notes(master.give(Fired("ha"), after_ms=1), "ha_closed") == [{"with": "s1", "why": "silent"}]
    slave = following()
    slave.hear("m", m.HaTransfer(0, (), 0, 0))
    assert notes(slave.give(Fired("ha"), after_ms=20_000), "ha_closed") == [{"with": "m", "why": "silent"}]


def test_a_closed_connection_counts_at_once():
    master = One("m")
    master.hear("s1", m.HaAck(0))
    assert notes(master.give(SendFailed("s1", None, "reset")), "ha_closed")[0]["why"] == "connection closed"


# --- name server --------------------------------------------------------------------------------------------------


def register(broker_id, address):
    return m.RegisterBroker("c", "a", broker_id, address, address, ("t",))


def test_the_last_registration_of_a_pair_wins():
    ns = One("ns")
    ns.hear("m", register(0, "m"))
    out = ns.hear("s1", register(0, "s1"))
    assert notes(out, "route_changed")[0]["before"] == "m"
    assert bodies(out, m.RegisterAnswer) == [m.RegisterAnswer("a", "s1")]
    assert replies(ns.ask(m.Route())) == [Ok({"a": {"0": "s1"}})]
    assert not notes(ns.hear("s1", register(0, "s1")), "registered")


def test_a_silent_broker_is_dropped_after_its_time_and_a_closed_one_at_once():
    ns = One("ns")
    ns.hear("m", register(0, "m"))
    ns.hear("s1", register(1, "s1"), after_ms=60_000)
    assert not notes(ns.give(Fired("expiry"), after_ms=59_999), "dropped")
    assert notes(ns.give(Fired("expiry"), after_ms=1), "dropped")[0]["why"] == "silent"
    assert notes(ns.give(SendFailed("s1", None, "reset")), "dropped")[0]["why"] == "connection closed"


def test_a_name_server_forgets_everything_at_a_restart_and_sends_clients_to_a_master():
    ns = One("ns")
    ns.hear("m", register(0, "m"))
    assert replies(ns.ask(Append("k", 1))) == [NotLeader("m")]
    assert isinstance(replies(One("ns").ask(Append("k", 1)))[0], Refused)
    assert ns.status().extra["registered"]["a/0"] == {"address": "m", "age_ms": 0}


# --- pulls and routes ---------------------------------------------------------------------------------------------


def test_a_pull_finds_messages_or_says_that_there_are_none_or_that_the_offset_is_wrong():
    one = One("m")
    for value in (1, 2):
        one.ask(Append("k", value))
    told = [replies(one.ask(m.Pull("k", offset)))[0].value for offset in (0, 2, 5)]
    assert [answer["code"] for answer in told] == ["FOUND", "NO_NEW", "OFFSET_ERROR"]
    assert told[0]["values"] == [1, 2]
    assert [answer["next_offset"] for answer in told] == [2, 2, 2]


def test_with_no_name_server_left_the_last_routes_are_kept():
    routes = Routes(30)
    routes.learn({"a": {"0": "m", "1": "s1", "2": "s2"}}, 0)
    assert routes.due(30)
    assert routes.writers(0) == ["m"]
    assert routes.readers("a") == ["m", "s1", "s2"]
    assert routes.readers("a", suggested=1) == ["s1", "m", "s2"]
    assert routes.readers("b") == []


# --- disk ---------------------------------------------------------------------------------------------------------


def test_a_restarted_broker_has_its_log_and_its_configured_role():
    world = cluster()
    for i in range(3):
        send(world, "m", i)
    world.run(200)
    for name in ("m", "s1"):
        world.restart(name)
        assert values(world, name) == [0, 1, 2]
    assert (world.with_role("MASTER"), slaves(world)) == (["m"], ["s1", "s2"])


def test_asynchronous_flushing_loses_the_tail_in_a_power_loss_and_synchronous_does_not():
    for flush, left in (("ASYNC_FLUSH", []), ("SYNC_FLUSH", [1])):
        world = cluster(flush_disk_type=flush, flush_interval_ms=600_000)
        assert send(world, "m", 1) == "ok"
        world.restart("m", power=True)
        assert values(world, "m") == left


@pytest.mark.parametrize("image", [{LOG: "unreadable"}, {LOG: b"x" * 40}, {CONF: "unreadable"}, {CONF: b"{}"}])
def test_an_unreadable_file_stops_the_broker(image):
    one = One("m", disk=image)
    assert halted(one.booted)
    assert one.ask(Get("k")) == []


def test_a_failed_write_stops_the_broker():
    one = One("m", slow=True)
    one.ask(Append("k", 1))
    assert halted(one.done("ENOSPC"))


def test_the_operators_file_reads_back():
    place = Place("a", 0, "SYNC_MASTER")
    assert load_place({CONF: conf_ops(place)[0].data}) == place
    assert load_place({}) is None


def test_a_slave_that_was_cut_off_catches_up_when_the_link_is_back():
    world = cluster()
    world.sever("m", "s2")
    for i in range(150):
        send(world, "m", i)
    world.heal()
    world.run(scaled(60_000))
    assert values(world, "s2") == list(range(150))
