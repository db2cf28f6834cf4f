"""A comparison of nights as JUnit XML: a suite per system, a case per cell, so that any CI shows what became worse.

Guarantees: red → ``failure``; known, or too few runs to compare → ``skipped``; runs that were not judged → ``error``;
well-formed for all names. Writing is out of scope.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from xml.etree import ElementTree as ET

from dethrone.harness.report.junit import clean, document


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
    elements = [ET.Element("testsuite", name=clean(name)) for name in suites]
    for element, cases in zip(elements, suites.values(), strict=True):
        element.extend(cases)
    return document("dethrone trends", elements)
