"""What ``dethrone corpus follow`` tells: a line and a JSON line a piece of news, and the user's command for findings.

Promises: each piece of news is printed, and each finding that is not known handed to the command, once, but for what
was under way when a follower was killed: that comes again, marked ``again``. A command that fails is called again until
it succeeds, by the next follower, too. The exit code is that of what was told: 3 something bad, 1 a finding that is not
known. Leaves out what news there is (``harness.pipeline.following``).
"""

from __future__ import annotations

import os
import queue
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.text import Text

from harness.core.errors import ConfigError
from harness.engine.course import signals
from harness.engine.model import EXIT_PASS, JSON_SCHEMA, exit_code
from harness.report import corpus as told
from harness.report import machine
from harness.report.terminal import Screen
from harness.report.words import STYLES

if TYPE_CHECKING:
    from harness.pipeline.following import Follower, Stream
    from harness.pipeline.journal import Bad, Finding, Journal, News

COMMAND_S = 60
"""For how long the user's command may take for one finding."""

AGAIN_S = (1, 60)
"""After how long a command that failed is called again: doubled each time, up to the second."""

ONCE_TRIES = 3
ONCE_WAIT_S = 60
"""With ``once``: for how long half-written runs are waited for."""

LOOK_S = 1.0
_POLL_S = 0.2


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks. ``paths``: directories in which runs land; ``once``: what is there, and no waiting."""

    paths: tuple[Path, ...] = ()
    on_finding: str = ""
    known: Path | None = None
    once: bool = False


def follow(where: told.Where, screen: Screen, asked: Asked) -> int:
    """``corpus follow``: the exit code."""
    from harness.pipeline import following, journal, known, session
    from harness.pipeline.corpus import open_corpus

    options = session.SparkOptions(master=where.master, conf=session.parse_conf(where.conf))
    session.check_installed()
    entries = known.read(asked.known) if asked.known else ()
    for path in asked.paths:
        if not path.is_dir():
            raise ConfigError("the directory to follow does not exist", where=str(path))
    corpus = open_corpus(where.url, make=bool(asked.paths))
    with journal.opened(following.home(corpus)) as open_:
        screen.say(Text("starting Spark", style="dim"))
        with session.session(options) as spark:
            teller = Teller(screen, open_, asked)
            follower = following.Follower(corpus, spark, open_, teller.news.put, known=entries)
            with following.stream(spark, follower, corpus, asked.paths, once=asked.once) as stream:
                return _go_on(follower, stream, teller, asked, url=corpus.place.url)


def _go_on(follower: Follower, stream: Stream, teller: Teller, asked: Asked, *, url: str) -> int:
    stopped: list[str] = []
    began = time.monotonic()
    looked, waiting = 0.0, 0
    with signals(stopped.append):
        teller.screen.say(f"following {', '.join(map(str, (*asked.paths, url)))}; stop with Ctrl-C", level=-1)
        while not stopped:
            teller.go_on()
            if time.monotonic() - looked > LOOK_S:
                running = stream.running()
                waiting = follower.look_again()
                looked = time.monotonic()
                late = looked - began > ONCE_WAIT_S
                if asked.once and not running and (not waiting or late):
                    break
        stream.stop()
        teller.finish(call=not stopped)
    return _end(follower, teller, url=url, waiting=waiting, interrupted=bool(stopped))


def _end(follower: Follower, teller: Teller, *, url: str, waiting: int, interrupted: bool) -> int:
    outcome: Any = "fail" if teller.raised else "pass"
    trouble = (*teller.trouble, *teller.failing())
    code = exit_code(outcome=outcome, trouble=bool(trouble), interrupted=interrupted)
    parts = [f"{follower.runs} runs judged", f"{teller.raised} findings reported", f"{teller.known} known"]
    parts += [f"{len(trouble)} bad"] * bool(trouble) + [f"{waiting} half written"] * bool(waiting)
    teller.screen.say("; ".join(parts), level=-1)
    told.told(
        teller.screen,
        "follow",
        corpus=url,
        trouble=trouble,
        code=code,
        verdict=outcome if teller.raised or (code == EXIT_PASS and follower.runs) else None,
        event="end",
        runs=follower.runs,
        raised=teller.raised,
        known=teller.known,
        waiting=waiting,
    )
    return code


class Teller:
    """Prints news and calls the user's command, and marks in the journal what it did."""

    def __init__(self, screen: Screen, journal: Journal, asked: Asked) -> None:
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.trouble: list[str] = []
        self.raised = 0
        self.known = 0
        self.screen = screen
        self._journal = journal
        self._command = asked.on_finding
        self._left = journal.unprinted()
        self._to_call: dict[str, _Call] = {one.id: _Call(one) for one in journal.uncalled() if self._command}

    def go_on(self) -> None:
        """Tell what there is to tell, or wait a moment for it."""
        for one in self._left:
            self._print(one)
        self._left = []
        try:
            self._take(self.news.get(timeout=_POLL_S))
        except queue.Empty:
            pass
        else:
            self._empty()
        self._call_due()

    def finish(self, *, call: bool) -> None:
        """Print what is left; ``call``: try the command, too."""
        self._empty()
        while call and any(one.tries < ONCE_TRIES for one in self._to_call.values()):
            self._call_due()
            time.sleep(_POLL_S)

    def failing(self) -> list[str]:
        """Findings of which the command did not say that it heard: the next follower calls it again."""
        return [f"{self._command}: {one.why}: {name}" for name, one in self._to_call.items() if one.why]

    def _empty(self) -> None:
        while not self.news.empty():
            self._take(self.news.get())

    def _take(self, news: News) -> None:
        from harness.pipeline.journal import Called, Finding

        self._print(news)
        if isinstance(news, Finding) and not news.known:
            if self._command:
                self._to_call[news.id] = _Call(news)
            else:
                self._journal.record(Called(news.id))  # a command that is named later is not told of the past

    def _print(self, news: News) -> None:
        from harness.pipeline.journal import Finding, Printed, Telling

        again = self._journal.perhaps_told(news.id, "print")
        self._journal.record(Telling(news.id, "print"))
        self.screen.result({"schema": JSON_SCHEMA, **msgspec.to_builtins(news), "again": again})
        if isinstance(news, Finding):
            self._show(news)
            self.known += bool(news.known)
            self.raised += not news.known
        else:
            self._show_bad(news)
            self.trouble.append(f"{news.where}: {news.why}")
        self._journal.record(Printed(news.id))

    def _show(self, news: Finding) -> None:
        words = f"{news.run}  {news.date}  {news.checker}: {news.sentence}"
        if news.known:
            self.screen.say(Text(f"known   {words}  ({news.known})", style="dim"))
            return
        self.screen.say(Text.assemble((f"{'FAIL':<8}", STYLES["fail"]), words), level=-1)
        for event in news.events:
            self.screen.say(f"        {machine.encode(event)}", level=1)

    def _show_bad(self, news: Bad) -> None:
        self.screen.say(Text.assemble((f"{'bad':<8}", "bold yellow"), f"{news.where}  {news.why}"), level=-1)

    def _call_due(self) -> None:
        from harness.pipeline.journal import Called, Telling

        for one in [call for call in self._to_call.values() if call.due_s <= time.monotonic()]:
            news = one.finding
            again = self._journal.perhaps_told(news.id, "call")
            self._journal.record(Telling(news.id, "call"))
            why = call(self._command, news, again=again)
            if why:
                if not one.why:
                    words = f"--on-finding {why}; retrying: {self._command}"
                    self.screen.say(Text.assemble((f"{'bad':<8}", "bold yellow"), words), level=-1)
                one.failed(why)
            else:
                self._journal.record(Called(news.id))
                del self._to_call[news.id]


class _Call:
    """A finding that the user's command must hear of."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.tries = 0
        self.why = ""
        self.due_s = 0.0

    def failed(self, why: str) -> None:
        """Call it again, later each time."""
        self.why = why
        first, most = AGAIN_S
        self.due_s = time.monotonic() + min(most, first << min(self.tries, 10))
        self.tries += 1


def call(command: str, news: Finding, *, again: bool) -> str:
    """Hand a finding to a command of the shell, as JSON on its stdin; why that failed, or ""."""
    value = {"schema": JSON_SCHEMA, **msgspec.to_builtins(news), "again": again}
    environment = {**os.environ, "DETHRONE_FINDING": news.id}
    try:
        with tempfile.TemporaryFile() as whole:  # not a pipe: a command that outlives us must not read half a finding
            whole.write(machine.encode(value).encode())
            whole.seek(0)
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=whole,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_S,
                check=False,
                env=environment,
            )
    except subprocess.TimeoutExpired:
        return f"took longer than {COMMAND_S} s"
    except OSError as error:
        return f"could not be started: {error.strerror}"
    if done.returncode == 0:
        return ""
    words = " ".join((done.stderr or done.stdout).split())[:200]
    return f"exited with {done.returncode}" + (f" ({words})" if words else "")
