"""What a node keeps on disk: its data items, one file each, and ``meta.properties`` with the term.

Guarantees: every file is written under a temporary name, synced, renamed and synced again, so a reader finds the old or
the new content, never a part. The term is written when a data item is published, deleted or synchronised, and at no
other time (with the knob ``persist_vote`` also before a vote leaves, and with ``voteFor``). A file that cannot be read
or decoded raises ``Unreadable``: the node then stops rather than guess.

Out of scope: durability of deletions beyond what the file system gives; the next beat deletes again.

Source: docs/sources.md, nacos: ``RaftStore`` (``data/naming/data/{namespace}/``, ``data/naming/data/meta.properties``).
File names are percent-encoded keys; keys too long for a name get a digest instead, since the content names the key.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from dethrone.clusters.targets.kit.files import Unreadable, file_of, replace_ops, unsynced
from dethrone.clusters.targets.nacos.messages import Datum
from dethrone.harness.core.machine import DiskImage, DiskOp, Rename, Unlink, Write

ROOT = "data/naming/data/"
META = ROOT + "meta.properties"
_SCRATCH = ".tmp"
_NAME_MAX = 200
_DATUM = msgspec.json.Decoder(Datum)


class Meta(NamedTuple):
    """The content of meta.properties. ``vote_for`` is None unless it was written under ``persist_vote``."""

    term: int = 0
    vote_for: str | None = None


def datum_path(namespace: str, key: str) -> str:
    """Where the item of that key lies."""
    name = quote(key, safe="").replace(".", "%2E") or "%"
    if len(name) > _NAME_MAX:
        name = "long-" + hashlib.blake2b(key.encode(), digest_size=32).hexdigest()
    return f"{ROOT}{namespace}/{name}"


def write_datum(namespace: str, datum: Datum) -> tuple[DiskOp, ...]:
    """Store one item."""
    return replace_ops(datum_path(namespace, datum.key), msgspec.json.encode(datum))


def delete_datum(namespace: str, key: str) -> tuple[DiskOp, ...]:
    """Remove one item."""
    return (Unlink(datum_path(namespace, key)),)


def write_meta(meta: Meta, *, sync: bool = True, delete_first: bool = False) -> tuple[DiskOp, ...]:
    """Store the term (and the vote, if there is one to store). The flags are mistakes that variants make."""
    text = f"term={meta.term}\n" + ("" if meta.vote_for is None else f"voteFor={meta.vote_for}\n")
    ops = replace_ops(META, text.encode())
    ops = ops if sync else unsynced(ops)
    return (Unlink(META), *ops) if delete_first else ops


def delete_meta() -> tuple[DiskOp, ...]:
    """Remove the stored term."""
    return (Unlink(META),)


def parse_meta(content: bytes) -> Meta:
    """Read a properties file; raises Unreadable."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise Unreadable(f"{META} is not text") from error
    found: dict[str, str] = {}
    for line in lines:
        text = line.strip()
        if text and not text.startswith(("#", "!")):
            name, _, value = text.partition("=")
            found[name.strip()] = value.strip()
    term = found.get("term", "0")
    if not (term.isascii() and term.isdigit()):
        raise Unreadable(f"{META} holds no term")
    return Meta(int(term), found.get("voteFor") or None)


def load_datums(disk: DiskImage, namespace: str) -> list[Datum]:
    """All data items, in publish order; raises Unreadable. Half-written scratch files are passed over."""
    folder = f"{ROOT}{namespace}/"
    datums = []
    for path in sorted(disk):
        if path.startswith(folder) and not path.endswith(_SCRATCH):
            try:
                datums.append(_DATUM.decode(file_of(disk, path) or b""))
            except msgspec.DecodeError as error:
                raise Unreadable(f"{path} holds no data item") from error
    return sorted(datums, key=lambda datum: (datum.timestamp, datum.key))


def load_meta(disk: DiskImage) -> Meta:
    """The stored term, 0 where there is none; raises Unreadable."""
    return parse_meta(file_of(disk, META) or b"")


def meta_written(ops: tuple[DiskOp, ...]) -> Meta | None:
    """What a batch that was carried out left in meta.properties, if it renamed a new one into place."""
    scratch: dict[str, bytes] = {}
    written: Meta | None = None
    for op in ops:
        if isinstance(op, Write):
            scratch[op.path] = op.data
        elif isinstance(op, Rename) and op.dst == META and op.src in scratch:
            written = parse_meta(scratch[op.src])
    return written
