"""``dethrone init FILE``: describes a user's own system by asking, so that it can be run.

Out of scope: what the keys mean (docs/own-system.md) and what is written
(``dethrone.harness.engine.host.description_text``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dethrone.harness.core import registry
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Described, No
from dethrone.harness.engine.host.description_text import (
    ELECTION_LINES,
    REQUESTS,
    Answers,
    list_of,
    place_of,
    ports_of,
    text_of,
)
from dethrone.harness.report.plain import complain

T = TypeVar("T")

FILE = "my.toml"


@click.command()
@click.argument("file", default=FILE, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="overwrite an existing file")
def init(*, file: Path, force: bool) -> None:
    """Describe a system of your own in FILE [default: my.toml] by answering some questions."""
    if file.suffix != ".toml":
        raise ConfigError(f"{str(file)!r} does not end with .toml", next_step="choose a name like my.toml")
    if file.exists() and not force:
        raise ConfigError(f"{file} already exists", next_step="name another file, or add --force")
    complain("an empty answer skips the item, and a skipped item is not judged. docs/own-system.md explains each item.")
    answers = _answers(file)
    try:
        file.write_text(text_of(answers), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error
    try:
        system = registry.load(registry.SYSTEMS, str(file.resolve()))
    except ConfigError as error:
        complain(f"{file} was written, but cannot be used yet")
        raise ConfigError(
            error.what, where=error.where, cause=error.cause, next_step=error.next_step or f"edit {file}"
        ) from error
    if isinstance(system, Described):
        for name, remark in system.remarks():
            if isinstance(remark, No):
                complain(f"{name} will not be judged: {remark.why}")
        for what, doubt in system.doubts():
            complain(f"{what}? {doubt.why}", hint=doubt.what_to_do)
    complain(f"wrote {file}", hint=f"dethrone doctor {file}, then dethrone run {file} --nodes 3")


def _answers(file: Path) -> Answers:
    name = _ask("name of the system, in reports", file.stem.lower().replace("_", "-"))
    program = _ask("program to copy to each host, a path from here (empty: it is in the image)", "")
    image = "" if program else _ask("image that holds it (Debian-like)", "")
    start = place_of(program) if program else "/usr/bin/server"
    command = _ask(
        "command that starts a node; words: {name} {address} {members} {others} {data_dir} and each port",
        f"{start} --id {{name}} --peers {{members}} --data {{data_dir}}",
    )
    member = ""
    if "{members}" in command or "{others}" in command:
        member = _ask("one member in {members}, which are joined by commas", "{name}={address}")
    ports = _read("TCP ports that a node listens on", "peer=7000, http=8000", ports_of)
    probe = _probe()
    told = _read(f"trace lines it prints, e.g. {', '.join(ELECTION_LINES)}", "", list_of)
    voters = "elected" in told and click.confirm("do `elected` lines name the voters?", default=False, err=True)
    return Answers(
        name=name,
        image=image,
        program=program,
        command=command,
        member=member,
        ports=ports,
        probe=probe,
        events=told,
        voters=voters,
        ops=_ops(),
        promise=_promise(),
    )


def _probe() -> dict[str, Any]:
    way = _choose("how to query a node for its role", ("http", "metrics", "command", "log"), "http")
    if way == "log":
        return {
            "log": "{log_dir}/node.log",
            "became": {
                "leader": _ask("pattern of the line of a new leader", r"became leader.*term (?P<term>\d+)"),
                "follower": _ask("pattern of the line of a new follower", r"became follower.*term (?P<term>\d+)"),
            },
        }
    asked = {
        "http": ("path that answers with JSON", "/status"),
        "metrics": ("path of the Prometheus metrics", "/metrics"),
        "command": ("command on the node's host that prints JSON", "/usr/bin/ctl status --json"),
    }
    out: dict[str, Any] = {way: _ask(*asked[way])}
    if way != "command":
        out["port"] = _ask("name of the port to query", "http")
    if way == "metrics":
        out["leads"] = _ask("metric that is 1 on a leader", "raft_leader")
        out["term"] = _ask("metric that holds the term", "raft_term")
        return out
    out["role"] = _ask("where the answer holds the role (a path into the JSON, like raft.state)", "role")
    out["leader_role"] = _ask("value of that field on a leader (upper or lower case)", "leader")
    out["term"] = _ask("where it holds the term", "term")
    for key, question in (
        ("leader", "where it holds the leader that the node follows (empty: nowhere)"),
        ("commit", "where it holds the commit index (empty: nowhere)"),
    ):
        place = _ask(question, "")
        out |= {key: place} if place else {}
    if "leader" in out:
        out["member_id"] = _ask("name of a node there; words: {name} {number} {address}", "{name}")
    return out


def _ops() -> dict[str, str]:
    kind = _choose("what clients do over HTTP", ("nothing", *REQUESTS), "nothing")
    if kind == "nothing":
        return {}
    out = {f: _ask(f"request of {f}", example) for f, example in REQUESTS[kind].items()}
    return {**out, "port": _ask("name of the port that clients use", "http")}


def _promise() -> dict[str, Any]:
    out: dict[str, Any] = {
        "election_timeout": _read("maximum election timeout", "1s", _duration),
        "heartbeat": _read("heartbeat interval", "100ms", _duration),
        "tolerates": list(
            _read(
                "faults that may cost the system time, but never safety",
                "partition, kill, pause, stop, restart",
                list_of,
            )
        ),
    }
    bounds = {
        "leader_within": "time to elect a leader while a majority is connected (3 to 10 election timeouts)",
        "step_down_within": "time until a leader without a majority stops claiming to lead",
        "converge_within": "time until all nodes follow one leader after a heal",
    }
    for key, question in bounds.items():
        said = _read(f"{question} (empty: not promised)", "", lambda text: _duration(text) if text else "")
        out |= {key: said} if said else {}
    for key, question in (
        ("linearizable_reads", "are reads linearizable?"),
        ("leader_bound_to_term", "does a node always name a leader and a term that belong together?"),
        ("pre_vote", "does it use pre-votes?"),
    ):
        if click.confirm(question, default=False, err=True):
            out[key] = True
    return out


def _ask(question: str, default: str) -> str:
    return str(click.prompt(question, default=default, show_default=bool(default), err=True)).strip()


def _choose(question: str, known: tuple[str, ...], default: str) -> str:
    return str(click.prompt(question, type=click.Choice(known), default=default, err=True))


def _read(question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until the answer can be read."""
    while True:
        try:
            return read(_ask(question, default))
        except ValueError as error:
            complain(str(error))


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except ConfigError as error:
        raise ValueError(f"{error.what}; {error.next_step}") from error
    return text
