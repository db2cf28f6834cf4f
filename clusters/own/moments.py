"""Whether role and term in a probe's answers can be of one moment, as far as the description shows it.

    role from `redis-cli info`; then the epoch from `redis-cli sentinel …`: a failover between them shows two masters

Guarantees: pure; what is named here takes role and term at two moments. Out of scope: whether any other probe takes
them at one: a description does not show what a program does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from dethrone.clusters.own.spec import Description, ProbeTable
from dethrone.clusters.own.table import split
from dethrone.harness.core.interfaces import No

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"})
WRAPPERS = frozenset({"env", "exec", "nice", "nohup", "sudo", "stdbuf", "time", "timeout"})
_WORD_OF_SHELLS = re.compile(r"if|then|else|elif|fi|while|until|do|done|in|[!{}]")
_NO_CLIENT = re.compile(
    r"""[.:] | \[\[? | awk | break | case | cat | cd | continue | cut | date | echo | egrep | eval | exit | export |
    false | fgrep | for | gawk | grep | head | hostname | id | jq | kill | local | mawk | paste | printf | read |
    return | rev | sed | set | shift | sleep | sort | source | tail | tee | test | tr | trap | true | ulimit |
    umask | uniq | unset | wait | wc | xargs""",
    re.VERBOSE,
)
"""What takes an answer apart, or speaks to no system."""
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_QUOTED = re.compile(r"'[^']*'")
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_REDIRECTED = re.compile(r"\d?>&\d|&>|>&")
_NEXT = re.compile(r"\|\||&&|[;|&\n()]")
_ASSIGNED = re.compile(r"\w+=\S*")

WHAT = "role and term are of one moment"


def doubts(description: Description) -> list[tuple[str, No]]:
    """What this description claims, or is judged by, although its probe takes role and term at two moments."""
    why, stakes = _apart(description), _at_stake(description)
    if not why or not stakes:
        return []
    rests = f"{' and '.join(stakes)} {'rest' if len(stakes) > 1 else 'rests'} on it"
    step = "let one program answer both from one state of its own; until then claim neither, and print `elected` lines"
    return [(WHAT, No(f"{why}: what changes in between shows a leader in a term that it never led; {rests}", step))]


def _at_stake(description: Description) -> list[str]:
    probe, promise = description.probe, description.promise
    out = ["atomic = true in [probe]"] if probe.atomic else []
    out += ["leader_bound_to_term = true in [promise]"] if promise.leader_bound_to_term else []
    # liveness is judged by whom polls name, too, but of one log or scrape they are at most a moment old
    return out + (["leader_within in [promise]"] if probe.command is not None and promise.leader_within else [])


def _apart(description: Description) -> str:
    """Why they are of two moments; "" : nothing shows it."""
    probe = description.probe
    if probe.metrics is not None:
        return "role and term are two metrics, each of which is set by itself"
    if probe.log is not None:
        return _in_lines(probe)
    several = Counter(clients(_script(description))) if probe.command is not None else Counter[str]()
    if several.total() < 2:
        return ""
    names = [name if count == 1 else f"{name} {count} times" for name, count in several.items()]
    return f"the command asks several times, one after the other ({', '.join(names)})"


def _in_lines(probe: ProbeTable) -> str:
    nameless = [role for role, pattern in probe.became.items() if "(?P<term>" not in pattern]
    if not nameless or not (probe.atomic or "leader" in nameless):
        return ""
    return f"the line of `{nameless[0]}` has no group (?P<term>…), and the term of an earlier line stays"


def _script(description: Description) -> str:
    """What the probe's shell carries out; "" : there is no shell, or its script is not in the description."""
    words = split(description.probe.command or "", where=description.path)
    scripts = {place: content.decode("utf-8", "replace") for place, content in description.contents.items()}
    scripts |= description.node.texts
    shell = next((at for at, word in enumerate(words) if PurePosixPath(word).name in SHELLS), None)
    if shell is None:
        script = scripts.get(words[0], "")
        first = script.partition("\n")[0]
        return script if first.startswith("#!") and SHELLS & {*re.findall(r"\w+", first)} else ""
    for at, word in enumerate(words[shell + 1 :], start=shell + 1):
        if re.fullmatch(r"-[a-z]*c", word):
            return words[at + 1] if at + 1 < len(words) else ""
        if not word.startswith("-") and PurePosixPath(word).name not in SHELLS:
            return scripts.get(word, "")
    return ""


def clients(script: str) -> Iterator[str]:
    """The programs that a script of a shell asks, by their names, in some order; of alternatives the first.

    >>> list(clients("role=$(ctl info | grep role) && ctl term || exit 1"))
    ['ctl', 'ctl']
    """
    text = _REDIRECTED.sub(" ", _QUOTED.sub("q", _COMMENT.sub("", script)))
    while (inner := _INNER.search(text)) is not None:
        yield from clients(inner[1] or inner[2] or "")
        text = f"{text[: inner.start()]}q{text[inner.end() :]}"
    before = ""
    at = 0
    for end in (*_NEXT.finditer(text), None):
        if before != "||":
            yield from _client(text[at : end.start() if end else len(text)])
        before, at = (end[0], end.end()) if end else ("", at)


def _client(command: str) -> Iterator[str]:
    wrapped = False
    for word in command.split():
        name = PurePosixPath(word.strip("\"'")).name
        if wrapped and (word.startswith("-") or word[0].isdigit()):
            continue
        if name in WRAPPERS:
            wrapped = True
        elif not _WORD_OF_SHELLS.fullmatch(word) and not _ASSIGNED.fullmatch(word):
            if name and not _NO_CLIENT.fullmatch(name):
                yield name
            return
