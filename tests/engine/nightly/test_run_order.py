from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.engine.nightly.night_file import Entry
from dethrone.harness.engine.nightly.run_order import Past, cells_of, fresh_seeds, order

ENTRIES = (
    Entry(system="etcd", versions=("3.4", "3.5"), nodes=(3, 5), seeds=2),
    Entry(system="raft", faults=("partition,kill", "clock"), strategies=("random", "mixed"), seeds=3),
)
CELLS = cells_of(ENTRIES)
KEYS = sorted(CELLS)


def past(
    key: str, *, outcome: str = "pass", night: str = "2026-11-20", version: str = "1", failed: tuple[int, ...] = ()
):
    return Past(night=night, outcome=outcome, fingerprint=CELLS[key].fingerprint(version), failed_seeds=failed)  # type: ignore[arg-type]


def test_every_combination_is_a_cell_of_its_own_name():
    assert len(CELLS) == 4 + 4
    assert "etcd/3.5/3 nodes/default faults/random" in CELLS
    assert "raft/5 nodes/partition+kill/mixed" in CELLS


@given(known=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["pass", "fail", "unknown"])))
def test_each_cell_has_its_turn_before_any_has_its_second(known):
    history = {
        key: past(key, outcome=outcome, failed=(7,) if outcome == "fail" else ()) for key, outcome in known.items()
    }
    jobs = order(CELLS, history, night="2026-11-22", version="1")
    assert {job.cell for job in jobs[: len(CELLS)]} == set(CELLS)
    assert [job.number for job in jobs] == list(range(1, len(jobs) + 1))
    ranks = [["failed before", "changed", "due"].index(job.why) for job in jobs[: len(CELLS)]]
    assert ranks == sorted(ranks)
    for key, outcome in known.items():
        seeds = [job.seed for job in jobs if job.cell == key]
        assert (seeds[0] == 7) == (outcome == "fail")
        assert len(seeds) == len(set(seeds))
        assert len(seeds) >= 2


def test_a_new_version_of_dethrone_or_another_knob_is_a_change():
    key = "raft/5 nodes/clock/random"
    jobs = {job.cell: job for job in order(CELLS, {key: past(key)}, night="n", version="1")}
    assert jobs[key].why == "due"
    jobs = {job.cell: job for job in order(CELLS, {key: past(key)}, night="n", version="2")}
    assert jobs[key].why == "changed"
    other = cells_of([Entry(system="raft", faults=("clock",), settings={"a": "1"})])
    assert other[key].fingerprint("1") != CELLS[key].fingerprint("1")


def test_more_seeds_are_no_change():
    key = "raft/5 nodes/clock/random"
    more = cells_of([Entry(system="raft", faults=("partition,kill", "clock"), strategies=("random", "mixed"), seeds=9)])
    assert more[key].fingerprint("1") == CELLS[key].fingerprint("1")


def test_what_was_run_longest_ago_comes_first_among_what_is_due():
    history = {key: past(key, night=f"2026-11-{10 + place}") for place, key in enumerate(KEYS)}
    jobs = order(CELLS, history, night="2026-11-22", version="1")
    assert [job.cell for job in jobs[: len(KEYS)]] == KEYS


def test_seeds_are_the_same_in_one_night_and_others_in_the_next():
    assert fresh_seeds("a", "2026-11-22", 3) == fresh_seeds("a", "2026-11-22", 3)
    assert not set(fresh_seeds("a", "2026-11-22", 3)) & set(fresh_seeds("a", "2026-11-23", 3))
    assert not set(fresh_seeds("a", "2026-11-22", 3)) & set(fresh_seeds("b", "2026-11-22", 3))
