"""Arrays that pyarrow's own conversions would make, and histories that need no pandas."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import arrow_arrays

KINDS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.bool_(): st.booleans(),
}
COLUMNS = st.sampled_from(list(KINDS)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | KINDS[kind], max_size=20))
)
WRITE_AND_READ = """
import sys
from pathlib import Path
from dethrone.harness.core.events import Mark, Silent
from dethrone.harness.core.clock import Span
from dethrone.harness.core.history import History
from dethrone.harness.core.parquet import block_of, chunks_of, read_parquet, write_parquet

history = History([
    Mark(seq=0, t=1, group="g", name="begin"),
    Silent(seq=1, t=5, group="g", span=Span(1, 5), node="n1", error="late"),
    Mark(seq=2, t=9, group="g", name="end"),
])
path = Path(sys.argv[1])
write_parquet(history, path)
assert read_parquet(path).events == history.events
assert block_of(path, 0).rows == 3
assert [chunk.last_ns for chunk in chunks_of(path)] == [9]
assert "pyarrow" in sys.modules
print("pandas" in sys.modules)
"""


@given(COLUMNS, st.integers(0, 5), st.integers(0, 20))
def test_an_array_is_the_one_that_pyarrow_makes_and_slices_give_its_values_back(column, begin, length):
    kind, values = column
    made = arrow_arrays.array(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind))
    part = made.slice(min(begin, len(values)), length)
    assert arrow_arrays.known(part).tolist() == [value is not None for value in part.to_pylist()]
    if kind == pa.bool_():
        assert arrow_arrays.flags(part).tolist() == [bool(value) for value in part.to_pylist()]
    if kind == pa.int64():
        assert arrow_arrays.numbers(part).tolist() == [-1 if value is None else value for value in part.to_pylist()]
    if kind == pa.string():
        coded = part.dictionary_encode()
        assert arrow_arrays.numbers(coded.indices).tolist() == coded.indices.fill_null(-1).to_pylist()


@given(st.lists(st.booleans(), max_size=20))
def test_rows_are_filtered_and_taken_as_numpy_would(chosen):
    flags = np.array(chosen, np.bool_)
    batch = pa.RecordBatch.from_pydict({"place": list(range(len(chosen)))})
    places = np.flatnonzero(flags)
    assert batch.filter(arrow_arrays.mask(flags)).column("place").to_pylist() == places.tolist()
    assert batch.take(arrow_arrays.indices(places)).column("place").to_pylist() == places.tolist()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_of_more_than_64_bits_is_refused(number):
    with pytest.raises(OverflowError):
        arrow_arrays.array([1, number], pa.int64())


def test_a_history_is_written_and_read_without_pandas(tmp_path):
    words = [sys.executable, "-c", WRITE_AND_READ, str(tmp_path / "history.parquet")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
