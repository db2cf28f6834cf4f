"""The settings of a run, one row each: its name, its form, an example, and what it is in one line.

Guarantees: every key is spelled as its flag; a value of the wrong form is a ConfigError that names its place and an
example. Out of scope: where values come from (``settings``), and what they lead to (``run_options``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dethrone.harness.cli.value_readers import (
    clients,
    data_in,
    duration,
    fail_on,
    flag,
    knobs,
    labels,
    places,
    text,
    time_scale,
    whole,
    words,
)
from dethrone.harness.core.errors import ConfigError

NODES_MAX = 99


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One key: how its words are read, and what it is in one line. ``example`` is shown when reading fails."""

    name: str
    read: Callable[[Any], Any]
    example: str
    about: str


def _setting(name: str, read: Callable[[Any], Any], example: str, about: str) -> Setting:
    return Setting(name=name, read=read, example=example, about=about)


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        _setting("nodes", whole(1, NODES_MAX), "5", "number of nodes [default: 5; on lent hosts, all of them]"),
        _setting(
            "zones",
            labels,
            "a,a,b,b,c",
            "zone of each node, in their order [default: as the hosts file or system says]",
        ),
        _setting("on", text, "docker", "backend that provides the hosts (`list backends`) [default: docker]"),
        _setting("hosts", text, "hosts.toml", "file that names the machines to run on, for `--on ssh`"),
        _setting("host", places, "n1=root@192.0.2.11", "machine in addition to those of the file (repeatable)"),
        _setting("project", text, "shop", "docker compose project whose containers to break, for `--on attach`"),
        _setting(
            "label",
            places,
            "app=kv",
            "label of the containers to break, instead of a project (repeatable: all must match)",
        ),
        _setting(
            "faults", words, "partition,kill", "fault kinds (also FILE.py:NAME), or `none` [default: the system's]"
        ),
        _setting("workload", text, "log", "operations of the clients (`list workloads`) [default: the system's]"),
        _setting(
            "checker",
            places,
            "one-leader-per-term",
            "checker that judges, instead of all; FILE.py:NAME is one more (repeatable)",
        ),
        _setting("strategy", text, "random", "strategy that draws the schedule (`list strategies`) [default: random]"),
        _setting("time-limit", duration, "60s", "length of the fault phase [default: the system's]"),
        _setting(
            "time-scale",
            time_scale,
            "2",
            "factor for timers, bounds and faults on slow hosts; auto: measure the real hosts [default: auto]",
        ),
        _setting(
            "data-in",
            data_in,
            "memory",
            "where nodes keep their data, disk or memory; auto: memory where the disk is slow [default: auto]",
        ),
        _setting("seed", whole(0, 2**63 - 1), "7", "seed of all random choices [default: random, and printed]"),
        _setting("nemesis-interval", duration, "5s", "time from one fault to the next [default: the system's]"),
        _setting("set", knobs, "time_factor=0.1", "knob of the system (repeatable)"),
        _setting("tag", knobs, "commit=1f3a", "what to find this run by, in reports and corpus (repeatable)"),
        _setting("profile", text, "raft-paper", "named set of knobs (`list systems`)"),
        _setting("variant", text, "vote-twice", "planted bug (`list variants`)"),
        _setting(
            "concurrency", clients, "2n", "number of client processes; 2n: twice the nodes [default: the workload's]"
        ),
        _setting(
            "rate", whole(0, 10**6), "100", "operations per second; 0: send the next one as soon as one is answered"
        ),
        _setting("out", text, "runs/a", "run directory; must be new or empty"),
        _setting("base", text, "debian:12-slim", "base image of the hosts"),
        _setting(
            "schedule", text, "schedule.planned.json", "stored or hand-written schedule to run instead of a drawn one"
        ),
        _setting(
            "scenario",
            text,
            "raft-b1",
            "known fault sequence with its settings (`list scenarios`), or a file that holds one",
        ),
        _setting("trust", flag, "true", "execute the files that a scenario file names"),
        _setting(
            "fail-on",
            fail_on,
            "violation",
            "lowest outcome that fails the command: unknown [default], violation or excused",
        ),
        _setting(
            "known",
            text,
            "known.toml",
            "known findings (TOML): matching findings are shown but do not fail the command (docs/nightly.md)",
        ),
        _setting("keep-cluster", flag, "true", "keep the hosts running at the end (`heal --all` removes them)"),
        _setting(
            "unsafe-root",
            flag,
            "true",
            "run `--on local` as root even where the machine cannot be protected from its nodes",
        ),
        _setting("first-failure", flag, "true", "stop at the first certain safety finding [default: the system's]"),
    )
}
LENDERS = ("hosts", "host", "project", "label")
"""Keys that name other people's hosts."""
DEFAULTS: dict[str, Any] = {
    "nodes": 5,
    "on": "docker",
    "strategy": "random",
    "fail-on": "unknown",
    "keep-cluster": False,
    "unsafe-root": False,
}


def read(key: str, raw: Any, *, where: str) -> Any:
    """One value. ConfigError names the key, its place and an example."""
    setting = SETTINGS[key]
    try:
        return setting.read(raw)
    except ValueError as error:
        raise ConfigError(
            f"{raw!r} is not a valid value for {key}",
            where=where,
            cause=str(error),
            next_step=f"write {key} like {setting.example}",
        ) from error
