"""Election times of simulated Raft beside the formula and the figures that its authors published.

    python -m tests.benchmarks.bench_elections                 all of it, about a minute of one core
    python -m tests.benchmarks.bench_elections --plot docs/elections.svg

1. The expected election time in units of the minimum timeout (heartbeat at half of it, s live servers, latency L, write
   W): 1 + 1/(s + 1) + 2 L + W - 1/4, over elections that split no vote.
2. Raft paper, 9.3 and figure 16 (thesis, chapter 9): five servers, a broadcast time of roughly 15 ms, the leader
   crashes at a uniform moment of its heartbeat interval, which is half of the minimum timeout; logs of different
   lengths, so that some servers cannot win. 1,000 trials each, 100 without jitter.

Prints figures; exits 1 where one is out of its bounds (5 % of the formula, 25 % of what was published).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import log10
from pathlib import Path
from statistics import fmean, median

import msgspec

from dethrone.harness.core.clock import MS, SECOND, Ns
from dethrone.harness.core.rng import Rng
from dethrone.harness.engine.run.options import RunOptions
from tests.benchmarks.election_timing import Election, Setup, elections

HERE = Path(__file__).resolve().parent
ASKS_WHILE_WRITING = f"{HERE / 'asks_while_writing.py'}:AsksWhileWriting"

LATENCY_US = (100, 500)
WRITE_US = (100, 300)
FORMULA_T_MS = 150
FORMULA_WITHIN = 0.05

PAPER_LATENCY_US = (2000, 3000)
PAPER_SYNC_US = (2000, 3000)
SYNCS_A_VOTE = 3
"""The vote file's, its renaming's and its directory's."""

PUBLISHED_WITHIN = 0.25


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the paper's figure 16: timeouts, and which figure of them the text tells, in ms."""

    low_ms: int
    high_ms: int
    trials: int
    figure: str
    """``median``, ``worst``, ``mean``, or ``above``: every trial takes longer."""
    ms: float

    @property
    def name(self) -> str:
        """``150-155``."""
        return f"{self.low_ms}-{self.high_ms}"


PUBLISHED = (
    Published(low_ms=150, high_ms=150, trials=100, figure="above", ms=10_000),
    Published(low_ms=150, high_ms=155, trials=1000, figure="median", ms=287),
    Published(low_ms=150, high_ms=200, trials=1000, figure="worst", ms=513),
    Published(low_ms=12, high_ms=24, trials=1000, figure="mean", ms=35),
)


def _range(of: tuple[int, int]) -> str:
    return f"{of[0]}..{of[1]}"


def formula_setup(nodes: int) -> Setup:
    """The formula's assumptions: one write (the voter's), short messages, a crash uniform in the heartbeat interval."""
    half = FORMULA_T_MS // 2
    return Setup(
        options=RunOptions(
            system="raft",
            profile="raft-paper",
            nodes=nodes,
            workload="election",
            variant=ASKS_WHILE_WRITING,
            time_limit_ns=60 * SECOND,
            settings={
                "election_timeout_min_ms": str(FORMULA_T_MS),
                "election_timeout_max_ms": str(2 * FORMULA_T_MS),
                "heartbeat_interval_ms": str(half),
                "sim.latency_us": _range(LATENCY_US),
                "sim.write_us": "0",
                "sim.sync_us": _range(WRITE_US),
            },
        ),
        crash_within_ns=half * MS,
    )


def formula_ms(live: int) -> float:
    """What the formula says for so many live servers, in ms."""
    latency, write = fmean(LATENCY_US) / 1000, SYNCS_A_VOTE * fmean(WRITE_US) / 1000
    return FORMULA_T_MS * (1 + 1 / (live + 1) - 1 / 4) + 2 * latency + write


def unsplit_ms(found: Sequence[Election]) -> list[float]:
    """Times of the elections that one term was enough for."""
    return [one.took_ns / MS for one in found if one.terms == 1]


def paper_setup(published: Published, *, variant: str | None = ASKS_WHILE_WRITING) -> Setup:
    """The paper's cluster with these timeouts."""
    heartbeat = Fraction(published.low_ms, 2)
    return Setup(
        options=RunOptions(
            system="raft",
            profile="raft-paper",
            nodes=5,
            workload="log",
            variant=variant,
            time_limit_ns=60 * SECOND,
            settings={
                "election_timeout_min_ms": str(published.low_ms),
                "election_timeout_max_ms": str(published.high_ms),
                "heartbeat_interval_ms": str(heartbeat),
                "rpc_timeout_ms": str(Fraction(published.low_ms, 3)),
                "sim.latency_us": _range(PAPER_LATENCY_US),
                "sim.write_us": "0",
                "sim.sync_us": _range(PAPER_SYNC_US),
                "sim.start_ms": "10..400",  # without jitter, nodes that start together never elect anybody
            },
        ),
        crash_within_ns=int(heartbeat * MS),
        behind=2,
    )


def times_ms(found: Sequence[Election]) -> list[float]:
    """All times, the shortest first; who was given up stands at the horizon."""
    return sorted(one.took_ns / MS for one in found)


def measure(published: Published, *, trials: int, seed: int = 1) -> list[float]:
    """Times of so many trials. Without jitter a cluster that split its votes elects nobody any more: one world each."""
    world_of = 1 if published.figure == "above" else 50
    return times_ms(elections(paper_setup(published), seed=seed, count=trials, world_of=world_of))


