"""The wire under the original's names, and knobs: defaults, spellings, scaling, and every way to be wrong."""

import msgspec
import pytest

from dethrone.clusters.targets import client_api as api
from dethrone.clusters.targets.dledger import messages as m
from dethrone.clusters.targets.dledger.target import TARGET
from dethrone.harness.core.clock import MS
from dethrone.harness.core.errors import ConfigError

CALL = {"group": "", "local_id": "A", "remote_id": "B", "leader_id": "A", "term": 3, "opaque": 1 << 40}
COMMANDS = (api.Append("k", 1), api.Put("k", {"a": [1, None]}), api.Cas("k", 1, "x"), m.Noop())
MESSAGES = (
    m.VoteRequest(**CALL, ledger_end_index=-1, ledger_end_term=-1),
    m.VoteResponse(**CALL, vote_result="REJECT_TAKING_LEADERSHIP"),
    m.HeartBeatRequest(**CALL),
    m.HeartBeatResponse(**CALL, code=416),
    *(
        m.PushEntryRequest(**CALL, type="APPEND", entry=m.Entry(i, 1, command), commit_index=-1)
        for i, command in enumerate(COMMANDS)
    ),
    m.PushEntryRequest(**CALL, type="COMMIT", entry=None, commit_index=7),
    m.PushEntryResponse(**CALL, code=406, index=2, count=1, begin_index=0, end_index=9),
)


@pytest.mark.parametrize("body", MESSAGES, ids=lambda body: type(body).__name__)
def test_a_message_survives_the_wire(body):
    assert msgspec.json.decode(msgspec.json.encode(body), type=TARGET.message_type) == body


def test_field_names_are_the_originals():
    wire = msgspec.json.decode(msgspec.json.encode(MESSAGES[0]))
    assert set(wire) == {
        *("rpc", "group", "localId", "remoteId", "leaderId", "term", "opaque", "code"),
        *("ledgerEndIndex", "ledgerEndTerm"),
    }
    push = msgspec.json.decode(msgspec.json.encode(MESSAGES[-1]))
    assert {"index", "count", "beginIndex", "endIndex", "code"} <= set(push)


def test_every_code_has_its_name():
    assert m.words(m.SUCCESS) == "200 SUCCESS"
    assert m.words(m.NOT_READY) == "416 TERM_NOT_READY"
    assert {m.EXPIRED_TERM, m.INCONSISTENT_LEADER, m.UNKNOWN_MEMBER, m.UNEXPECTED_MEMBER} == {403, 409, 401, 402}


def knobs(profile=None, **words):
    return TARGET.knobs(words, profile=profile)


def test_defaults_are_those_of_the_specification():
    k = knobs()
    assert (k.heart_beat_interval, k.max_heart_beat_leak) == (2000 * MS, 3)
    assert (k.min_vote_interval, k.max_vote_interval, k.vote_wait, k.loop_period) == (
        300 * MS,
        1000 * MS,
        2000 * MS,
        10 * MS,
    )
    assert (k.max_wait_ack_time, k.max_push_time_out, k.compare_time_out) == (2500 * MS, 1000 * MS, 3000 * MS)
    assert (k.max_pending_requests_num, k.max_in_flight) == (10_000, 1000)
    assert (k.clock, k.persist_mode, k.ledger_end_term, k.flag_handling, k.has_leader_delay, k.fsync) == (
        *("wall", "atomic", "entry", "bump_only", "0", "each"),
    )
    assert (k.count_expired_ledger, k.leader_checks_max_term_first) == (True, False)
    assert (k.commit_own_term_only, k.get_committed_only, k.push_checks_leader) == (True, True, True)
    assert (k.noop_on_elect, k.fail_pending_on_step_down) == (False, True)


def test_the_upstream_profile_is_release_0_2_7():
    k = knobs("dledger-upstream")
    assert (k.persist_mode, k.has_leader_delay, k.fsync) == ("upstream", "leak", "async")
    assert (k.commit_own_term_only, k.get_committed_only, k.push_checks_leader) == (False, False, False)
    assert (k.fail_pending_on_step_down, k.ledger_end_term, k.flag_handling) == (False, "entry", "bump_only")


def test_the_originals_spelling_and_short_names_are_understood():
    assert knobs(heartBeatTimeIntervalMs="500").heart_beat_interval == 500 * MS
    k = knobs(K1="immediate", K2="leak", K3="none", K4="true")
    assert (k.flag_handling, k.has_leader_delay, k.persist_mode) == ("immediate", "leak", "none")
    assert k.leader_checks_max_term_first


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"persist_mod": "none"}, "persist_mode"),
        ({"persist_mode": "maybe"}, "atomic|upstream|none"),
        ({"noop_on_elect": "perhaps"}, "true|false"),
        ({"heart_beat_time_interval_ms": "-1"}, "above 0"),
        ({"max_heart_beat_leak": "1.5"}, "whole number"),
        ({"time_factor": "0"}, "above 0"),
        ({"K1": "immediate", "flag_handling": "bump_only"}, "twice"),
        ({"min_vote_interval_ms": "1000"}, "below"),
    ],
)
def test_a_wrong_word_is_an_error_that_helps(words, says):
    with pytest.raises(ConfigError, match=says.replace("|", r"\|")):
        knobs(**words)


def test_members_must_be_different_and_name_the_node():
    for members in (("A", "A"), ("B",), ()):
        with pytest.raises(ConfigError):
            TARGET.core(node="A", members=members, knobs=knobs(), variant=None)
    with pytest.raises(ConfigError, match="own knobs"):
        TARGET.core(node="A", members=("A",), knobs={}, variant=None)
