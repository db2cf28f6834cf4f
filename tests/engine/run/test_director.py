"""The course of a run: phases in order, healing before every end, everything bounded."""

import msgspec
import pytest

from dethrone.harness.core import world as w
from dethrone.harness.core.clock import SECOND, Span
from dethrone.harness.core.events import (
    Converged,
    FatalLine,
    FaultEvent,
    Invoke,
    Mark,
    NodeDied,
    Noise,
    Return,
    Trouble,
)
from dethrone.harness.core.hoststate import HEALTHY
from dethrone.harness.core.interfaces import HostNews
from dethrone.harness.engine.run.director import Director

from .fake import NODES, FakeWorld, draft, play


def marks(history):
    return [event.name for event in history if isinstance(event, Mark) and event.name != "step"]


def outcomes(history):
    return [(event.phase, event.outcome) for event in history if isinstance(event, FaultEvent)]


def test_a_run_passes_all_its_phases_and_every_fault_is_healed():
    director, world = Director(draft()), FakeWorld()
    history = play(director, world)
    assert marks(history) == ["start", "warmup", "faults", "heal", "quiet", "final", "stop"]
    assert outcomes(history) == [("begin", "installed"), ("end", "healed")] * 2
    assert [event.seq for event in history] == list(range(len(history)))
    assert director.end_reason == "complete"
    assert world.state == dict.fromkeys(NODES, HEALTHY)


def test_every_invoke_stands_before_its_return_and_every_op_returns_once():
    history = play(Director(draft()), FakeWorld())
    invoked = {event.op: event.seq for event in history if isinstance(event, Invoke)}
    returned = {event.op: event.seq for event in history if isinstance(event, Return)}
    assert set(returned) <= set(invoked)
    assert all(invoked[op] < seq for op, seq in returned.items())
    assert len([event for event in history if isinstance(event, Return)]) == len(returned)
    assert [event.f for event in history if isinstance(event, Invoke)][-1] == "read"


def test_a_signal_in_the_middle_of_a_fault_heals_and_ends_interrupted():
    director, world = Director(draft(hold=60 * SECOND)), FakeWorld([(7 * SECOND, w.Stop("SIGINT"))])
    history = play(director, world, limit=30 * SECOND)
    assert director.end_reason == "interrupted"
    assert "quiet" not in marks(history)
    assert world.state == dict.fromkeys(NODES, HEALTHY)
    assert outcomes(history) == [("begin", "installed"), ("end", "healed")]
    assert director.realised().faults[0].healed


def test_a_second_signal_changes_nothing():
    world = FakeWorld([(7 * SECOND, w.Stop("SIGINT")), (7 * SECOND + 1, w.Stop("SIGTERM"))])
    director = Director(draft(hold=60 * SECOND))
    assert marks(play(director, world)).count("heal") == 1


@pytest.mark.parametrize("at", [1, 3 * SECOND, 7 * SECOND, 13 * SECOND])
def test_a_lost_agent_is_trouble_and_the_rest_is_healed(at):
    news = HostNews(host="n2", kind="lost", span=Span(at, at), data={"error": "gone"})
    director, world = Director(draft()), FakeWorld([(at, w.HostSaid(news))])
    history = play(director, world)
    assert director.end_reason == "trouble"
    assert any(isinstance(event, Trouble) and event.kind == "agent-lost" for event in history)
    assert isinstance([action for _, action in world.log if isinstance(action, w.Converge)][-1], w.Converge)
    assert world.state == dict.fromkeys(NODES, HEALTHY)


def noise(history, kind):
    return [event for event in history if isinstance(event, Noise) and event.kind == kind]


def test_a_lost_agent_is_a_disturbance_since_its_last_sign_of_life():
    span = Span(3 * SECOND, 9 * SECOND)
    news = HostNews(host="n2", kind="lost", span=span, data={"why": "gone"})
    history = play(Director(draft()), FakeWorld([(9 * SECOND, w.HostSaid(news))]))
    [lost] = noise(history, "agent-lost")
    assert (lost.host, lost.span, lost.detail) == ("n2", span, {"back": False, "why": "gone"})
    assert "n2: gone" in next(event.message for event in history if isinstance(event, Trouble))


