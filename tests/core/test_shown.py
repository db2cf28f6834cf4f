"""What reads showed comes back as it was, whatever they showed before; a record that does not fit is no guess."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.errors import HistoryError
from dethrone.harness.core.shown import Reader, Recorder, Shown, in_words, is_record

values = st.one_of(st.integers(-3, 3), st.text("ab", max_size=2), st.booleans(), st.none(), st.just(1.0), st.just([1]))
keys = st.sampled_from(["x", "y"])


def through_json(value):
    return msgspec.json.decode(msgspec.json.encode(value))


def come_back(shape, reads):
    """Each read as it was, and as it comes back through its record."""
    recorder, reader = Recorder(shape), Reader()
    for key, shown in reads:
        yield shown, reader.read(key, through_json(recorder.record(key, shown)))


def plain(value):
    """As JSON has it, so that 1, 1.0 and true differ."""
    return msgspec.json.encode(list(value) if isinstance(value, Shown | tuple) else value)


@st.composite
def growing(draw):
    """Reads of lists that mostly grow, and now and then do anything."""
    truth = {"x": [], "y": []}
    out = []
    for _ in range(draw(st.integers(0, 15))):
        key = draw(keys)
        truth[key] += draw(st.lists(values, max_size=3))
        shown = draw(
            st.one_of(
                st.integers(0, len(truth[key])).map(lambda n, key=key: truth[key][:n]), st.lists(values, max_size=5)
            )
        )
        out.append((key, list(shown)))
    return out


@given(growing())
def test_lists_come_back_value_by_value(reads):
    for shown, back in come_back("list", reads):
        assert plain(back) == plain(shown)
        assert len(back) == len(shown)
        assert back == back[:] == shown


@given(st.lists(st.tuples(keys, st.lists(st.integers(0, 12) | st.text("ab", max_size=2), unique=True))))
def test_sets_come_back_whatever_their_order(reads):
    for shown, back in come_back("set", reads):
        assert len(back) == len(shown)
        assert set(back) == set(shown)


@given(st.recursive(values, lambda inner: st.dictionaries(st.sampled_from(["shows", "first", "value"]), inner)))
def test_other_values_come_back_as_they_are(value):
    for shape in ("list", "set", None):
        back = Reader().read("k", through_json(Recorder(shape).record("k", value)))
        assert plain(back) == plain(value)


def test_a_read_of_what_is_known_takes_the_same_space_however_long_it_is():
    recorder, reader = Recorder("list"), Reader()
    sizes = set()
    shown = []
    for number in range(2000):
        shown.append(number)
        reader.read("k", recorder.record("k", shown))
        record = recorder.record("k", shown)
        sizes.add(len(msgspec.json.encode(record)) - len(str(len(shown))))
        again = reader.read("k", record)
    assert len(sizes) == 1
    assert again.known.values == shown
    first = reader.read("k", recorder.record("k", shown[:7]))
    assert first.known is again.known
    assert first == shown[:7] != again


@pytest.mark.parametrize(
    "change",
    [
        {"first": 3},
        {"first": -1},
        {"first": True},
        {"hash": "0" * 16},
        {"hash": 7},
        {"then": 7},
        {"then": [3]},
        {"shows": "tree"},
    ],
)
def test_a_record_that_does_not_fit_is_refused(change):
    record = {**Recorder("list").record("k", [1, 2]), **change}
    with pytest.raises(HistoryError):
        Reader().read("k", record)


@pytest.mark.parametrize("change", [{"count": 3}, {"more": [1]}, {"more": [[1]]}, {"less": 7}, {"hash": "x"}])
def test_so_is_that_of_a_set(change):
    record = {**Recorder("set").record("k", [1, 2]), **change}
    with pytest.raises(HistoryError):
        Reader().read("k", record)


def test_people_read_what_is_new():
    recorder = Recorder("list")
    assert in_words(recorder.record("k", [1, 2])) == [1, 2]
    assert in_words(recorder.record("k", [1, 2, 3])) == "2 known values, then [3]"
    assert in_words(recorder.record("k", [1, 2])) == "2 known values"
    assert in_words(Recorder("set").record("k", [2, 1])) == "2 elements, new: [1, 2]"
    assert in_words([1]) == [1]
    assert not is_record([1])
