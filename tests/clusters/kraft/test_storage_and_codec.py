"""The bytes on disk and on the wire, and the knobs: round trips, torn tails, damage, wrong words."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.client_api import Append, Cas, Get, Put
from dethrone.clusters.targets.kraft.log import Log
from dethrone.clusters.targets.kraft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    KraftMessage,
    LeaderChange,
    Record,
    VotePartition,
    VoteRequest,
    VoteResponse,
)
from dethrone.clusters.targets.kraft.storage import (
    LOG,
    QuorumState,
    Voter,
    read_log,
    read_state,
    record_bytes,
    state_bytes,
)
from dethrone.clusters.targets.kraft.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError
from tests.clusters.kraft.spec import records
from tests.world.disk import Disk

commands = st.one_of(
    st.builds(Append, key=st.text(max_size=3), value=st.one_of(st.integers(-9, 9), st.text(max_size=3))),
    st.builds(Put, key=st.text(max_size=3), value=st.one_of(st.none(), st.booleans(), st.lists(st.integers(0, 3)))),
    st.builds(Get, key=st.text(max_size=3)),
    st.builds(Cas, key=st.text(max_size=3), old=st.integers(0, 3), to=st.none()),
    st.just(LeaderChange(1, (1, 2, 3), (1, 3))),
)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
codes = st.sampled_from(["NONE", "FENCED_LEADER_EPOCH", "UNKNOWN_SERVER_ERROR", "BROKER_NOT_AVAILABLE"])
leads = st.builds(CurrentLeader, int32, int32)
messages = st.one_of(
    st.builds(VoteRequest, int32, st.text(max_size=4), int32, int32, int32, int32, int64),
    st.builds(VoteResponse, int32, codes, st.none() | st.builds(VotePartition, codes, int32, int32, st.booleans())),
    st.builds(BeginQuorumEpochRequest, int32, int32, int32),
    st.builds(BeginQuorumEpochResponse, int32, codes, int32, int32),
    st.builds(EndQuorumEpochRequest, int32, int32, int32, st.lists(int32, max_size=4).map(tuple)),
    st.builds(EndQuorumEpochResponse, int32, codes, int32, int32),
    st.builds(FetchRequest, int32, int32, st.text(max_size=4), int32, int32, int64, int32),
    st.builds(
        FetchResponse,
        int32,
        codes,
        int64,
        int64,
        leads,
        st.none() | st.builds(EpochEnd, int32, int64),
        st.none(),
        st.lists(st.builds(Record, st.integers(0, 99), st.integers(0, 9), commands), max_size=3).map(tuple),
    ),
)
decode = msgspec.json.Decoder(KraftMessage).decode


@given(messages)
def test_every_message_survives_the_wire(message):
    assert decode(msgspec.json.encode(message)) == message


def test_a_vote_request_is_spelled_as_in_kafka():
    words = msgspec.json.decode(msgspec.json.encode(VoteRequest(1, "c", 0, 5, 2, 4, 9)))
    assert words == {
        "type": "vote_request",
        "correlationId": 1,
        "clusterId": "c",
        "partitionIndex": 0,
        "candidateEpoch": 5,
        "candidateId": 2,
        "lastOffsetEpoch": 4,
        "lastOffset": 9,
    }


@pytest.mark.parametrize("bad", [{"candidateEpoch": 2**31}, {"lastOffset": 2**63}, {"partitionIndex": "0"}])
def test_numbers_beyond_their_width_are_no_message(bad):
    words = {**msgspec.json.decode(msgspec.json.encode(VoteRequest(1, "c", 0, 5, 2, 4, 9))), **bad}
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.json.encode(words))


@given(st.integers(0, 2**31 - 1), int32, int32, st.lists(int32, max_size=5))
def test_the_state_file_reads_back(epoch, leader, voted, voters):
    state = QuorumState("x", leader, epoch, voted, 0, tuple(Voter(voter) for voter in voters))
    assert read_state(state_bytes(state)) == state


@given(st.lists(commands, max_size=6), st.data())
def test_a_log_reads_back_up_to_a_torn_tail(found, data):
    log = [Record(i, 1 + i // 2, command) for i, command in enumerate(found)]
    content = b"".join(record_bytes(record)[0] for record in log)
    whole = read_log(content)
    assert whole.entries == log
    assert not whole.torn
    cut = data.draw(st.integers(0, len(content)))
    part = read_log(content[:cut])
    assert part.entries == log[: len(part.entries)]
    assert part.torn == (cut not in (0, *whole.ends))


@given(st.lists(st.one_of(st.integers(1, 9), st.integers(-6, -1)), max_size=12), st.booleans())
def test_batches_of_appends_and_cuts_leave_on_disk_what_is_in_memory(steps, lazy):
    log, files = Log(), Disk()
    for step in steps:
        if step > 0:
            log.append(Record(log.end, max(step, log.last_term), Get("k")))
        elif log.end + step >= 0:
            log.cut(log.end + step)
        if not lazy:
            for op in log.take_ops():
                files.carry_out(op)
    for op in log.take_ops():
        files.carry_out(op)
    again = Log()
    again.load(read_log(files.shown.get(LOG, b"")))
    for field in ("entries", "digests", "ends", "terms", "starts", "end", "last_term"):
        assert getattr(again, field) == getattr(log, field), field


def test_the_end_of_an_epoch_is_where_the_next_one_begins():
    log = Log()
    for record in records(2, 2, 5):
        log.append(record)
    assert [log.end_of_term(epoch) for epoch in (1, 2, 4, 5, 9)] == [(0, 0), (2, 2), (2, 2), (5, 3), (5, 3)]


# --- knobs ----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_kafkas():
    knobs = TARGET.knobs({})
    assert (knobs.election_timeout_ms, knobs.fetch_timeout_ms, knobs.election_backoff_max_ms) == (1000, 2000, 1000)
    assert (knobs.request_timeout_ms, knobs.retry_backoff_ms, knobs.append_linger_ms) == (2000, 20, 25)
    assert (knobs.fetch_max_wait_ms, knobs.backoff_unit_ms, knobs.check_quorum, knobs.clock) == (
        500,
        100,
        "1.0",
        "mono",
    )
    assert knobs.check_quorum_ns == 2000 * MS
    assert TARGET.knobs({}, profile="kraft-3.7").check_quorum_ns == 3000 * MS
    assert TARGET.knobs({}, profile="kraft-3.6").check_quorum_ns is None


@pytest.mark.parametrize("prefix", ["controller.quorum.", "quorum."])
def test_kafkas_spellings_are_understood_with_and_without_prefix(prefix):
    assert TARGET.knobs({f"{prefix}election.timeout.ms": "700"}).election_timeout_ms == 700


def test_the_factor_scales_every_timer_exactly():
    knobs = TARGET.knobs({"time_factor": "0.123456"})
    assert knobs.ns(1000) == 123_456_000
    assert knobs.check_quorum_ns == 246_912_000


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"check_quorm": "off"}, "check_quorum"),
        ({"check_quorum": "2"}, "1.0|1.5|off"),
        ({"election_timeout_ms": "0"}, "whole number"),
        ({"election_timeout_ms": "-5"}, "whole number"),
        ({"time_factor": "0"}, "decimal"),
        ({"time_factor": "nan"}, "decimal"),
        ({"time_factor": "0.0000001"}, "decimal"),
        ({"observers": "n1,n1"}, "each once"),
        ({"cluster_id": ""}, "a name"),
        ({"quorum.fetch.timeout.ms": "5", "fetch_timeout_ms": "5"}, "twice"),
    ],
)
def test_a_wrong_word_is_a_config_error_that_helps(settings, hint):
    with pytest.raises(ConfigError) as error:
        TARGET.knobs(settings)
    assert hint in str(error.value)


def test_wrong_members_observers_and_variants_are_config_errors():
    knobs = TARGET.knobs({})
    with pytest.raises(ConfigError):
        TARGET.knobs({}, profile="krft")
    with pytest.raises(ConfigError, match="not one of the members"):
        TARGET.core(node="X", members=("A",), knobs=knobs, variant=None)
    with pytest.raises(ConfigError, match="no member"):
        TARGET.core(node="A", members=("A", "B"), knobs=TARGET.knobs({"observers": "Q"}), variant=None)
    with pytest.raises(ConfigError, match="no node votes"):
        TARGET.core(node="A", members=("A",), knobs=TARGET.knobs({"observers": "A"}), variant=None)
    with pytest.raises(ConfigError, match="28-never-resigns"):
        TARGET.core(node="A", members=("A", "B"), knobs=knobs, variant="28-never-resign")
    with pytest.raises(ConfigError, match="check_quorum"):
        TARGET.core(
            node="A", members=("A", "B"), knobs=TARGET.knobs({"check_quorum": "off"}), variant="28-never-resigns"
        )
    with pytest.raises(ConfigError, match="observers"):
        TARGET.core(node="A", members=("A", "B"), knobs=knobs, variant="23-observers-vote")
    with pytest.raises(ConfigError, match="own knobs"):
        TARGET.core(node="A", members=("A",), knobs=object(), variant=None)
