"""One step of an examination, and how it went: what each check of ``doctor FILE`` gives. Out of scope: the checks."""

from __future__ import annotations

from typing import Literal

import msgspec

Seen = Literal["yes", "no", "not seen"]
"""``not seen``: nothing is wrong, but there is nothing to see either."""


class DoctorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step and how it went."""

    step: str
    what: str
    seen: Seen = "yes"
    why: str = ""
    what_to_do: str = ""
