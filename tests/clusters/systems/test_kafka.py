from __future__ import annotations

import json
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.frames import frame
from dethrone.clusters.systems import kafka_wire as wire
from dethrone.clusters.systems.kafka import SYSTEM, SYSTEM_3_9, broker_ids
from dethrone.clusters.systems.kafka_client import KafkaClient, understood
from dethrone.harness.core.interfaces import Yes
from dethrone.harness.core.promise import SAFETY
from tests.clusters.systems.framed_server import FramedServer
from tests.clusters.systems.specs import at_loopback, specs

SECOND = 1_000_000_000
NODES = specs(SYSTEM, network="127.0.1")
NODE = NODES["n1"]


def told(**changes):
    """What Beside told of Kafka 4.1.0 on a real cluster."""
    status = {"incarnation": 2, "state": "follower", "epoch": 3, "leader": 2, "vote": 3, "high_watermark": 91}
    return json.dumps({**status, **changes}).encode()


# --- the adapter ------------------------------------------------------------------------------------------------


def test_a_status_names_leader_vote_epoch_and_incarnation_by_broker_ids():
    reading = SYSTEM.reading(NODE, told())
    assert (reading.role, reading.leads, reading.term, reading.leader) == ("follower", False, 3, "n2")
    assert (reading.voted_for, reading.commit, reading.incarnation, reading.atomic) == ("n3", 91, 2, True)
    nobody = SYSTEM.reading(NODE, told(state="prospective", leader=-1, vote=-1, high_watermark=-1))
    assert (nobody.leader, nobody.voted_for, nobody.commit, nobody.leads) == (None, None, None, False)


def test_a_leader_leads_and_one_that_resigned_neither_leads_nor_follows_itself():
    leader = SYSTEM.reading(NODE, told(state="leader", leader=1))
    assert (leader.leads, leader.leader) == (True, "n1")
    resigned = SYSTEM.reading(NODE, told(state="unattached", leader=1))
    assert (resigned.leads, resigned.leader) == (False, None)


@given(st.binary(max_size=200))
def test_no_bytes_are_a_status_by_chance(raw):
    assert SYSTEM.reading(NODE, raw) is None


def test_a_combined_node_and_a_controller_are_configured_as_such():
    combined = SYSTEM.files(NODE)["/run/dethrone/kafka.properties"].decode().splitlines()
    assert "process.roles=broker,controller" in combined
    assert "controller.quorum.voters=1@127.0.1.1:9093,2@127.0.1.2:9093,3@127.0.1.3:9093" in combined
    assert "min.insync.replicas=2" in combined
    assert "unclean.leader.election.enable=false" in combined
    alone = specs(SYSTEM, profile="controllers", count=5)["n5"]
    lines = SYSTEM.files(alone)["/run/dethrone/kafka.properties"].decode().splitlines()
    assert "process.roles=controller" in lines
    assert "node.id=5" in lines
    assert not any(line.startswith("min.insync") for line in lines)
    assert SYSTEM.files(specs(SYSTEM, count=5)["n1"])["/run/dethrone/kafka.properties"].count(b"min.insync.replicas=3")


def test_a_node_is_started_with_its_incarnation_its_status_and_its_clocks():
    argv = SYSTEM.command(NODE).argv
    assert "-Ddethrone.incarnation={incarnation}" in argv
    assert argv[argv.index("KafkaNode") + 1 :][:3] == ("127.0.1.1", "7002", "/run/dethrone/clock.sock")
    assert {"/run/dethrone/java/KafkaNode.java", "/run/dethrone/java/Beside.java"} <= set(SYSTEM.files(NODE))
    call = SYSTEM.status_call(NODE)
    assert (call.port, call.framing) == (7002, "u32")
    assert SYSTEM.fault_support("clock") == Yes()


