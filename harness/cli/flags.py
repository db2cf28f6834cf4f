"""Flags that several verbs share, declared once from the table of settings."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.operations import ModelOptions
from dethrone.harness.report.plain import Lines, Plain, colours_wanted, complain

if TYPE_CHECKING:
    from dethrone.harness.cli import setting_table
    from dethrone.harness.report.terminal import Screen

MB = 1_000_000
F = TypeVar("F", bound=Callable[..., Any])
_TWO_WORDS = {"keep-cluster", "first-failure", "trust", "unsafe-root"}
_REPEATED = {"set", "host", "label", "checker", "tag"}


def run_flags(*without: str) -> Callable[[F], F]:
    """Every setting as a flag. The verb gets them as ``given``: key → value and origin, merged."""
    from dethrone.harness.cli import setting_table, settings  # a verb without settings starts without them

    def decorate(verb: F) -> F:
        @functools.wraps(verb)
        def wrapped(*args: Any, config: Path | None, **values: Any) -> Any:
            flags = {}
            for key in setting_table.SETTINGS:
                value = values.pop(key.replace("-", "_"), None)
                if value is not None and value != ():
                    flags[key] = value
            for line in settings.misspelt_env(os.environ):
                complain(f"note: {line}")
            return verb(*args, given=settings.merge(flags, os.environ, config), **values)

        out: Any = click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="configuration file [default: ./dethrone.toml]",
        )(wrapped)
        for key, setting in reversed(setting_table.SETTINGS.items()):
            if key not in without:
                out = _option(key, setting)(out)
        return out  # type: ignore[no-any-return]

    return decorate


def _option(key: str, setting: setting_table.Setting) -> Callable[[Any], Any]:
    if key in _TWO_WORDS:
        return click.option(f"--{key}/--no-{key}", key.replace("-", "_"), default=None, help=setting.about)
    return click.option(
        f"--{key}",
        key.replace("-", "_"),
        multiple=key in _REPEATED,
        metavar=setting.example.upper() if setting.example.isdigit() else f"<{setting.example}>",
        help=setting.about,
    )


def ci_flags(verb: F) -> F:
    """``--junit-xml`` and ``--github``; the verb gets ``junit_xml`` and ``github``."""
    for option in (
        click.option(
            "--github", is_flag=True, help="print annotations, and write the step summary to $GITHUB_STEP_SUMMARY"
        ),
        click.option("--junit-xml", type=click.Path(dir_okay=False, path_type=Path), help="write JUnit XML here"),
    ):
        verb = option(verb)
    return verb


def hosts_flags(verb: F) -> F:
    """``--hosts`` and ``--host`` of verbs that are no runs; the verb gets ``hosts`` and ``host``."""
    from dethrone.harness.cli import setting_table

    @functools.wraps(verb)
    def wrapped(*args: Any, hosts: str | None, host: tuple[str, ...], **values: Any) -> Any:
        file = None if hosts is None else Path(hosts).absolute()
        return verb(*args, hosts=file, host=setting_table.read("host", host, where="--host"), **values)

    return functools.reduce(
        lambda decorated, key: _option(key, setting_table.SETTINGS[key])(decorated), ("host", "hosts"), wrapped
    )  # type: ignore[return-value]


trust_flag = click.option(
    "--trust", is_flag=True, help="execute what the run directory names: files, images and hosts of others"
)

known_flag = click.option(
    "--known",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="known findings (TOML): matching findings are shown but do not fail the command",
)

json_flag = click.option(
    "--json", "as_json", is_flag=True, help="print one JSON object on stdout, everything else on stderr"
)


def level_flags(verb: F) -> F:
    """``-q`` and ``-v``; the verb gets ``quiet`` and ``verbose``."""
    verb = click.option("-v", "--verbose", count=True, help="print more lines")(verb)
    return click.option("-q", "--quiet", is_flag=True, help="print only the verdict and trouble")(verb)


def screen_flags(verb: F) -> F:
    """``--json``, ``-q`` and ``-v``; the verb gets the ``screen`` that they ask for."""

    @functools.wraps(verb)
    def wrapped(*args: Any, as_json: bool, quiet: bool, verbose: int, **values: Any) -> Any:
        return verb(*args, screen=screen(as_json=as_json, quiet=quiet, verbose=verbose), **values)

    return json_flag(level_flags(wrapped))  # type: ignore[return-value]


def screen(*, as_json: bool, quiet: bool = False, verbose: int = 0) -> Screen:
    """The screen that these flags ask for."""
    from dethrone.harness.report.terminal import Screen

    return Screen(json=as_json, level=-1 if quiet else verbose)


def lines(*, as_json: bool, quiet: bool = False, verbose: int = 0) -> Lines:
    """The same for verbs that say lines only: where a program asks and no terminal reads, nothing is loaded for it."""
    if as_json and not colours_wanted():
        return Plain(level=-1 if quiet else verbose)
    return screen(as_json=as_json, quiet=quiet, verbose=verbose)


def print_annotations(lines: Any, *, as_json: bool) -> None:
    """GitHub's runner reads both streams; stdout belongs to the JSON object where one was asked for."""
    for line in lines:
        click.echo(line, err=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """How to judge a history of another tool."""

    form: str
    model: str
    options: ModelOptions
    most: int | None
    report: Path | None


_FOREIGN = (
    click.option("--format", "form", metavar="FORMAT", help="history of another tool: jepsen-edn, jepsen-log or jsonl"),
    click.option("--model", metavar="MODEL", help="model to judge it by: register, cas-register, set, list-append …"),
    click.option("--initial", metavar="VALUE", help="value before the first write (JSON, or a word) [default: nil]"),
    click.option("--strict-cas", is_flag=True, help="a failed cas proves that the value was a different one"),
    click.option("--consistency", metavar="LEVEL", help="consistency of list-append [default: strict-serializable]"),
    click.option("--stale-reads", is_flag=True, help="allow stale reads, for set and log"),
    click.option(
        "--drift-ppm", type=click.IntRange(0, 1_000_000), metavar="N", help="maximum difference of clocks, for lock"
    ),
    click.option(
        "--limit", "limit", metavar="TIME", help="time limit of a search before it reports unknown [default: 60s]"
    ),
    click.option(
        "--memory",
        "memory_mb",
        type=click.IntRange(1),
        metavar="MB",
        help="memory limit of a search, in MB [default: 1000; of a run 64, and 512 for what waits to be judged]",
    ),
    click.option(
        "--ops-max",
        type=click.IntRange(1),
        metavar="N",
        help="maximum operations read from a file [default: the limit of the model]",
    ),
    click.option(
        "--report", type=click.Path(dir_okay=False, path_type=Path), help="write an HTML page with drawings here"
    ),
)


def foreign_flags(verb: F) -> F:
    """Flags for histories of other tools; the verb gets ``foreign``, None where none was given, and
    ``memory_bytes_max``, which is for runs, too."""

    @functools.wraps(verb)
    def wrapped(*args: Any, **values: Any) -> Any:
        mine = {name: values.pop(name) for name in _FOREIGN_NAMES}
        most = None if mine["memory_mb"] is None else mine["memory_mb"] * MB
        return verb(*args, foreign=_foreign(mine), memory_bytes_max=most, **values)

    out: Any = wrapped
    for option in reversed(_FOREIGN):
        out = option(out)
    return out  # type: ignore[no-any-return]


def _foreign(given: Mapping[str, Any]) -> Foreign | None:
    form, model = given["form"], given["model"]
    said = [name for name, value in given.items() if value not in (None, False) and name != "memory_mb"]
    if not said:
        return None
    if form is None or model is None:
        missing = "--format" if form is None else "--model"
        raise click.UsageError(f"a history of another tool needs --format and --model; {missing} is missing")
    options = {field: read(given[name]) for name, (field, read) in _MODEL_OPTIONS.items() if given[name] is not None}
    most: int | None = given["ops_max"]
    return Foreign(form=form, model=model, options=ModelOptions(**options), most=most, report=given["report"])


def _value(text: str) -> Any:
    """A value as JSON; what is none is a word (``nil`` is none at all)."""
    if text == "nil":
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


_MODEL_OPTIONS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "initial": ("initial", _value),
    "strict_cas": ("strict_cas", bool),
    "consistency": ("consistency", str),
    "stale_reads": ("stale_reads", bool),
    "drift_ppm": ("drift_ppm_max", int),
    "limit": ("limit_ns", parse_duration),
    "memory_mb": ("memory_bytes_max", lambda mb: mb * MB),
}
"""Flag → the field of ``ModelOptions``, and how its value is read."""
_FOREIGN_NAMES = ("form", "model", *_MODEL_OPTIONS, "ops_max", "report")
