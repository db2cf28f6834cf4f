"""The published format of trace lines: JSON objects that any implementation can print, one per line.

    {"dethrone": 1, "event": "elected", "term": 3, "voters": ["n1", "n2"]}

A line may have other words before the object, never behind it, so a logger's prefix does no harm. Lines without the
word ``"dethrone"`` are not of the trace and passed over. What is torn off by a crash and glued to the next process'
first line is dropped: a process that died while printing had not yet done what the line reports.

Guarantees: pure; a line that means to be of the trace but does not fit the format is ``Malformed`` with what is wrong,
never guessed at. Out of scope: when a line must be printed: docs/own-system.md says that, and the checkers rely on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dethrone.harness.core.interfaces import Malformed, TraceLine
from dethrone.harness.core.registry import unknown_name

VERSION = 1
SHOWN_MAX = 200
WHY_MAX = 400
_MARK = re.compile(rb'\{\s*"dethrone"\s*:')
_KEY = b'"dethrone"'
_STORED = ("read", "absent", "unreadable")
_FREE = ("dethrone", "event", "term", "group", "node", "time")
"""Fields that any line may have; ``node`` and ``time`` are for people and not read."""


class Field(msgspec.Struct, frozen=True):
    """One field: what it holds (for people and for the schema), and whether it must be there."""

    name: str
    kind: Literal["count", "name", "name or null", "names", "entries", "text", "stored", "truth", "object"]
    about: str
    required: bool = True


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of line. ``name``, ``source``, ``role``, ``data``: the event of a history that it becomes.

    ``term``: whether the line must have the node's term. ``when``: when it is printed.
    """

    name: str
    source: Literal["core", "shell"]
    when: str
    fields: tuple[Field, ...] = ()
    term: bool = True
    role: str = ""
    data: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict


def _log_append(given: Mapping[str, Any]) -> Mapping[str, Any]:
    entries = given["entries"]
    return {"from": entries[0][0], "entries": entries}


def _found(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"file": "read", **given}


def _asserted(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"assertion": given["name"], **{name: value for name, value in given.items() if name != "name"}}


_ASSERTION = Field("name", "name", "name of the assertion, the same in every run")
_CONDITION = Field("condition", "truth", "whether it holds now")
_DETAILS = Field("details", "object", "what a reader of a finding wants to know", required=False)
_INDEX = Field("index", "count", "index of the entry")
_CANDIDATE = Field("candidate", "name", "who got the vote")

