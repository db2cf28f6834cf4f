"""Folded sentences of findings, as version 0.1.0 wrote them: the wording may change, the signature stays.

Guarantees: ``earlier(rule)`` of a sentence of today is the folded sentence of the same finding in 0.1.0, and a sentence
of 0.1.0 comes back unchanged; so stored findings, files of known findings and new runs share their signatures. A
checker that words a finding differently adds a line here. Out of scope: folding (``dethrone.harness.core.signature``).
Pure.
"""

from __future__ import annotations

import re

_ALL_COULD = r"although N could all talk to each other \((.*?)\)"
_ALL_TALK = r"although all could talk to each other \((.*?)\)"
_COULD = r"N could all talk to each other (\2) and"
_NO_READER = "nobody ever polled it, though a reader went past that index"

_WORDINGS: tuple[tuple[str, str], ...] = (
    (
        r"^N still claimed to lead term #(.*), # after losing its majority \(limit #\)",
        r"N still claims to lead term #\1 # after it was cut off from hearing a majority; at most # is promised",
    ),
    (
        rf"^N had no leader for # \(limit #(.*)\), {_ALL_TALK}",
        rf"{_COULD} had no leader for #; at most # is promised\1",
    ),
    (
        rf"^N lost their leader and elected none for # \(limit #(.*)\), {_ALL_TALK}",
        rf"{_COULD} lost its leader and had none again for #; at most # is promised\1",
    ),
    (
        (
            rf"^N stood for election # times in a row(.*) within # \(limit #\) and neither led nor "
            rf"followed a leader, {_ALL_COULD}"
        ),
        (
            r"N sought to lead # times in a row\1, for #, and neither led nor followed anybody, "
            r"although N could all talk to each other (\2); at most # times is promised"
        ),
    ),
    (
        (
            r"^Several candidates split the vote and none won in # of # terms with a candidate(.*) "
            r"\(limit #, and chance explains no more\)"
        ),
        (
            r"In # of # terms in which somebody stood\1, several stood at once and nobody won; at most "
            r"# of them may end so, and chance does not explain more"
        ),
    ),
    (
        r"^N voted for N in term #(.*), then refused the repeated request of N because of that same vote",
        (
            r"N voted for N in term #\1, and when that one asked again, for want of an answer, refused "
            r"it because of that very vote"
        ),
    ),
    (
        r"^N stood for election in term #(.*) although it knew",
        r"N sought to lead term #\1 although it knew",
    ),
    (
        r"^N reported entry # of its term #(.*) as committed when only N of the members N had stored it",
        r"N told that entry # of its term #\1 was committed when only N of the members N had stored it",
    ),
    (
        r"^N reported entry # of its term #(.*) as committed when none of the members N had stored it",
        r"N told that entry # of its term #\1 was committed when only nobody of the members N had stored it",
    ),
    (
        r"^A client saw no holder of (.*) while (.*) \(token #\) certainly held it",
        r"Nobody was seen to hold \1 while \2 (token #) certainly did",
    ),
    (r"after token # had been granted to another owner\b", "after token # had been told to somebody"),
    (r"after token # had been granted to\b", "after token # had been told to"),
    (r", which (\S+) had received before\.$", r", which \1 had been told before."),
    (r"\bboth received token #", "were both told token #"),
    (r"\breceived token # and then token #", "were told token # and after it token #"),
    (r"\bhad reported before the heal\b", "had told before the heal"),
    (r"\ba client received the acknowledgement\b", "a client was told so"),
    (r"\band continued: it\b", "and went on: it"),
    (r", but no client had written it\b", ", but nobody had written it"),
    (r", but it had not been proposed there\b", ", but nobody had proposed it there"),
    (r"\bwhich no client can have written\b", "which nobody can have written"),
    (r"\bwhich no client (ever )?(appended|added|wrote|put in)\b", r"which nobody \1\2"),
    (r"\bbefore any client began to\b", "before anybody began to"),
    (r"\band no other operation wrote one of these values\b", "and nobody else wrote one of these values"),
    (r"; no later read shows (it|all of them)\.$", "; no later read shows more."),
    (r"; a later one shows all of them\.$", "; a later one shows it."),
    (r"\bthat shows only # values; ", "that shows only # values without it; "),
    (r"\bno reader ever polled it, though one went past that index\b", _NO_READER),
)
"""The words of today as a pattern, and those of 0.1.0."""
_PATTERNS = tuple((re.compile(today), before) for today, before in _WORDINGS)


def earlier(rule: str) -> str:
    """A folded sentence in the words of 0.1.0."""
    for today, before in _PATTERNS:
        rule = today.sub(before, rule)
    return rule
