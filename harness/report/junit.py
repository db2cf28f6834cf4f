"""JUnit XML of one or many runs: a suite per run, a case per property, so that any CI shows which property broke.

Guarantees: well-formed for all texts (characters that XML 1.0 forbids are replaced); fail → ``failure``, unknown and
trouble → ``error``, n/a → ``skipped``; deterministic from the files. Writing is out of scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

import msgspec

from dethrone.harness.core.clean import for_output, one_line
from dethrone.harness.core.verdict import Verdict, excused_findings
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report import bars
from dethrone.harness.report.rundir import RunFiles
from dethrone.harness.report.snippet import proving
from dethrone.harness.report.words import announced, excused_words, verdict_word

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """One run as CI meets it. ``files`` None: there is no history of ours (it never got that far, or another tool
    recorded it: then ``proving`` has the words of what certificates name)."""

    name: str
    judgement: Judgement | None
    files: RunFiles | None = None
    trouble: Sequence[str] = ()
    proving: Mapping[int, str] = {}


def render(suites: Sequence[Suite]) -> str:
    """The XML document."""
    return document("dethrone", map(_suite, suites))


def document(name: str, suites: Iterable[ET.Element]) -> str:
    """An XML document of these suites, which count their cases and are counted."""
    root = ET.Element("testsuites", name=name)
    root.extend(suites)
    for element in (*root, root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(key, str(sum(case.find(tag) is not None for case in cases)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(suite: Suite) -> ET.Element:
    verdicts = suite.judgement.verdicts if suite.judgement else ()
    seconds = f"{suite.files.history.at(-1).t / 1e9:.3f}" if suite.files and len(suite.files.history) else "0"
    element = ET.Element("testsuite", name=clean(suite.name), time=seconds)
    plan = suite.files.plan if suite.files else None
    told = {} if plan is None else {**plan.tags, **({"version": plan.system_version} if plan.system_version else {})}
    if suite.judgement is not None and announced(suite.judgement):
        told["excused"] = verdict_word(suite.judgement.outcome) + announced(suite.judgement)
    properties = ET.SubElement(element, "properties") if told else element
    for name, value in told.items():
        ET.SubElement(properties, "property", name=clean(name), value=clean(value))
    cases = [_case(suite, verdict) for verdict in verdicts]
    trouble = [*suite.trouble]
    if suite.judgement is None and not trouble:
        trouble = ["nothing was judged"]
    if suite.judgement is not None and suite.judgement.damage:
        trouble.append(f"the history is damaged: {suite.judgement.damage}")
    if trouble:
        case = ET.Element("testcase", classname=clean(suite.name), name="harness")
        ET.SubElement(case, "error", message=clean(trouble[0]), type="trouble").text = clean(
            "\n".join(map(one_line, trouble))
        )
        cases.append(case)
    element.extend(cases)
    return element


def _case(suite: Suite, verdict: Verdict) -> ET.Element:
    case = ET.Element("testcase", classname=clean(f"{suite.name}.{verdict.kind}"), name=clean(verdict.checker))
    if verdict.outcome == "fail":
        lines = []
        for finding in verdict.findings:
            lines.append(one_line(finding.sentence) + (f" (excused: {finding.excused})" if finding.excused else ""))
            lines += [f"  known: {one_line(finding.known)}"] if finding.known else []
            lines += [f"  signature: {one_line(finding.signature)}"] if finding.signature and finding.fails else []
            if suite.files is not None:
                lines += [f"  {at}  {text}" for _, at, text in proving(suite.files.history, finding.certificate)]
            lines += [f"  {suite.proving[place]}" for place in finding.certificate if place in suite.proving]
            lines += [f"    {line}" for line in bars.lines(finding.data)]
        message = next((finding.sentence for finding in verdict.findings if finding.fails), verdict.reason)
        ET.SubElement(case, "failure", message=clean(message), type=verdict.kind).text = clean("\n".join(lines))
    elif verdict.outcome == "unknown":
        ET.SubElement(case, "error", message=clean(verdict.reason or "unknown"), type="unknown")
    elif verdict.outcome == "n/a":
        ET.SubElement(case, "skipped", message=clean(verdict.reason or "not applicable"))
    excused = excused_findings([verdict])
    if excused and verdict.outcome != "fail":
        lines = [f"{one.sentence} (excused: {one.excused})" for one in verdict.findings if one.excused]
        told = "\n".join([f"{excused_words(excused)}:", *lines])
        ET.SubElement(case, "system-out").text = clean(told)
    return case


def clean(text: str) -> str:
    """``text`` without the characters that XML 1.0 cannot carry, and without those that act on a terminal."""
    return _FORBIDDEN.sub("\ufffd", for_output(text))
