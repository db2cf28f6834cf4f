"""A comparison of nights as JUnit XML: a suite per system, a case per cell, so that any CI shows what became worse.

Guarantees: red → ``failure``; known, or too few runs to compare → ``skipped``; runs that were not judged → ``error``;
well-formed for all names. Writing is out of scope.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from xml.etree import ElementTree as ET

from dethrone.harness.report.junit import clean


def render(answer: Any) -> str:
    """The XML document."""
    red = {one.cell: one for one in answer.sorted.red}
    known = {one.cell: why for one, why in answer.sorted.known}
    suites: dict[str, list[ET.Element]] = defaultdict(list)
    for one in (*answer.compared.times, *answer.compared.rates):
        case = ET.Element("testcase", classname=clean(f"trends.{one.cell.system}"))
        case.set("name", clean(f"{one.cell.fault}/{one.cell.metric}"))
        if (bad := red.get(one.cell)) is not None:
            words = [f"{bad.kind} in {bad.night}: {bad.size}", *(f"changed: {word}" for word in bad.changed)]
            words += [*(f"run: {run}" for run in bad.runs), answer.trace(one.cell)]
            failure = ET.SubElement(case, "failure", message=clean(f"{one.cell} {words[0]}"), type=bad.kind)
            failure.text = clean("\n".join(words))
        elif one.cell in known:
            ET.SubElement(case, "skipped", message=clean(f"known: {known[one.cell]}"))
        elif why := getattr(one, "why", ""):
            ET.SubElement(case, "skipped", message=clean(why))
        suites[one.cell.system].append(case)
    for why in answer.why_unknown:
        case = ET.Element("testcase", classname="trends", name="evidence")
        ET.SubElement(case, "error", message=clean(why), type="unknown")
        suites["evidence"].append(case)
    root = ET.Element("testsuites", name="dethrone trends")
    for name, cases in suites.items():
        suite = ET.SubElement(root, "testsuite", name=clean(name))
        _count(suite, cases)
        suite.extend(cases)
    _count(root, [case for cases in suites.values() for case in cases])
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _count(element: ET.Element, cases: list[ET.Element]) -> None:
    element.set("tests", str(len(cases)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(key, str(sum(case.find(tag) is not None for case in cases)))
