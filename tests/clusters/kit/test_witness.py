"""What most witnesses share: logs, vote files and elections are reported once, as they were carried out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets.kit.files import cut_ops, log_record, replace_ops, sealed, unsealed
from dethrone.clusters.targets.kit.witness import ElectionWatch, RecordLogWatch, StateFileWatch, log_parser
from dethrone.harness.core.log_marks import EVERY, LogMarks
from dethrone.harness.core.machine import Fsync, Rename, Unlink, Witnessed, Write
from dethrone.harness.core.rolling import number, roll


def records(*places):
    return [log_record(index, term, b"%d" % index)[0] for index, term in places]


def log():
    return RecordLogWatch("log", log_parser("log", first=1))


def shown(seen):
    return [(one.name, one.data["from"], [entry[:2] for entry in one.data.get("entries", ())]) for one in seen]


def test_a_new_incarnation_reports_what_its_log_holds():
    content = b"".join(records((1, 1), (2, 4)))
    assert shown(log().booted({"log": content}, LogMarks())) == [
        ("log_truncate", 3, []),
        ("log_append", 1, [(1, 1), (2, 4)]),
    ]
    assert shown(log().booted({}, LogMarks())) == [("log_truncate", 1, [])]


def test_an_append_below_the_end_cuts_what_stood_there():
    watch = log()
    first, second, third = records((1, 1), (2, 1), (2, 2))
    watch.booted({"log": first + second}, LogMarks())
    again = watch.carried(Write("log", third, offset=len(first)))
    assert shown(again) == [("log_truncate", 2, []), ("log_append", 2, [(2, 2)])]
    assert again[1].term == 2
    assert shown(watch.carried(cut_ops("log", 0)[0])) == [("log_truncate", 1, [])]


def test_an_append_without_an_offset_goes_to_the_end():
    watch = log()
    watch.booted({}, LogMarks())
    for index in (1, 2):
        (record,) = records((index, 1))
        assert shown(watch.carried(Write("log", record, offset=None))) == [("log_append", index, [(index, 1)])]


@pytest.mark.parametrize("content", ["unreadable", b"\x01" * 40])
def test_after_damage_nothing_more_is_reported(content):
    watch = log()
    assert watch.booted({"log": content}, LogMarks()) == []
    assert watch.carried(Write("log", records((1, 1))[0], offset=0)) == []


def test_a_removed_log_is_an_empty_one():
    watch = log()
    watch.booted({"log": records((1, 1))[0]}, LogMarks())
    assert shown(watch.carried(Unlink("log"))) == [("log_truncate", 1, [])]


class Reader:
    """The log as one who reads the trace knows it."""

    def __init__(self):
        self.rows = []

    def take(self, seen):
        for one in seen:
            data = one.data
            if one.name == "log_kept":
                assert data["count"] <= len(self.rows)
                known = 0
                for _, term, payload in self.rows[: data["count"]]:
                    known = roll(known, term, number(payload))
                assert data["hash"] == f"{known:016x}"
            elif one.name == "log_truncate":
                del self.rows[data["from"] - 1 :]
            else:
                assert data["from"] <= len(self.rows) + 1
                self.rows[data["from"] - 1 :] = data["entries"]


@st.composite
def lives(draw):
    """What happens to a log: ("grow", entries, term), ("cut", to), ("kill",), ("lose", to), ("older",)."""
    growing = st.tuples(st.just("grow"), st.integers(1, 3 * EVERY), st.integers(1, 3))
    cutting = st.tuples(st.sampled_from(("cut", "lose")), st.floats(0, 1))
    return draw(st.lists(st.one_of(growing, cutting, st.just(("kill",)), st.just(("older",))), max_size=12))


@pytest.mark.parametrize("restored", [False, True], ids=["marks in memory", "marks from their file"])
@given(story=lives())
def test_who_reads_the_trace_knows_the_log_of_each_life(restored, story):
    marks, reader, watch = LogMarks(), Reader(), log()
    rows, older, journal = [], [], []
    reader.take(watch.booted({}, marks))
    for what, *how in story:
        size = sum(len(row) for row in rows)
        if what == "grow":
            more = [records((len(rows) + 1 + k, how[1]))[0] for k in range(how[0])]
            reader.take(watch.carried(Write("log", b"".join(more), offset=size)))
            rows = rows + more
        elif what == "cut":
            rows = rows[: int(how[0] * len(rows))]
            reader.take(watch.carried(cut_ops("log", sum(len(row) for row in rows))[0]))
        else:
            if what == "lose":
                rows = rows[: int(how[0] * len(rows))]
            elif what == "older":
                rows = older
            older = rows
            if restored:
                journal += [(path, *change) for path, one in marks.items() if (change := one.change())]
                marks = LogMarks()
                for path, same, added in journal:
                    marks.of(path).restore(same, added)
            watch = log()
            reader.take(watch.booted({"log": b"".join(rows)}, marks))
        content = b"".join(rows)
        assert reader.rows == list(log_parser("log", first=1)(content, 1, 0)[0])


def test_a_restart_shows_what_is_new_only():
    marks, watch = LogMarks(), log()
    watch.booted({}, marks)
    content = b"".join(records(*((n, 1) for n in range(1, 10 * EVERY + 3))))
    watch.carried(Write("log", content, offset=0))
    names = [
        (one.name, one.data.get("count") or len(one.data.get("entries", ())))
        for one in log().booted({"log": content}, marks)
    ]
    assert names == [("log_kept", 10 * EVERY), ("log_truncate", 0), ("log_append", 2)]


def vote():
    return StateFileWatch("vote", lambda content: unsealed(content, bytes, path="vote"))


def test_a_file_is_replaced_by_the_rename_and_durable_by_the_sync_after_it():
    watch = vote()
    assert [watch.carried(op) for op in replace_ops("vote", sealed(b"a"))] == ["", "", "replaced", "durable"]
    assert watch.now == b"a"


def test_a_file_that_cannot_be_read_is_never_durable():
    watch = vote()
    assert [watch.carried(Write("vote", b"?", offset=0)), watch.carried(Fsync("vote"))] == ["replaced", ""]
    assert watch.now is None


def test_a_rename_without_its_temporary_and_other_files_change_nothing_durable():
    watch = vote()
    watch.found({"vote": sealed(b"a")})
    assert [watch.carried(Fsync("log")), watch.carried(Rename("x", "log"))] == ["", ""]
    assert watch.now == b"a"
    watch.carried(Unlink("vote"))
    assert watch.carried(Fsync("vote")) == ""


@pytest.mark.parametrize(
    ("disk", "file"), [({}, "absent"), ({"vote": "error"}, "unreadable"), ({"vote": sealed(b"a")}, "read")]
)
def test_what_is_found(disk, file):
    assert vote().found(disk) == file


def test_what_a_term_shows_is_reported_once():
    watch = ElectionWatch("n1")
    assert watch.answers(3, "n2") == [Witnessed("answered", 3, {"to": "n2"})]
    assert watch.votes(3, "n2") == [Witnessed("vote", 3, {"candidate": "n2"})]
    assert watch.acks(4, 7, "n2") == [Witnessed("acked", 4, {"index": 7, "leader": "n2"})]
    assert watch.answers(4, "n2") == watch.votes(3, "n2") == watch.acks(4, 7, "n2") == []
    assert watch.commits(4, 7) == [Witnessed("commit", 4, {"index": 7})]
    assert watch.commits(4, 7) == []


def test_voters_are_those_whose_grants_of_that_term_arrived():
    watch = ElectionWatch("n1")
    watch.granted(1, "n3")
    watch.granted(2, "n2")
    assert watch.leads(2, stood=True) == [Witnessed("elected", 2, {"voters": ["n1", "n2"]})]
    assert watch.leads(1, stood=False) == [Witnessed("elected", 1, {"voters": ["n3"]})]
    watch.forget()
    assert watch.leads(2, stood=False) == [Witnessed("elected", 2, {"voters": []})]
