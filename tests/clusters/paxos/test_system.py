from __future__ import annotations

import msgspec
import pytest

from dethrone.clusters.node.config import NodeConfig
from dethrone.clusters.systems.operations import request_for
from dethrone.clusters.systems.paxos import SYSTEM
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Yes
from dethrone.harness.core.machine import CoreStatus, LogEnd
from dethrone.harness.core.promise import LIVENESS, SAFETY
from tests.clusters.node.test_record import record
from tests.clusters.systems.specs import specs


def promise(settings=None, profile="paxos", voters=5):
    knobs = SYSTEM.knobs(settings or {}, profile=profile, variant=None)
    return SYSTEM.promise(knobs, profile=profile, voters=voters)


def spec(profile="paxos", settings=None):
    return specs(SYSTEM, settings, profile=profile)["n1"]


def test_nothing_about_leaders_is_promised_and_agreement_is():
    made = promise()
    owed = {name for name in (*SAFETY, *LIVENESS) if made.owes(name)}
    assert owed == {"acknowledged-survives", "vote-is-durable"}
    for name in ("one-leader-per-term", "leader-when-owed", "step-down-without-quorum"):
        assert made.exempt[name].reason == "Paxos has no leader"
        assert made.exempt[name].kind == "not promised"
    assert made.owes("agreement")
    assert made.tiers == ()
    assert made.linearizable_reads


@pytest.mark.parametrize(
    "settings", [{"persist": "false"}, {"id_scheme": "plain_counter"}, {"accept_rule": "ge_literal"}]
)
def test_known_bad_settings_stay_promised_so_that_they_fail(settings):
    assert promise(settings).owes("agreement")
    assert promise(settings).owes("acknowledged-survives")


def test_with_epochs_a_leader_is_owed_elected_by_a_majority_one_an_epoch():
    made = promise(profile="paxos-election")
    for name in ("one-leader-per-term", "leader-has-majority", "leader-when-owed", "agreement"):
        assert made.owes(name)
    assert made.tiers == ("T1", "T2")
    for name in ("one-vote-per-term", "term-never-decreases", "step-down-without-quorum", "leader-stability"):
        assert name in made.exempt
    assert not promise({"backoff": "none"}, "paxos-election").owes("leader-when-owed")


def test_the_bound_follows_the_times_and_the_quorum_the_acceptors():
    assert promise().leader_bound_ns == 4 * 300 * MS + 4 * 200 * MS + 200 * MS
    assert promise({"time_factor": "0.5"}).leader_bound_ns == 2 * 300 * MS + 2 * 200 * MS + 200 * MS
    assert promise().quorum == 3
    assert promise({"acceptors": "3"}).quorum == 2


def test_the_default_run_is_contended_instances_under_faults():
    defaults = SYSTEM.defaults()
    assert defaults.workload == "agreement"
    assert {"propose", "learn"} <= SYSTEM.operations()
    assert {"partition", "kill", "restart", "pause"} == set(defaults.faults)
    assert all(SYSTEM.fault_support(kind) == Yes() for kind in defaults.faults)
    assert defaults.time_limit_ns == 60 * SECOND


def test_the_node_is_told_the_words_that_differ():
    config = msgspec.json.decode(SYSTEM.files(spec(settings={"accept_rule": "ge"})).popitem()[1], type=NodeConfig)
    assert (config.target, config.knobs, config.profile) == ("paxos", {"accept_rule": "ge"}, "paxos")
    assert config.rpc_timeout_ms == 100


def test_unknown_words_are_refused():
    with pytest.raises(ConfigError, match="accept_rule"):
        SYSTEM.knobs({"acceptrule": "eq"}, profile=None, variant=None)
    with pytest.raises(ConfigError, match="52-timers"):
        SYSTEM.knobs({}, profile="paxos", variant="52-timers-on-wall-clock")
    assert SYSTEM.knobs({}, profile="paxos-election", variant="52-timers-on-wall-clock")["election"] == "true"


def answer(role, leader):
    return record(CoreStatus(role=role, term=4, leader=leader, voted_for="7", log_end=LogEnd(7, 4), commit=3))


def test_a_decided_value_is_no_leader_unless_there_are_epochs():
    plain = SYSTEM.reading(spec(), answer("DONE", "x"))
    assert (plain.leads, plain.leader, plain.voted_for, plain.log_end, plain.commit) == (False, None, None, None, None)
    led = SYSTEM.reading(spec("paxos-election"), answer("LEADER", "n1"))
    assert (led.leads, led.leader, led.term) == (True, "n1", 4)
    assert SYSTEM.reading(spec(), b"{}") is None


def test_the_operations_are_said_to_the_target():
    from dethrone.clusters.systems.operations import outcome_of, unanswered
    from dethrone.clusters.targets.client_api import Learn, Ok, Propose

    assert request_for("propose", [3, "x"]) == Propose(3, "x")
    assert request_for("learn", 3) == Learn(3)
    assert request_for("propose", [3, None]) is None
    assert request_for("propose", ["3", "x"]) is None
    assert outcome_of("propose", Ok("x", 3), node="n1").value == "x"
    assert outcome_of("learn", Ok(None), node="n1").value is None
    assert unanswered("propose", "timeout").status == "info"
    assert unanswered("learn", "timeout").status == "fail"
