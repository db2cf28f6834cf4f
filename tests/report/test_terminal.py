from __future__ import annotations

import json

import pytest

from dethrone.harness.core.events import FaultEvent, Mark
from dethrone.harness.engine.run.listener import Drawn, LiveView, NodeView
from dethrone.harness.report import snippet
from dethrone.harness.report.screens import live_line
from dethrone.harness.report.terminal import Screen, Watcher

FAILURE = """
FAIL  one-leader-per-term: n2 and n4 were both elected leader of term 7

one-leader-per-term: n2 and n4 were both elected leader of term 7
       681    +13.008 s  n2 was elected leader of term 7 by the votes of n2, n3 and n5
       744    +14.130 s  n4 was elected leader of term 7 by the votes of n4, n3 and n1

one-vote-per-term: n3 voted for n2 and for n4 in term 7
       679    +13.004 s  n3 voted for n2 in term 7
       694    +13.215 s  n3 voted for n4 in term 7

              n1     n2     n3     n4     n5
    +13.000 s        C 7    │      │      │      n2 stands for election in term 7
    +13.002 s        v→n2   │      │      │      n2 voted for n2 in term 7
    +13.004 s        │      v→n2   │      │      n3 voted for n2 in term 7
    +13.006 s        │      │      │      v→n2   n5 voted for n2 in term 7
    +13.008 s        ★ 7    │      │      │      n2 was elected leader of term 7 by the votes of n2, n3 and n5  ◀
    +13.200 s        │      │      C 7    │      n4 stands for election in term 7
    +13.210 s        │      │      v→n4   │      n4 voted for n4 in term 7
    +13.215 s        │      v→n4   │      │      n3 voted for n4 in term 7
    +14.000 s ░      │      │      │      │      kill of n1 (leader): healed
    +14.000 s ▲      │      │      │      │      the process of n1 (incarnation 2) was started
    +14.120 s v→n4   │      │      │      │      n1 voted for n4 in term 7
    +14.130 s │      │      │      ★ 7    │      n4 was elected leader of term 7 by the votes of n4, n3 and n1  ◀
"""


def view(elapsed_s: int = 1) -> LiveView:
    nodes = (
        NodeView(name="n1", role="LEADER", term=2, leads=True, faults=(), answers=True, commit=7),
        NodeView(name="n2", role="FOLLOWER", term=2, leads=False, faults=("down",), answers=False, commit=None),
    )
    return LiveView(
        elapsed_ns=elapsed_s * 10**9, limit_ns=60 * 10**9, phase="faults", step=1, steps=4, nodes=nodes, ops_ok=5,
        ops_fail=1, ops_info=0, ops_per_s=12.5, elections=2, active_faults=("kill(n2)",),
    )  # fmt: skip


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_the_failure_screen(failing, capsys):
    Screen().outcome(None, failing.judgement, failing, None)
    shown = lines(capsys.readouterr().out)
    assert shown[: len(lines(FAILURE))] == lines(FAILURE)
    assert any("log-matching" in line and "n/a" in line and "keeps no log" in line for line in shown)
    assert any(line.startswith("check again dethrone check ") for line in shown)


def test_nothing_but_the_verdict_when_quiet(passing, capsys):
    Screen(level=-1).outcome(None, passing.judgement, passing, None)
    assert lines(capsys.readouterr().out) == ["PASS  every promised property held, with evidence"]


def test_with_json_people_read_stderr(passing, capsys):
    screen = Screen(json=True)
    screen.outcome(None, passing.judgement, passing, None)
    screen.result({"schema": 1})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"schema": 1}
    assert "PASS" in err


def test_without_json_no_object_is_printed(capsys):
    Screen().result({"schema": 1})
    assert capsys.readouterr().out == ""


def test_a_log_gets_a_plain_line_every_few_seconds(capsys):
    with Watcher(Screen()) as watcher:
        for second in range(12):
            watcher.live(view(second))
    shown = lines(capsys.readouterr().out)
    assert len(shown) == 3
    assert "leader n1@2" in shown[0]
    assert "\x1b" not in "".join(shown)


def test_the_first_lines_say_everything_that_was_drawn(passing, passing_dir, capsys):
    with Watcher(Screen()) as watcher:
        watcher.drawn(Drawn(plan=passing.plan, run_dir=passing_dir, versions={"dethrone": "0.1.0"}))
    shown = capsys.readouterr().out
    for word in (
        "seed        7",
        "raft (profile raft), 5 nodes on docker",
        "dethrone 0.1.0",
        "4 steps of",
        str(passing_dir),
    ):
        assert word in shown


def test_faults_get_a_line_and_steps_only_with_v(passing, capsys):
    fault, mark = passing.history.of(FaultEvent)[0], passing.history.of(Mark)[0]
    with Watcher(Screen()) as watcher:
        watcher.event(fault)
        watcher.event(mark)
    assert lines(capsys.readouterr().out) == [
        "   +8.000 s  partition of n1 (leader), n2 (follower) · 12 directed links cut: in force"
    ]
    with Watcher(Screen(level=1)) as watcher:
        watcher.event(mark)
    assert "phase: warmup" in capsys.readouterr().out


def test_the_live_line_names_leader_faults_and_rates():
    line = live_line(view())
    assert "ops/s    12" in line
    assert "leader n1@2" in line
    assert "faults kill(n2)" in line


def test_markup_in_texts_is_not_read(capsys):
    Screen().say("[bold]not bold[/bold] [link=x]")
    assert capsys.readouterr().out == "[bold]not bold[/bold] [link=x]\n"


@pytest.mark.parametrize("rows_max", [3, 6])
def test_the_picture_keeps_its_bound_and_the_proof(failing, rows_max):
    certificate = failing.judgement.verdicts[0].findings[0].certificate
    drawn = snippet.picture(failing.history, failing.nodes, certificate, rows_max=rows_max)
    assert sum("◀" in line for line in drawn) == 2
    assert sum(" s " in line and "⋮" not in line for line in drawn[1:-1]) <= rows_max
    assert "other events" in drawn[-1]


def test_a_certificate_of_another_history_draws_nothing(failing):
    assert snippet.picture(failing.history, failing.nodes, [10**9, -5]) == []
    assert snippet.proving(failing.history, [10**9]) == []
