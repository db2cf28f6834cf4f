"""Flags that several verbs share, declared once from the table of settings."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.cli import settings
from harness.report.terminal import Screen, complain

F = TypeVar("F", bound=Callable[..., Any])
_TWO_WORDS = {"keep-cluster", "first-failure"}
_REPEATED = {"set"}


def run_flags(*without: str) -> Callable[[F], F]:
    """Every setting as a flag. The verb gets them as ``given``: key → value and origin, merged."""

    def decorate(verb: F) -> F:
        @functools.wraps(verb)
        def wrapped(*args: Any, config: Path | None, **values: Any) -> Any:
            flags = {}
            for key in settings.SETTINGS:
                value = values.pop(key.replace("-", "_"), None)
                if value is not None and value != ():
                    flags[key] = value
            for line in settings.misspelt_env(os.environ):
                complain(f"note: {line}")
            return verb(*args, given=settings.merge(flags, os.environ, config), **values)

        out: Any = click.option(
            "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="instead of ./dethrone.toml"
        )(wrapped)
        for key, setting in reversed(settings.SETTINGS.items()):
            if key not in without:
                out = _option(key, setting)(out)
        return out  # type: ignore[no-any-return]

    return decorate


def _option(key: str, setting: settings.Setting) -> Callable[[Any], Any]:
    if key in _TWO_WORDS:
        return click.option(f"--{key}/--no-{key}", key.replace("-", "_"), default=None, help=setting.about)
    return click.option(
        f"--{key}",
        key.replace("-", "_"),
        multiple=key in _REPEATED,
        metavar=setting.example.upper() if setting.example.isdigit() else f"<{setting.example}>",
        help=setting.about,
    )


def output_flags(verb: F) -> F:
    """``--json``, ``--junit-xml``, ``--github``."""
    for option in (
        click.option("--github", is_flag=True, help="annotations, and the step summary in $GITHUB_STEP_SUMMARY"),
        click.option("--junit-xml", type=click.Path(dir_okay=False, path_type=Path), help="write JUnit XML here"),
        json_flag,
    ):
        verb = option(verb)
    return verb


json_flag = click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout, everything else on stderr")


def level_flags(verb: F) -> F:
    """``-q`` and ``-v``; the verb gets ``quiet`` and ``verbose``."""
    verb = click.option("-v", "--verbose", count=True, help="more lines")(verb)
    return click.option("-q", "--quiet", is_flag=True, help="verdict and trouble only")(verb)


def screen(*, as_json: bool, quiet: bool = False, verbose: int = 0) -> Screen:
    """The screen that these flags ask for."""
    return Screen(json=as_json, level=-1 if quiet else verbose)


def print_annotations(lines: Any, *, as_json: bool) -> None:
    """GitHub's runner reads both streams; stdout belongs to the JSON object where one was asked for."""
    for line in lines:
        click.echo(line, err=as_json)
