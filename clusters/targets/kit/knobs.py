"""Knobs of a target, each declared once, on the field that it becomes.

    class PaxosKnobs(Settings, frozen=True, kw_only=True):
        nack: Annotated[bool, switch("true", "a refusal is said; false: silence")]
        phase_timeout: Annotated[Ns, time("200", "how long one phase may take")]

    KNOBS = KnobTable("paxos", PaxosKnobs, profiles={"paxos": {}})

Guarantees: the word of a time is its field's name with ``_ms``; a knob may also be spelled as the original spells it
(``phaseTimeout``, ``quorum.fetch.timeout.ms``), but only once; an unknown name, a word that cannot be, and a set that
contradicts itself are a ConfigError that names the knob and what to give. Every time is scaled exactly by
``time_factor``, so it is a whole number of ns. Out of scope: rules (a planted bug overrides a rule, not a knob).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError

TIME_FACTOR = "time_factor"
_MILLION = 1_000_000


class Read(Protocol):
    """Turns a word into a value at a time factor; ValueError: it cannot be."""

    def __call__(self, word: str, factor: Fraction, /) -> Any:
        """The value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One knob: its default, how its word is read, what may be given, and what it does."""

    default: str
    read: Read
    allowed: str
    says: str = ""
    name: str = ""
    """The word's name; "": the field's."""
    original: tuple[str, ...] = ()
    """Other spellings that the rule for names does not find."""
    alike: Mapping[str, str] = field(default_factory=dict)
    """Words of the same meaning → the one that plans and reports show."""


def switch(default: str, says: str = "", **more: Any) -> Knob:
    """``default``: on or off (or "", filled in later), or true or false; the other way is understood, too."""
    yes, no = ("on", "off") if default in {"on", "off", ""} else ("true", "false")
    means = {"on": True, "true": True, "off": False, "false": False}
    return Knob(
        default=default,
        read=lambda word, _: _among(means, word),
        allowed=f"{yes}|{no}",
        says=says,
        alike={word: yes if on else no for word, on in means.items()},
        **more,
    )


def one_of(default: str, words: Iterable[str] | Mapping[str, Any], says: str = "", **more: Any) -> Knob:
    """One of these words, or what it stands for."""
    means = dict(words) if isinstance(words, Mapping) else {word: word for word in words}
    return Knob(default=default, read=lambda word, _: _among(means, word), allowed="|".join(means), says=says, **more)


def whole(default: str, says: str = "", *, least: int = 1, most: int | None = None, **more: Any) -> Knob:
    """A whole number."""
    allowed = f"a whole number from {least}" + ("" if most is None else f" to {most}")
    return Knob(default=default, read=lambda word, _: _whole(word, least, most), allowed=allowed, says=says, **more)


def protocol_ms(default: str, says: str = "", *, least: int = 1, **more: Any) -> Knob:
    """Protocol milliseconds, as the protocol counts them; ``Settings.ns`` says how long they last."""
    return replace(whole(default, says, least=least, **more), allowed=f"ms, a whole number from {least}")


def time(default: str, says: str = "", **more: Any) -> Knob:
    """A duration: the word is in ms, the value in ns, scaled."""
    return Knob(default=default, read=_time, allowed="a number of ms above 0", says=says, **more)


def number(default: str, says: str = "", **more: Any) -> Knob:
    """An exact number above 0, such as 0.1, 10 or 1/60."""
    return Knob(default=default, read=lambda word, _: _number(word), allowed="a number above 0", says=says, **more)


def scaling(low: str = "", high: str = "") -> Knob:
    """``time_factor``. With bounds: a decimal with at most six places, so a protocol ms is a whole number of ns."""
    if not low:
        return number("1", "scales all times")
    allowed = f"a decimal from {low} to {high} with at most six places, such as 0.1"
    return Knob(default="1", read=lambda word, _: _decimal(word, low, high), allowed=allowed, says="scales all times")


def text(default: str, read: Callable[[str], Any], allowed: str, says: str = "", **more: Any) -> Knob:
    """Any value that ``read`` accepts; it raises ValueError for invalid text."""
    return Knob(default=default, read=lambda word, _: read(word), allowed=allowed, says=says, **more)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The typed knobs of one node, the same on all nodes of a cluster."""

    profile: str
    time_factor: Annotated[Fraction, scaling()]

    def ns(self, protocol_ms: int) -> Ns:
        """How long ``protocol_ms`` last on this node's clocks."""
        scaled = protocol_ms * MS * self.time_factor
        return scaled.numerator // scaled.denominator

    def contradictions(self) -> Iterable[tuple[str, str]]:
        """Impossible combinations, each as (what is wrong, what to do)."""
        return ()


K = TypeVar("K", bound=Settings)
Given = Mapping[str, str]


def _leave(words: dict[str, str]) -> None:
    """No word follows another."""
    del words


