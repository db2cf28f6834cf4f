"""The operator's file: a broker's role after an operator changed it. Absent: the role of the layout.

Guarantees: replaced atomically, with a checksum; anything else in it raises `Unreadable`.
"""

from __future__ import annotations

import msgspec

from dethrone.clusters.targets.kit.files import file_of, replace_ops, sealed, unsealed
from dethrone.clusters.targets.master_slave.knobs import Place
from dethrone.harness.core.machine import DiskImage, DiskOp

CONF = "broker.conf"

_ENCODE = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(Place)


def conf_ops(place: Place) -> tuple[DiskOp, ...]:
    """The batch that replaces the file."""
    return replace_ops(CONF, sealed(_ENCODE(place)))


def load_place(disk: DiskImage) -> Place | None:
    """What the operator made of this broker; None where there is no file. Raises `Unreadable`."""
    content = file_of(disk, CONF)
    return None if content is None else unsealed(content, _DECODER.decode, path=CONF)
