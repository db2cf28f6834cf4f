"""The options of a campaign's runs, stored with its rows: ``campaign.json``, so that one table never mixes campaigns.

Guarantees: a campaign resumes only with the options (and the dethrone) that began it; files are compared by content.
Otherwise a ConfigError says what differs, and nothing is touched. Which seeds, where they are kept, who simulates and
how many at once may change. Until the first row, options may be corrected. Rows of a campaign of an older dethrone,
which wrote no such file, are taken for rows of these options, with a message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.files import read_regular
from dethrone.harness.core.secrets import shown
from dethrone.harness.engine.run.options import RunOptions

OPTIONS = "campaign.json"
SCHEMA = 1

_FREE = frozenset({"seed", "out", "base", "keep_cluster", "unsafe_root"})
"""Options that leave the rows as they are."""
_LATER = frozenset({"checkers", "tags", "zones"})
"""Options that campaigns of older versions did not have: where they are empty, nothing is said of them."""
_FILES = ("schedule", "hosts", "known")
_SHOWN_MAX = 12


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The file. ``options``: name, as on the command line → value, as it is shown. Unset options are absent."""

    schema: int
    options: dict[str, str]


def begin(out: Path, options: RunOptions, *, version: str, rows: bool) -> str:
    """Record this campaign, or check that it is the one that began here; a remark, or "".

    ``rows``: whether there are some. ``version``: of dethrone. ConfigError: it is another campaign, or a file that the
    options name cannot be read.
    """
    path = out / OPTIONS
    now = told(options, version=version)
    begun = _read(path) if rows else None
    if begun is None:
        out.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{OPTIONS}.tmp")
        staged.write_bytes(msgspec.json.format(msgspec.json.encode(Begun(schema=SCHEMA, options=now)), indent=2))
        staged.replace(path)
        return f"the rows in {out} do not record their options; assuming the current ones" if rows else ""
    differing = differences(begun.options, now)
    if differing:
        more = len(differing) - _SHOWN_MAX
        raise ConfigError(
            "this directory holds a campaign with other options: " + "; ".join(differing[:_SHOWN_MAX])
            + (f"; and {more} more" if more > 0 else ""),
            where=str(path),
            next_step="repeat the original options to resume it, or choose another --out",
        )  # fmt: skip
    return ""


def told(options: RunOptions, *, version: str) -> dict[str, str]:
    """What makes the rows what they are."""
    plain: Mapping[str, Any] = msgspec.to_builtins(options, enc_hook=str)
    found = {"dethrone": version}
    for field, value in plain.items():
        if field in _FREE or value is None or (field in _LATER and not value):
            continue
        if field in _FILES:
            found[field] = _content(Path(value))
        elif field in {"settings", "tags"}:
            found |= {f"{field}.{key}": shown(key, str(one)) for key, one in value.items()}
        elif field.endswith("_ns"):
            found[_flag(field.removesuffix("_ns"))] = show_duration(value)
        else:
            words = ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
            found[_flag(field)] = words
    return found


def differences(begun: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """A phrase for each option that differs."""
    return [
        f"{name} was {begun.get(name, 'not set')}, now {now.get(name, 'not set')}"
        for name in dict.fromkeys([*begun, *now])
        if begun.get(name) != now.get(name)
    ]


def _flag(field: str) -> str:
    return {"backend": "on"}.get(field, field.replace("_", "-"))


def _content(path: Path) -> str:
    try:
        raw = read_regular(path)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from error
    return f"a file ({hashlib.blake2b(raw, digest_size=6).hexdigest()})"


def _read(path: Path) -> Begun | None:
    try:
        raw = read_regular(path)
    except FileNotFoundError:
        return None
    try:
        begun = msgspec.json.decode(raw, type=Begun)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the campaign's options are damaged: {error}", where=str(path), next_step="choose another --out"
        ) from error
    if begun.schema > SCHEMA:
        raise ConfigError(
            f"the campaign's options have schema {begun.schema}, this version reads up to {SCHEMA}",
            where=str(path),
            next_step="use a newer dethrone",
        )
    return begun
