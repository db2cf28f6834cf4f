"""What is wrong with a history is told with its line, in every format; what is too much is ``unknown``; none passes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FORMS = ("jsonl", "jepsen-edn", "jepsen-log")
DETHRONE = Path(sys.executable).with_name("dethrone")

NIL = {"jsonl": "null", "jepsen-edn": "nil", "jepsen-log": "nil"}


def event(form, kind, process, f, value=None, *, time=None):
    """One event as a line of this format; ``value`` is a number, a text in the format's own words, or nothing."""
    word = NIL[form] if value is None else str(value)
    if form == "jsonl":
        more = "" if time is None else f', "time": {time}'
        return f'{{"type": "{kind}", "process": {process}, "f": "{f}", "value": {word}{more}}}\n'
    if form == "jepsen-edn":
        more = "" if time is None else f", :time {time}"
        return f"{{:type :{kind}, :process {process}, :f :{f}, :value {word}{more}}}\n"
    return f"INFO  jepsen.util - {process}\t:{kind}\t:{f}\t{word}\n"


def done(form, process, f, value=None, told=None):
    return event(form, "invoke", process, f, value) + event(form, "ok", process, f, value if told is None else told)


@pytest.fixture
def judged(call, tmp_path):
    """Text, format, model → (exit code, verdict, all that is told)."""

    def run(text, form, model="cas-register", *more):
        path = tmp_path / "h"
        path.write_text(text)
        result = call("check", str(path), "--format", form, "--model", model, "--json", *more)
        value = json.loads(result.stdout)
        assert "Traceback" not in result.stdout + result.stderr
        return result.exit_code, value["verdict"], " ".join([value["reason"], *value["trouble"]])

    return run


both = pytest.mark.parametrize("form", FORMS)


@both
def test_overlapping_operations_of_one_process(judged, form):
    text = done(form, 0, "write", 1) + event(form, "invoke", 0, "read") + event(form, "invoke", 0, "read")
    code, verdict, told = judged(text, form)
    assert (code, verdict, "line 4" in told, "has not returned" in told) == (3, None, True, True)


@both
def test_a_return_without_a_call(judged, form):
    code, verdict, told = judged(done(form, 0, "write", 1) + event(form, "ok", 1, "read", 1), form)
    assert (code, verdict, "line 3" in told, "without a call" in told) == (3, None, True, True)


@both
def test_an_unknown_operation(judged, form):
    code, verdict, told = judged(done(form, 0, "write", 1) + done(form, 0, "increment", 1), form)
    assert (code, verdict, "line 3" in told, "this model knows" in told) == (3, None, True, True)


@both
@pytest.mark.parametrize("model", ["register", "cas-register", "set", "log"])
def test_a_value_that_nobody_wrote(judged, form, model):
    f, told = {"set": ("add", "[1 9]"), "log": ("append", "[1 9]")}.get(model, ("write", 9))
    if form == "jsonl":
        told = str(told).replace(" ", ", ")
    code, verdict, told = judged(done(form, 0, f, 1) + done(form, 0, "read", told=told), form, model)
    assert (code, verdict, "9" in told) == (1, "fail", True)


@pytest.mark.parametrize("form", ["jsonl", "jepsen-edn"])
def test_times_that_run_backwards_where_locks_are_judged_by_them(judged, form):
    text = event(form, "invoke", 0, "acquire", time=20) + event(form, "ok", 0, "acquire", 1, time=10)
    code, verdict, told = judged(text, form, "lock")
    assert (code, verdict, "line 2" in told, "time runs backwards" in told) == (3, None, True, True)


def history(form, **more):
    """One whole history that is right by itself, with an operation that nobody answered."""
    return done(form, 0, "write", 1) + event(form, "invoke", 1, "write", 2, **more) + done(form, 0, "read", told=1)


@both
def test_two_histories_in_one_file(judged, form):
    assert judged(history(form), form)[:2] == (0, "pass")
    code, verdict, told = judged(history(form) * 2, form)
    assert (code, verdict, "line 8" in told, "two histories in one file" in told) == (3, None, True, True)


def test_two_histories_in_one_file_as_two_vectors(judged):
    one = f"[{history('jepsen-edn')}]\n"
    code, verdict, told = judged(one * 2, "jepsen-edn")
    assert (code, verdict, "line " in told) == (3, None, True)


@both
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file(judged, form, text):
    code, verdict, told = judged(text, form)
    assert (code, verdict, "no operation of any client" in told) == (3, None, True)


@both
@pytest.mark.parametrize("end", ["]", ""], ids=["closed", "cut off"])
def test_deeply_nested_values(judged, form, end):
    deep = "[" * 100_000 + end * 100_000
    code, verdict, told = judged(done(form, 0, "write", 1) + event(form, "invoke", 0, "write", deep), form)
    assert (code, verdict, "line 3" in told) == (3, None, True)
    assert len(told) < 1000


@both
def test_an_operation_that_never_returns_may_have_happened(judged, form):
    text = event(form, "invoke", 0, "write", 1)
    assert judged(text + done(form, 1, "read", told=1), form)[1] == "pass"
    assert judged(text + done(form, 1, "read"), form)[1] == "pass"


def test_more_operations_than_are_read_are_never_passed(judged):
    text = "".join(done("jsonl", 0, "write", number) for number in range(30))
    code, verdict, told = judged(text, "jsonl", "register", "--ops-max", "10")
    assert (code, verdict, "only the first 10 were judged" in told) == (2, "unknown", True)


def test_a_model_may_take_fewer_operations_of_a_file(judged, monkeypatch):
    from dethrone.checkers.list_append import ListAppend

    monkeypatch.setattr(ListAppend, "operations_max", 3)
    text = "".join(done("jsonl", 0, "txn", f'[["append", "x", {number}]]') for number in range(5))
    text += done("jsonl", 0, "txn", '[["r", "x", null]]', '[["r", "x", [0, 1, 2, 3, 4]]]')
    assert judged(text, "jsonl", "list-append")[1] == "unknown"
    assert judged(text, "jsonl", "list-append", "--ops-max", "9")[1] == "pass"


def test_a_history_of_more_operations_than_asked_for_ends_in_unknown_and_is_not_read_to_its_end(tmp_path):
    """Its end is no history at all, so a reader that got there would say so."""
    file = tmp_path / "long.jsonl"
    with file.open("w") as lines:
        for number in range(40_000):
            lines.write(f'{{"type":"invoke","process":0,"f":"write","value":{number}}}\n{{"type":"ok","process":0}}\n')
        lines.write("not JSON\n")
    words = [DETHRONE, "check", file, "--format", "jsonl", "--model", "register", "--json"]
    result = subprocess.run([*words, "--ops-max", "30000"], capture_output=True, check=False)
    value = json.loads(result.stdout)
    assert (result.returncode, value["verdict"], value["operations"]) == (2, "unknown", 30_000)
    assert "nothing can be passed" in value["reason"]
    assert b"Traceback" not in result.stderr
    whole = subprocess.run([*words, "--ops-max", "50000"], capture_output=True, check=False)
    assert b"line 80001" in whole.stderr
