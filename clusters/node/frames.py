"""Frames on a byte stream: u32 big-endian length, then that many bytes.

Guarantees: any split of the stream gives the same frames; a length over the bound raises before anything is buffered
for it. Out of scope: what the bytes mean.
"""

from __future__ import annotations

FRAME_BYTES_MAX = 16 * 1024 * 1024


class BadFrame(ValueError):  # noqa: N818 - names the thing found
    """The stream cannot be cut into frames any more; close it."""


def frame(payload: bytes) -> bytes:
    """``payload`` with its length in front. Raises BadFrame if it is too long to be read back."""
    if len(payload) > FRAME_BYTES_MAX:
        raise BadFrame(f"a frame of {len(payload)} bytes; the bound is {FRAME_BYTES_MAX}")
    return len(payload).to_bytes(4, "big") + payload


class FrameReader:
    """Cuts what arrives on one connection into frames. ``bytes_max`` bounds one frame's payload."""

    __slots__ = ("_buffer", "_bytes_max")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self._bytes_max = bytes_max

    @property
    def buffered(self) -> int:
        """Bytes of the frame that is not complete."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Bytes as they arrived → the frames that they complete. Raises BadFrame on a length over the bound.

        Frames in front of a bad length in the same ``data`` are lost with it: the stream is not to be trusted.
        """
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        at, end = 0, len(buffer)
        while end - at >= 4:
            length = int.from_bytes(buffer[at : at + 4], "big")
            if length > self._bytes_max:
                raise BadFrame(f"a frame of {length} bytes is announced; the bound is {self._bytes_max}")
            if end - at - 4 < length:
                break
            frames.append(bytes(buffer[at + 4 : at + 4 + length]))
            at += 4 + length
        if at:
            del buffer[:at]
        return frames
