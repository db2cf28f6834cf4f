"""``tls`` in a description: that requests over HTTP are encrypted, whom to trust and as whom to ask.

    tls = true
    tls = { ca = "ca.pem", cert = "client.pem", key = "client.key", server_name = "{name}.example" }

Guarantees: what contradicts itself, and a file that cannot be used, is a ConfigError that names it before a run; no
content of a file is shown. Out of scope: TLS between the nodes, and of other protocols than HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from dethrone.clusters.own.headers import NODE
from dethrone.clusters.own.table import Table
from dethrone.clusters.own.words import check_words, fill
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.tls import Tls, context_of

FILES = ("ca", "cert", "key")
_NAME = re.compile(r"[A-Za-z0-9._:{}-]{1,253}")


class TlsTable(Table, frozen=True, kw_only=True):
    """Files relative to the description. ``ca``: whom to trust [the trust store of the machine that asks]. ``cert``,
    ``key``: as whom to ask. ``server_name``: the name that the node's certificate must have, with words [its address].
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    verify: bool = True


Encrypted = TlsTable | bool
"""``tls`` of a table; False: none, true: with a certificate that the trust store accepts."""


def check_tls(tls: Encrypted, *, ports: Collection[str], knobs: Collection[str], where: str) -> None:
    """Raise ConfigError for what contradicts itself, and for a name that is none."""
    if isinstance(tls, bool):
        return
    where = f"{where} tls"
    if (tls.cert is None) != (tls.key is None):
        given, other = ("cert", "key") if tls.key is None else ("key", "cert")
        step = f'write {other} = "FILE"; if both are in one file, name it twice'
        raise ConfigError(f"{given} without {other}", where=where, next_step=step)
    if tls.ca is not None and not tls.verify:
        step = "remove ca, or verify = false"
        raise ConfigError("ca says whom to trust, and verify = false trusts any", where=where, next_step=step)
    for name in FILES:
        if getattr(tls, name) == "":
            raise ConfigError(f"{name} is empty", where=where, next_step="write a path relative to the description")
    if tls.server_name is not None:
        check_words([tls.server_name], (*NODE, *ports, *knobs), where=f"{where} server_name")
        if not _NAME.fullmatch(tls.server_name):
            step = 'write it like "{name}.example"'
            raise ConfigError(f"{tls.server_name!r} is no name of a server", where=where, next_step=step)


def tls_of(tls: Encrypted, folder: Path, words: Mapping[str, str]) -> Tls | None:
    """TLS of a connection that this machine opens to the node with these words; None: there is none."""
    if isinstance(tls, bool):
        return Tls() if tls else None
    ca, cert, key = (str(folder / file) if file else "" for file in (tls.ca, tls.cert, tls.key))
    return Tls(ca=ca, cert=cert, key=key, server_name=fill(tls.server_name or "", words), verify=tls.verify)


def on_host(tls: Encrypted, place: str, words: Mapping[str, str]) -> Tls | None:
    """The same of a connection that a host opens; its files are there under names that begin with ``place``."""
    given = tls_of(tls, Path(), words)
    if given is None or isinstance(tls, bool):
        return given
    files = {name: f"{place}{name}.pem" for name in FILES if getattr(tls, name) is not None}
    return msgspec.structs.replace(given, **files)


def host_files(tls: Encrypted, folder: Path, place: str) -> dict[str, bytes]:
    """What that host gets: path → content. ConfigError."""
    if isinstance(tls, bool):
        return {}
    out = {}
    for name in (name for name in FILES if getattr(tls, name) is not None):
        file = folder / getattr(tls, name)
        try:
            out[f"{place}{name}.pem"] = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"a file for TLS cannot be read: {error.strerror}", where=str(file)) from error
    return out


def check_files(each: Iterable[tuple[str, Encrypted]], folder: Path) -> None:
    """Raise ConfigError for a file that is missing or cannot be used. ``each``: where the key stands, what it says."""
    for where, tls in each:
        given = tls_of(tls, folder, {})
        if given is None:
            continue
        try:
            context_of(given)
        except ConfigError as error:
            named = f"{where} tls: {error.where}"
            raise ConfigError(error.what, where=named, cause=error.cause, next_step=error.next_step) from error


def shown(tls: Encrypted) -> str:
    """What it says, in words."""
    table = TlsTable() if isinstance(tls, bool) else tls
    trusted = f"by {table.ca}" if table.ca else "by the trust store of the machine that asks"
    whom = f"{table.server_name or 'its address'}, verified {trusted}" if table.verify else "any certificate will do"
    return f"over TLS: {whom}{f'; asked as {table.cert}' if table.cert else ''}"
