"""Which version ran where, out of a history: as started, and as the process itself reported."""

from dethrone.harness.core.clock import Span
from dethrone.harness.core.events import NodeProcess
from dethrone.harness.core.rows import event_of, row_of
from dethrone.harness.core.versions_ran import Ran, versions_ran
from dethrone.harness.engine.run.judgement import Judgement
from dethrone.harness.report.version_words import version_rows


class Events:
    """As much of a history as is asked for."""

    def __init__(self, *events):
        self.events = events

    def of(self, kind):
        return [event for event in self.events if type(event) is kind]


def process(node, incarnation, phase, t, **more):
    span = Span(t, t + 1)
    return NodeProcess(seq=0, t=t, span=span, node=node, incarnation=incarnation, phase=phase, asked=True, **more)


HISTORY = Events(
    process("n2", 1, "started", 10, version="1"),
    process("n1", 1, "started", 10, version="1"),
    process("n1", 1, "ready", 20, version="1"),
    process("n1", 1, "exited", 30),
    process("n1", 2, "started", 2_000_000_000, version="2"),
    process("n1", 2, "ready", 50, version="2"),
    process("n2", 2, "started", 60, version="2"),
    process("n2", 2, "ready", 70, version="1"),
)


def test_each_process_has_the_version_of_its_start_and_the_one_that_it_reported():
    assert versions_ran(HISTORY) == (
        Ran(node="n1", incarnation=1, since_ns=10, version="1", reported="1"),
        Ran(node="n1", incarnation=2, since_ns=2_000_000_000, version="2", reported="2"),
        Ran(node="n2", incarnation=1, since_ns=10, version="1"),
        Ran(node="n2", incarnation=2, since_ns=60, version="2", reported="1"),
    )
    assert versions_ran(Events(process("n1", 1, "started", 10), process("n1", 1, "ready", 20))) == ()


def test_a_version_that_was_not_reported_is_said_to_be_so():
    judgement = Judgement(outcome="pass", reason="", verdicts=(), versions=versions_ran(HISTORY))
    assert version_rows(judgement) == [
        ("n1", "1, 2 since +2.000 s"),
        ("n2", "1 (it reported none), 2 (it reported 1) since +0.000 s"),
    ]
    assert version_rows(Judgement(outcome="pass", reason="", verdicts=())) == []


def test_a_version_goes_into_columns_and_back_and_is_absent_where_there_is_none():
    for event in (process("n1", 1, "started", 10, version="2.0"), process("n1", 1, "started", 10)):
        assert event_of(row_of(event)) == event
    assert "version" not in row_of(process("n1", 1, "started", 10))["rest"]
