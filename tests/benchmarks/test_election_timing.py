"""The simulator's election times agree with the formula and with the published figures; all by seed, so none flakes."""

from __future__ import annotations

from statistics import fmean

import msgspec
import pytest

from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from tests.benchmarks import bench_elections as bench
from tests.benchmarks.election_timing import elections

MORE = pytest.mark.nightly("half a minute each; make test asks for one figure of each kind")


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [pytest.param(3, marks=MORE), 5, pytest.param(9, marks=MORE)])
def test_the_expected_election_time_is_the_formulas(nodes):
    found = elections(bench.formula_setup(nodes), seed=1, count=600)
    single = bench.unsplit_ms(found)
    assert len(single) > 580
    assert fmean(single) == pytest.approx(bench.formula_ms(nodes - 1), rel=bench.FORMULA_WITHIN)


def test_no_election_is_sooner_than_half_a_timeout_or_later_than_a_whole_one_when_one_term_is_enough():
    single = bench.unsplit_ms(elections(bench.formula_setup(3), seed=2, count=100))
    assert min(single) > 75
    assert max(single) < 300 + 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("published", "trials"),
    [
        pytest.param(one, 5 if one.figure == "above" else 200, marks=() if one.figure in {"above", "median"} else MORE)
        for one in bench.PUBLISHED
    ],
)
def test_the_published_figures_come_out_within_a_quarter(published, trials):
    if published.figure == "worst":
        trials = published.trials  # a worst case is one of so many
    times = bench.measure(published, trials=trials)
    assert bench.holds(published, bench.figure_of(published, times))


def test_the_broadcast_takes_roughly_fifteen_milliseconds():
    assert bench.broadcast_ms(2000) == pytest.approx(15, rel=0.25)


def test_a_follower_that_lacks_the_log_does_not_win():
    setup = bench.paper_setup(bench.PUBLISHED[2])
    everybody = msgspec.structs.replace(setup, behind=0)
    assert sum(one.terms > 1 for one in elections(setup, seed=3, count=100)) > 25
    assert sum(one.terms > 1 for one in elections(everybody, seed=3, count=100)) < 15


def test_the_same_seed_gives_the_same_times():
    setup = bench.formula_setup(5)
    first = elections(setup, seed=7, count=20)
    assert elections(setup, seed=7, count=20) == first
    assert elections(setup, seed=8, count=20) != first


def test_who_is_never_elected_is_censored_at_the_horizon():
    setup = msgspec.structs.replace(bench.formula_setup(3), horizon_ns=10 * MS)
    (one,) = elections(setup, seed=1, count=1)
    assert (one.took_ns, one.terms) == (10 * MS, 0)


def test_more_nodes_behind_than_a_minority_are_refused():
    setup = msgspec.structs.replace(bench.formula_setup(3), behind=2, calm_ns=SECOND)
    with pytest.raises(ConfigError, match="2 of 3 nodes behind"):
        elections(setup, seed=1, count=1)


def test_the_plot_is_a_picture_with_every_published_figure():
    curves = {one.name: [float(one.low_ms), float(one.ms), 20_000.0] for one in bench.PUBLISHED}
    drawn = bench.svg(curves)
    assert drawn.count("<circle ") == len(bench.PUBLISHED)
    assert drawn.count('fill="none" stroke="#') == 2 * len(curves)
    assert "nan" not in drawn
