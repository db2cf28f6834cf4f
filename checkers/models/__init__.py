"""Sequential specifications of the objects that clients use, by name.

Guarantees: pure values; each model says what its operations do to one object, and nothing about time. Out of scope: how
histories are judged (``dethrone.checkers.linearizability``).
"""

from __future__ import annotations

import difflib
from typing import Any

from dethrone.checkers.models.base import Model
from dethrone.checkers.models.fifo_queue import FifoQueue
from dethrone.checkers.models.multi_register import MultiRegister
from dethrone.checkers.models.mutex import Mutex
from dethrone.checkers.models.register import Register, cas_register, kv
from dethrone.checkers.models.sets import SetModel
from dethrone.harness.core.errors import ConfigError

NAMES = ("register", "cas-register", "kv", "multi-register", "mutex", "fifo-queue", "set")


def model(name: str, *, initial: Any = None, strict_cas: bool = False) -> Model:
    """The model of this name. ConfigError: there is none, or an option that it has no use for."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"unknown model {name!r}", next_step=f"{hint}known: {', '.join(NAMES)}")
    if strict_cas and name not in ("cas-register", "kv"):
        raise ConfigError(f"the model {name} has no cas, so nothing to be strict about", next_step="drop strict_cas")
    if initial is not None and name in ("mutex", "fifo-queue", "set"):
        raise ConfigError(f"the model {name} begins free or empty", next_step="drop the initial value")
    if name == "register":
        return Register(initial=initial)
    if name == "cas-register":
        return cas_register(initial=initial, strict_cas=strict_cas)
    if name == "kv":
        return kv(initial=initial, strict_cas=strict_cas)
    if name == "multi-register":
        return MultiRegister(initial=initial)
    if name == "mutex":
        return Mutex()
    return FifoQueue() if name == "fifo-queue" else SetModel()
