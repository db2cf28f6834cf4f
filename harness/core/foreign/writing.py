"""Client operations of a run of ours as other tools read them: Jepsen's EDN.

Where clients name an object (a read by its key, a write as [key, value]) Jepsen gets its independent [key value]
tuples. Guarantees that the order of events is kept exactly, that an operation which never returned is recorded as
unknown, and that reading the EDN back gives the same operations. Out of scope: everything that clients did not do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.shown import Reader, Shown, key_of

Lines = Callable[[History], Iterator[str]]


def jepsen_edn(history: History) -> Iterator[str]:
    """One op map a line, for Knossos, Elle and Jepsen's own checkers.

    As there, an operation that changes something returns what it was asked with; what it returned is stored in
    ``:told``; a compare-and-set that found another value is ``:fail``, and asks with [key [expected new]].
    """
    index = 0
    reader = Reader()
    asked: dict[int, Invoke] = {}
    last_ns = 0
    for event in history:
        if type(event) is Invoke:
            asked[event.op] = event
            yield _op(event, "invoke", _question(event), index=index, at_ns=event.t, node=event.target)
        elif type(event) is Return and event.op in asked:
            invoke = asked.pop(event.op)
            value, told = _answer(invoke, event, reader.read(key_of(invoke), event.value))
            refused = invoke.f == "cas" and event.status == "ok" and event.value is False
            yield _op(
                invoke,
                "fail" if refused else event.status,
                value,
                index=index,
                at_ns=event.t,
                told=told,
                error=event.error,
                node=event.node,
            )
        else:
            continue
        index += 1
        last_ns = event.t
    for invoke in asked.values():
        yield _op(invoke, "info", _question(invoke), index=index, at_ns=last_ns, error="never returned")
        index += 1


_ASKS = frozenset({"read", "get", "learn", "holder", "poll", "dequeue"})
"""Operations that ask: the returned value is their value, even if it is null."""

_BY_KEY = frozenset({"read", "get", "poll"})
"""Those of them that are asked with a key."""


_NAMES = {"get": "read", "put": "write"}
"""Operations on registers by the names that Jepsen's models know."""


def _question(invoke: Invoke) -> Any:
    """What was asked with; keys of several groups are [group key]."""
    value = invoke.value
    if invoke.f in _BY_KEY and isinstance(value, str | int):
        return [_key(invoke, value), None]
    if invoke.f == "cas" and isinstance(value, list | tuple) and len(value) == 3:
        return [_key(invoke, value[0]), list(value[1:])]
    if invoke.group and invoke.f not in _ASKS and isinstance(value, list | tuple) and len(value) == 2:
        return [_key(invoke, value[0]), value[1]]
    return value


def _key(invoke: Invoke, key: Any) -> Any:
    return [invoke.group, key] if invoke.group else key


def _answer(invoke: Invoke, back: Return, found: Any) -> tuple[Any, Any]:
    """The value of a return that gave ``found``, and what else was returned."""
    question = _question(invoke)
    if back.status != "ok":
        return question, None
    if invoke.f == "txn" and found is not None:
        return found, None
    if invoke.f not in _ASKS:
        return question, found
    return (found if question is invoke.value else [question[0], found]), None


def _op(invoke: Invoke, kind: str, value: Any, *, index: int, at_ns: int, **more: Any) -> str:
    shown = _transaction(value) if invoke.f == "txn" else edn(value)
    rest = "".join(f", :{name} {edn(word)}" for name, word in more.items() if word is not None)
    return (
        f"{{:index {index}, :time {at_ns}, :type :{kind}, :process {invoke.process},"
        f" :f :{_NAMES.get(invoke.f, invoke.f)},"
        f" :value {shown}{rest}}}"
    )


def _transaction(value: Any) -> str:
    """Steps with keywords for what they do, as Elle reads them."""
    if not isinstance(value, list | tuple):
        return edn(value)
    steps = []
    for step in value:
        if isinstance(step, list | tuple) and len(step) == 3 and isinstance(step[0], str):
            steps.append(f"[:{step[0]} {edn(step[1])} {edn(step[2])}]")
        else:
            steps.append(edn(step))
    return f"[{' '.join(steps)}]"


def edn(value: Any) -> str:
    """A JSON value as EDN. Words are strings, keys of maps too."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple | Shown):
        return f"[{' '.join(map(edn, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{edn(key)} {edn(item)}' for key, item in value.items())}}}"
    return json.dumps(str(value), ensure_ascii=False)


WRITERS: dict[str, Lines] = {"jepsen-edn": jepsen_edn}
"""Format → what writes it."""