def declared(host, boot):
    data = {"kind": "sources", "value_ns": 0, "boot": boot, "sources": {"wakeup": "read"}}
    return 1, w.HostSaid(HostNews(host=host, kind="noise", span=Span(1, 1), data=data))


def test_hosts_of_one_boot_are_on_one_machine_and_the_boot_stays_out_of_the_history():
    boots = [declared("n1", "8f2a"), declared("n2", "8f2a"), declared("n3", "77c0")]
    found = {event.host: event.detail for event in noise(play(Director(draft()), FakeWorld(boots)), "sources")}
    assert {host: detail["machine"] for host, detail in found.items()} == {"n1": "m1", "n2": "m1", "n3": "m2"}
    assert all(set(detail) == {"machine", "sources"} for detail in found.values())


def test_hosts_that_cannot_name_their_boot_share_no_machine():
    history = play(Director(draft()), FakeWorld([declared("n1", ""), declared("n2", "")]))
    assert len({event.detail["machine"] for event in noise(history, "sources")}) == 2


def test_noise_is_written_down_with_its_own_details_only():
    data = {"kind": "fsync", "value_ns": 7, "id": 3, "hanging": True}
    history = play(
        Director(draft()), FakeWorld([(9, w.HostSaid(HostNews(host="n1", kind="noise", span=Span(2, 9), data=data)))])
    )
    [event] = noise(history, "fsync")
    assert (event.span, event.value_ns, event.detail) == (Span(2, 9), 7, {"id": 3, "hanging": True})


def test_a_node_that_never_answers_is_trouble_that_names_it():
    director = Director(draft())
    play(director, FakeWorld(answers=("n1", "n2")))
    assert director.end_reason == "trouble"
    assert "n3" in director.trouble[0]


def test_a_voter_that_is_not_in_every_group_is_trouble_before_any_fault():
    class Sharded(FakeWorld):
        def poll(self, node):
            polled = super().poll(node)
            groups = ("a", "b") if node != "n2" else ("a",)
            told = [msgspec.structs.replace(polled.reading, group=group) for group in groups]
            return w.Polled(node, polled.span, msgspec.structs.replace(told[0], others=tuple(told[1:])))

    director = Director(draft())
    history = play(director, Sharded())
    assert director.end_reason == "trouble"
    assert "n2 is not in the group b, in which n1 is" in director.trouble[0]
    assert outcomes(history) == []


def test_a_cluster_without_a_leader_is_still_run_and_judged_later():
    director = Director(draft())
    history = play(director, FakeWorld(leads="nobody"))
    assert director.end_reason == "complete"
    assert any(event.data.get("phase") == "not-healthy" for event in history if isinstance(event, Mark))
    assert {outcome for _, outcome in outcomes(history)} == {"skipped"}


def test_a_host_that_cannot_be_healed_is_trouble_and_the_run_ends():
    world = FakeWorld(converge_fails=lambda want: want == HEALTHY)
    director = Director(draft())
    history = play(director, world)
    assert director.end_reason == "trouble"
    assert ("end", "heal_failed") in outcomes(history)
    assert any("not-healed" in line for line in director.trouble)


def test_the_first_certain_finding_ends_the_run_early_and_heals():
    seen = []

    def watcher(event):
        seen.append(event)
        return isinstance(event, FaultEvent)

    director, world = Director(draft(hold=60 * SECOND), watchers=[watcher]), FakeWorld()
    history = play(director, world, limit=30 * SECOND)
    assert director.end_reason == "first-failure"
    assert "quiet" not in marks(history)
    assert world.state == dict.fromkeys(NODES, HEALTHY)


