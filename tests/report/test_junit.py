from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.report import junit
from dethrone.harness.report.junit import Suite


def parsed(*suites: Suite) -> ET.Element:
    return ET.fromstring(junit.render(suites))  # noqa: S314 - our own output


def test_a_property_is_a_case_and_its_verdict_an_element(failing):
    root = parsed(Suite(name="nacos-seed-42", judgement=failing.judgement, files=failing))
    assert root.tag == "testsuites"
    (suite,) = root
    cases = {case.get("name"): case for case in suite}
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "5",
        "2",
        "1",
        "1",
    )
    assert root.get("failures") == "2"
    failure = cases["one-leader-per-term"].find("failure")
    assert failure.get("message") == "n2 and n4 were both elected leader of term 7"
    assert "+13.008 s" in failure.text
    assert cases["log-matching"].find("skipped") is not None
    assert cases["leader-when-owed"].find("error").get("type") == "unknown"
    assert [child.tag for child in cases["term-never-decreases"]] == ["system-out"]  # what was excused
    assert all(case.get("classname") and case.get("name") for case in suite)


def test_a_passing_run_has_no_failure(passing):
    root = parsed(Suite(name="raft", judgement=passing.judgement, files=passing))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")


def test_trouble_is_an_error_and_never_a_failure():
    root = parsed(Suite(name="raft", judgement=None, files=None, trouble=["the engine is gone\x00"]))
    (case,) = root[0]
    assert case.find("error").get("message").startswith("the engine is gone")
    assert root.get("failures") == "0"


def test_nothing_judged_is_never_green():
    assert parsed(Suite(name="raft", judgement=None, files=None)).get("errors") == "1"


@given(st.text())
def test_any_text_makes_well_formed_xml(text):
    assert parsed(Suite(name=text, judgement=None, files=None, trouble=[text])).tag == "testsuites"
