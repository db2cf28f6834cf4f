"""How the toy's messages look in HTTP."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.clusters.node.toy_target import Ping, Pong


def request(body: Any) -> tuple[str, str, Mapping[str, str], bytes]:
    return "POST", "/ping", {"Content-Type": "application/json"}, msgspec.json.encode(body)


def parse_request(method: str, path: str, headers: Mapping[str, str], data: bytes) -> Any:
    if (method, path) != ("POST", "/ping"):
        raise ValueError(f"no such call: {method} {path}")
    return msgspec.json.decode(data, type=Ping)


def response(body: Any) -> tuple[int, Mapping[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, msgspec.json.encode(body)


def parse_response(request_body: Any, status: int, headers: Mapping[str, str], data: bytes) -> Any:
    if status != 200:
        raise ValueError(f"status {status}: {data!r}")
    return msgspec.json.decode(data, type=Pong)
