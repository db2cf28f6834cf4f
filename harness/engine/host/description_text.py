"""The text of a description of a system, from answers: what ``dethrone init`` writes.

Guarantees: pure; the text is TOML with a comment where a key is not self-explanatory; unanswered keys are omitted, so
nothing is promised for them. Asking is out of scope. Loading the file checks whether the answers are consistent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

ELECTION_LINES = ("elected", "vote_granted", "term_changed", "stepped_down", "committed")
"""The half dozen lines with which most of an election can be judged."""

REQUESTS: Mapping[str, Mapping[str, str]] = {
    "register": {
        "put": "PUT /kv/{key} {value}",
        "get": "GET /kv/{key}",
        "cas": 'POST /kv/{key} {"old": {old}, "value": {value}}',
    },
    "log": {"append": "POST /list/{key} {value}", "read": "GET /list/{key}"},
    "set": {"add": "POST /set/{key} {value}", "read": "GET /set/{key}"},
}
"""What clients do → operation → an example of its request."""


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What a user said of a system. ``probe``: keys of that table; ``promise``: likewise."""

    name: str
    command: str
    image: str = ""
    program: str = ""
    member: str = ""
    ports: Mapping[str, int] = {}
    probe: Mapping[str, Any]
    events: Sequence[str] = ()
    voters: bool = False
    ops: Mapping[str, str] = {}
    promise: Mapping[str, Any]


def text_of(answers: Answers) -> str:
    """The file."""
    lines = ["[system]", _line("name", answers.name)]
    lines += [_line("image", answers.image)] if answers.image else []
    lines += ["", "[node]", _line("command", answers.command)]
    lines += [_line("member", answers.member)] if answers.member else []
    if answers.program:
        lines.append(_line("files", {place_of(answers.program): answers.program}))
    lines += [_line("ports", dict(answers.ports))] if answers.ports else []
    lines += ["", "[probe]", *(_line(key, value) for key, value in answers.probe.items())]
    if answers.events:
        lines += ["", "[trace]", _line("events", list(answers.events))]
        lines += [_line("voters", value=True)] if answers.voters else []
    if answers.ops:
        lines += ["", "[ops]", *(_line(key, value) for key, value in answers.ops.items())]
    lines += ["", "[promise]", *(_line(key, value) for key, value in answers.promise.items())]
    return "\n".join(lines) + "\n"


def place_of(program: str) -> str:
    """The path on the hosts of a program that is copied to them."""
    return "{run_dir}/" + program.replace("\\", "/").rstrip("/").rpartition("/")[2]


def ports_of(text: str) -> dict[str, int]:
    """``peer=7000, http=8000``. ValueError for anything else.

    >>> ports_of("peer=7000, http=8000")
    {'peer': 7000, 'http': 8000}
    """
    out = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = part.partition("=")
        if not equals or not number.strip().isdigit():
            raise ValueError(f"{part!r} is not name=number")
        out[name.strip()] = int(number)
    return out


def list_of(text: str) -> tuple[str, ...]:
    """Words with commas between them."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _line(key: str, value: Any) -> str:
    return f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str) and ('"' in value or "\\" in value) and "'" not in value and value.isprintable():
        return f"'{value}'"
    # JSON's strings, numbers and booleans are TOML's
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)
