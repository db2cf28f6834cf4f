"""What a Spark worker does with some seeds of a campaign, and whether it could. No Spark in here.

Guarantees: the rows are those that a process of a local campaign makes, by the same code; files that the options name
travel with them. Out of scope: which seeds (``campaign_waves``) and how they get there (``campaign``).
"""

from __future__ import annotations

import contextlib
import platform
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.files import read_regular
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.campaign.virtual_seeds import rehearse_seeds
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a campaign as they travel. ``schedule``, ``known``: the contents of the files that they name."""

    options: RunOptions
    schedule: bytes | None = None
    known: bytes | None = None
    suffix: str = ""


class Able(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself. ``home``: where its dethrone comes from; ``why_not``: or "" if it could run."""

    host: str
    home: str
    why_not: str = ""


def pack_work(options: RunOptions) -> bytes:
    """The options, ready to travel. ConfigError: a file that they name cannot be read."""
    plain = msgspec.structs.replace(options, out=None, schedule=None, known=None)
    suffix = "" if options.schedule is None else options.schedule.suffix
    return encode(
        Work(
            options=plain,
            schedule=_content(options.schedule, "the schedule"),
            known=_content(options.known, "known findings"),
            suffix=suffix,
        )
    )


def simulate(packed: bytes, seeds: Sequence[int]) -> bytes:
    """The rows of these seeds."""
    with unpacked(packed) as options:
        return encode(rehearse_seeds(options, seeds))


def rows_from(answer: bytes) -> list[CampaignRow]:
    """The result of ``simulate``."""
    return msgspec.json.decode(answer, type=list[CampaignRow])


def look(packed: bytes, seed: int) -> bytes:
    """Whether a run could be made here, without making it."""
    from dethrone import harness

    why_not = ""
    try:
        with unpacked(packed) as options:
            draft(options, seed=seed)
            load_checkers()
    except HarnessError as error:
        why_not = " · ".join(part for part in (error.what, error.where, error.cause) if part)
    return encode(Able(host=platform.node(), home=str(Path(str(harness.__file__)).parent), why_not=why_not))


@contextlib.contextmanager
def unpacked(packed: bytes) -> Iterator[RunOptions]:
    """The options; their files exist until this ends."""
    work = msgspec.json.decode(packed, type=Work)
    options = work.options
    if work.schedule is None and work.known is None:
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="dethrone-campaign-") as directory:
        if work.schedule is not None:
            path = Path(directory) / f"schedule{work.suffix}"
            path.write_bytes(work.schedule)
            options = msgspec.structs.replace(options, schedule=path)
        if work.known is not None:
            path = Path(directory) / "known.toml"
            path.write_bytes(work.known)
            options = msgspec.structs.replace(options, known=path)
        yield options


def _content(path: Path | None, what: str) -> bytes | None:
    if path is None:
        return None
    try:
        return read_regular(path)
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror}", where=str(path)) from error


def encode(value: object) -> bytes:
    """JSON."""
    return msgspec.json.encode(value, enc_hook=str)
