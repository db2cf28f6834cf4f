"""What is known of a system without starting it: version, settings, promise, workloads, faults, what is missing here.

Guarantees: nothing is started, built or fetched; secrets are not shown. Out of scope: whether it works (``doctor``),
and whether a backend can be used (``list backends``).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dethrone.harness.core import registry
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.interfaces import (
    Described,
    FaultTraits,
    No,
    Profiled,
    Remaking,
    Secretive,
    Upgradable,
    Versioned,
    declarations,
)
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.secrets import hidden

HEADERS = ("system", "version", "settings", "promised", "workloads", "faults", "missing here")
SETTINGS_MAX = 5
"""More than these are counted; the page of such a system has them all."""

VOTERS = 3
DPKG = ("dpkg-query", "-W", "-f=${db:Status-Status} ${Package}\n")
DPKG_LIMIT_S = 10


def of(name: str, system: Any) -> tuple[str, ...]:
    """The row. Raises HarnessError, AttributeError where the system cannot be used."""
    profile = next(iter(system.profiles()))
    knobs = system.knobs({}, profile=None, variant=None)
    promise = system.promise(knobs, profile=profile, voters=VOTERS)
    version = system.version() if isinstance(system, Versioned) else ""
    return (
        name,
        version or "-",
        settings(system, knobs),
        promised(promise),
        workloads(system),
        faults(system, promise),
        missing(system),
    )


def settings(system: Any, knobs: Mapping[str, str]) -> str:
    """What ``--profile`` and ``--set`` choose, with the defaults."""
    profiles = tuple(system.profiles())
    marked = system.secret_knobs() if isinstance(system, Secretive) else ()
    out = [f"profiles {', '.join(profiles)}"] if len(profiles) > 1 else []
    known = [f"{knob}={value}" for knob, value in hidden(knobs, marked).items()]
    out += [f"{len(known)} knobs"] if len(known) > SETTINGS_MAX else known
    return ", ".join(out) or "none"


def promised(promise: Promise) -> str:
    """Its bounds, what is read, and which of the two great promises it does not make."""
    bounds: Sequence[tuple[str, str, Ns | None]] = (
        ("leader-when-owed", "leader within", promise.leader_bound_ns),
        ("step-down-without-quorum", "gives up within", promise.step_down_ns),
        ("convergence-after-heal", "in step within", promise.converge_ns),
    )
    out = [f"{words} {show_duration(ns)}" for key, words, ns in bounds if ns is not None and promise.owes(key)]
    out += ["linearizable reads" if promise.linearizable_reads else "reads may be old"]
    lost = {
        "one-leader-per-term": "one leader for each term",
        "acknowledged-survives": "that acknowledged writes survive",
    }
    no = [words for key, words in lost.items() if key in promise.exempt and promise.exempt[key].kind == "not promised"]
    return ", ".join(out) + (f"; not {' nor '.join(no)}" if no else "")


def workloads(system: Any) -> str:
    """Those whose operations its clients serve; the one of its default run is the first."""
    first, serves = system.defaults().workload, system.operations()
    found = {name: registry.load(registry.WORKLOADS, name).needs() for name in registry.names(registry.WORKLOADS)}
    fit = sorted(
        (name for name, needs in found.items() if needs and needs <= serves), key=lambda one: (one != first, one)
    )
    return ", ".join(fit or ["election"])


def faults(system: Any, promise: Promise) -> str:
    """Those of its default run, with its length; others that it bears; those under which it stays safe; what else it
    can be asked to do."""
    default, profiles = system.defaults(), tuple(system.profiles())
    drawn, safe = default.faults, promise.tolerated_for_safety
    length = show_duration(default.time_limit_ns)
    if isinstance(system, Profiled):
        limits = {profile: system.profile_defaults(profile).time_limit_ns for profile in profiles}
        length += "".join(f"; {one}: {show_duration(ns)}" for one, ns in limits.items() if ns != default.time_limit_ns)
    able = [kind for kind, traits in declarations().items() if can(system, traits)]
    parts = (
        f"{', '.join(drawn)} ({length})",
        _more("bears", (kind for kind in promise.tolerates if kind not in drawn)),
        _more("safe under", (kind for kind in safe if kind not in promise.tolerates)),
        _more("can", (kind for kind in able if kind not in {*drawn, *promise.tolerates, *safe})),
    )
    return "; ".join(filter(None, parts))


def can(system: Any, traits: FaultTraits) -> bool:
    """Whether the system does itself what such a fault asks of it."""
    if traits.removes:
        return isinstance(system, Remaking) and not isinstance(system.changes_members(), No)
    if "version" in traits.touches:
        return isinstance(system, Upgradable) and len(system.versions()) > 1
    return bool(traits.asks) and traits.asks in system.operations()


def _more(words: str, kinds: Iterable[str]) -> str:
    found = ", ".join(kinds)
    return f"{words} {found}" if found else ""


def missing(system: Any) -> str:
    """What hosts need and this machine does not have: an image brings packages, users bring programs of their own."""
    if not isinstance(system, Described):
        return "-"
    needed = system.needed()
    lost = [program for program in needed.programs if shutil.which(program) is None]
    if lost:
        return f"{', '.join(lost)}: bring it with --base, or install it for --on local"
    absent = uninstalled(needed.packages)
    return f"nothing for Docker; for --on local {', '.join(absent)}" if absent else "nothing"


def uninstalled(packages: Sequence[str]) -> list[str]:
    """Those of these Debian packages that this machine does not have; all, where it has no such packages."""
    if not packages or shutil.which(DPKG[0]) is None:
        return list(packages)
    found = subprocess.run(
        [*DPKG, *packages], capture_output=True, text=True, check=False, timeout=DPKG_LIMIT_S
    ).stdout.split("\n")
    installed = {line.partition(" ")[2] for line in found if line.startswith("installed ")}
    return [package for package in packages if package not in installed]
