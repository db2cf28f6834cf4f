"""A screen for people, and the one JSON object for programs.

Guarantees: with ``json``, stdout carries exactly one object and text for people goes to stderr; colours and redrawing
only on a terminal (NO_COLOR and plain logs are honoured), else one plain line every few seconds; a broken pipe is not
an error. ``screens`` says what is shown, ``plain`` prints without colours.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from dethrone.harness.core.clean import Guarded, clean, one_line
from dethrone.harness.core.clock import SECOND, US, Ns
from dethrone.harness.core.duration import show_duration
from dethrone.harness.core.events import AnyEvent, FaultEvent, Mark
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.verdict import Outcome
from dethrone.harness.engine.campaign.row import CampaignRow
from dethrone.harness.engine.nightly.night_rows import NightRow
from dethrone.harness.engine.run.judgement import Judgement, RunResult
from dethrone.harness.engine.run.listener import Drawn, LiveView
from dethrone.harness.report import cut_table, json_objects, recovery, screens
from dethrone.harness.report.plain import output
from dethrone.harness.report.rundir import RunFiles, shared_users
from dethrone.harness.report.version_words import version_rows
from dethrone.harness.report.words import at, moment, sentence

PLAIN_LINE_EVERY_NS: Ns = 5 * SECOND
_WIDTH_PLAIN = 160


class _Console(Console):
    """A console on which text from any source is only shown, never interpreted; styles are ours."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable, their texts cleaned."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(clean(segment.text), segment.style)
            else:
                yield segment