EVENTS: Mapping[str, Kind] = {
    "elected": Kind(
        name="elected",
        source="shell",
        role="LEADER",
        when="a node becomes leader of a term, before it acts as one",
        fields=(
            Field("voters", "names", "everyone whose vote was counted, itself included", required=False),
            Field("members", "names", "the voting members in force, where they change", required=False),
        ),
    ),
    "vote_granted": Kind(
        name="vote",
        source="shell",
        when="a node's vote of a term is stored, before the answer leaves; a candidate's own vote, too",
        fields=(_CANDIDATE,),
    ),
    "term_changed": Kind(
        name="persisted",
        source="shell",
        when="a node's new term is stored, before it acts in it",
        fields=(Field("voted_for", "name or null", "the vote stored with it", required=False),),
    ),
    "stepped_down": Kind(
        name="step_down",
        source="core",
        role="FOLLOWER",
        term=False,
        when="a leader no longer leads",
        data=lambda given: {**given, "from": "LEADER"},
    ),
    "committed": Kind(
        name="commit",
        source="core",
        term=False,
        when="a node's commit index rose",
        fields=(Field("index", "count", "the commit index"),),
        data=lambda given: {"index": given["index"], "new": given["index"]},
    ),
    "appended": Kind(
        name="log_append",
        source="shell",
        term=False,
        when="entries are stored in a node's log, replacing what stood at their indices and behind",
        fields=(Field("entries", "entries", "[[index, term, hash of the payload], …], rising by one"),),
        data=_log_append,
    ),
    "truncated": Kind(
        name="log_truncate",
        source="shell",
        term=False,
        when="entries are removed from the end of a node's log",
        fields=(Field("from", "count", "the first index that is gone"),),
    ),
    "acknowledged": Kind(
        name="acked",
        source="shell",
        when="a follower's entries are stored, before it acknowledges them to its leader",
        fields=(Field("index", "count", "everything up to here is stored"),),
    ),
    "recovered": Kind(
        name="found",
        source="shell",
        when="a node starts: what it finds stored, before it makes anything of it (term 0: nothing)",
        fields=(
            Field("voted_for", "name or null", "the stored vote", required=False),
            Field("file", "stored", "read (default), absent or unreadable", required=False),
        ),
        data=_found,
    ),
    "campaigning": Kind(
        name="campaign", source="core", role="CANDIDATE", when="a node asks for votes, after its own vote is stored"
    ),
    "pre_vote_started": Kind(name="prevote_started", source="core", term=False, when="a node asks for pre-votes"),
    "pre_vote_won": Kind(
        name="prevote_result",
        source="core",
        term=False,
        when="a majority granted a pre-vote, before the vote that follows",
        data=lambda given: {**given, "result": "won"},
    ),
    "pre_vote_granted": Kind(
        name="prevote_decision",
        source="core",
        term=False,
        when="a node grants a pre-vote",
        fields=(_CANDIDATE,),
        data=lambda given: {**given, "granted": True},
    ),
    "leader_seen": Kind(
        name="leader_seen",
        source="core",
        when="a node follows a leader that it did not follow before",
        fields=(Field("leader", "name", "the leader that it follows"),),
    ),
    "members_changed": Kind(
        name="config",
        source="shell",
        when="an entry that changes the members is stored in a node's log",
        fields=(
            _INDEX,
            Field("voters", "names", "the voting members from there on"),
            Field("learners", "names", "those that do not vote", required=False),
        ),
        data=lambda given: {"learners": [], **given},
    ),
    "halting": Kind(
        name="halt",
        source="core",
        term=False,
        when="a node ends on purpose (an unusable disk), before it does",
        fields=(Field("reason", "text", "why"),),
    ),
    "always": Kind(
        name="always",
        source="core",
        term=False,
        when="a node evaluates a condition that must always hold, each time",
        fields=(_ASSERTION, _CONDITION, _DETAILS),
        data=_asserted,
    ),
    "sometimes": Kind(
        name="sometimes",
        source="core",
        term=False,
        when="a node evaluates a condition that must hold at least once in a run",
        fields=(_ASSERTION, _CONDITION, _DETAILS),
        data=_asserted,
    ),
    "unreachable": Kind(
        name="unreachable",
        source="core",
        term=False,
        when="a node comes to a place that it must never come to",
        fields=(_ASSERTION, _DETAILS),
        data=_asserted,
    ),
}
"""Every line of version 1, by its ``event``."""


def read_lines(line: bytes) -> tuple[TraceLine | Malformed, ...]:
    """What one line of output holds of the trace."""
    if _KEY not in line:
        return ()
    starts = [match.start() for match in _MARK.finditer(line)]
    if not starts:  # the key is there, but not first: the object begins at the first brace
        start = line.find(b"{")
        starts = [start] if start >= 0 else [0]
    pieces = [line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]
    out = [read_object(piece) for piece in pieces]
    return tuple(one for number, one in enumerate(out) if number == len(out) - 1 or not _torn(one))


def _torn(one: TraceLine | Malformed) -> bool:
    return isinstance(one, Malformed) and one.why.startswith(_NO_JSON)


_NO_JSON = "no JSON object"


def read_object(text: bytes) -> TraceLine | Malformed:
    """One object of the trace."""
    try:
        given = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return _malformed(text, f"{_NO_JSON}: {error}")
    if not isinstance(given, dict):
        return _malformed(text, f"{_NO_JSON}: it is a {type(given).__name__}")
    if given.get("dethrone") != VERSION or given.get("dethrone") is True:
        return _malformed(text, f"version {given.get('dethrone')!r:.60}; {VERSION} is known")
    event = given.get("event")
    if not isinstance(event, str) or event not in EVENTS:
        unknown = unknown_name("event", str(event), EVENTS)
        return _malformed(text, f"{unknown.what}; {unknown.next_step}")
    why = _wrong(EVENTS[event], given)
    return _malformed(text, f"{event}: {why}") if why else _line(EVENTS[event], given)


