"""One SSH connection a machine: made, verified, made again; commands and relays are channels of it.

Guarantees: a host's key is known and the same, or there is no login; every wait is bounded; a connection that died is
made again by its next user, and a command is never run twice because of it. Out of scope: what is run, known_hosts
with wildcards and certificates of hosts (such lines are not used), and passwords.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import getpass
import hashlib
import logging
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import paramiko
import tenacity

from dethrone.clusters.ssh.hosts import Bastion, SshHost
from dethrone.harness.core.errors import ClusterError, ConfigError
from dethrone.harness.core.files import read_regular

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # else it prints what we report in our own words

CONNECT_LIMIT_S = 10.0
"""How long one attempt may take, each of: TCP, the banner, the login."""
PATIENCE_S = 30.0
"""For so long a machine that does not answer is tried again."""
SILENCE_S = 10
"""After so long without an acknowledgement by the other side's kernel the connection is dead."""
OUTPUT_MAX = 4 << 20
KEY_MAX = 1 << 20
"""Longest file of a key or a certificate."""
_CERTIFICATE = "-cert.pub"
_COMPLAINT_MAX = 4096


class BrokenOffError(ClusterError):
    """The connection broke while a command ran: it may have been carried out, or not."""


class HostKeyError(ClusterError):
    """The machine that answers is not known to be the one that was meant: no login took place."""


class LoginError(ClusterError):
    """The machine is the right one but does not let us in."""


