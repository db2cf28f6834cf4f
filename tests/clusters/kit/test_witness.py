"""What most witnesses share: logs, vote files and elections are reported once, as they were carried out."""

import pytest

from dethrone.clusters.targets.kit.files import cut_ops, log_record, replace_ops, sealed, unsealed
from dethrone.clusters.targets.kit.witness import ElectionWatch, RecordLogWatch, StateFileWatch, log_parser
from dethrone.harness.core.machine import Fsync, Rename, Unlink, Witnessed, Write


def records(*places):
    return [log_record(index, term, b"%d" % index)[0] for index, term in places]


def log():
    return RecordLogWatch("log", log_parser("log", first=1))


def shown(seen):
    return [(one.name, one.data["from"], [entry[:2] for entry in one.data.get("entries", ())]) for one in seen]


def test_a_new_incarnation_reports_what_its_log_holds():
    content = b"".join(records((1, 1), (2, 4)))
    assert shown(log().booted({"log": content})) == [("log_truncate", 3, []), ("log_append", 1, [(1, 1), (2, 4)])]
    assert shown(log().booted({})) == [("log_truncate", 1, [])]


def test_an_append_below_the_end_cuts_what_stood_there():
    watch = log()
    first, second, third = records((1, 1), (2, 1), (2, 2))
    watch.booted({"log": first + second})
    again = watch.carried(Write("log", third, offset=len(first)))
    assert shown(again) == [("log_truncate", 2, []), ("log_append", 2, [(2, 2)])]
    assert again[1].term == 2
    assert shown(watch.carried(cut_ops("log", 0)[0])) == [("log_truncate", 1, [])]


def test_an_append_without_an_offset_goes_to_the_end():
    watch = log()
    watch.booted({})
    for number in (1, 2):
        (record,) = records((number, 1))
        assert shown(watch.carried(Write("log", record, offset=None))) == [("log_append", number, [(number, 1)])]


@pytest.mark.parametrize("content", ["unreadable", b"\x01" * 40])
def test_after_damage_nothing_more_is_reported(content):
    watch = log()
    assert watch.booted({"log": content}) == []
    assert watch.carried(Write("log", records((1, 1))[0], offset=0)) == []


def test_a_removed_log_is_an_empty_one():
    watch = log()
    watch.booted({"log": records((1, 1))[0]})
    assert shown(watch.carried(Unlink("log"))) == [("log_truncate", 1, [])]


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
