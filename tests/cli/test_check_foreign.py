"""``dethrone check FILE --format … --model …``: histories of other tools, whole and broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "foreign"
FORMATS = {".jsonl": "jsonl", ".edn": "jepsen-edn", ".log": "jepsen-log"}
FILES = sorted(GOLDEN.glob("*.*"))


def event(kind, process, f, value=None, **more):
    return json.dumps({"type": kind, "process": process, "f": f, "value": value, **more}) + "\n"


def both(process, f, value=None, told=None):
    return event("invoke", process, f, value) + event("ok", process, f, value if told is None else told)


@pytest.fixture
def judge(call, tmp_path):
    """Text, model → (exit code, JSON object, what people read)."""

    def run(text, model, *more, form="jsonl"):
        path = tmp_path / "h"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        done = call("check", str(path), "--format", form, "--model", model, "--json", *more)
        return done.exit_code, json.loads(done.stdout), done.stderr

    return run


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_golden_histories_have_their_known_verdicts(call, path):
    model, verdict, *kind = path.stem.split(".")
    done = call("check", str(path), "--format", FORMATS[path.suffix], "--model", model, "--json")
    value = json.loads(done.stdout)
    found = {finding["data"]["anomaly"] for finding in value["checkers"][model]["findings"]}
    assert (value["verdict"], done.exit_code) == (verdict, {"pass": 0, "fail": 1, "unknown": 2}[verdict])
    if kind and verdict == "fail" and "_" not in kind[0]:  # one word is the class of the anomaly
        assert kind[0] in found
    for finding in value["checkers"][model]["findings"]:
        assert finding["events"]
        assert all(row["line"] > 0 for row in finding["events"])


def test_every_model_has_a_golden_history_that_fails_and_one_that_passes():
    from dethrone.harness.core import registry

    told = {tuple(path.stem.split(".")[:2]) for path in FILES}
    assert {(name, verdict) for name in registry.names(registry.MODELS) for verdict in ("pass", "fail")} <= told


@pytest.mark.parametrize("form", ["jsonl", "jepsen-edn"])
def test_the_headline_says_how_often_times_run_backwards(call, tmp_path, form):
    path = tmp_path / "h"
    edn = "{{:type :{}, :process 0, :f :write, :value 1, :time {}}}\n"
    rows = [("invoke", 2_000), ("ok", 1_000)]
    lines = [event(kind, 0, "write", 1, time=at) if form == "jsonl" else edn.format(kind, at) for kind, at in rows]
    path.write_text("".join(lines))
    done = call("check", str(path), "--format", form, "--model", "register")
    assert done.exit_code == 0
    assert "times run backwards 1 times" in done.stdout


def test_a_history_in_which_only_the_nemesis_acts_passes_with_its_count(call, judge, tmp_path):
    text = "{:type :info, :process :nemesis, :f :start, :value nil}\n"
    code, value, _ = judge(text, "cas-register", form="jepsen-edn")
    assert (code, value["verdict"], value["reason"], value["operations"]) == (0, "pass", "0 operations judged", 0)
    (tmp_path / "n.edn").write_text(text)
    done = call("check", str(tmp_path / "n.edn"), "--format", "jepsen-edn", "--model", "cas-register")
    assert done.stdout.startswith("PASS  0 operations judged")


def test_people_read_the_operations_of_the_proof(call, tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_text(both(0, "write", 1) + both(1, "write", 2) + both(0, "read", told=1))
    done = call("check", str(path), "--format", "jsonl", "--model", "register")
    assert done.exit_code == 1
    assert ("line      5" in done.stdout, "read → ok 1 (line 6)" in done.stdout) == (True, True)


def test_an_unset_register_reads_nil_unless_said_otherwise(judge):
    text = both(0, "read", told=7)
    assert judge(text, "register")[0] == 1
    assert judge(text, "register", "--initial", "7")[0] == 0
    assert judge(event("invoke", 0, "read") + event("ok", 0, "read"), "register")[0] == 0


def test_initial_may_be_a_word(judge):
    assert judge(both(0, "read", told="free"), "register", "--initial", "free")[0] == 0


def test_a_failed_cas_is_an_answer_only_if_asked_so(judge):
    text = both(0, "write", 1) + event("invoke", 0, "cas", [1, 2]) + event("fail", 0, "cas", [1, 2])
    assert judge(text, "cas-register")[0] == 0
    assert judge(text, "cas-register", "--strict-cas")[0] == 1


def test_a_weaker_level_allows_more(judge):
    text = both(0, "txn", [["append", "x", 1]]) + event("invoke", 1, "txn", [["r", "x", None]])
    text += event("ok", 1, "txn", [["r", "x", []]])
    assert judge(text, "list-append")[0] == 1
    code, value, _ = judge(text, "list-append", "--consistency", "serializable")
    assert (code, value["checkers"]["list-append"]["metrics"]) == (0, {"tolerated": {"G-single-realtime": 1}})


def test_people_see_the_operations_as_bars_and_why_each_edge_is_there(call):
    shown = call(
        "check", str(GOLDEN / "list-append.fail.G2.jsonl"), "--format", "jsonl", "--model", "list-append"
    ).stdout
    assert "T1 ─rw→ T2  T1 is before T2, as T1 read x as [] without T2's 1" in shown
    assert "0: txn r x [], append y 1  ├───────────┤" in shown


def test_ci_gets_the_proof_as_junit_annotations_and_summary(call, tmp_path, monkeypatch):
    from xml.etree import ElementTree as ET

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    bad, good, none = GOLDEN / "set.fail.lost.jsonl", GOLDEN / "set.pass.removed.jsonl", tmp_path / "none.jsonl"
    none.write_text("?")
    out = tmp_path / "junit.xml"
    words = ("--format", "jsonl", "--model", "set", "--github", "--junit-xml", str(out))
    done = call("check", str(bad), str(good), str(none), *words)
    assert done.exit_code == 3
    suites = ET.parse(out).getroot()  # noqa: S314 - written by us a moment ago
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("3", "1", "1")
    told = suites.find("testsuite/testcase/failure").text
    assert ("line      1  process 0    add 1" in told, "├───┤" in told) == (True, True)
    assert "::error title=set.fail.lost.jsonl%3A set::lost: 1" in done.stdout
    assert "::error title=none.jsonl%3A harness trouble::" in done.stdout
    summary = (tmp_path / "summary.md").read_text()
    assert ("set.fail.lost.jsonl" in summary, "├───┤" in summary) == (True, True)


def test_a_history_without_a_verdict_is_unknown(judge):
    code, value, _ = judge(both(0, "add", 1), "set")
    assert (code, value["verdict"]) == (2, "unknown")
    assert "not exercised" in value["reason"]


def test_more_than_the_bound_is_unknown_with_the_reason(judge):
    text = "".join(both(0, "write", number) for number in range(9)) + both(0, "read", told=8)
    code, value, _ = judge(text, "register", "--ops-max", "5")
    assert (code, "only the first 5" in value["reason"]) == (2, True)


def test_a_violation_within_the_bound_stands(judge):
    text = both(0, "write", 1) + both(0, "read", told=2) + both(0, "write", 2) * 3
    assert judge(text, "register", "--ops-max", "2")[0] == 1


def test_a_value_never_written_is_a_violation(judge):
    code, value, _ = judge(both(0, "write", 1) + both(0, "read", told=9), "register")
    assert (code, value["verdict"]) == (1, "fail")


BROKEN = {
    "overlap": event("invoke", 0, "read") + event("invoke", 0, "read"),
    "a return without a call": event("ok", 0, "read", 1),
    "an unknown operation": both(0, "pop"),
    "an empty file": "",
    "no JSON": "hello\n",
    "cut off": event("invoke", 0, "read") + '{"type": "ok", "pro',
    "deep": event("invoke", 0, "write", 5).replace("5", "[" * 10_000 + "]" * 10_000),
    "no text": b"\xff\xfe\x00",
    "a cas that is no pair": both(0, "cas", 7),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_input_is_trouble_with_its_line_and_never_a_verdict(judge, name):
    code, value, _ = judge(BROKEN[name], "cas-register")
    assert (code, value["verdict"]) == (3, None)
    (trouble,) = value["trouble"]
    assert name == "an empty file" or "line " in trouble
    assert "Traceback" not in trouble


@pytest.mark.parametrize(
    ("model", "steps"),
    [("list-append", 7), ("list-append", [["w", "x", 1]]), ("list-append", [["r"]])],
)
def test_transactions_that_are_none_are_never_passed(judge, model, steps):
    code, _, err = judge(both(0, "txn", steps), model)
    assert code in (2, 3)
    assert "Traceback" not in err


def test_a_file_with_trouble_hides_no_other(call, tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(both(0, "write", 1))
    bad.write_text("?")
    done = call("check", str(bad), str(good), "--format", "jsonl", "--model", "register", "--json")
    value = json.loads(done.stdout)
    assert [row["verdict"] for row in value["runs"]] == [None, "pass"]
    assert done.exit_code == 3


@pytest.mark.parametrize(
    "words",
    [
        ["--format", "jsonl"],
        ["--model", "set"],
        ["--strict-cas"],
        ["--format", "xml", "--model", "set"],
        ["--format", "jsonl", "--model", "rgister"],
        ["--format", "jsonl", "--model", "set", "--update"],
        ["--format", "jsonl", "--model", "mutex", "--initial", "3"],
        ["--format", "jsonl", "--model", "list-append", "--consistency", "perfect"],
    ],
)
def test_wrong_usage_is_told(call, tmp_path, words):
    path = tmp_path / "h"
    path.write_text(
        both(0, "add", 1) if "set" in words else both(0, "txn", []) if "perfect" in words else both(0, "acquire")
    )
    assert call("check", str(path), *words).exit_code == 64


@pytest.mark.parametrize("key", ["{nil 1}", "[1 {2 #{3}}]", "#{:a}", ":k", "1.5"])
def test_keys_of_any_kind_can_be_told(judge, key):
    text = f"{{:type :invoke, :process 0, :f :write, :value 1, :key {key}}}\n{{:type :ok, :process 0, :f :write}}\n"
    text += f"{{:type :invoke, :process 0, :f :read, :key {key}}}\n{{:type :ok, :process 0, :f :read, :value 7}}\n"
    code, value, _ = judge(text, "register", form="jepsen-edn")
    assert (code, len(value["checkers"]["register"]["findings"])) == (1, 1)


def test_a_model_that_crashes_is_unknown(judge, monkeypatch):
    from dethrone.checkers.set_reads import SetReads

    monkeypatch.setattr(SetReads, "see", lambda *_: 1 / 0)
    code, value, _ = judge(both(0, "add", 1), "set")
    assert (code, "crashed" in value["reason"]) == (2, True)


def test_models_are_listed(call):
    told = call("list", "models").stdout
    assert all(name in told for name in ("cas-register", "list-append", "lock"))
