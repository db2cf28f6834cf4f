"""Our histories for other tools: what is written can be read back, and nothing is lost or invented."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dethrone.checkers.log_reads import LogReads
from dethrone.checkers.set_reads import SetReads
from dethrone.harness.core.events import Begin, Invoke, Mark, Return
from dethrone.harness.core.foreign.reading import read_pieces
from dethrone.harness.core.foreign.writing import jepsen_edn
from dethrone.harness.core.history import History
from dethrone.harness.core.operations import NEVER, ModelOptions, identity, of_history

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5).filter(lambda word: word[:1] != ":")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="abc", max_size=3), inner, max_size=2),
    max_leaves=6,
)


@st.composite
def histories(draw):
    """A few processes that do one thing at a time, and give their number up after an unknown end; perhaps with keys."""
    keyed = draw(st.booleans())
    groups = draw(st.sampled_from([("",), ("g1", "g2")])) if keyed else ("",)
    events = [Begin(seq=0, t=0, schema=1, system="toy", nodes=("n1",), seed=1)]
    busy, fresh, op = {}, draw(st.integers(1, 3)), 0
    idle = list(range(fresh))
    for _ in range(draw(st.integers(0, 14))):
        seq = len(events)
        if busy and draw(st.booleans()):
            process = draw(st.sampled_from(sorted(busy)))
            f, number = busy.pop(process)
            status = draw(st.sampled_from(["ok", "fail", "info"]))
            value = draw(values) if status == "ok" and f == "read" else None
            events.append(Return(seq=seq, t=seq, op=number, status=status, value=value, error="why", node="n1"))
            if status == "info":
                fresh += 1
                process = fresh
            idle.append(process)
        elif idle:
            process = idle.pop()
            f = draw(st.sampled_from(["read", "write"]))
            value = None if f == "read" else draw(values)
            if keyed:
                key = draw(st.sampled_from("ab"))
                value = key if f == "read" else [key, value]
            events.append(
                Invoke(
                    seq=seq,
                    t=seq,
                    op=op,
                    process=process,
                    f=f,
                    value=value,
                    target="n1",
                    group=draw(st.sampled_from(groups)),
                )
            )
            busy[process] = (f, op)
            op += 1
        else:
            events.append(Mark(seq=seq, t=seq, name="faults"))
    return History(events)


def shape(row, rank):
    result = identity(row.result) if row.status == "ok" and row.f == "read" else None
    value = identity(row.value)
    return (
        row.process,
        row.f,
        identity(row.key),
        value,
        row.status,
        result,
        rank[row.invoked],
        rank.get(row.returned, NEVER),
    )


def ranks(rows):
    return {place: at for at, place in enumerate(sorted(place for row in rows for place in row.places))}


@given(histories())
def test_what_is_written_for_jepsen_reads_back_the_same(history):
    ours = of_history(history, ["read", "write"])
    if any(row.group for row in ours.rows) and not any(row.f == "read" for row in ours.rows):
        return  # without a read nothing tells that the pairs are keys
    if any(row.f == "read" and row.value is not None for row in ours.rows):
        ours = ours.each(SetReads().keyed)
    lines = [line + "\n" for line in jepsen_edn(history)]
    if not ours.rows:
        assert lines == []
        return
    theirs = read_pieces([line.encode() for line in lines], "jepsen-edn", ["read", "write"])
    mine, other = ranks(ours.rows), ranks(theirs.rows)
    assert [shape(row, mine) for row in ours.rows] == [shape(row, other) for row in theirs.rows]


def story():
    return History(
        [
            Begin(seq=0, t=0, schema=1, system="toy", nodes=("n1",), seed=1),
            Invoke(seq=1, t=5, op=0, process=0, f="append", value=["k", 1], target="n1"),
            Invoke(seq=2, t=6, op=1, process=1, f="read", value="k", target="n1"),
            Return(seq=3, t=7, op=0, status="ok", value={"index": 4}),
            Return(seq=4, t=8, op=1, status="info", error='timed "out"'),
            Invoke(seq=5, t=9, op=2, process=2, f="txn", value=[["append", "x", 1], ["r", "x", None]], target="n1"),
        ]
    )


def test_the_words_that_jepsen_reads():
    assert list(jepsen_edn(story())) == [
        '{:index 0, :time 5, :type :invoke, :process 0, :f :append, :value ["k" 1], :node "n1"}',
        '{:index 1, :time 6, :type :invoke, :process 1, :f :read, :value ["k" nil], :node "n1"}',
        '{:index 2, :time 7, :type :ok, :process 0, :f :append, :value ["k" 1], :told {"index" 4}}',
        '{:index 3, :time 8, :type :info, :process 1, :f :read, :value ["k" nil], :error "timed \\"out\\""}',
        '{:index 4, :time 9, :type :invoke, :process 2, :f :txn, :value [[:append "x" 1] [:r "x" nil]], :node "n1"}',
        '{:index 5, :time 9, :type :info, :process 2, :f :txn, :value [[:append "x" 1] [:r "x" nil]], :error "never returned"}',  # noqa: E501 - as it is
    ]


def test_a_run_that_was_exported_can_be_judged_again():
    events = [
        *story().events[:2],
        Return(seq=2, t=6, op=0, status="ok", value={"index": 4}),
        Invoke(seq=3, t=7, op=1, process=1, f="read", value="k", target="n1"),
        Return(seq=4, t=8, op=1, status="ok", value=[1]),
        Invoke(seq=5, t=9, op=2, process=1, f="read", value="k", target="n1"),
        Return(seq=6, t=10, op=2, status="ok", value=[]),
    ]
    functions = ["append", "read"]
    for many, outcome in ((5, "pass"), (7, "fail")):
        text = "\n".join(jepsen_edn(History(events[:many]))).encode()
        verdict = LogReads().judge(read_pieces([text], "jepsen-edn", functions), ModelOptions())
        assert verdict.outcome == outcome


def test_a_compare_and_set_is_asked_by_key_and_fails_where_it_was_refused():
    asked = [(0, True), (1, False)]
    events = []
    for op, told in asked:
        events.append(Invoke(seq=2 * op, t=op, op=op, process=op, f="cas", value=["r0", None, op], target="n1"))
        events.append(Return(seq=2 * op + 1, t=op, op=op, status="ok", value=told))
    lines = list(jepsen_edn(History(events)))
    assert ':value ["r0" [nil 0]]' in lines[0]
    assert [":type :ok" in lines[1], ":type :fail" in lines[3]] == [True, True]


def test_registers_are_read_and_written_by_jepsens_names():
    events = []
    for op, (f, value, told) in enumerate([("put", ["r0", 1], None), ("get", "r0", 1)]):
        events.append(Invoke(seq=2 * op, t=op, op=op, process=op, f=f, value=value, target="n1"))
        events.append(Return(seq=2 * op + 1, t=op, op=op, status="ok", value=told))
    lines = list(jepsen_edn(History(events)))
    assert ':f :write, :value ["r0" 1]' in lines[1]
    assert ':f :read, :value ["r0" 1]' in lines[3]
