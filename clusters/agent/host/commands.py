"""Faults by command lines of their own: one begins it, one shows whether it is in force, one takes it back.

Guarantees: idempotent; what takes a fault back is remembered before it begins; a fault counts as in force, or as gone,
only if its check says so. Out of scope: what the commands do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dethrone.clusters.agent.host.common import Refused, now_ns
from dethrone.clusters.agent.host.processes import Processes

UNABLE = {124: "ran out of time", 127: "could not be started"}
"""Exit codes of ``Processes.tool`` that say nothing of what a check looks at."""

Deed = dict[str, Any]
"""``kind``, and the words of ``begin``, ``check`` and ``end``."""


def deeds(
    troubles: Sequence[Mapping[str, Any]], *, words: Mapping[str, str], ways: Callable[[str], Sequence[str]]
) -> list[Deed]:
    """The commands of these troubles with all words filled in. ``ways``: the addresses of a host, by its name.

    Raises Refused for a host without any.
    """
    out = []
    for trouble in troubles:
        for command in trouble["commands"]:
            each: list[Mapping[str, str]] = [] if command["of"] else [words]
            for name in command["of"]:
                addresses = ways(name)
                if not addresses:
                    raise Refused(f"{trouble['kind']}: no address of {name} is known")
                each += [{**words, "address": address} for address in addresses]
            for known in each:
                filled = {part: [_filled(word, known) for word in command[part]] for part in ("begin", "check", "end")}
                out.append({"kind": trouble["kind"], **filled})
    return out


def _said(words: Sequence[str]) -> str:
    """A command line as evidence; a word that is a whole program is shown as "…"."""
    return " ".join(word if "\n" not in word else "…" for word in words)


def of_a_process(trouble: Mapping[str, Any]) -> bool:
    """Whether a command of it names the node's process, so that it ends with the process."""
    return any("{pid}" in word for command in trouble["commands"] for word in command["begin"])


def _filled(word: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        word = word.replace(f"{{{name}}}", value)
    return word


class Commands:
    """The faults of this host that commands brought about. Thread-safe. ``remember``: stores ``held``."""

    def __init__(self, processes: Processes, remember: Callable[[], None]) -> None:
        self._processes = processes
        self._remember = remember
        self.held: list[Deed] = []
        """What is, or may be, in force."""
        self.lost: list[str] = []
        """What was found not to be in force since the last convergence."""
        self.due: list[Deed] = []
        """What could not be taken back by the last convergence."""
        self._good_ns = now_ns()
        """When everything that is held was last seen in force."""
        self._lock = threading.Lock()

    def apply(self, wanted: Sequence[Deed]) -> tuple[str, dict[str, Any]]:
        """Take back what is not wanted, and begin what is not in force; returns "" or why not, and what was run."""
        problems: list[str] = []
        ran: list[str] = []
        with self._lock:
            for deed in [deed for deed in self.held if deed not in wanted]:
                why = take_back(self._processes, deed)
                ran.append(_said(deed["end"]))
                if why:
                    problems.append(why)
                else:
                    self.held.remove(deed)
            self.due = [deed for deed in self.held if deed not in wanted]
            fresh = [deed for deed in wanted if deed not in self.held]
            self.held += fresh
            self._remember()
            for deed in wanted:
                why = self._begun(deed)
                ran += [_said(deed["begin"])] if deed in fresh else []
                problems += [why] if why else []
            self._good_ns = now_ns()
        return "; ".join(problems), {"ran": ran, "in_force": [_said(deed["check"]) for deed in wanted]}

    def lapsed(self, wanted: Sequence[Deed]) -> list[str]:
        """Why what is about to end is no longer in force."""
        with self._lock:
            ending = [deed for deed in self.held if deed not in wanted]
            return [f"{deed['kind']} was not in force" for deed in ending if not in_force(self._processes, deed)]

    def put_back(self) -> tuple[str, int, str]:
        """Begin again what is no longer in force: which was lost, since when at most, and why it is not put back."""
        with self._lock:
            good_ns = self._good_ns
            gone = [deed for deed in self.held if not in_force(self._processes, deed)]
            still = "; ".join(filter(None, [self._begun(deed) for deed in gone]))
            self._good_ns = now_ns()
            whys = [f"{deed['kind']} was no longer in force" for deed in gone]
            self.lost = [*self.lost[-7:], *whys]
            return "; ".join(whys), good_ns, still

    def _begun(self, deed: Deed) -> str:
        """Begin it unless it is in force; "" or why it is not."""
        if in_force(self._processes, deed):
            return ""
        code, _, err = self._processes.tool(deed["begin"])
        if in_force(self._processes, deed):
            return ""
        said = err.decode("utf-8", "replace").strip()[-300:]
        return f"{deed['kind']}: {deed['begin'][0]} ended with {code}, and the fault is not in force: {said}"


def in_force(processes: Processes, deed: Deed) -> bool:
    """Whether its check says so. Raises Refused if the check cannot say anything."""
    code, _, err = processes.tool(deed["check"])
    if code in UNABLE:
        said = err.decode("utf-8", "replace").strip()[-300:]
        raise Refused(f"{deed['kind']}: its check {UNABLE[code]}: {said}")
    return code == 0


def take_back(processes: Processes, deed: Deed) -> str:
    """End it, in force or not; "" or why it is still in force."""
    _, _, err = processes.tool(deed["end"])
    if not in_force(processes, deed):
        return ""
    return f"{deed['kind']} is still in force after its end: {err.decode('utf-8', 'replace').strip()[-300:]}"
