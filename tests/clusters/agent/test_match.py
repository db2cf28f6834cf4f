"""Users' patterns are matched by a process of their own: nothing that they do holds an agent up."""

from __future__ import annotations

import json
import subprocess

import pytest

from .conftest import AGENT, PYTHON, in_an_agent

pytestmark = pytest.mark.processes

LIMIT_S = 30
RUNAWAY = "(a|a)*b"


def asked(*questions):
    """What the program answers, a question a line."""
    given = "".join(json.dumps({"pattern": pattern, "texts": texts}) + "\n" for pattern, texts in questions)
    argv = [PYTHON, "-S", str(AGENT), "match", "--socket", "-"]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_places_of_all_texts_that_match_are_told_one_question_after_the_other():
    answers = asked(("etcd", ["/usr/bin/etcd", "sh", "x etcd y"]), ("^$", []), ("é", ["é", "e"]))
    assert answers == [{"found": [0, 2]}, {"found": []}, {"found": [0]}]


def test_a_pattern_that_runs_away_costs_one_answer_and_no_more():
    answers = asked((RUNAWAY, ["ab", "a" * 60, "b"]), ("b", ["b"]))
    assert answers == [{"slow": 1}, {"found": [0]}]


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(?P<a>x)(?P<a>y)"])
def test_what_is_no_pattern_there_is_told(pattern):
    (answer,) = asked((pattern, ["a"]))
    assert "no valid pattern here" in answer["error"]


def test_an_agent_goes_on_while_a_pattern_runs_away_and_refuses_it():
    found = in_an_agent(
        f"agent.MATCH_WAIT_S = 20.0; matcher = agent.Matcher({RUNAWAY!r}, processes)\n"
        "assert matcher.places(['ab', 'c', 'b']) == [0, 2]\n"
        "longest, last, over = [0.0], [time.monotonic()], threading.Event()\n"
        "def beat():\n"
        "    while not over.wait(0.005):\n"
        "        now = time.monotonic(); longest[0] = max(longest[0], now - last[0]); last[0] = now\n"
        "thread = threading.Thread(target=beat); thread.start()\n"
        "try: matcher.places(['a' * 60])\n"
        "except agent.Refused as error: said = str(error)\n"
        "over.set(); thread.join()\n"
        "print(json.dumps({'said': said, 'after': matcher.places(['b']), 'beats': last[0] > 0}))\n"
    )
    assert "needs longer than 50 ms" in found["said"]
    assert found["after"] == [0]
    assert found["beats"]


def test_a_matcher_that_does_not_answer_is_ended_and_another_one_begun():
    found = in_an_agent(
        "agent.MATCH_WAIT_S = 1.0\n"
        "matcher = agent.Matcher('b', processes)\n"
        "while True:\n"
        "    try: matcher.places(['b']); break\n"
        "    except agent.Refused: pass\n"
        "first = matcher._process._child\n"
        "os.kill(first.pid, signal.SIGSTOP)\n"
        "try: matcher.places(['b'])\n"
        "except agent.Refused as error: said = str(error)\n"
        "gone = first.done.wait(5)\n"
        "agent.MATCH_WAIT_S = 20.0\n"
        "print(json.dumps({'said': said, 'gone': gone, 'after': matcher.places(['a', 'b'])}))\n"
    )
    assert "cannot be matched" in found["said"]
    assert (found["gone"], found["after"]) == (True, [1])


def test_a_matcher_ends_with_the_agent_that_asked_it():
    pid = in_an_agent(
        "agent.MATCH_WAIT_S = 20.0\n"
        "matcher = agent.Matcher('b', processes); matcher.places(['b'])\n"
        "print(json.dumps(matcher._process._child.pid))\n"
    )
    waiting = ["sh", "-c", f"while grep -qs agent.py /proc/{pid}/cmdline; do sleep 0.02; done"]
    assert subprocess.run(waiting, timeout=10, check=False).returncode == 0
