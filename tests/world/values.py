"""Values of a declared type, drawn: messages, commands and stored states of every protocol.

Guarantees: bounds of numbers are kept; a field of any type holds JSON. Out of scope: what such a value means.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

JSON = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2)
)
PLAIN = {
    int: st.integers(-1, 2**31 - 1),
    str: st.text(max_size=4),
    bool: st.booleans(),
    type(None): st.none(),
    bytes: st.binary(max_size=4),
    float: st.integers(0, 9).map(float),
    Any: JSON,
}


def of(kind, plain=PLAIN):
    """Values of this type. ``plain``: those of types that are not made of others."""
    if kind is None or kind in plain:
        return plain[kind or type(None)]
    origin, args = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return st.one_of([of(one, plain) for one in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is Annotated:
        bounds = next(one for one in args[1:] if isinstance(one, msgspec.Meta))
        return st.integers(bounds.ge, bounds.le)
    if origin is tuple:
        if args[-1] is Ellipsis:
            return st.lists(of(args[0], plain), max_size=5).map(tuple)
        return st.tuples(*(of(one, plain) for one in args))
    if origin in {list, frozenset, Collection, Sequence}:
        return st.lists(of(args[0], plain), max_size=5).map(frozenset if origin is frozenset else list)
    if origin in {dict, Mapping}:
        return st.dictionaries(of(args[0], plain), of(args[1], plain), max_size=2)
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: of(hint, plain) for name, hint in hints.items()})
