"""One file behind an entry point is a whole kind of fault, a whole checker, a whole strategy: nothing else knows them.

The files are in ``site`` next to this one. On real hosts: ``tests/clusters/local/test_plugged_fault.py``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dethrone.checkers.coverage import CHECKER as COVERAGE
from dethrone.checkers.coverage import obligations
from dethrone.checkers.excuses import excuses
from dethrone.checkers.graph import timeline
from dethrone.clusters.sim.backend import BACKEND as SIM
from dethrone.clusters.ssh.hosts import HostsFile
from dethrone.clusters.ssh.permissions import not_allowed
from dethrone.harness.commands.listing import faults as listed_faults
from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND
from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.core.events import Converged, FaultEvent, Traced
from dethrone.harness.core.hoststate import HEALTHY, healthy_cluster
from dethrone.harness.core.interfaces import BackendTraits
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.rehearsal import rehearse
from dethrone.harness.report import words
from dethrone.harness.report.page_fold import PageFold
from dethrone.harness.report.side_files import Details

SITE = Path(__file__).parent / "site"
NODES = ("n1", "n2", "n3", "n4", "n5")


@pytest.fixture(scope="module", autouse=True)
def plugged():
    """The toys are installed, for the tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        yield


def options(**more):
    return RunOptions(
        **{"system": "raft", "backend": "sim", "faults": ("deafen",), "time_limit_ns": 30 * SECOND, **more}
    )


@pytest.fixture(scope="module")
def run(plugged):
    return rehearse(options(), registry.load_all(registry.CHECKERS), seed=1)


def deafened(history):
    """The host that was deafened, what it became, and when: of the first such change."""
    return next(event for event in history.of(Converged) if event.after.troubles)


def test_a_simulated_host_suffers_what_the_kind_says_that_it_means(run):
    event = deafened(run.history)
    assert event.confirmed
    deaf = event.after.suffered.cuts
    assert deaf
    assert event.host not in deaf
    assert event.evidence["deafen"] == f"deaf to the odd peers {', '.join(deaf)}"
    healed = next(one for one in run.history.of(Converged) if one.host == event.host and one.seq > event.seq)
    assert healed.after == HEALTHY


def leaders(history, since=0):
    """Who was elected after that moment, by the witness."""
    won = [one for one in history.of(Traced) if one.name == "elected" and one.source == "shell"]
    return [one.node for one in won if one.span.lo >= since]


@pytest.mark.parametrize(("seed", "falls"), [(1, True), (3, False), (5, True), (6, False)])
def test_a_leader_falls_if_the_peers_that_it_hears_are_no_quorum(seed, falls):
    """Of five, an even leader hears one peer, and an odd one two, which with itself are a majority."""
    history = rehearse(options(), {}, seed=seed).history
    event = deafened(history)
    assert (int(event.host[1:]) % 2 == 0) is falls
    assert bool(leaders(history, event.span.lo)) is falls


def test_the_history_says_enough_for_a_reader_without_the_plug_in(run):
    event = deafened(run.history)
    again = msgspec.json.decode(msgspec.json.encode(event.after), type=type(event.after))
    assert again == event.after
    assert again.suffered.cuts == event.after.suffered.cuts
    assert b"troubles" not in msgspec.json.encode(HEALTHY)


def test_the_graph_of_who_hears_whom_knows_that_it_is_deaf(run):
    event = deafened(run.history)
    line = timeline(run.history, run.plan.promise, run.plan)
    at = line.at(event.span.hi)
    node = line.voters.index(event.host)
    cut, _heard = at.adjacency.hears(node)
    assert set(line.names(cut)) >= set(event.after.suffered.cuts)
    assert at.adjacency.healthy >> node & 1  # a deaf node is not sick


def test_what_a_kind_owes_is_asked_of_the_schedule_and_shown_by_the_run(run):
    assert "leader-deafened" in run.plan.schedule.obligations
    assert obligations()["leader-deafened"].endswith("or deafen the leader")
    verdict = COVERAGE.check(run.history, run.plan.promise, run.plan)
    assert verdict.evidence["shown"]["leader-deafened"]
    assert verdict.outcome == "pass"


