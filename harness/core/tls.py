"""TLS of connections that the harness opens: whom it trusts, as whom it speaks, and which name it expects.

Guarantees: files are read once in a process; a file that is missing, or is no certificate or key, is a ConfigError that
names it, and never shows what is in it; no passphrase is asked for at a terminal. The same certificates are accepted
with every version of Python. Out of scope: keys with a passphrase, lists of revoked certificates.
"""

from __future__ import annotations

import functools
import socket
import ssl
from typing import NoReturn

import msgspec

from dethrone.harness.core.errors import ConfigError


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """``ca``: a file with the authorities to trust ["": those of the system]; ``cert``, ``key``: files of a client's
    certificate ["": none]; ``server_name``: what the other end's certificate must name ["": its address]; without
    ``verify``, any certificate will do."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""
    verify: bool = True


class _Locked(Exception):  # noqa: N818 - names the thing found
    """A key needs a passphrase."""


def secured(sock: socket.socket, tls: Tls, address: str, *, shake: bool = True) -> ssl.SSLSocket:
    """The same connection with TLS; ``sock`` is used up. ``shake``: with its handshake, in the time limit of ``sock``.

    OSError: the handshake failed, and nothing was sent but it.
    """
    name = tls.server_name or address
    try:
        return context_of(tls).wrap_socket(sock, server_hostname=name, do_handshake_on_connect=shake)
    except BaseException as error:
        sock.close()
        if isinstance(error, ValueError) and not isinstance(error, OSError):
            raise ConnectionError(f"{name!r:.80} is no name of a server") from error
        raise


def context_of(tls: Tls) -> ssl.SSLContext:
    """What its files say. ConfigError."""
    return _context(tls.ca, tls.cert, tls.key, tls.verify)


@functools.lru_cache(maxsize=64)
def _context(ca: str, cert: str, key: str, verify: bool) -> ssl.SSLContext:  # noqa: FBT001 - of one caller
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise _unreadable(ca, error, "a file of certificates begins with -----BEGIN CERTIFICATE-----") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # a default of newer versions, which many authorities do not meet
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if not cert:
        return context
    try:
        context.load_cert_chain(cert, key or None, password=_refuse)
    except _Locked as error:
        raise ConfigError(
            "the key needs a passphrase", where=key, next_step="openssl pkey -in KEY -out PLAIN writes one without it"
        ) from error
    except OSError as error:
        step = "both are PEM files, and the key is that of the certificate"
        raise _unreadable(f"{cert} with {key}", error, step) from error
    return context


def _refuse() -> NoReturn:
    raise _Locked


def _unreadable(place: str, error: OSError, step: str) -> ConfigError:
    why = "it is no such file" if isinstance(error, ssl.SSLError) else error.strerror
    return ConfigError(f"a file for TLS cannot be used: {why}", where=place, cause=str(error), next_step=step)
