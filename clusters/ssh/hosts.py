"""The hosts file: which machines a run may use over SSH, how to reach them, and what may be done to them.

Guarantees: frozen, typed data; everything wrong with a file is a ConfigError that names the line and, for an unknown
key, the nearest known one; nothing is guessed and no default allows more than a careful person would. Out of scope:
connecting, and what the permissions mean for a run (``dethrone.clusters.ssh.permissions``).

    expendable = ["n1", "n2", "n3"]      # what may be broken; a host that is not listed is never touched
    user = "root"                        # these may stand at the top, for all, or with a host
    key = "~/.ssh/id_ed25519"
    dead_man = "15s"

    [hosts.n1]
    address = "192.0.2.11"
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import parse_duration, show_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.zones import check_label

FAULTS = ("partition", "kill", "stop", "restart", "pause", "clock")
"""Fault kinds that hosts of a file may suffer unless it says otherwise with ``faults``."""

DEAD_MAN_NS: Ns = 15 * SECOND
DEAD_MAN_LEAST_NS: Ns = 2 * SECOND
"""Heartbeats come once a second: a shorter time would heal hosts under a living harness."""

STATE_DIR = "/var/tmp/dethrone"  # noqa: S108 - made with mode 0700, refused if it is another user's
STATE_DIR_MAX = 40
"""Longest state directory: with the run's name the agent's socket must fit into the 108 bytes of a unix address."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,63}\$?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")


class Bastion(msgspec.Struct, frozen=True, kw_only=True):
    """A machine in between; only passed through, nothing is run on it."""

    address: str
    port: int = 22
    user: str | None = None


class PidFile(msgspec.Struct, frozen=True):
    """The target's process is the one whose id stands in this file. ``start``: the command that starts it; "": none."""

    path: str
    start: str = ""


class Unit(msgspec.Struct, frozen=True):
    """The target's processes are those of this systemd unit. ``start`` "": systemd starts it."""

    name: str
    start: str = ""


class Pattern(msgspec.Struct, frozen=True):
    """The target's processes are those whose command line matches this regular expression."""

    regex: str
    start: str = ""


Target = PidFile | Unit | Pattern


def restart_of(target: Target) -> tuple[str, ...]:
    """The command that starts the target again; empty: none is known."""
    if target.start:
        return ("sh", "-c", target.start)
    return ("systemctl", "start", "--", target.name) if isinstance(target, Unit) else ()


class SshHost(msgspec.Struct, frozen=True, kw_only=True):
    """One machine. ``user`` None: the user who runs Dethrone. ``key`` None: the SSH agent and the usual key files.

    ``inside``: its address as its peers see it, if that is another one. ``zone`` "": none was named. ``target`` None:
    the agent starts the node.
    """

    name: str
    address: str
    port: int = 22
    user: str | None = None
    key: str | None = None
    sudo: bool = False
    bastion: Bastion | None = None
    inside: str | None = None
    settimeofday: bool = False
    state_dir: str = STATE_DIR
    zone: str = ""
    target: Target | None = None


