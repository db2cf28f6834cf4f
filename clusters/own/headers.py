"""What requests of a description carry besides path and body: ``headers``, and a user with a password (``auth``).

    auth = { user = "root", password = "{root_password}" }

Guarantees: a password, and a header that authorises, must name a knob whose value is hidden everywhere else; a
value cannot end its line and so smuggle in another header; no error shows a value of a knob. Pure.
Out of scope: ways of signing in that take a request of their own, and what keeps them from being read (``tls``).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping
from typing import Protocol

from dethrone.clusters.own.table import Table
from dethrone.clusters.own.words import check_words, fill, words_in
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.secrets import is_secret

OURS = ("host", "content-length", "transfer-encoding", "accept-encoding", "connection", "expect", "upgrade", "te")
"""Headers with which a connection is kept and an answer is framed."""
NODE = ("name", "number", "address")
"""Words of the node that is asked; its ports and the knobs are words, too."""
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What no value of a header may hold."""
_AUTHORISING = ("authorization", "cookie")
_HIDDEN = 'write "{password}", and password = "" in [knobs]; give its value in a settings file or by --set'


class AuthTable(Table, frozen=True, kw_only=True):
    """HTTP's basic authentication."""

    user: str
    password: str


class Carrying(Protocol):
    """A table with these keys."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Name → value, with words."""

    @property
    def auth(self) -> AuthTable | None:
        """As whom to ask."""


def check_carried(
    table: Carrying, *, ports: Collection[str], knobs: Collection[str], secrets: Collection[str], where: str
) -> None:
    """Raise ConfigError for a header that cannot be sent, and for a secret that stands in the file."""
    known = (*NODE, *ports, *knobs)
    check_words(table.headers.values(), known, where=f"{where} headers")
    for name, value in table.headers.items():
        if not _NAME.fullmatch(name) or name.lower() in OURS:
            raise ConfigError(f"{name!r} cannot be set as a header", where=f"{where} headers")
        if CONTROL.search(value):
            raise ConfigError(f"the header {name} holds a control character", where=f"{where} headers")
        if name.lower() in _AUTHORISING or is_secret(name):
            check_hidden(value, f"the header {name}", secrets, where=f"{where} headers")
    if table.auth is None:
        return
    if any(name.lower() == "authorization" for name in table.headers):
        raise ConfigError("both auth and a header Authorization", where=where, next_step="keep one of them")
    check_words([table.auth.user, table.auth.password], known, where=f"{where} auth")
    if ":" in table.auth.user or CONTROL.search(table.auth.user):
        raise ConfigError("a user holds no colon and no control character", where=f"{where} auth")
    check_hidden(table.auth.password, "the password", secrets, where=f"{where} auth")


def check_values(tables: Collection[Carrying], knobs: Mapping[str, str], *, where: str) -> None:
    """Raise ConfigError for a value of a knob with which a header or a user would be another one."""
    for table in tables:
        said = [*table.headers.values(), *([] if table.auth is None else [table.auth.user])]
        for name in (word for text in said for word in words_in(text) if word in knobs):
            if CONTROL.search(knobs[name]):
                raise ConfigError(f"the knob {name} holds a control character, and stands in a header", where=where)
        for name in words_in("" if table.auth is None else table.auth.user):
            if ":" in knobs.get(name, ""):
                raise ConfigError(f"the knob {name} holds a colon, and is a user", where=where)


def carried(table: Carrying, words: Mapping[str, str]) -> dict[str, str]:
    """The headers with their words filled in."""
    out = {name: fill(value, words) for name, value in table.headers.items()}
    if table.auth is not None:
        pair = f"{fill(table.auth.user, words)}:{fill(table.auth.password, words)}"
        out["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return out


def over(usual: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The usual headers where none of that name is given, and those given."""
    names = {name.lower() for name in given}
    return {**{name: value for name, value in usual.items() if name.lower() not in names}, **given}


def check_hidden(text: str, what: str, secrets: Collection[str], *, where: str) -> None:
    """Raise ConfigError for a secret that stands in the file instead of naming a knob whose value is hidden."""
    if not any(word in secrets or is_secret(word) for word in words_in(text)):
        raise ConfigError(
            f"{what} stands in the description",
            where=where,
            cause="a secret is the value of a knob that [node] secrets names, or that is called password, token …",
            next_step=_HIDDEN,
        )
