"""Whether something can be used here: yes, or why not and what to do."""

from __future__ import annotations

import msgspec


class Yes(msgspec.Struct, frozen=True):
    """Available here."""


class No(msgspec.Struct, frozen=True):
    """Not available: why, and what to do about it."""

    why: str
    what_to_do: str = ""


Available = Yes | No