def figure_of(published: Published, times: Sequence[float]) -> float:
    """The figure that the text tells of this line."""
    found: Mapping[str, float] = {
        "median": median(times),
        "mean": fmean(times),
        "worst": max(times),
        "above": min(times),
    }
    return found[published.figure]


def holds(published: Published, value: float) -> bool:
    """Whether it is within 25 % of what was published."""
    if published.figure == "above":
        return value > published.ms
    return abs(value - published.ms) <= PUBLISHED_WITHIN * published.ms


def broadcast_ms(draws: int = 20_000) -> float:
    """The mean time from a broadcast until the last of four answers, each after a vote's write."""
    rng = Rng(1)

    def one() -> Ns:
        syncs = sum(rng.between(*PAPER_SYNC_US) for _ in range(SYNCS_A_VOTE))
        return rng.between(*PAPER_LATENCY_US) + syncs + rng.between(*PAPER_LATENCY_US)

    return fmean(max(one() for _ in range(4)) for _ in range(draws)) / 1000


def svg(curves: Mapping[str, Sequence[float]]) -> str:
    """The cumulative distributions as one picture, with what was published marked on them."""
    width, height, left, top, foot = 760, 360, 54, 24, 44
    low, high = 10.0, 20_000.0
    colours = {"150-150": "#b35806", "150-155": "#998ec3", "150-200": "#1b7837", "12-24": "#2166ac"}

    def x(ms: float) -> float:
        share = (log10(max(low, ms)) - log10(low)) / (log10(high) - log10(low))
        return round(left + share * (width - left - 20), 1)

    def y(share: float) -> float:
        return round(top + (1 - share) * (height - top - foot), 1)

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
            ' font-size="12">'
        ),
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for ms in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000):
        out.append(f'<path d="M{x(ms)} {y(0)}V{y(1)}" stroke="#ddd"/>')
        out.append(f'<text x="{x(ms)}" y="{height - 26}" text-anchor="middle">{ms}</text>')
    for percent in (0, 25, 50, 75, 100):
        out.append(f'<path d="M{left} {y(percent / 100)}H{width - 20}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(percent / 100) + 4}" text-anchor="end">{percent} %</text>')
    out.append(
        f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">ms from the crash of the leader to the next'
        " one's election; circles: published figures</text>"
    )
    for number, (name, times) in enumerate(curves.items()):
        steps = [(times[0], 0.0)]
        steps += [(times[min(len(times) - 1, at * len(times) // 100)], at / 100) for at in range(1, 101)]
        path = "L".join(f"{x(ms)} {y(share)}" for ms, share in steps)
        out.append(f'<path d="M{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
        out.append(f'<text x="{left + 10}" y="{top + 16 + 16 * number}" fill="{colours[name]}">{name} ms</text>')
    for published in PUBLISHED:
        times = curves[published.name]
        lies = sum(one <= published.ms for one in times) / len(times)  # a mean lies where the curve has it
        share = {"median": 0.5, "worst": 1.0, "above": 0.0}.get(published.figure, lies)
        out.append(
            f'<circle cx="{x(published.ms)}" cy="{y(share)}" r="5" fill="none" stroke="{colours[published.name]}"'
            f' stroke-width="2"><title>published: {published.figure} {published.ms:g} ms</title></circle>'
        )
    return "\n".join([*out, "</svg>", ""])


def main() -> int:
    """Both tables; the exit code says whether all figures are within their bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elections", type=int, default=10_000, help="for each line of the formula")
    parser.add_argument("--trials", type=int, help="for each published figure [default: as many as there]")
    parser.add_argument("--plot", type=Path, help="where to write the distributions as SVG")
    options = parser.parse_args()
    held = True
    began = time.process_time()
    for nodes in (3, 5, 7, 9):
        found = elections(formula_setup(nodes), seed=1, count=options.elections)
        single = unsplit_ms(found)
        said, measured = formula_ms(nodes - 1), fmean(single)
        ok = abs(measured - said) <= FORMULA_WITHIN * said
        held &= ok
        print(
            f"{nodes - 1} live servers: formula {said:6.1f} ms, measured {measured:6.1f} ms "
            f"({100 * (measured - said) / said:+.1f} %), {len(found)} elections, {len(found) - len(single)} with a "
            f"split vote{'' if ok else '   OUT OF BOUNDS'}",
            flush=True,
        )
    print(f"broadcast of a vote request, until the last of four answers: {broadcast_ms():.1f} ms")
    curves = {}
    for published in PUBLISHED:
        times = measure(published, trials=options.trials or published.trials)
        curves[published.name] = times
        value = figure_of(published, times)
        ok = holds(published, value)
        held &= ok
        print(
            f"{published.name:8} {published.figure:6} published {published.ms:6.0f} ms, measured {value:6.0f} ms "
            f"(median {median(times):.0f}, mean {fmean(times):.0f}, worst {max(times):.0f}; {len(times)} trials)"
            f"{'' if ok else '   OUT OF BOUNDS'}",
            flush=True,
        )
    writes_first = paper_setup(PUBLISHED[1], variant=None)
    times = times_ms(elections(writes_first, seed=1, count=100))
    print(f"150-155  where a candidate writes its own vote before it asks: median {median(times):.0f} ms (100 trials)")
    print(f"{time.process_time() - began:.0f} s of one core")
    if options.plot is not None:
        options.plot.write_text(svg(curves))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