class Screen:
    """Where people read. ``level``: -1 quiet (verdict and trouble only), 0 normal, 1 and up: more."""

    def __init__(self, *, json: bool = False, level: int = 0) -> None:
        self.json = json
        self.level = level
        stream = sys.stderr if json else sys.stdout
        width = None if stream.isatty() else _WIDTH_PLAIN
        file = stream if stream.isatty() else cast("IO[str]", Guarded(stream))
        self.console = _Console(file=file, highlight=False, markup=False, emoji=False, width=width)

    def say(self, line: str | Text | RenderableType, *, level: int = 0) -> None:
        """A line (or any renderable) for people, unless they asked for less."""
        if self.level >= level:
            if isinstance(line, str | Text):
                self.console.print(line, soft_wrap=True)
            else:
                self.console.print(line)

    def parts(self, *parts: str | tuple[str, str], level: int = 0) -> None:
        """A line in pieces, each as it is or with a style."""
        self.say(Text.assemble(*parts), level=level)

    def result(self, value: Mapping[str, Any]) -> None:
        """The JSON object, if asked for."""
        if self.json:
            output(json_objects.encode(value))

    def plan(self, plan: Plan) -> None:
        """A dry run: everything that was drawn."""
        rows = (
            f"seed        {plan.seed}",
            f"cluster     {screens.cluster_words(plan)}",
            f"workload    {screens.workload_words(plan)}",
            f"schedule    {screens.schedule_words(plan)}",
            f"obligations {', '.join(plan.schedule.obligations) or 'none'}",
            f"time scale  {screens.scale_words(plan)}",
            f"promise     {plan.promise.source}",
        )
        for row in rows:
            self.say(one_line(row))
        self.say("")
        self.say(screens.plan_table(plan))

    def outcome(
        self, result: RunResult | None, judgement: Judgement | None, files: RunFiles | None, report: Path | None
    ) -> None:
        """The end of a run or check: verdict first, proof on failure, all properties, what to do next."""
        self.say("")
        self.say(screens.headline(judgement), level=-1)
        for line in [*(result.trouble if result else ()), *(judgement.trouble if judgement and not result else ())]:
            self.say(Text.assemble(("trouble: ", "bold yellow"), hung(line)), level=-1)
        if judgement is not None and judgement.damage:
            self.say(Text.assemble(("damage: ", "bold yellow"), one_line(judgement.damage)), level=-1)
        if files is not None and judgement is not None and judgement.outcome == "fail":
            for block in screens.findings(files, judgement):
                self.say(block, level=-1)
        if judgement is not None:
            self.say("")
            self.say(screens.verdict_table(judgement.verdicts))
        if files is not None:
            self.say("")
            for text in screens.failover_lines(files):
                self.say(text)
            for number, line in enumerate(recovery.lines(judgement)):
                self.say(Text(line, style="" if number else "bold"))
            if cuts := cut_table.table(judgement):
                self.say("")
                self.say(screens.rows_table(cut_table.HEADERS, cuts))
            if files.directory is not None:
                for text in screens.commands(files, judgement):
                    self.say(text, level=0 if judgement and judgement.outcome == "pass" else -1)
        if result is not None and result.figures.get("triggers"):
            self.say(Text.assemble(("triggers    ", "bold"), triggers_line(result.figures["triggers"])))
        for node, ran in version_rows(judgement):
            self.say(Text.assemble(("version     ", "bold"), f"{node}: {ran}"))
        for line in shared_users(files):
            self.say(Text.assemble(("not apart   ", "bold"), line))
        if report is not None:
            self.say(Text.assemble(("report      ", "bold"), str(report)), level=-1)

    def scenario(self, told: Mapping[str, Any] | None) -> None:
        """Whether a scenario came out as it must."""
        if told is None:
            return
        if told["as_expected"]:
            self.say(
                Text.assemble(("scenario    ", "bold"), f"{told['name']}: {told['expected']}, as expected"), level=-1
            )
            return
        self.say(Text.assemble(("scenario    ", "bold yellow"), f"{told['name']}: not as expected"), level=-1)
        for line in told["deviations"]:
            self.say(f"  {line}", level=-1)

    def campaign(self, rows: Sequence[CampaignRow], counts: Mapping[Outcome, int]) -> None:
        """The table at a campaign's end. ``counts``: of all runs, ``rows`` may be some of them."""
        self.say("")
        self.say(screens.campaign_table(rows), level=-1)
        if cuts := cut_table.campaign_table(rows):
            self.say("")
            self.say(screens.rows_table(cut_table.CAMPAIGN_HEADERS, cuts))
        told: tuple[Outcome, ...] = ("pass", "fail", "unknown")
        self.say(", ".join(f"{counts.get(word, 0)} {word}" for word in told) + noise_words(rows), level=-1)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A list for people."""
        self.say(screens.rows_table(headers, rows))


class Watcher:
    """A run's listener: first lines, then one live view (a terminal) or plain lines (anything else).

    Use as a context manager, so that the cursor is given back however the run ends.
    """

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.seen: Drawn | None = None
        self._live: Live | None = None
        self._next_plain: Ns = 0
        self._redraws = screen.console.is_terminal and screen.level >= 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the live view where it stands."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def drawn(self, drawn: Drawn) -> None:
        """First lines."""
        self.seen = drawn
        self._next_plain = 0
        for line in screens.first_lines(drawn):
            self.screen.say(line)
        self.screen.say("")

    def progress(self, message: str) -> None:
        """A line about slow work."""
        self.screen.say(Text(message, style="dim"))

    def live(self, view: LiveView) -> None:
        """A fresh picture, or now and then a line."""
        if self._redraws:
            if self._live is None:
                self._live = Live(console=self.screen.console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(screens.live(view), refresh=True)
        elif view.elapsed_ns >= self._next_plain:
            self._next_plain = view.elapsed_ns + PLAIN_LINE_EVERY_NS
            self.screen.say(screens.live_line(view))

    def event(self, event: AnyEvent) -> None:
        """Faults always, marks of the schedule with -v."""
        if isinstance(event, Mark):
            self.stop() if event.name == "stop" else None
            level = 1
        else:
            level = 0 if isinstance(event, FaultEvent) else 1
        self.screen.say(f"{at(moment(event)):>11}  {sentence(event)}", level=level)


def hung(text: str) -> str:
    """A text of several lines; only the first starts one of our lines."""
    return text.replace("\n", "\n  | ")


def noise_words(rows: Sequence[CampaignRow]) -> str:
    """What noise did to the runs, and how many of them went side by side; "" : nothing, and one after another."""
    by_noise, repeats = sum(row.by_noise for row in rows), sum(row.repeats for row in rows)
    parts = [f"{by_noise} of the unknown by noise"] if by_noise else []
    parts += [f"{repeats} repeated because of noise"] if repeats else []
    parts += side_by_side(rows)
    return f" ({', '.join(parts)})" if parts else ""


def side_by_side(rows: Sequence[CampaignRow | NightRow]) -> list[str]:
    """How many runs went side by side, and what that cost in noise, as a phrase; none where they did not."""
    widest = max((row.at_once for row in rows), default=1)
    if widest == 1:
        return []
    share = statistics.median(row.noise_percent for row in rows)
    return [f"up to {widest} at once, {share:.3g} % of a run charged to noise (median)"]


def triggers_line(figures: Mapping[str, Any]) -> str:
    """The result of a run's triggers, from ``figures`` of ``run --json``."""
    line = f"{figures['hits']} hit, {figures['misses']} missed"
    latency = figures.get("latency_us")
    if latency is None:
        return line
    median, longest = (show_duration(latency[key] * US) for key in ("median", "max"))
    return f"{line}, in force after {median} (median), {longest} (longest)"