def test_what_is_owed_follows_from_its_timers_and_from_pre_vote():
    made = SYSTEM.promise(NODE.knobs, profile="kafka", voters=3)
    assert {"one-leader-per-term", "acknowledged-survives", "term-never-decreases"} <= {
        name for name in SAFETY if made.owes(name)
    }
    assert all(made.exempt[name].kind == "not observable" for name in SAFETY if not made.owes(name))
    assert made.owes("leader-stability")
    assert not SYSTEM_3_9.promise(NODE.knobs, profile="kafka", voters=3).owes("leader-stability")
    slow = SYSTEM.knobs({"fetch_timeout_ms": "4000"}, profile=None, variant=None)
    assert SYSTEM.promise(slow, profile="kafka", voters=3).step_down_ns == made.step_down_ns + 3 * SECOND
    assert "clock" not in made.tolerates
    assert "clock" in made.tolerated_for_safety
    assert not made.linearizable_reads
    assert SYSTEM.defaults().nemesis_interval_ns > made.leader_bound_ns


# --- the wire ---------------------------------------------------------------------------------------------------


def test_the_checksum_is_that_of_castagnoli():
    assert wire.crc32c(b"123456789") == 0xE3069283


def test_a_record_batch_is_laid_out_as_the_protocol_guide_says():
    raw = wire.batch(b"41", now_ms=1_700_000_000_000)
    base, size, epoch, magic, crc = struct.unpack_from(">qiibI", raw)
    assert (base, size, epoch, magic) == (0, len(raw) - 12, -1, 2)
    assert crc == wire.crc32c(raw[21:])
    attributes, last, first_ms, max_ms, producer, era, sequence, count = struct.unpack_from(">hiqqqhii", raw, 21)
    assert (attributes, last, first_ms, max_ms) == (0, 0, 1_700_000_000_000, 1_700_000_000_000)
    assert (producer, era, sequence, count) == (-1, -1, -1, 1)
    assert raw[61:] == bytes([16, 0, 0, 0, 1, 4]) + b"41" + b"\x00"  # zigzag: 8 bytes; no key; 2 bytes of value


def fetched(records, error=0, high=9):
    body = struct.pack(">iihi", 1, 0, 0, 0) + struct.pack(">i", 1) + b"\x00\x01k" + struct.pack(">i", 1)
    body += struct.pack(">ihqqq", 0, error, high, high, 0) + struct.pack(">i", -1) + struct.pack(">i", -1)
    return body + struct.pack(">i", len(records)) + records


def placed(value, offset):
    return struct.pack(">q", offset) + wire.batch(value, now_ms=5)[8:]


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(0, 70))
def test_records_come_back_with_their_offsets_and_a_batch_cut_short_is_left_for_the_next_fetch(values, cut):
    data = b"".join(placed(value, 7 + i) for i, value in enumerate(values))
    assert wire.fetched(fetched(data)).records == tuple((7 + i, value) for i, value in enumerate(values))
    whole = wire.fetched(fetched(data[: len(data) - cut])).records
    assert whole == tuple((7 + i, value) for i, value in enumerate(values))[: len(whole)]
    assert not (cut and values) or len(whole) < len(values)


def test_a_damaged_record_is_no_answer():
    data = bytearray(placed(b"41", 0))
    data[-2] ^= 1
    with pytest.raises(wire.BadAnswerError):
        wire.fetched(fetched(bytes(data)))


@given(st.binary(max_size=300), st.sampled_from([wire.leader_of, wire.produced, wire.end_of, wire.fetched]))
def test_any_other_bytes_are_a_bad_answer_or_an_answer_never_anything_else(raw, parse):
    try:
        parse(raw)
    except wire.BadAnswerError:
        return


# --- the client -------------------------------------------------------------------------------------------------


def test_only_what_was_certainly_appended_nowhere_is_a_definite_failure():
    assert understood(0, 5, node="n1").status == "ok"
    for error, offset, status in (
        (19, -1, "fail"),  # too few replicas before the append
        (20, 5, "info"),  # and after it
        (6, -1, "fail"),  # never led
        (6, 5, "info"),  # led, appended, lost its leadership while it waited
        (3, -1, "fail"),
        (7, 5, "info"),
        (7, -1, "info"),
        (56, -1, "info"),
        (-1, -1, "info"),
        (1234, -1, "info"),
    ):
        assert understood(error, offset, node="n1").status == status, (error, offset)


