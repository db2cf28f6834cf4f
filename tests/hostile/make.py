"""Hostile files and answers out of a seed: valid ones with something in them that a stranger might put there.

Each is made of a sample that is read as it is, by changing a value, a key, some bytes or its length. Deterministic.
"""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded, and nothing but tests uses it
from collections.abc import Callable
from typing import Any

BIG = "9" * 6000


class Raw:
    """A literal that stands in JSON or TOML as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def evil_values(rng: random.Random) -> list[Any]:
    return [
        Raw(BIG),
        Raw("-" + BIG),
        Raw("1e999"),
        Raw("NaN"),
        Raw("Infinity"),
        Raw("[" * 5000 + "]" * 5000),
        Raw('{"a":' * 3000 + "1" + "}" * 3000),
        2**63,
        -(2**63) - 1,
        2**64,
        -1,
        0,
        1.5,
        True,
        None,
        "",
        "x" * rng.choice([300, 70_000, 1_000_000]),
        "\x1b]52;c;AA==\x07\n::error::x\u202e\u0000",
        "../../../../etc/passwd",
        "/dev/zero",
        "a" * 40 + "!",
        [],
        {},
        [[]] * 1000,
        {str(number): number for number in range(2000)},
        ["n1"] * 20_000,
        "n1,n2,n3," * 1000,
        "(a+)+$",
        "9" * 400 + "s",
        "1e400s",
        "\ud800",
    ]


def dump(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(key))}:{dump(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [at]
    if isinstance(value, dict):
        for key, one in value.items():
            out += places(one, (*at, key))
    elif isinstance(value, list):
        for key, one in enumerate(value[:20]):
            out += places(one, (*at, key))
    return out


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    head, *rest = at
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[head] = put(copied[head], tuple(rest), new)
    return copied


def hostile_json(rng: random.Random, sample: Any) -> bytes:
    value = sample
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        found = places(value)
        value = put(value, rng.choice(found), rng.choice(evil_values(rng)))
        if not isinstance(value, dict | list):
            break
    return dump(value).encode("utf-8", "surrogatepass")


def hostile_text(rng: random.Random, sample: bytes) -> bytes:
    """Cut, doubled, torn, with bytes or words that do not belong there."""
    data = bytearray(sample)
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            del data[at:]
        elif kind == 1 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 2:
            data[at:at] = rng.choice([b"\xff\xfe", b"\x00", b"\xef\xbb\xbf", b"\r", b"\x85", b"\xc2", b"\xed\xa0\x80"])
        elif kind == 3:
            data[at:at] = BIG.encode()
        elif kind == 4:
            data[at:at] = rng.choice([b"[", b"{", b'"', b"(", b"#_"]) * rng.choice([1, 5000, 60_000])
        elif kind == 5:
            data[at:at] = data[: rng.randrange(len(data) + 1)]
        elif kind == 6:
            data[at:at] = rng.choice([b" ", b"\\", b"=", b"\n", b"a", b"}"]) * rng.choice([1, 300_000])
        else:
            end = min(len(data), at + rng.randrange(1, 200))
            del data[at:end]
    return bytes(data)


def hostile_toml(rng: random.Random, sample: str) -> bytes:
    """A line's value replaced, or the text torn."""
    if rng.random() < 0.3:
        return hostile_text(rng, sample.encode())
    lines = sample.splitlines()
    held = [number for number, line in enumerate(lines) if "=" in line and not line.startswith("#")]
    for _ in range(rng.choice([1, 1, 2])):
        number = rng.choice(held)
        key = lines[number].partition("=")[0]
        value = rng.choice(evil_values(rng))
        if isinstance(value, dict):
            value = Raw("{ " + ", ".join(f'"{name}" = {dump(one)}' for name, one in value.items()) + " }")
        lines[number] = f"{key}= {dump(value)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


Maker = Callable[[random.Random], bytes]
