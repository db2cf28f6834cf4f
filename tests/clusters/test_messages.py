"""Every message, request and answer of every protocol target survives the wire, whatever is in it."""

from __future__ import annotations

import functools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from dethrone.clusters.node.config import load_target

TARGETS = ("bully", "dledger", "joyqueue", "kraft", "master_slave", "nacos", "paxos", "raft", "zab", "zk_ephemeral")

WORDS = st.text(max_size=4)
SCALARS = {
    inspect.StrType: WORDS,
    inspect.BoolType: st.booleans(),
    inspect.NoneType: st.none(),
    inspect.BytesType: st.binary(max_size=4),
    inspect.AnyType: st.recursive(
        st.none() | st.booleans() | st.integers(-(2**50), 2**50) | WORDS,
        lambda inner: st.lists(inner, max_size=2),
        max_leaves=3,
    ),
}


def drawn(info):
    """Any value of that type."""
    match info:
        case inspect.IntType(ge=least, le=most):
            return st.integers(-(2**50) if least is None else least, 2**50 if most is None else most)
        case inspect.StructType(cls=made, fields=fields):
            return st.builds(made, **{field.name: drawn(field.type) for field in fields})
        case inspect.UnionType(types=types):
            return st.one_of([drawn(one) for one in types])
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.VarTupleType(item_type=item):
            return st.lists(drawn(item), max_size=3).map(tuple)
        case inspect.ListType(item_type=item):
            return st.lists(drawn(item), max_size=3)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(drawn, items))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(drawn(key), drawn(value), max_size=3)
        case _:
            return SCALARS[type(info)]


@functools.cache
def kinds(target, side):
    union = getattr(load_target(target), f"{side}_type")
    info = inspect.type_info(union)
    return union, info.types if isinstance(info, inspect.UnionType) else (info,)


@pytest.mark.parametrize(
    ("target", "side", "number"),
    [
        pytest.param(target, side, number, id=f"{target}-{one.cls.__name__}")
        for target in TARGETS
        for side in ("message", "request", "reply")
        for number, one in enumerate(kinds(target, side)[1])
    ],
)
def test_every_message_survives_the_wire(target, side, number):
    union, found = kinds(target, side)
    decoder = msgspec.json.Decoder(union)

    @settings(max_examples=20)
    @given(drawn(found[number]))
    def check(body):
        assert decoder.decode(msgspec.json.encode(body)) == body

    check()
