"""The ``dethrone`` command: its verbs, its exit codes, and what becomes of every error.

Guarantees: a deliberate error is printed in four parts on stderr and exits with its own code; wrong usage exits 64;
anything unexpected exits 3 with a short message and a file that holds the traceback; with ``--json`` stdout still
carries one object. Out of scope: what the verbs do.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import dethrone
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.ledger import state_dir
from dethrone.harness.engine.host import shadowing_packages
from dethrone.harness.engine.run.exit_status import EXIT_INTERRUPTED, EXIT_TROUBLE, EXIT_USAGE
from dethrone.harness.engine.run.garbage_collection import no_garbage
from dethrone.harness.report import json_objects
from dethrone.harness.report.plain import complain, output

EXIT_CODES = """\b
Exit codes:
  0    pass
  1    violation: a safety or liveness property was broken; the report holds the proof
  2    unknown: no violation, but too little evidence to pass
  3    trouble of the harness, or a fault could not be healed
  64   usage error; nothing was started
  130  interrupted; faults were healed and the files kept
If several apply: 3 > 1 > 130 > 2 > 0."""


VERBS = {
    "campaign": "campaign:campaign",
    "check": "check:check",
    "compare": "corpus:compare",
    "corpus": "corpus:corpus",
    "demo": "demo:demo",
    "doctor": "doctor:doctor",
    "exam": "exam:exam",
    "export": "export:export",
    "heal": "heal:heal",
    "init": "init:init",
    "list": "listing:listing",
    "margin": "margin:margin",
    "replay": "replay:replay",
    "report": "report:report",
    "run": "run:run",
    "shrink": "shrink:shrink",
}
"""Verb → its module here and its name there: imported only when it is used, so that none pays for the others."""


class Dethrone(click.Group):
    """The group, with our own ways to end."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs."""
        return sorted({*VERBS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name."""
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        module, name = VERBS[cmd_name].split(":")
        with no_garbage():  # what is imported stays: looking for cycles in it is a tenth of the start
            found: click.Command = getattr(import_module(f"dethrone.harness.cli.{module}"), name)
        return found

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's own signature
        **extra: Any,
    ) -> Any:
        """Run and exit; ``standalone_mode=False``: click's own behaviour, for embedding."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = self._carry_out(words, prog_name or "dethrone", complete_var, extra)
        except Exception:  # noqa: BLE001 - not even the complaint could be written: a full disk, no memory
            code = EXIT_TROUBLE  # an exception that got away would end with 1, which says that the system failed
        _close_output()
        sys.exit(code)

    def _carry_out(self, words: list[str], prog_name: str, complete_var: str | None, extra: dict[str, Any]) -> int:
        as_json = "--json" in words
        debug = "--debug" in words or bool(os.environ.get("DETHRONE_DEBUG"))
        try:
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.Exit as end:
            return end.exit_code
        except click.Abort:
            return _told("interrupted", EXIT_INTERRUPTED, as_json=as_json)
        except click.ClickException as error:
            return _usage(error, as_json=as_json)
        except HarnessError as error:
            complain(error)
            if debug:
                _print_traceback()
            return _object(error, error.what, error.exit_code, as_json=as_json)
        except KeyboardInterrupt:
            return _told("interrupted", EXIT_INTERRUPTED, as_json=as_json)
        except BrokenPipeError:
            # the reader of our stdout left: keep the interpreter from complaining at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return EXIT_TROUBLE
        except Exception as error:  # noqa: BLE001 - the last line of defence
            return _unexpected(error, as_json=as_json, debug=debug)
        return code if isinstance(code, int) else 0


def _pages() -> str:
    """Where the documents are: in the package, or next to it in the repository."""
    package = Path(str(dethrone.__file__)).parent
    return str(package if (package / "docs").is_dir() else package.parent)


@click.group(
    cls=Dethrone,
    epilog=f"{EXIT_CODES}\n\nPages that messages name (docs/….md) are in {_pages()}.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="dethrone", prog_name="dethrone")
@click.option("--debug", is_flag=True, help="print tracebacks (also: DETHRONE_DEBUG=1)")
def main(*, debug: bool) -> None:
    """Break the network, clocks and processes of real nodes, and prove whether their leader
    election stays safe and live."""
    del debug  # read from the words themselves, so that it also covers errors in them
    shadowing_packages.refuse()


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        message = "a verb is needed"
    elif context is not None:
        complain(message, hint=f"{context.command_path} --help   ({' '.join(context.get_usage().split())})")
    else:
        complain(message)
    return _object(None, message, EXIT_USAGE, as_json=as_json)


def _close_output() -> None:
    """What cannot be flushed is given up: at its end the interpreter would change the exit code for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _told(message: str, code: int, *, as_json: bool) -> int:
    complain(message)
    return _object(None, message, code, as_json=as_json)


def _object(error: HarnessError | None, message: str, code: int, *, as_json: bool) -> int:
    if as_json:
        output(json_objects.encode(json_objects.error_object(error, message=message, exit_code=code)))
    return code


def _unexpected(error: Exception, *, as_json: bool, debug: bool) -> int:
    message = f"unexpected {type(error).__name__}: {error}"
    if debug:
        _print_traceback()
        complain(message)
    else:
        complain(message, hint=f"this is a bug in dethrone; the traceback is in {_keep_traceback()}, or use --debug")
    return _object(None, message, EXIT_TROUBLE, as_json=as_json)


def _print_traceback() -> None:
    import traceback  # loaded where something went wrong

    traceback.print_exc()


def _keep_traceback() -> str:
    import tempfile
    import traceback

    text = traceback.format_exc()
    for directory in (state_dir() / "crashes", Path(tempfile.gettempdir())):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", prefix="dethrone-", suffix=".txt", dir=directory, delete=False, encoding="utf-8"
            ) as file:
                file.write(text)
            return file.name
        except OSError:
            continue
    return "no file (no directory can be written)"


if __name__ == "__main__":
    main()