class HostsFile(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. ``source``: what errors call it. ``majority``: more than a quorum's minority may be down at once."""

    source: str
    hosts: Mapping[str, SshHost]
    expendable: frozenset[str] = frozenset()
    faults: frozenset[str] = frozenset(FAULTS)
    majority: bool = False
    known_hosts: str = "~/.ssh/known_hosts"
    dead_man_ns: Ns = DEAD_MAN_NS


_SHARED = ("port", "user", "key", "sudo", "bastion", "settimeofday", "state_dir")
"""May stand at the top, for all hosts, or with one of them."""
_TOP = ("hosts", "expendable", "faults", "majority", "known_hosts", "dead_man", *_SHARED)
_OF_A_HOST = ("address", "inside", "zone", "target", *_SHARED)
_OF_A_TARGET = ("pid_file", "unit", "pattern", "start")


def parse_hosts(text: str, *, source: str) -> HostsFile:
    """The hosts file ``text``, called ``source`` in errors. Raises ConfigError."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the hosts file is not TOML: {error}", where=source) from None
    return _file(_Section(table, "", lines=text.splitlines(), source=source), source)


def hosts_of_flags(words: Sequence[str], *, file: HostsFile | None = None) -> HostsFile:
    """Hosts given as ``NAME=[USER@]ADDRESS[:PORT]``, over those of ``file``, whose permissions stay as they are.

    A flag never makes a host expendable: that is written down in a file, once, by a user who knows the machines.
    """
    base = file or HostsFile(source="hosts.toml", hosts={})
    hosts = dict(base.hosts)
    seen: set[str] = set()
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or _NAME.fullmatch(name) is None:
            raise ConfigError(
                f"{word!r} is not a host", next_step="write NAME=[USER@]ADDRESS[:PORT], n1=root@192.0.2.11"
            )
        if name in seen:
            raise ConfigError(f"the host {name} was given twice", where=word)
        seen.add(name)
        user, address, port = parse_place(place, where=word)
        old = hosts.get(name) or SshHost(name=name, address=address)
        hosts[name] = msgspec.structs.replace(old, address=address, port=port or old.port, user=user or old.user)
    _refuse_twins(hosts, base.source)
    return msgspec.structs.replace(base, hosts=hosts)


def parse_place(text: str, *, where: str) -> tuple[str | None, str, int | None]:
    """User, address and port of ``[USER@]ADDRESS[:PORT]``; an IPv6 address with a port stands in brackets."""
    user, at, rest = text.rpartition("@")
    if at and _USER.fullmatch(user) is None:
        raise ConfigError(f"{user!r} is not a user's name", where=where)
    match = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::(\d{1,5}))?", rest)
    if match is None and rest.count(":") <= 1:
        match = re.fullmatch(r"([^:]*)(?::(\d{1,5}))?", rest)
    address, number = (match[1], match[2]) if match else (rest, None)
    port = None if number is None else int(number)
    if not _is_address(address) or (port is not None and not 0 < port < 65536):
        raise ConfigError(
            f"{text!r} is not a place",
            where=where,
            next_step="write [USER@]ADDRESS[:PORT], with IPv6 as [2001:db8::1]:22",
        )
    return user or None, address, port


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def _refuse_twins(hosts: Mapping[str, SshHost], source: str) -> None:
    """Two names for one machine would make two nodes share every fault, and a minority of names a majority of nodes."""
    places: dict[tuple[str, int], str] = {}
    for host in hosts.values():
        other = places.setdefault((host.address, host.port), host.name)
        if other != host.name:
            raise ConfigError(
                f"{other} and {host.name} are the same machine, {host.address} port {host.port}",
                where=source,
                next_step="give each host a machine of its own",
            )


class _Section:
    """One table of the file, by its name ("": the top); it knows the text, so that errors can name a line."""

    def __init__(self, table: Mapping[str, Any], name: str, *, lines: Sequence[str], source: str) -> None:
        self.table = table
        self.name = name
        self._lines = lines
        self._source = source

    def __contains__(self, key: object) -> bool:
        return key in self.table

    def below(self, table: Mapping[str, Any], name: str) -> _Section:
        return _Section(table, name, lines=self._lines, source=self._source)

    def bad(self, what: str, key: str, next_step: str) -> ConfigError:
        return ConfigError(what, where=self.where(key), next_step=next_step)

    def where(self, key: str) -> str:
        line = find_line(self._lines, key, self.name)
        return f"{self._source}:{line}" if line else self._source

    def refuse_unknown(self, known: Sequence[str], *, inside: str = "") -> None:
        """``inside``: the key of a table in this one, of which this is asked instead."""
        title = ".".join(filter(None, (self.name, inside)))
        for key in self.table[inside] if inside else self.table:
            if key not in known:
                what = f"unknown key {key!r}" + (f" in [{title}]" if title else "")
                raise self.bad(what, inside or key, _nearest(key, known))

    def text(self, key: str, default: str = "") -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str) or (key in self and (not value or not value.isprintable())):
            raise self.bad(f"{key} must be a text, not {value!r:.60}", key, f'write {key} = "…"')
        return value

    def flag(self, key: str) -> bool:
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            raise self.bad(f"{key} must be true or false, not {value!r:.60}", key, f"write {key} = true")
        return value

    def words(self, key: str, default: Sequence[str] = ()) -> Sequence[str]:
        value = self.table.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.bad(f"{key} must be a list of names", key, f'write {key} = ["…", "…"]')
        return value

    def address(self, key: str) -> str:
        address = self.text(key)
        if not _is_address(address):
            next_step = "write a name or an IP address; `port` and `user` are keys of their own"
            raise self.bad(f"{address!r} is not an address", key, next_step)
        return address


def _file(top: _Section, source: str) -> HostsFile:
    top.refuse_unknown(_TOP)
    given = top.table.get("hosts")
    if not isinstance(given, dict) or not given:
        raise ConfigError(
            "the hosts file names no host", where=source, next_step='write [hosts.n1] and address = "192.0.2.11"'
        )
    hosts = {name: _host(name, entry, top) for name, entry in given.items()}
    _refuse_twins(hosts, source)
    expendable = top.words("expendable")
    for name in expendable:
        if name not in hosts:
            what = f"expendable names {name!r}, which is no host of this file"
            raise top.bad(what, "expendable", _nearest(name, hosts))
    return HostsFile(
        source=source,
        hosts=hosts,
        expendable=frozenset(expendable),
        faults=frozenset(top.words("faults", FAULTS)),
        majority=top.flag("majority"),
        known_hosts=top.text("known_hosts", "~/.ssh/known_hosts"),
        dead_man_ns=_dead_man(top),
    )


def _host(name: str, entry: Any, top: _Section) -> SshHost:
    if not isinstance(entry, dict):
        next_step = f'write [hosts.{name}] and address = "192.0.2.11"'
        raise top.below({}, "hosts").bad(f"hosts.{name} is no table", name, next_step)
    own = top.below(entry, f"hosts.{name}")
    if _NAME.fullmatch(name) is None:
        next_step = "letters, digits, '-', '_' and '.' can, at most 60"
        raise own.bad(f"{name!r} cannot be a host's name", "", next_step)
    own.refuse_unknown(_OF_A_HOST)
    if "address" not in own:
        raise own.bad(f"{own.name} has no address", "", 'write address = "192.0.2.11" below it')

    def holding(key: str) -> _Section:
        return own if key in own else top

    return SshHost(
        name=name,
        address=own.address("address"),
        inside=own.address("inside") if "inside" in own else None,
        port=_port(holding("port")),
        user=_user(holding("user")),
        key=holding("key").text("key") or None,
        sudo=holding("sudo").flag("sudo"),
        bastion=_bastion(holding("bastion")),
        settimeofday=holding("settimeofday").flag("settimeofday"),
        state_dir=_state_dir(holding("state_dir")),
        zone=_zone(own),
        target=_target(own),
    )


def _target(own: _Section) -> Target | None:
    given = own.table.get("target")
    if given is None:
        return None

    def bad(what: str, next_step: str = 'write target = { unit = "etcd.service" }') -> ConfigError:
        return own.bad(what, "target", next_step)

    if not isinstance(given, dict):
        raise bad("target is no table")
    own.refuse_unknown(_OF_A_TARGET, inside="target")
    start = given.get("start", "")
    if not isinstance(start, str) or not start.isprintable():
        raise bad("target.start must be a text", 'write target = { …, start = "…" }')
    ways = {way: value for way, value in given.items() if way != "start"}
    if len(ways) != 1:
        raise bad("target must say exactly one of pid_file, unit and pattern")
    ((way, value),) = ways.items()
    if not isinstance(value, str) or not value or not value.isprintable():
        raise bad(f"target.{way} must be a text", f'write target = {{ {way} = "…" }}')
    if way == "pid_file":
        if not value.startswith("/"):
            raise bad(f"{value!r} is not an absolute path", "write the whole path")
        return PidFile(value, start)
    if way == "unit":
        if re.fullmatch(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*", value) is None:
            raise bad(f"{value!r} is not a systemd unit", "`systemctl list-units` has names")
        return Unit(value, start)
    try:
        matches_nothing_said = re.compile(value).search("") is not None
    except re.error as error:
        raise bad(f"{value!r} is not a pattern: {error}", "see Python's `re`") from None
    if matches_nothing_said:
        raise bad(f"the pattern {value!r} matches every process", "name the target's command")
    return Pattern(value, start)


def _bastion(section: _Section) -> Bastion | None:
    word = section.text("bastion")
    if not word:
        return None
    user, address, port = parse_place(word, where=section.where("bastion"))
    return Bastion(address=address, port=port or 22, user=user)


def _state_dir(section: _Section) -> str:
    path = section.text("state_dir", STATE_DIR)
    if not re.fullmatch(r"(/[A-Za-z0-9_.-]+){2,}", path) or len(path) > STATE_DIR_MAX or ".." in path:
        raise section.bad(
            f"{path!r} cannot be the state directory",
            "state_dir",
            f"write an absolute path of at most {STATE_DIR_MAX} letters, two directories deep or more",
        )
    return path


def _zone(own: _Section) -> str:
    label = own.text("zone")
    if label:
        check_label(label, where=own.where("zone"))
    return label


def _user(section: _Section) -> str | None:
    user = section.text("user")
    if user and _USER.fullmatch(user) is None:
        raise section.bad(f"{user!r} is not a user's name", "user", "")
    return user or None


def _port(section: _Section) -> int:
    port = section.table.get("port", 22)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise section.bad(f"{port!r} is not a port", "port", "write a number of 1 … 65535")
    return port


def _dead_man(top: _Section) -> Ns:
    if "dead_man" not in top:
        return DEAD_MAN_NS
    try:
        span = parse_duration(top.text("dead_man"))
    except ConfigError as error:
        raise top.bad(error.what, "dead_man", error.next_step) from None
    if span < DEAD_MAN_LEAST_NS:
        raise top.bad(
            f"a dead man's switch of {show_duration(span)} would heal hosts while the run lasts",
            "dead_man",
            f"write {show_duration(DEAD_MAN_LEAST_NS).replace(' ', '')} or more",
        )
    return span


def _nearest(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(sorted(known))


def find_line(lines: Sequence[str], key: str, table_name: str) -> int | None:
    """The number, from 1, of the line that sets ``key`` in ``[table_name]`` (or of its header, for key ""); or None.

    For messages only: it knows headers and plain keys, not every way in which TOML can write them.
    """
    inside, header = "", None
    for number, line in enumerate(lines, 1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$", line)
        if head is not None:
            inside = re.sub(r"[\"'\s]", "", head[1])
            header = number if inside == table_name else header
            if key and inside == ".".join(filter(None, (table_name, key))):
                return number
            continue
        found = re.match(r"\s*[\"']?([^\"'=\s]+)[\"']?\s*=", line)
        if key and inside == table_name and found is not None and found[1].split(".")[0] == key:
            return number
    return header