class KnobTable(Generic[K]):
    """All knobs of one target, and its profiles (name → the words that differ; the first is the default).

    ``fill`` returns the words that follow from others and were left empty. Nodes always get them filled in; plans and
    reports only where ``spelled`` says so, because otherwise one changed knob would show as two.
    """

    def __init__(
        self,
        target: str,
        settings: type[K],
        *,
        profiles: Mapping[str, Given],
        fill: Callable[[dict[str, str]], None] = _leave,
        spelled: bool = False,
    ) -> None:
        self.target = target
        self.profiles = profiles
        self.knobs: dict[str, Knob] = {}
        self.settings, self._fill, self._spelled = settings, fill, spelled
        self._fields: dict[str, str] = {}
        for name, hint in get_type_hints(settings, include_extras=True).items():
            knob = next((one for one in get_args(hint)[1:] if isinstance(one, Knob)), None)
            if get_origin(hint) is Annotated and knob is not None:
                word = knob.name or (f"{name}_ms" if knob.read is _time else name)
                self.knobs[word] = knob
                self._fields[word] = name
        self._also = {other: word for word, knob in self.knobs.items() for other in knob.original}

    def parse(self, settings: Given, *, profile: str | None = None) -> K:
        """Typed knobs; ``settings`` win over the profile. Raises ConfigError."""
        name = self._profile(profile)
        given = self.given(settings)
        words = self._filled({**self._words_of(name), **given})
        factor = self._value(TIME_FACTOR, words[TIME_FACTOR], Fraction(1))
        values = {self._fields[word]: self._value(word, words[word], factor) for word in self.knobs}
        knobs = self.settings(profile=name, **values)
        for what, next_step in self.contradictions(knobs, given):
            raise self.wrong(what, next_step)
        return knobs

    def words(self, settings: Given, *, profile: str | None = None) -> dict[str, str]:
        """All knobs as words, ``settings`` over the profile's. Raises ConfigError for unknown names only."""
        words = {**self._words_of(self._profile(profile)), **self.given(settings)}
        return self._filled(words) if self._spelled else words

    def given(self, settings: Given) -> dict[str, str]:
        """The settings under their own names, in words as they are shown. ConfigError: unknown, or given twice."""
        out: dict[str, str] = {}
        for spelled, word in settings.items():
            name = self._own_name(spelled)
            if name is None:
                raise self.wrong(f"unknown knob {spelled!r} of {self.target}", _nearest(spelled, self._spellings()))
            if name in out:
                raise self.wrong(f"knob {name} of {self.target} is given twice", f"keep one spelling of {name}")
            out[name] = self.knobs[name].alike.get(word, word)
        return out

    def unmet(self, knobs: K, needs: Given) -> str:
        """The first of these words that is not so set, for people to read; "": none.

        ``*``: anything but the default; ``a|b``: either.
        """
        for name, word in needs.items():
            value = getattr(knobs, self._fields[name])
            words = (self.knobs[name].default,) if word == "*" else tuple(word.split("|"))
            found = any(self._value(name, one, knobs.time_factor) == value for one in words)
            if found == (word == "*"):
                return f"{name} other than {words[0]!r}" if word == "*" else f"{name}={' or '.join(words)}"
        return ""

    def wrong(self, what: str, next_step: str) -> ConfigError:
        """An error about these knobs."""
        return ConfigError(what, where=f"knobs of the {self.target} target", next_step=next_step)

    def contradictions(self, knobs: K, given: Given) -> Iterable[tuple[str, str]]:
        """Those of the typed knobs; a table may add some of the words that the user gave."""
        del given
        return knobs.contradictions()

    def _profile(self, profile: str | None) -> str:
        if profile is None:
            return next(iter(self.profiles))
        if profile not in self.profiles:
            raise self.wrong(f"unknown profile {profile!r} of {self.target}", _nearest(profile, self.profiles))
        return profile

    def _words_of(self, profile: str) -> dict[str, str]:
        return {**{name: knob.default for name, knob in self.knobs.items()}, **self.profiles[profile]}

    def _filled(self, words: dict[str, str]) -> dict[str, str]:
        self._fill(words)
        return words

    def _value(self, name: str, word: str, factor: Fraction) -> Any:
        knob = self.knobs[name]
        try:
            return knob.read(word, factor)
        except (ValueError, ZeroDivisionError):
            raise self.wrong(f"knob {name} of {self.target} cannot be {word!r}", f"give {knob.allowed}") from None

    def _own_name(self, spelled: str) -> str | None:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", spelled).replace(".", "_").lower()
        found = (spelled, self._also.get(spelled, ""), snake, f"{snake}_ms")
        return next((name for name in found if name in self.knobs), None)

    def _spellings(self) -> tuple[str, ...]:
        return (*self.knobs, *self._also)


def _among(means: Mapping[str, Any], word: str) -> Any:
    if word not in means:
        raise ValueError(word)
    return means[word]


def _number(word: str) -> Fraction:
    value = Fraction(word)
    if value <= 0:
        raise ValueError(word)
    return value


def _time(word: str, factor: Fraction) -> Ns:
    scaled = _number(word) * MS * factor
    return max(1, scaled.numerator // scaled.denominator)


def _whole(word: str, least: int, most: int | None) -> int:
    if not (word.isascii() and word.isdigit()):
        raise ValueError(word)
    value = int(word)
    if value < least or (most is not None and value > most):
        raise ValueError(word)
    return value


def _decimal(word: str, low: str, high: str) -> Fraction:
    value = _number(word)
    if "/" in word or not Fraction(low) <= value <= Fraction(high) or (value * _MILLION).denominator != 1:
        raise ValueError(word)
    return value


def _nearest(word: str, known: Iterable[str]) -> str:
    names = tuple(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
