"""Jars of a described system: resolved once, with all that they need at run time, and pinned by hash in ``FILE.lock``.

    maven = { "{run_dir}/lib" = ["com.alipay.sofa:jraft-core:1.4.1", "org.slf4j:slf4j-simple:1.7.36"] }    # in [node]

Each place is a directory of jars on the hosts: ``java -cp {run_dir}/lib/*``. Of an artifact that is needed in several
versions Maven takes the nearest, and of equally near ones that of the first name.

Guarantees: Maven is asked with this user's own configuration; a jar that does not match the lock is refused; jars are
kept by their hash and fetched once. Out of scope: fetching (``docker.artifacts``), and anything but jars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dethrone.clusters.docker.artifacts import FETCH_LIMIT_S, Jar, kept_jars
from dethrone.clusters.docker.artifacts import pinned as resolved
from dethrone.clusters.docker.state import locked, state_directory
from dethrone.clusters.own import lock
from dethrone.harness.core.errors import ConfigError

Named = str | tuple[str, ...]
"""One name, or several: of artifacts, which are resolved together, or of sources."""

KIND, NOTE = "maven", "with the hashes of what the repository gave"
JAR_MAX = 120 << 20
"""Bytes of one jar that hosts get."""
HASH = "--hash=sha256:"
_EXACT = re.compile(r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+:[0-9][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)?")


def check_coordinates(wanted: Mapping[str, Named], *, where: str) -> None:
    """Raise ConfigError for an artifact without an exact version, and for a directory without any."""
    for place, said in wanted.items():
        if not said:
            raise ConfigError(f"no jar is named for {place}", where=where, next_step=_FORM)
        for one in words_of(said):
            if not _EXACT.fullmatch(one) or one.endswith("-SNAPSHOT"):
                raise ConfigError(f"{one!r} does not say which artifact in which version", where=where, next_step=_FORM)


_FORM = 'write group:artifact:version[:classifier], as in "org.slf4j:slf4j-simple:1.7.36"'


def jars(wanted: Mapping[str, Named], description: str, *, pinned: Sequence[str] = ()) -> dict[str, Mapping[str, Path]]:
    """Directory → file name → where this machine keeps the jar. ``pinned``: what others need, whose pins stay.

    HarnessError: a jar cannot be had, or is not as pinned.
    """
    if not wanted:
        return {}
    with locked(state_directory("maven") / "lock", limit_s=2 * FETCH_LIMIT_S):
        named = [*map(pins_for, wanted.values()), *pinned]
        pins = {place: _pins(said, named, description) for place, said in wanted.items()}
    out: dict[str, Mapping[str, Path]] = {place: kept_jars(found) for place, found in pins.items()}
    for name, path in (pair for files in out.values() for pair in files.items()):
        if path.stat().st_size > JAR_MAX:
            raise ConfigError(f"{name} is too large for a host: over {JAR_MAX >> 20} MiB", where=_key(description))
    return out


def jars_of(wanted: Mapping[str, Named], description: str) -> list[tuple[str, str]]:
    """Directory → what is in it, in words, for ``doctor``. ConfigError: the lock is not ours."""
    out = []
    for place, said in wanted.items():
        pins = lock.found(KIND, pins_for(said), description)
        name = lock.lock_file(description).name
        known = "not pinned yet" if pins is None else f"{len(pins.pins.splitlines())} jars in {name}"
        out.append((place, f"{', '.join(words_of(said))} with what they need ({known})"))
    return out


def words_of(said: Named) -> Sequence[str]:
    """The names, also of one."""
    return (said,) if isinstance(said, str) else said


def pins_for(said: Named) -> str:
    """What a block of the lock is for. The order counts, for Maven."""
    return " ".join(words_of(said))


def _pins(said: Named, all_named: Sequence[str], description: str) -> list[Jar]:
    """The jars that the lock names, which is made if it names none."""
    kept = lock.found(KIND, pins_for(said), description)
    if kept is None:
        found = resolved(words_of(said))
        kept = lock.block(
            KIND, pins_for(said), NOTE, "\n".join(f"{jar.coordinates} {HASH}{jar.sha256}" for jar in found)
        )
        lock.store(kept, description, keep=all_named)
    try:
        rows = [line.split(f" {HASH}") for line in kept.pins.splitlines()]
        return [Jar(coordinates=name, sha256=digest) for name, digest in rows]
    except ValueError as error:
        path = lock.lock_file(description)
        raise ConfigError(
            f"the pins of {pins_for(said)} are damaged",
            where=str(path),
            cause=str(error),
            next_step=f"restore {path.name}, or delete it to resolve again",
        ) from error


def _key(description: str) -> str:
    return f"{description}: [node] maven"
