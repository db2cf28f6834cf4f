"""The common part of adapters of released systems: another project's build has knobs and profiles, no planted bugs.

Guarantees: an unknown knob, profile or variant, and a value outside its knob's limits, is a ConfigError that names the
system and the allowed values. Everything that differs between systems is out of scope; a ``Released`` is a ``System``
once it has the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import msgspec

from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Available, NodeSpec, RunDefaults, TraceLine, Yes
from dethrone.harness.core.promise import NotPromised, Promise
from dethrone.harness.core.registry import unknown_name


class Number(msgspec.Struct, frozen=True):
    """A knob that is a whole number from ``least`` to ``most``, of ``unit`` if it has one."""

    default: str
    least: int
    most: int
    unit: str = ""

    def admits(self, word: str) -> bool:
        """Whether the knob may have this value."""
        return word.isascii() and word.isdigit() and self.least <= int(word) <= self.most

    def wanted(self) -> str:
        """Its values, for people."""
        return f"a whole number{f' of {self.unit}' if self.unit else ''} from {self.least} to {self.most}"


class Choice(msgspec.Struct, frozen=True):
    """A knob that is one of a few words."""

    default: str
    words: tuple[str, ...]

    def admits(self, word: str) -> bool:
        """Whether the knob may have this value."""
        return word in self.words

    def wanted(self) -> str:
        """Its values, for people."""
        return " or ".join(self.words)


Knob = Number | Choice
MILLISECONDS = "milliseconds"


def milliseconds(default: str, least: int, most: int) -> Number:
    """A knob that is a time."""
    return Number(default, least, most, MILLISECONDS)


def bad_knob(system: str, name: str, word: str, wanted: str) -> ConfigError:
    """The error for a knob that cannot have this value."""
    return ConfigError(f"knob {name} of {system} cannot be {word!r}", next_step=f"give {wanted}")


def not_observable(reason: str, *properties: str) -> dict[str, NotPromised]:
    """Properties that are not judged, because the system's channels do not show enough of them."""
    return dict.fromkeys(properties, NotPromised(reason, "not observable"))


class Released:
    """See ``dethrone.harness.core.interfaces.System``: the part that is the same for all released builds."""

    name: str
    recipe: str
    """The image of its hosts."""
    build: str
    """Which release it is, as far as its recipe says."""
    served: frozenset[str]
    """The op names that its clients serve."""
    channels: tuple[str, ...]
    """See ``System.observable``."""

    def image(self) -> str:
        """The image with this release."""
        return self.recipe

    def version(self) -> str:
        """See ``dethrone.harness.core.interfaces.Versioned``."""
        return self.build

    def operations(self) -> frozenset[str]:
        """The op names that its clients serve."""
        return self.served

    def observable(self) -> tuple[str, ...]:
        """What its channels show."""
        return self.channels

    def known_knobs(self) -> Mapping[str, Knob]:
        """All knobs of this release, in the order in which they are shown."""
        raise NotImplementedError

    def defaults(self) -> RunDefaults:
        """See ``System``."""
        raise NotImplementedError

    def promise(self, knobs: Mapping[str, str], *, profile: str, voters: int) -> Promise:
        """See ``System``."""
        raise NotImplementedError

    @abstractmethod
    def profiles(self) -> Mapping[str, str]:
        """See ``System``."""

    def knobs(self, settings: Mapping[str, str], *, profile: str | None, variant: str | None) -> Mapping[str, str]:
        """All knobs as words. Raises ConfigError."""
        if profile is not None and profile not in self.profiles():
            raise unknown_name(f"profile of {self.name}:", profile, self.profiles())
        if variant is not None:
            raise ConfigError(
                f"{self.name} has no variant {variant!r}", next_step="omit the variant: this is a released build"
            )
        known = self.known_knobs()
        for name, word in settings.items():
            if name not in known:
                raise unknown_name(f"knob of {self.name}:", name, known)
            if not known[name].admits(word):
                raise bad_knob(self.name, name, word, known[name].wanted())
        return {name: settings.get(name, knob.default) for name, knob in known.items()}

    def at_scale(self, knobs: Mapping[str, str], scale: float) -> Mapping[str, str]:
        """See ``dethrone.harness.core.interfaces.Scalable``: what is counted in milliseconds is a timer."""
        known, out = self.known_knobs(), dict(knobs)
        for name, knob in known.items():
            if isinstance(knob, Number) and knob.unit == MILLISECONDS:
                out[name] = str(round(int(knobs[name]) * scale))
                if not knob.admits(out[name]):
                    raise bad_knob(self.name, name, out[name], f"{knob.wanted()}, or --time-scale 1")
        return out

    def variants(self) -> Mapping[str, str]:
        """None."""
        return {}

    def trace_path(self, node: NodeSpec) -> str | None:
        """It writes none, unless the system says otherwise."""
        del node
        return None

    def trace(self, line: bytes) -> TraceLine | None:
        """None of ours."""
        del line
        return None

    def fault_support(self, kind: str) -> Available:
        """All kinds, unless the system says otherwise; a JVM reads its clocks through libc, and reports them."""
        del kind
        return Yes()
