"""What makes two findings one, in any run of any night: the rule, the settings that matter, the shape of the proof.

A signature folds everything that differs from run to run: names of nodes, terms, numbers, times and values. Nights,
``corpus check``, trends and files of known findings all use this one. Pure.

Guarantees: findings of different systems, variants, settings, checkers or rules never share a signature; the same cause
gives the same one for any seed, time scale and names of the nodes. Out of scope: whether a signature is
known (``dethrone.harness.core.known_findings``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.earlier_rules import earlier
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.secrets import shown
from dethrone.harness.core.verdict import Finding

CHAIN_MAX = 12
"""Links of a chain that count; longer proofs repeat themselves."""
TIME_KNOBS = frozenset({"time_factor", "time_scale"})
"""Knobs that fit a system's timers to the machine and change no rule."""

_QUOTED = re.compile(r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"|`[^`]*`""")
_HEX = re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b")
_NUMBER = re.compile(
    r"(?<![A-Za-z])\d+ min \d+ s(?![A-Za-z])|"
    r"(?<![A-Za-z])[-+]?\d+(?:[.,:_]\d+)*(?:e[-+]?\d+)?(?:\s?(?:ns|µs|us|ms|s|min|h|%|bytes)(?![A-Za-z]))?"
)
_LIST = re.compile(r"N(?:(?:, | and )N)+")


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. ``rule``: the folded sentence of the finding; ``chain``: kinds of events that prove it."""

    system: str
    profile: str
    variant: str
    checker: str
    rule: str
    settings: tuple[str, ...]
    chain: tuple[str, ...]

    @property
    def key(self) -> str:
        """Short and stable: system, checker and a hash of all parts."""
        parts = (self.profile, self.variant, self.rule, "\0".join(self.settings), "\0".join(self.chain))
        digest = hashlib.blake2b("\1".join(parts).encode(), digest_size=5).hexdigest()
        system = self.system + (f":{_plain(self.variant)}" if self.variant else "")
        return f"{system}/{self.checker}/{digest}"


def signature_of(
    finding: Finding, checker: str, events: Iterable[Mapping[str, Any] | msgspec.Struct], plan: Plan
) -> Signature:
    """The signature of a finding. ``events``: those of its certificate, in order."""
    return Signature(
        system=plan.system,
        profile=plan.profile,
        variant=plan.variant or "",
        checker=checker,
        rule=earlier(fold(finding.sentence, (*plan.nodes, *finding.nodes))),
        settings=tuple(
            f"{name}={shown(name, word, plan.secrets)}"
            for name, word in sorted(plan.settings.items())
            if name not in TIME_KNOBS
        ),
        chain=chain(events),
    )


def fold(sentence: str, nodes: Sequence[str]) -> str:
    """A sentence without what differs from run to run."""
    text = _QUOTED.sub("'…'", sentence)
    for name in sorted(set(nodes), key=lambda one: (-len(one), one)):
        if name:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "N", text)
    text = _NUMBER.sub("#", _HEX.sub("#", text))
    return " ".join(_LIST.sub("N", text).split())


def chain(events: Iterable[Mapping[str, Any] | msgspec.Struct]) -> tuple[str, ...]:
    """The kinds of these events in order; repetitions of one link, or of two in turn, count once."""
    out: list[str] = []
    for event in events:
        out.append(_link(event))
        while (len(out) >= 2 and out[-1] == out[-2]) or (len(out) >= 4 and out[-2:] == out[-4:-2]):
            del out[-1 if out[-1] == out[-2] else slice(-2, None)]
    return tuple(out[:CHAIN_MAX])


def _link(event: Mapping[str, Any] | msgspec.Struct) -> str:
    """What an event is, without who, when and how much."""
    said = event if isinstance(event, Mapping) else _said(event)
    kind = str(said.get("type", ""))
    match kind:
        case "traced":
            return str(said.get("name", ""))
        case "fault":
            return f"{said.get('kind')} {said.get('phase')}"
        case "process":
            return f"{said.get('phase')}{'' if said.get('asked') else ' unasked'}"
        case "observed":
            return "observed leading" if said.get("leads") else "observed"
        case "invoke":
            return str(said.get("f", ""))
        case "return":
            return str(said.get("status", ""))
        case "mark" | "noise":
            return f"{kind} {said.get('name') or said.get('kind') or ''}"
        case _:
            return kind


_FIELDS = ("name", "kind", "phase", "asked", "leads", "f", "status")


def _said(event: msgspec.Struct) -> dict[str, Any]:
    found = {name: getattr(event, name) for name in _FIELDS if hasattr(event, name)}
    return {**found, "type": event.__struct_config__.tag}


def _plain(variant: str) -> str:
    """A variant as part of a key: of a class in a file, its name."""
    return re.sub(r"[^\w.-]+", "-", variant.rpartition(":")[2])