def _line(kind: Kind, given: Mapping[str, Any]) -> TraceLine:
    held = {name: value for name, value in given.items() if name not in _FREE}
    return TraceLine(
        incarnation=0,
        n=0,
        mono_ns=None,
        name=kind.name,
        term=given.get("term", 0),
        role=kind.role,
        source=kind.source,
        data=kind.data(held),
        group=given.get("group", ""),
    )


def _malformed(text: bytes, why: str) -> Malformed:
    return Malformed(text[:SHOWN_MAX].decode("utf-8", "replace"), why[:WHY_MAX])


def _wrong(kind: Kind, given: Mapping[str, Any]) -> str:
    """What is wrong with the fields; empty: nothing."""
    fields = {field.name: field for field in kind.fields}
    for name in given:
        if name not in fields and name not in _FREE:
            error = unknown_name("field", name, (*fields, *_FREE))
            return f"{error.what}; {error.next_step}"
    if "term" not in given:
        if kind.term:
            return "the field 'term' is missing"
    elif not _count(given["term"]) or (given["term"] == 0 and kind.name != "found"):
        return f"term is {given['term']!r:.60}; a whole number above 0 is needed"
    if not isinstance(given.get("group", ""), str):
        return "group is no text"
    for name, field in fields.items():
        if name not in given:
            if field.required:
                return f"the field {name!r} is missing"
        elif not _FORMS[field.kind][0](given[name]):
            return f"{name} is {given[name]!r:.60}; it should be {field.about}"
    return ""


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _entries(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    for number, row in enumerate(value):
        if not (isinstance(row, list) and len(row) == 3 and _count(row[0]) and row[0] and _count(row[1])):
            return False
        if not (_text(row[2]) or _count(row[2])) or row[0] != value[0][0] + number:
            return False
    return True


_COUNT: Mapping[str, Any] = {"type": "integer", "minimum": 0}
_NAME: Mapping[str, Any] = {"type": "string", "minLength": 1}
_ENTRY = [{"type": "integer", "minimum": 1}, _COUNT, {"type": ["string", "integer"]}]
_FORMS: Mapping[str, tuple[Callable[[Any], bool], Mapping[str, Any]]] = {
    "count": (_count, _COUNT),
    "name": (_text, _NAME),
    "name or null": (lambda value: value is None or _text(value), {"type": ["string", "null"], "minLength": 1}),
    "names": (
        lambda value: isinstance(value, list) and all(map(_text, value)),
        {"type": "array", "items": _NAME},
    ),
    "entries": (
        _entries,
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": "array", "prefixItems": _ENTRY, "minItems": 3, "maxItems": 3},
        },
    ),
    "text": (lambda value: isinstance(value, str), {"type": "string"}),
    "truth": (lambda value: isinstance(value, bool), {"type": "boolean"}),
    "object": (lambda value: isinstance(value, dict), {"type": "object"}),
    "stored": (lambda value: value in _STORED, {"enum": list(_STORED)}),
}
"""Kind of a field → whether a value is of it, and its JSON schema."""


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a line's object; docs/trace-lines.schema.json holds it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A trace line of Dethrone, version 1",
        "oneOf": [_schema_of(name, kind) for name, kind in EVENTS.items()],
    }


def _schema_of(event: str, kind: Kind) -> dict[str, Any]:
    least = 0 if kind.name == "found" else 1
    properties: dict[str, Any] = {
        "dethrone": {"const": VERSION},
        "event": {"const": event},
        "term": {"type": "integer", "minimum": least},
        "group": {"type": "string"},
        "node": {},
        "time": {},
    }
    properties |= {field.name: {**_FORMS[field.kind][1], "description": field.about} for field in kind.fields}
    needed = ["dethrone", "event", *(["term"] if kind.term else ())]
    return {
        "description": kind.when,
        "type": "object",
        "properties": properties,
        "required": [*needed, *(field.name for field in kind.fields if field.required)],
        "additionalProperties": False,
    }


def event_of(line: TraceLine) -> str:
    """The format's name of a line."""
    return next((event for event, kind in EVENTS.items() if kind.name == line.name), line.name)


class Published:
    """See ``dethrone.harness.core.interfaces.LineFormat``."""

    def every_line(self, line: bytes) -> Sequence[TraceLine | Malformed]:
        """What a line of output holds of the trace."""
        return read_lines(line)

    def trace_name(self, line: TraceLine) -> str:
        """The format's name of a line."""
        return event_of(line)


FORMAT = Published()