class Broker(FramedServer):
    """Answers requests by their API key with the bodies it is given; None hangs up."""

    def __init__(self):
        self.answers, self.asked = [], []
        super().__init__(self.answer)

    def answer(self, request):
        key, version, number = struct.unpack_from(">hhi", request)
        self.asked.append((key, version))
        body = self.answers.pop(0)
        return None if body is None else frame(struct.pack(">i", number) + body)


def leader(port, node=1, error=0):
    broker = struct.pack(">iiih", 0, 1, 1, 9) + b"127.0.0.1" + struct.pack(">ih", port, -1) + b"\xff\xff"
    topic = struct.pack(">iih", 1, 1, error) + b"\x00\x01k\x00" + struct.pack(">ihiii", 1, 0, 0, node, 4)
    return broker + topic + struct.pack(">iii", 0, 0, 0)


def wrote(error=0, offset=0):
    return struct.pack(">i", 1) + b"\x00\x01k" + struct.pack(">iihqqqi", 1, 0, error, offset, -1, 0, 0)


def end(offset, error=0):
    return struct.pack(">ii", 0, 1) + b"\x00\x01k" + struct.pack(">iihqqi", 1, 0, error, -1, offset, 4)


@pytest.fixture
def broker():
    made = Broker()
    client = KafkaClient({"n1": at_loopback()}, port=made.port, ids=broker_ids({"n1": "127.0.0.1"}))
    yield made, client
    client.close()
    made.close()


def append(client, seconds=2.0, target="n1"):
    return client.invoke("append", ["k", 41], target=target, timeout_ns=int(seconds * SECOND))


def test_the_leader_is_asked_for_once_and_a_read_goes_to_the_committed_end(broker):
    server, client = broker
    server.answers += [
        leader(server.port),
        wrote(),
        end(2),
        fetched(placed(b"41", 0))[4:],
        fetched(placed(b"42", 1))[4:],
    ]
    assert append(client).status == "ok"
    assert client.invoke("read", "k", target="n1", timeout_ns=SECOND).value == [41, 42]
    assert server.asked == [(3, 7), (0, 7), (2, 5), (1, 11), (1, 11)]


def test_a_leader_that_does_not_know_its_committed_end_yet_is_a_failed_read(broker):
    server, client = broker
    server.answers += [leader(server.port), end(-1, error=78)]
    outcome = client.invoke("read", "k", target="n1", timeout_ns=SECOND)
    assert (outcome.status, outcome.error) == ("fail", "OFFSET_NOT_AVAILABLE")


def test_records_beyond_the_committed_end_are_not_read(broker):
    server, client = broker
    server.answers += [leader(server.port), end(1), fetched(placed(b"41", 0) + placed(b"42", 1))[4:]]
    assert client.invoke("read", "k", target="n1", timeout_ns=SECOND).value == [41]


def test_a_write_without_an_answer_is_info_and_the_leader_is_asked_for_again(broker):
    server, client = broker
    server.answers += [leader(server.port), None, leader(server.port), wrote()]
    assert [append(client).status for _ in range(2)] == ["info", "ok"]
    assert [key for key, _ in server.asked] == [3, 0, 3, 0]


def test_what_was_never_sent_is_a_failure(broker):
    server, client = broker
    server.answers += [leader(server.port, node=-1, error=5), None]
    assert [append(client).status for _ in range(2)] == ["fail", "fail"]
    assert append(client, target="n9").status == "fail"
    assert client.invoke("fly", 1, target="n1", timeout_ns=SECOND).status == "fail"
    before = time.monotonic()
    assert append(client, seconds=0).status == "fail"
    assert time.monotonic() - before < 1
    assert [key for key, _ in server.asked] == [3, 3]
    assert not client._kept._lines