def test_watchers_see_what_happens_before_the_warm_up():
    seen = []
    director = Director(draft(), watchers=[lambda event: bool(seen.append((director.phase, event)))])
    play(director, FakeWorld())
    assert "start" in {phase for phase, _ in seen}
    assert not {"heal", "final", "stop"} & {phase for phase, _ in seen}


def test_the_bounds_are_fixed_before_the_first_fault_from_what_the_warm_up_measured():
    director = Director(draft())
    plans = []
    director.on_warm = plans.append
    play(director, FakeWorld())
    (plan,) = plans
    assert plan.warmup["rtt_max_ns"] == 1_000_000
    assert plan.promise.leader_bound_ns == 2 * SECOND + 4_000_000


def test_the_last_convergence_of_every_run_is_to_healthy_on_all_hosts():
    world = FakeWorld()
    history = play(Director(draft()), world)
    last = [action for _, action in world.log if isinstance(action, w.Converge)][-1]
    assert last.wants == dict.fromkeys(NODES, HEALTHY)
    assert all(event.after == HEALTHY for event in [e for e in history if isinstance(e, Converged)][-3:])


def test_the_same_seed_gives_the_same_history():
    assert play(Director(draft()), FakeWorld()) == play(Director(draft()), FakeWorld())


def died(at, code, *lines, host="n2", **detail):
    data = {"pid": 1, "incarnation": 1, "code": code, "asked": False, "lines": lines, "detail": detail}
    return (at, w.HostSaid(HostNews(host=host, kind="exited", span=Span(at, at), data=data)))


def test_a_node_that_crashes_before_the_first_fault_ends_the_run_with_evidence_and_without_trouble():
    director = Director(draft())
    history = play(director, FakeWorld([died(2 * SECOND, 2, "panic: \x1b[31mno")]))
    assert (director.end_reason, director.trouble) == ("first-failure", [])
    assert "faults" not in marks(history)
    (death,) = [event for event in history if isinstance(event, NodeDied)]
    assert (death.node, death.code, death.lines) == ("n2", 2, ("panic: \N{REPLACEMENT CHARACTER}[31mno",))


@pytest.mark.parametrize(
    ("at", "code", "lines", "detail"),
    [
        (40_000_000, 1, ("unknown flag --x",), {}),
        (2 * SECOND, 127, ("sh: node: not found",), {}),
        (2 * SECOND, 0, ("the daemon runs now",), {}),
        (2 * SECOND, -9, (), {"oom_kills": 1}),
        (2 * SECOND, 143, (), {}),
    ],
)
def test_an_early_end_that_need_not_be_a_crash_is_trouble(at, code, lines, detail):
    director = Director(draft())
    play(director, FakeWorld([died(at, code, *lines, **detail)]))
    assert director.end_reason == "trouble"
    assert "node-did-not-start" in director.trouble[0]


def test_a_failure_of_our_own_shell_before_the_first_fault_is_trouble():
    traced = w.Traces("n2", 1, Span(SECOND, SECOND), [(1, "shell_failed", 0, "", "shell", {}, "")])
    director = Director(draft())
    play(director, FakeWorld([(2 * SECOND, traced), died(2 * SECOND + 1, 72, "OSError")]))
    assert director.end_reason == "trouble"


def test_a_node_that_dies_later_is_recorded_and_the_run_continues():
    director = Director(draft())
    history = play(director, FakeWorld([died(8 * SECOND, 2, "panic: no")]))
    assert director.end_reason == "complete"
    assert len([event for event in history if isinstance(event, NodeDied)]) == 1


def test_fatal_lines_of_a_node_stand_in_the_history():
    data = {"pattern": "DATA RACE", "line": "WARNING: DATA RACE", "incarnation": 1}
    news = HostNews(host="n1", kind="fatal", span=Span(SECOND, SECOND), data=data)
    history = play(Director(draft()), FakeWorld([(8 * SECOND, w.HostSaid(news))]))
    (line,) = [event for event in history if isinstance(event, FatalLine)]
    assert (line.node, line.pattern, line.line) == ("n1", "DATA RACE", "WARNING: DATA RACE")
