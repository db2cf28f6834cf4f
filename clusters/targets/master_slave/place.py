"""The operator's file: a broker's role after an operator changed it. Absent: the role of the layout.

Guarantees: replaced atomically, with a checksum; anything else in it raises `Unreadable`.
"""

from __future__ import annotations

import zlib

import msgspec

from dethrone.clusters.targets.kit.files import Unreadable, file_of
from dethrone.clusters.targets.master_slave.knobs import Place
from dethrone.harness.core.machine import DiskImage, DiskOp, Fsync, Rename, Write

CONF = "broker.conf"
CONF_TEMPORARY = "broker.conf.tmp"

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(Place)


def conf_ops(place: Place, *, sync: bool = True) -> tuple[DiskOp, ...]:
    """The batch that replaces the file."""
    body = _ENCODE(place)
    write = Write(CONF_TEMPORARY, b"%08x %s\n" % (zlib.crc32(body), body), offset=0, truncate=True)
    if sync:
        return (write, Fsync(CONF_TEMPORARY), Rename(CONF_TEMPORARY, CONF), Fsync(CONF))
    return (write, Rename(CONF_TEMPORARY, CONF))


def load_place(disk: DiskImage) -> Place | None:
    """What the operator made of this broker; None where there is no file. Raises `Unreadable`."""
    content = file_of(disk, CONF)
    if content is None:
        return None
    body = content[9:-1]
    try:
        if content[8:9] != b" " or content[-1:] != b"\n" or int(content[:8], 16) != zlib.crc32(body):
            raise Unreadable(f"{CONF}: checksum does not match")
        return _DECODER.decode(body)
    except (ValueError, msgspec.DecodeError) as error:
        raise Unreadable(f"{CONF}: {error}") from error
