"""When a node counts as a leader: what its answer must say, ``leads`` in ``[probe]``.

    leads = "raft.is_leader"                                           # a truth value, or 0 and 1
    leads = ["role is master", "sentinel.address is {address}"]        # all of these hold

Guarantees: pure; where one condition certainly does not hold, the node does not lead; otherwise one that cannot be
judged leaves it unknown. Upper and lower case are the same. Out of scope: conditions that are alternatives: those are
words of ``leader_role``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from dethrone.clusters.own.headers import NODE
from dethrone.clusters.own.values import MISSING, Look, flag, text_of
from dethrone.clusters.own.words import check_words, fill
from dethrone.harness.core.errors import ConfigError

IS = " is "


class Condition(msgspec.Struct, frozen=True):
    """``wanted``: what stands at the place, with words; None: a truth value that is true."""

    place: str
    wanted: str | None = None

    def holds(self, look: Look, words: Mapping[str, str]) -> bool | None:
        """Whether it does; None: the answer does not say."""
        found = look(self.place)
        if self.wanted is None:
            return flag(found)
        if found is MISSING or isinstance(found, dict | list):
            return None
        return shown(found).lower() == fill(self.wanted, words).lower()


def conditions_of(leads: str | tuple[str, ...] | None, *, plain: bool) -> tuple[Condition, ...]:
    """The conditions that stand there. ``plain``: the places hold nothing but truth values."""
    said = (leads,) if isinstance(leads, str) else leads or ()
    return tuple(Condition(one) if plain or IS not in one else _compared(one) for one in said)


def all_hold(conditions: Collection[Condition], look: Look, words: Mapping[str, str]) -> bool | None:
    """Whether the node leads; None: the answer does not say.

    >>> said = conditions_of(("role is master", "at is {name}"), plain=False)
    >>> all_hold(said, {"role": "master", "at": "n1"}.get, {"name": "n1"})
    True
    """
    found = [one.holds(look, words) for one in conditions]
    return False if False in found else None if None in found else True


def check_conditions(conditions: Collection[Condition], ports: Collection[str], *, where: str) -> None:
    """Raise ConfigError for a condition that says nothing, or whose words stand for nothing."""
    for one in conditions:
        if not one.place or one.wanted == "":
            raise ConfigError(
                f"{one.place + IS + (one.wanted or '')!r} is no condition",
                where=where,
                next_step='write a place, or a place and what stands there: "role is master"',
            )
    check_words([one.wanted for one in conditions if one.wanted], (*NODE, *ports), where=where)


def shown(value: object) -> str:
    """A value as a condition names it: ``true``, ``null``, a text or a number."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return text_of(value)


def _compared(text: str) -> Condition:
    place, _, wanted = text.partition(IS)
    return Condition(place.strip(), wanted.strip())
