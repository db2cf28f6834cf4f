"""Durations, chance, quorums, verdict merging, the store and the registry."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dethrone.harness.core import registry, store
from dethrone.harness.core.duration import parse_duration, parse_offset, show_duration
from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.quorum import is_quorum, minority, quorum
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.verdict import Verdict, merge


@pytest.mark.parametrize(
    ("text", "ns"), [("250ms", 250_000_000), ("60s", 60 * 10**9), ("2m", 120 * 10**9), ("0.5s", 5 * 10**8)]
)
def test_a_duration_is_a_number_and_a_unit(text, ns):
    assert parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "60", "s", "-1s", "1 day", "1e3s", "nan s"])
def test_anything_else_is_no_duration(text):
    with pytest.raises(ConfigError):
        parse_duration(text)


@pytest.mark.parametrize(("text", "ns"), [("-60s", -60 * 10**9), ("+2s", 2 * 10**9), ("1h", 3600 * 10**9)])
def test_an_offset_is_a_duration_that_may_be_below_0(text, ns):
    assert parse_offset(text) == ns


@pytest.mark.parametrize("text", ["", "-", "--1s", "-60", "+-1s"])
def test_anything_else_is_no_offset(text):
    with pytest.raises(ConfigError):
        parse_offset(text)


@given(st.integers(0, 10**15))
def test_every_duration_can_be_shown(ns):
    assert show_duration(ns)


def test_the_same_seed_gives_the_same_draws_for_ever():
    assert [Rng(1).next64(), Rng(1).stream("a").next64()] == [10451216379200822465, Rng(1).stream("a").next64()]
    assert Rng(1).stream("a").next64() != Rng(1).stream("b").next64()


def test_draws_of_one_stream_do_not_move_another():
    one, two = Rng(5), Rng(5)
    one.next64()
    assert one.stream("x").next64() == two.stream("x").next64()


@given(st.integers(0, 2**64 - 1), st.integers(1, 50))
def test_draws_stay_in_bounds_and_shuffles_keep_the_items(seed, n):
    rng = Rng(seed)
    assert 0 <= rng.below(n) < n
    assert sorted(rng.shuffle(range(n))) == list(range(n))
    assert len(set(rng.sample(range(n), n // 2))) == n // 2


def test_draws_are_uniform_enough():
    rng = Rng(3)
    counts = Counter(rng.below(5) for _ in range(50_000))
    chi2 = sum((count - 10_000) ** 2 / 10_000 for count in counts.values())
    assert chi2 < 18.5  # 0.1 % point of chi-square with 4 degrees of freedom


@pytest.mark.parametrize(("n", "q"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_quorum_is_more_than_half(n, q):
    assert quorum(n) == q
    assert minority(n) == n - q


def test_a_promise_bears_a_kind_wherever_it_strikes_or_one_file_of_it():
    made = Promise(
        system="t", profile="t", source="t", election_timeout_ns=1, heartbeat_ns=1, leader_bound_ns=1, later_gap_ns=1,
        tolerates={"kill": 1, "damage:vote": None},
    )  # fmt: skip
    assert made.bears("kill", {}) == "kill"
    assert made.bears("damage", {"path": "vote", "how": "flipped"}) == "damage:vote"
    assert made.bears("damage", {"path": "log"}) is None
    only = structs.replace(made, tolerates={"damage:log:flipped": None})
    assert only.bears("damage", {"path": "log", "how": "flipped"}) == "damage:log:flipped"
    assert only.bears("damage", {"path": "log", "how": "truncated"}) is None
    assert made.bears("damage", {}) is None
    assert made.bears("kill", {"model": "journal"}) == "kill"
    assert made.bears("kill", {"model": "posix"}) is None
    posix = structs.replace(made, tolerates={"powerloss:posix": None})
    assert posix.bears("powerloss", {"model": "posix"}) == "powerloss:posix"
    assert posix.bears("powerloss", {}) is None
    assert made.bears("wipe", {}) is None


def test_votes_of_strangers_do_not_count():
    assert not is_quorum({"a", "x", "y"}, {"a", "b", "c"})
    assert is_quorum({"a", "b", "x"}, {"a", "b", "c"})


def verdict(kind, outcome):
    return Verdict(checker="c", version="1", kind=kind, outcome=outcome)


@pytest.mark.parametrize(
    ("outcomes", "merged"),
    [
        ([("safety", "pass"), ("liveness", "pass")], "pass"),
        ([("safety", "pass"), ("liveness", "unknown")], "unknown"),
        ([("safety", "fail"), ("liveness", "unknown")], "fail"),
        ([("safety", "pass"), ("liveness", "n/a")], "unknown"),
        ([("safety", "n/a"), ("liveness", "pass")], "unknown"),
        ([("coverage", "pass")], "unknown"),
        ([], "unknown"),
    ],
)
def test_fail_beats_unknown_beats_pass_and_pass_needs_both_kinds(outcomes, merged):
    assert merge(verdict(kind, outcome) for kind, outcome in outcomes) == merged


def test_a_run_directory_is_claimed_once(tmp_path):
    store.claim_run_dir(tmp_path / "run")
    with pytest.raises(ConfigError, match="holds a run already"):
        store.claim_run_dir(tmp_path / "run")


def test_a_foreign_directory_is_never_written_to(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty and not ours"):
        store.claim_run_dir(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    store.write_atomic(tmp_path / "f", b"old")
    with pytest.raises(TypeError):
        store.write_atomic(tmp_path / "f", "text")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_unknown_name_tells_the_nearest_one():
    with pytest.raises(ConfigError) as caught:
        registry.load(registry.SYSTEMS, "rafd")
    assert "raft" in caught.value.next_step
    assert caught.value.exit_code == 64


def test_an_error_shows_its_four_parts():
    error = HarnessError("what", where="here", cause="why", next_step="do this")
    assert str(error).splitlines() == ["what", "  where: here", "  likely cause: why", "  next: do this"]
