"""What a node's status answer says: JSON, metrics, the output of a command, or lines of its log.

Of several requests the places begin with the number of the request: ``2.raft.term``.

Guarantees: pure; an answer without a term or a role is None (the observation is unknown), never a guess, also where it
is one of several groups that lacks them; a name of no member counts as an unknown leader. ``explain`` says field by
field what was found. Out of scope: getting the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import msgspec

from dethrone.clusters.own.conditions import Condition, all_hold, conditions_of
from dethrone.clusters.own.spec import ProbeTable
from dethrone.clusters.own.sums import count_of, is_sum, places_in
from dethrone.clusters.own.values import MISSING, Look, at, decoded, number, text_of
from dethrone.clusters.own.words import fill
from dethrone.harness.core.interfaces import Available, No, Reading, Yes

LINE_MAX = 64 * 1024
"""Bytes of one line of metrics; a longer one is passed over."""
_NAME = re.compile(r"[A-Za-z_:][\w:]*+")
_LABEL = re.compile(r'([A-Za-z_]\w*+)="((?:[^"\\]|\\.)*+)"')
_LABEL_HERE = re.compile(r'\s*+([A-Za-z_]\w*+)\s*+=\s*+"((?:[^"\\]|\\.)*+)"\s*+,?')
_CLOSING = re.compile(r"\s*+\}")
_STAMP = re.compile(r"-?[0-9]{1,20}")
OF_PROCESS = ("incarnation", "version")
"""Fields that are of the process, in however many groups it is."""
EXPLAINED_MAX = 40
NO_WORDS: Mapping[str, str] = {}
_NOBODY = frozenset({"", "0", "-1", "none", "null", "unknown"})


def reading(
    probe: ProbeTable, ids: Mapping[str, str], body: bytes, *, own: str, words: Mapping[str, str] = NO_WORDS
) -> Reading | None:
    """What the answer of the node ``own`` says; None: it is nonsense. ``ids``: what it calls a node → the node;
    ``words``: of that node, for conditions."""
    opened = _open(probe, body)
    if opened is None:
        return None
    look, incarnation = opened
    shares = _shares(probe, look)
    if not shares:
        return None
    told = [_reading(probe, ids, share, words, group=group, own=own) for group, share in shares.items()]
    found = [one for one in told if one is not None]
    if len(found) < len(told):
        return None
    places = _places(probe)
    life = number(look(places["incarnation"])) if "incarnation" in places else None
    said = look(places["version"]) if "version" in places else None
    return msgspec.structs.replace(
        found[0],
        incarnation=incarnation or (life or None),
        version=said if isinstance(said, str) else None,
        others=tuple(found[1:]),
    )


def _reading(
    probe: ProbeTable, ids: Mapping[str, str], look: Look, words: Mapping[str, str], *, group: str, own: str
) -> Reading | None:
    """What is said of one group."""
    places = _places(probe)
    term = _term(places["term"], look) if "term" in places else None
    role = _role(probe, places, look, words)
    if term is None or role is None:
        return None

    def count(name: str) -> int | None:
        return number(look(places[name])) if name in places else None

    def named(name: str) -> str | None:
        return member(look(places[name]), ids) if name in places else None

    log_term, log_index = count("log_term"), count("log_index")
    word, leads = role
    return Reading(
        role=word,
        leads=leads,
        term=term,
        leader=own if leads and "leader" not in places else named("leader"),
        voted_for=named("voted_for"),
        commit=count("commit"),
        log_end=(log_term, log_index) if log_term is not None and log_index is not None else None,
        atomic=probe.atomic,
        group=group,
        tells_leader="leader" in places,
    )


def _shares(probe: ProbeTable, look: Look) -> dict[str, Look]:
    """Group → how to look into what is said of it: shorter names first, then by the alphabet. Empty: there is none."""
    if probe.groups is None:
        return {"": look}
    told = look(probe.groups)
    if isinstance(told, dict):
        named = list(told.items())
    elif isinstance(told, list) and probe.group is not None:
        named = [(_name(at(one, probe.group)), one) for one in told]
    else:
        return {}
    if not all(name for name, _ in named) or len({name for name, _ in named}) < len(named):
        return {}
    return {name: partial(at, one) for name, one in sorted(named, key=lambda pair: (len(pair[0]), pair[0]))}


def _name(value: Any) -> str:
    """A group's name; "" : that is none."""
    return text_of(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def member(value: Any, ids: Mapping[str, str]) -> str | None:
    """The node that is called so; None: there is nothing, or no such member."""
    return ids.get(text_of(value)) if value is not MISSING and value is not None else None


def explain(
    probe: ProbeTable, ids: Mapping[str, str], body: bytes, words: Mapping[str, str] = NO_WORDS
) -> list[tuple[str, Available]]:
    """Each field that the probe names: what it holds, or why it cannot be used."""
    opened = _open(probe, body)
    if opened is None:
        return [("the answer", No(_why(probe, body), _FORM))]
    look, _ = opened
    shares = _shares(probe, look)
    if not shares:
        what = f"groups: {probe.groups} holds {look(probe.groups or '')!r:.60}"
        return [(what, No("no groups are there, or two of one name", _GROUPS_FORM))]
    each = [name for name in _places(probe) if name not in OF_PROCESS]

    def of_group(share: Look) -> list[tuple[str, Available]]:
        conditions = [_condition(one, share, words, body) for one in _conditions(probe)]
        return conditions + _fields(probe, ids, body, share, each)

    first, *others = shares
    rows = of_group(shares[first]) + _fields(probe, ids, body, look, OF_PROCESS)
    if probe.groups is None:
        return rows
    for group in others:
        wrong = [row for row in of_group(shares[group]) if isinstance(row[1], No)]
        rows += [(f"group {group}: {what}", why) for what, why in wrong]
    return [(f"groups: {probe.groups} holds {len(shares)}: {', '.join(shares):.60}", Yes()), *rows][:EXPLAINED_MAX]


def _fields(
    probe: ProbeTable, ids: Mapping[str, str], body: bytes, look: Look, names: Collection[str]
) -> list[tuple[str, Available]]:
    """The fields of these names, of the process or of one group."""
    out: list[tuple[str, Available]] = []
    for name, place in _places(probe).items():
        if name not in names:
            continue
        missing = [one for one in places_in(place) if look(one) is MISSING] if name == "term" else []
        value = MISSING if missing else _term(place, look) if name == "term" and is_sum(place) else look(place)
        said = f"{name}: {', '.join(missing) or place} holds {value!r:.60}"
        if value is MISSING:
            out.append((said, _nothing(body)))
        elif name in {"leader", "voted_for"}:
            known = value is None or text_of(value).lower() in _NOBODY or text_of(value) in ids
            why = f"no member has that name; members are called {', '.join(ids)}"
            out.append((said, Yes() if known else No(why, "say with member_id how the answer calls a node")))
        elif name == "version":
            out.append((said, Yes() if isinstance(value, str) else No("a text is needed")))
        elif name == "role":
            out.append((said, Yes() if isinstance(value, str) and value else No("that is no role")))
        else:
            out.append((said, Yes() if number(value) is not None else No("a whole number is needed")))
    return out


def _condition(one: Condition, look: Look, words: Mapping[str, str], body: bytes) -> tuple[str, Available]:
    """A condition of ``leads``: what is there, and whether it holds."""
    value, holds = look(one.place), one.holds(look, words)
    said = f"leads: {one.place} holds {value!r:.60}"
    if one.wanted is not None and holds is not None:
        said += f", which is {'' if holds else 'not '}{fill(one.wanted, words)}"
    if value is MISSING:
        return said, _nothing(body)
    need = "a truth value is needed, or 0 or 1" if one.wanted is None else "a text, a number or a truth value is needed"
    return said, Yes() if holds is not None else No(need)


def _nothing(body: bytes) -> No:
    """There is no value at a place of the answer."""
    return No("the answer has nothing there", f"the answer was {body[:120].decode('utf-8', 'replace')!r}")


def _why(probe: ProbeTable, body: bytes) -> str:
    """Why an answer cannot be opened."""
    shown = repr(body[:120].decode("utf-8", "replace"))
    told = decoded(body)
    if at(told, "slow") is True:
        return "the pattern needs too long for the command's output: it has 50 ms"
    if at(told, "slow") is not MISSING:
        return f"a pattern of `became` needs too long for a line: it has 50 ms; the line was {at(told, 'slow')!r:.120}"
    if at(told, "behind") is True:
        return "the log grows faster than it can be read"
    if probe.command is None:
        return f"it is not understood: {shown}"
    code, output = at(told, "code"), at(told, "out")
    if code == _TOO_LATE:
        return "the command took too long: it has 450 ms"
    if code != 0:
        return f"the command ended with {code}: {str(output)[:120]!r}"
    return f"the command's output is not understood: {str(output)[:120]!r}"


_TOO_LATE = 124
_GROUPS_FORM = "an object, name → fields, is needed; or a list of objects, and group = the place of the name in each"
_FORM = "JSON is needed (of `metrics`: lines of the Prometheus text format; of a `pattern`: a text that it matches)"


def _open(probe: ProbeTable, body: bytes) -> tuple[Look, int] | None:
    """How to look into the answer, and the incarnation that the program next to the node reported (0: none did)."""
    if probe.metrics is not None:
        places = [one for place in _places(probe).values() for one in places_in(place)]
        places += [one.place for one in _conditions(probe)]
        samples = _samples(body, {place.partition("{")[0] for place in places})
        return (lambda place: _sample(samples, place), 0) if samples or _metrics_at_all(body) else None
    told = _numbered(body) if isinstance(probe.http, tuple) else decoded(body)
    if told is MISSING:
        return None
    if probe.http is not None:
        return (lambda place: at(told, place)), 0
    incarnation = number(at(told, "incarnation")) or 0
    if probe.log is not None:
        return (lambda place: at(told, place)), incarnation
    output = at(told, "out")
    if at(told, "code") != 0 or not isinstance(output, str):
        return None
    if probe.pattern is not None:  # it was matched next to the node, under a limit
        groups = at(told, "groups")
        if not isinstance(groups, dict):
            return None
        return (lambda place: MISSING if groups.get(place) is None else groups[place]), incarnation
    inner = decoded(output.encode())
    return None if inner is MISSING else ((lambda place: at(inner, place)), incarnation)


def _numbered(body: bytes) -> Any:
    """The answers to several requests, by the requests' numbers; ``MISSING``: one is not JSON, which has no zero
    bytes."""
    values = {str(position): decoded(one) for position, one in enumerate(body.split(b"\0"), start=1)}
    return MISSING if MISSING in values.values() else values


def _conditions(probe: ProbeTable) -> tuple[Condition, ...]:
    told_otherwise = probe.pattern is not None or probe.log is not None
    return () if told_otherwise else conditions_of(probe.leads, plain=probe.metrics is not None)


def _places(probe: ProbeTable) -> dict[str, str]:
    """Field → its place in the answer; those of ``leads`` are conditions."""
    if probe.log is not None:
        named = any("(?P<leader>" in pattern for pattern in probe.became.values())
        return {"role": "role", "term": "term", **({"leader": "leader"} if named else {})}
    if probe.pattern is not None:
        return {name: name for name in re.compile(probe.pattern).groupindex}
    numbers = ("commit", "log_term", "log_index", "incarnation")
    names = ("role", "term", "leader", "voted_for", *numbers, "version")
    return {name: place for name in names if (place := getattr(probe, name)) is not None}


def _term(place: str, look: Look) -> int | None:
    return count_of(place, lambda one: number(look(one)))


def _role(
    probe: ProbeTable, places: Mapping[str, str], look: Look, words: Mapping[str, str]
) -> tuple[str, bool] | None:
    """The role's word, and whether it is a leader's."""
    word = look(places["role"]) if "role" in places else MISSING
    if "role" in places and (not isinstance(word, str) or not word):
        return None
    conditions = _conditions(probe)
    if not conditions:
        leading = (probe.leader_role,) if isinstance(probe.leader_role, str) else probe.leader_role
        return str(word), isinstance(word, str) and word.lower() in {one.lower() for one in leading}
    leads = all_hold(conditions, look, words)
    if leads is None:
        return None
    return (str(word) if "role" in places else "leader" if leads else "other"), leads


# --- metrics -----------------------------------------------------------------------------------------------------


def _samples(body: bytes, names: Collection[str]) -> list[tuple[str, dict[str, str], str]]:
    """The samples of these names, in order."""
    out: list[tuple[str, dict[str, str], str]] = []
    for raw in body.split(b"\n"):
        if len(raw) > LINE_MAX or raw[:1] == b"#":
            continue
        sample = _read_sample(raw.decode("utf-8", "replace").rstrip(), names)
        if sample is not None:
            out.append(sample)
    return out


def _metrics_at_all(body: bytes) -> bool:
    """Whether any of the first lines is a sample, of any name."""
    lines = body[:LINE_MAX].decode("utf-8", "replace").splitlines()
    names = [(line, match[0]) for line in lines if (match := _NAME.match(line)) is not None]
    return any(_read_sample(line, {name}) is not None for line, name in names)


def _read_sample(line: str, names: Collection[str]) -> tuple[str, dict[str, str], str] | None:
    """One line of the Prometheus text format; None: it is none, or of another name. Reads each character once."""
    found = _NAME.match(line)
    if found is None or found[0] not in names:
        return None
    position, labels = found.end(), {}
    if line[position : position + 1] == "{":
        position += 1
        while (label := _LABEL_HERE.match(line, position)) is not None:
            labels[label[1]] = label[2]
            position = label.end()
        closing = _CLOSING.match(line, position)
        if closing is None:
            return None
        position = closing.end()
    rest = line[position:]
    words = rest.split(None, 2)
    if not rest[:1].isspace() or not 1 <= len(words) <= 2 or (len(words) == 2 and not _STAMP.fullmatch(words[1])):
        return None
    return found[0], labels, words[0]


def _sample(samples: list[tuple[str, dict[str, str], str]], place: str) -> Any:
    """The value of the first sample of this name with at least these labels."""
    name, _, rest = place.partition("{")
    labels = dict(_LABEL.findall(rest))
    for one, has, value in samples:
        if one == name and labels.items() <= has.items():
            return value
    return MISSING