class ChannelStream:
    """A process' standard streams over a channel: a ``dethrone.clusters.agent.streams.Stream``."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def read(self) -> bytes:
        """See ``Stream``; the process' complaint, if it ends with one, is the error."""
        data: bytes = self._channel.recv(256 << 10)
        if not data and self._channel.recv_stderr_ready():
            complaint = self._channel.recv_stderr(_COMPLAINT_MAX).decode("utf-8", "replace").strip()
            if complaint:
                raise OSError(complaint[-400:])
        return data

    def write(self, data: bytes) -> None:
        """See ``Stream``."""
        try:
            self._channel.sendall(data)
        except (paramiko.SSHException, EOFError) as error:
            raise ConnectionResetError(str(error)) from error

    def close(self) -> None:
        """See ``Stream``."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


class Connection:
    """The connection to one machine. Thread-safe. Nothing is connected until something is needed."""

    def __init__(self, host: SshHost, *, known_hosts: str, patience_s: float = PATIENCE_S) -> None:
        self.host = host
        self.name = host.name
        self._known_hosts = Path(known_hosts).expanduser()
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._client: paramiko.SSHClient | None = None
        self._gate: paramiko.SSHClient | None = None
        self._closed = threading.Event()

    def connect(self) -> None:
        """Connect, and be patient with a machine that does not answer. Not with one that is wrong or says no."""
        self._patiently(self._transport)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", limit_s: float, plain: bool = False
    ) -> tuple[int, bytes, bytes]:
        """Run a command: exit code, stdout, stderr, together at most 8 MiB. With sudo where the file says so.

        ``plain``: without sudo in any case.

        Raises ClusterError: not in time, or the connection broke meanwhile, and then it is not known whether it ran.
        """
        # A channel that could not be opened has carried no command: that may be tried again, and nothing after it.
        channel = self._patiently(self._channel)
        deadline = time.monotonic() + limit_s
        try:
            with contextlib.closing(channel):
                self._execute(channel, argv, plain=plain)
                result = _talk(channel, stdin, deadline)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise BrokenOffError(
                f"the connection broke while a command ran: {error or type(error).__name__}",
                where=self.name,
                cause="whether the command was carried out is not known",
                next_step="repeat it",
            ) from error
        if result is None:
            raise ClusterError(f"a command did not end within {limit_s:g} s", where=f"{argv[0]} on {self.name}")
        if self.host.sudo and result[0] == 1 and result[2].startswith(b"sudo:"):
            raise LoginError(
                "sudo is not allowed without a password",
                where=self.name,
                cause=result[2].decode("utf-8", "replace").strip()[-300:],
                next_step=f"on the machine, with visudo: `{user_of(self.host)} ALL=(root) NOPASSWD: ALL`",
            )
        return result

    def seen_from(self) -> str:
        """The address that the machine sees us come from, as far as its SSH server reports; else ""."""
        _, out, _ = self.run(("printenv", "SSH_CONNECTION"), limit_s=CONNECT_LIMIT_S, plain=True)
        return out.decode("utf-8", "replace").split(" ")[0].strip()

    def relay(self, argv: Sequence[str]) -> ChannelStream:
        """Start a command and return its streams. One attempt; raises OSError or ClusterError."""
        channel = self._channel()
        try:
            self._execute(channel, argv)
        except (OSError, EOFError, paramiko.SSHException) as error:
            channel.close()
            raise ConnectionResetError(f"{self.name}: {error or type(error).__name__}") from error
        return ChannelStream(channel)

    def close(self) -> None:
        """End it for good. Idempotent."""
        self._closed.set()
        with self._lock:
            self._drop()

    def _patiently(self, attempt: Callable[[], Any]) -> Any:
        attempts = tenacity.Retrying(
            stop=tenacity.stop_any(
                tenacity.stop_after_delay(self._patience_s), tenacity.stop_when_event_set(self._closed)
            ),
            wait=tenacity.wait_exponential(multiplier=0.05, max=2),
            retry=tenacity.retry_if_exception_type(OSError),
            sleep=self._pause,
            reraise=True,
        )
        try:
            return attempts(attempt)
        except OSError as error:
            raise ClusterError(
                f"the machine cannot be reached: {error}",
                where=place(self.host.address, self.host.port, self.host.name),
                cause="it is off, or the address, the port or a firewall is wrong",
                next_step=f"try `{ssh_command(self.host)}`",
            ) from error

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)

    # --- one transport --------------------------------------------------------------------------------------------

    def _channel(self) -> Any:
        """A channel on which nothing was asked yet. OSError where another attempt may help."""
        transport = self._transport()
        try:
            return transport.open_session(timeout=CONNECT_LIMIT_S)
        except (EOFError, paramiko.SSHException) as error:
            raise ConnectionResetError(f"{self.name}: {error or type(error).__name__}") from error

    def _execute(self, channel: Any, argv: Sequence[str], *, plain: bool = False) -> None:
        words = ["sudo", "-n", "--", *argv] if self.host.sudo and not plain else argv
        channel.settimeout(CONNECT_LIMIT_S)
        channel.exec_command(shlex.join(words))
        channel.settimeout(None)

    def _transport(self) -> Any:
        """The one that lives, or a new one. OSError where another attempt may help."""
        with self._lock:
            if self._closed.is_set():
                raise ClusterError("the connection was closed", where=self.name)
            transport = self._client.get_transport() if self._client is not None else None
            if transport is not None and transport.is_active():
                return transport
            self._drop()
            through = None
            if self.host.bastion is not None:
                self._gate = self._log_in(_as_host(self.host, self.host.bastion), None)
                through = self._channel_through(self._gate)
            self._client = self._log_in(self.host, through)
            return self._client.get_transport()

    def _drop(self) -> None:
        for client in (self._client, self._gate):
            if client is not None:
                client.close()
        self._client = self._gate = None

    def _channel_through(self, gate: paramiko.SSHClient) -> Any:
        transport = gate.get_transport()
        if transport is None:
            raise ConnectionResetError("the bastion closed the connection")
        try:
            return transport.open_channel(
                "direct-tcpip", (self.host.address, self.host.port), ("127.0.0.1", 0), timeout=CONNECT_LIMIT_S
            )
        except (paramiko.SSHException, EOFError) as error:
            raise ConnectionRefusedError(f"the bastion does not get through to {self.host.address}: {error}") from error

    def _log_in(self, host: SshHost, through: Any) -> paramiko.SSHClient:
        where = place(host.address, host.port, host.name)
        key = _key_of(host)
        client = paramiko.SSHClient()
        known = client.get_host_keys()
        for name, kept in known_keys(self._known_hosts):
            known.add(name, kept.get_name(), kept)
        client.set_missing_host_key_policy(_Refusing(self._known_hosts, host))
        sock = through
        try:
            sock = through or _dial(host)
            client.connect(
                host.address,
                port=host.port,
                username=user_of(host),
                pkey=key,
                look_for_keys=key is None,
                allow_agent=key is None,
                sock=sock,
                timeout=CONNECT_LIMIT_S,
                banner_timeout=CONNECT_LIMIT_S,
                auth_timeout=CONNECT_LIMIT_S,
            )
        except BaseException as error:
            transport = client.get_transport()
            met = transport is not None and transport.initial_kex_done
            client.close()
            if sock is not None:
                sock.close()
            if isinstance(error, paramiko.BadHostKeyException):
                raise _changed(error, self._known_hosts, host) from error
            if isinstance(error, paramiko.SSHException) and met and not _cut_off(error):
                raise _refused(error, host) from error
            if isinstance(error, paramiko.SSHException | EOFError):
                raise ConnectionResetError(f"{where}: {error or type(error).__name__}") from error
            raise
        return client


class _Refusing(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """An unknown key is an error that says what to compare."""

    def __init__(self, known_hosts: Path, host: SshHost) -> None:
        self._known_hosts = known_hosts
        self._host = host

    def missing_host_key(self, _client: Any, _hostname: str, key: Any) -> None:
        host = self._host
        raise HostKeyError(
            f"the host key is not known: {key.get_name()} {fingerprint(key)}",
            where=place(host.address, host.port, host.name),
            cause=f"{self._known_hosts} does not have it, or revokes it",
            next_step=f"compare with `ssh-keygen -lf /etc/ssh/ssh_host_{_kind(key)}_key.pub` on the machine; if equal, "
            f"`ssh-keyscan -t {_kind(key)} -p {host.port} {host.address} >> {self._known_hosts}`",
        )


def fingerprint(key: Any) -> str:
    """As ``ssh-keygen -l`` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")


