"""Batches of operations: every operation is in one of them, and all that are about one object are in the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import client_ops as module
from dethrone.harness.core.client_ops import client_ops, object_of
from dethrone.harness.core.events import Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.shown import Recorder, key_of

ASKED = st.tuples(
    st.sampled_from(["append", "read", "poll", "seek", "other"]), st.integers(0, 4), st.booleans(), st.booleans()
)


def history_of(rows) -> History:
    """Appends to, and reads of, five lists; each operation returns at once or never."""
    recorder, lists, events = Recorder("list"), dict[str, list[int]](), []
    for op, (f, number, answered, paired) in enumerate(rows):
        name = f"k{number}"
        value = name if f in ("read", "poll") else [name, op] if paired else op
        invoke = Invoke(seq=len(events), t=op, op=op, process=0, f=f, target="n1", value=value)
        events.append(invoke)
        if f == "append" and paired:
            lists.setdefault(name, []).append(op)
        if answered:
            shown = recorder.record(key_of(invoke), lists.get(name, [])) if f == "read" else None
            events.append(Return(seq=len(events), t=op, op=op, status="ok", node="n1", value=shown))
    return History(events)


@pytest.fixture(scope="module", autouse=True)
def small_batches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH_OPS", 4)
        yield


@given(rows=st.lists(ASKED, max_size=30), functions=st.sets(st.sampled_from(["append", "read", "poll", "seek"])))
def test_batches_share_no_object_and_together_are_all_operations(rows, functions):
    ops = client_ops(history_of(rows))
    everything = {op.seq: op for op in ops.rows(functions)}
    objects: list[set[str]] = []
    found = []
    for batch in ops.batches(functions):
        mine = list(ops.rows(functions, batch))
        assert mine or batch is None
        about = {str((object_of(op.f, op.value) or (None,))[0]) for op in mine}
        assert len(about) == 1 or len(mine) <= module.BATCH_OPS
        objects.append(about)
        found += mine
    if len(everything) > module.BATCH_OPS:
        assert sum(map(len, objects)) == len(set().union(*objects))
    assert {op.seq: op for op in found} == everything
    assert len(found) == len(everything)