def test_a_system_that_bears_partitions_bears_it_and_another_one_is_excused(run):
    end = run.history.events[-1].t
    assert "deafen" in run.plan.promise.tolerates
    assert excuses(run.history, run.plan.promise).safety(end) is None
    base = msgspec.structs.replace(run.plan.promise, tolerates={"kill": None}, safe_under=None)
    other = base.bearing({"deafen": registry.load(registry.FAULTS, "deafen").traits.borne_as})
    assert "deafen" not in other.tolerates
    assert "deafen on" in excuses(run.history, other).safety(end)
    few = registry.load(registry.CHECKERS, "few-elections")
    found = {
        key: few.check(run.history, promise, run.plan) for key, promise in (("owed", run.plan.promise), ("not", other))
    }
    assert found["owed"].outcome == "fail"
    assert found["owed"].findings
    assert [one.excused for one in found["owed"].findings if one.excused] == []
    assert found["not"].outcome != "fail"
    assert all("deafen on" in one.excused for one in found["not"].findings)


def test_a_promise_bears_it_in_the_smallest_number_of_what_it_is_like(run):
    few = msgspec.structs.replace(run.plan.promise, tolerates={"partition": 1, "kill": 2}, safe_under={"kill": 2})
    borne = few.bearing({"deafen": ("partition", "kill")})
    assert borne.tolerates["deafen"] == 1
    assert "deafen" not in borne.safe_under
    named = msgspec.structs.replace(few, tolerates={**few.tolerates, "deafen": 3})
    assert named.bearing({"deafen": ("partition",)}).tolerates["deafen"] == 3


def test_reports_and_lists_have_its_words(run):
    event = deafened(run.history)
    deaf = ", ".join(event.after.suffered.cuts)
    assert words.state(event.after) == f"deafen: deaf to the odd peers {deaf}"
    fold = PageFold(run.plan.nodes, run.plan, Details(None), {})
    for one in run.history:
        fold.add(one)
    fold.finish()
    assert "deafen: deaf to" in repr(fold.details.items("troubles"))
    rows = list(fold.faults.values())
    assert rows[0]["text"].startswith("deafen of n")
    assert rows[0]["color"] == "other"
    heading, table = listed_faults()
    assert heading[0] == "fault"
    assert any(row[:2] == ("deafen", "drop what arrives from peers with an odd number") for row in table)


def test_a_backend_without_commands_refuses_it_and_an_owner_of_machines_may(monkeypatch):
    monkeypatch.setattr(type(SIM), "traits", property(lambda _: BackendTraits(capabilities=frozenset({"signals"}))))
    with pytest.raises(MissingCapability, match="commands"):
        draft(options(), seed=1)
    want = registry.load(registry.FAULTS, "deafen").apply(healthy_cluster(NODES), ("n2",), {})["n2"]
    assert "lists none of deafen" in not_allowed(HostsFile(source="hosts.toml", hosts={}), want)
    assert not not_allowed(HostsFile(source="hosts.toml", hosts={}, faults=frozenset({"deafen"})), want)


def test_two_faults_at_once_are_what_both_mean(plugged):
    kinds = registry.load_all(registry.FAULTS)
    cut = {"cuts": [["n4", "n2"]]}
    one = kinds["deafen"].apply(kinds["partition"].apply(healthy_cluster(NODES), (), cut), ("n2",), {})
    other = kinds["partition"].apply(kinds["deafen"].apply(healthy_cluster(NODES), ("n2",), {}), (), cut)
    assert one == other
    assert one["n2"].cuts == ("n4",)
    assert one["n2"].suffered.cuts == ("n1", "n3", "n4", "n5")


def test_a_checker_of_one_file_judges_every_run(run):
    verdict = next(one for one in run.judgement.verdicts if one.checker == "few-elections")
    assert verdict.outcome == "fail"
    assert [one.sentence for one in verdict.findings] == [
        f"{node} was elected, too" for node in leaders(run.history)[1:]
    ]


def test_a_strategy_of_one_file_draws_the_schedule():
    drawn = draft(options(strategy="thrice", faults=("kill", "deafen")), seed=2).plan.schedule
    assert drawn.strategy == "thrice"
    assert len(drawn.steps) == 3
    assert {fault.victims for step in drawn.steps for fault in step.faults} == {"leader"}


def test_every_fault_of_the_run_came_about(run):
    begun = [event for event in run.history.of(FaultEvent) if event.phase == "begin"]
    assert {event.kind for event in begun} == {"deafen"}
    assert any(event.outcome == "installed" for event in begun)