def known_keys(path: Path) -> list[tuple[str, Any]]:
    """Host (as the file spells it, hashed perhaps) and key, of every line that can be used and is not revoked."""
    try:
        lines = read_regular(path).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"the known hosts cannot be read: {error.strerror}", where=str(path)) from error
    revoked: set[str] = set()
    found: list[tuple[str, Any]] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "@revoked" and len(words) >= 4:
            revoked.add(words[3])
        if words[0].startswith("@"):
            continue
        with contextlib.suppress(paramiko.SSHException, ValueError, binascii.Error):
            entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
            if entry is not None and entry.key is not None:
                found += [(name, entry.key) for name in entry.hostnames]
    return [(name, key) for name, key in found if key.get_base64() not in revoked]


def place(address: str, port: int, name: str) -> str:
    """A machine in messages."""
    return f"{name} ({address} port {port})"


def user_of(host: SshHost) -> str:
    """Who logs in."""
    return host.user or getpass.getuser()


def ssh_command(host: SshHost) -> str:
    """What a user types to try it."""
    jump = ""
    if host.bastion is not None:
        at = f"{host.bastion.user}@" if host.bastion.user else ""
        jump = f"-J {at}{host.bastion.address}:{host.bastion.port} "
    key = f"-i {host.key} " if host.key else ""
    return f"ssh {jump}{key}-p {host.port} {user_of(host)}@{host.address}"


def _kind(key: Any) -> str:
    name: str = key.get_name()
    return "ecdsa" if name.startswith("ecdsa") else {"ssh-rsa": "rsa", "ssh-ed25519": "ed25519"}.get(name, "ed25519")


def _changed(error: Any, known_hosts: Path, host: SshHost) -> HostKeyError:
    entry = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
    return HostKeyError(
        f"the host key has changed: {error.key.get_name()} {fingerprint(error.key)}, "
        f"expected {error.expected_key.get_name()} {fingerprint(error.expected_key)}",
        where=place(host.address, host.port, host.name),
        cause="the machine was reinstalled, or another machine answers at its address",
        next_step=f"if you know why: `ssh-keygen -R '{entry}' -f {known_hosts}`, then add the new key",
    )


def _refused(error: Exception, host: SshHost) -> LoginError:
    return LoginError(
        f"{user_of(host)} may not log in: {error}",
        where=place(host.address, host.port, host.name),
        cause=f"the user is wrong, or {host.key} is not authorised there"
        if host.key
        else "the user is wrong, or no key of the SSH agent and of ~/.ssh is authorised there",
        next_step=f"make `{ssh_command(host)}` work, then repeat",
    )


def _as_host(host: SshHost, bastion: Bastion) -> SshHost:
    return SshHost(
        name=f"the bastion of {host.name}",
        address=bastion.address,
        port=bastion.port,
        user=bastion.user or host.user,
        key=host.key,
    )


def _key_of(host: SshHost) -> Any:
    """The private key that the file names; None if it names none."""
    if host.key is None:
        return None
    path = Path(host.key).expanduser()
    try:
        for part in _read_with(path):
            read_regular(part, most=KEY_MAX)  # where paramiko would wait for a FIFO
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        what, next_step = f"there is no key file {path}", "correct `key` in the hosts file"
    except OSError as error:
        what, next_step = f"the key file {path} cannot be read: {error.strerror}", f"look at `ls -l {path}`"
    except (TypeError, paramiko.PasswordRequiredException):
        what = f"the key file {path} has a passphrase"
        next_step = f"`ssh-add {path}`, and leave `key` out of the hosts file"
    except (ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType):
        what, next_step = f"{path} is no private key", f"try `ssh-keygen -yf {path}`"
    raise ConfigError(what, where=host.name, next_step=next_step)


def _read_with(path: Path) -> list[Path]:
    """The files that are read for a key: its own, and its certificate if there is one."""
    key = str(path).removesuffix(_CERTIFICATE)
    certificate = Path(key + _CERTIFICATE)
    return [Path(key), *([certificate] if certificate.exists() else [])]


def _cut_off(error: Exception) -> bool:
    """Whether a login ended by a loss of the connection or of patience, rather than by a no."""
    return any(word in str(error) for word in ("saw EOF", "shut down", "timeout", "session not active"))


def _dial(host: SshHost) -> socket.socket:
    """A socket that notices a peer that is silently gone: our heartbeats would stay unacknowledged."""
    dialled = socket.create_connection((host.address, host.port), timeout=CONNECT_LIMIT_S)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)
    return dialled


def _talk(channel: Any, stdin: bytes, deadline: float) -> tuple[int, bytes, bytes] | None:
    """Feed a command, collect what it says and how it ends; None if it does not end in time.

    A thread feeds it: a command that talks before it has read everything would otherwise wait for us, and we for it.
    """

    def feed() -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.sendall(stdin)
            channel.shutdown_write()

    threading.Thread(target=feed, name="ssh-stdin", daemon=True).start()
    out, err = bytearray(), bytearray()
    channel.settimeout(0.05)
    while time.monotonic() < deadline:
        while channel.recv_stderr_ready():
            err += channel.recv_stderr(64 << 10)
        try:
            data = channel.recv(64 << 10)
        except TimeoutError:
            continue
        if data:
            out += data
            if len(out) + len(err) > 2 * OUTPUT_MAX:
                raise OSError("the command does not stop talking")
            continue
        if not channel.status_event.wait(max(0.0, deadline - time.monotonic())):
            return None
        while channel.recv_stderr_ready():
            err += channel.recv_stderr(64 << 10)
        code = channel.recv_exit_status()
        if code < 0:
            raise ConnectionResetError("no exit status was reported")
        return code, bytes(out), bytes(err)
    return None
