"""The verdict matrix: every column reads, names what exists, comes out as it says with few seeds; a lie is found."""

from __future__ import annotations

import msgspec
import pytest

from dethrone.harness.commands import listing
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Begin, Invoke, Return
from dethrone.harness.core.history import History
from dethrone.harness.core.promise import NotPromised, Promise
from dethrone.harness.engine.exam.exam_tasks import examinable
from dethrone.harness.engine.run.judge import load_checkers
from dethrone.harness.engine.run.scenario_lookup import all_scenarios
from tests.matrix.column import INVARIANTS, Cell, Column, Demand, Proof, all_columns, chosen, parse_column
from tests.matrix.proofs import (
    ROWS,
    Count,
    Row,
    carry_out,
    cells_of,
    demanded,
    longest_outage,
    run_matrix,
    tasks_for,
)
from tests.matrix.table import PACKAGED, lines, mark, packaged, table

COLUMNS = {column.name: column for column in all_columns()}
SEEDS = 2
OFTEN = ("master-slave",)
LONG = pytest.mark.nightly("10 to 25 seconds for each column; one is played in make test")


def column(*proofs, said="Y"):
    """A column of raft whose first cell has these proofs (says, proof)."""
    first = Cell(
        invariant="INV-1",
        said=said,
        holds=tuple(proof for says, proof in proofs if says == "holds"),
        broken=tuple(proof for says, proof in proofs if says == "broken"),
    )
    rest = [Cell(invariant=invariant.id, said="–") for invariant in INVARIANTS[1:]]
    return Column(name="mine", system="raft", profile="raft-paper", workloads=("election",), cell=(first, *rest))


def carried(one, *, seeds=1):
    tasks = tasks_for([one], seeds=seeds)
    return cells_of([one], [carry_out(task) for task in tasks])[0]


def test_the_matrix_has_every_target_and_both_profiles_of_raft():
    systems = {(one.system, one.profile) for one in COLUMNS.values()}
    assert {system for system, _ in systems} == set(examinable())
    assert {("raft", "raft"), ("raft", "raft-paper")} <= systems


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_names_only_what_exists_and_a_cell_says_what_shows_it(name):
    scenarios, checkers = all_scenarios(), load_checkers()
    for cell in COLUMNS[name].cell:
        for _, _, proof in cell.proofs():
            assert not proof.by or scenarios[proof.by].system == COLUMNS[name].system
            assert set(proof.checkers) <= set(checkers)
        if not cell.proofs():
            assert cell.said.startswith("–") or cell.differs
        if "X" in cell.said:
            assert cell.broken or cell.differs


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in OFTEN else pytest.param(name, marks=LONG) for name in COLUMNS])
def test_a_column_comes_out_as_it_says(name, tmp_path):
    rows, interrupted = run_matrix(
        tasks_for([COLUMNS[name]], seeds=SEEDS), tmp_path, jobs=1, on_row=lambda _row, _done, _of: None
    )
    assert not interrupted
    assert [row.trouble for row in rows if row.trouble] == []
    judged = cells_of([COLUMNS[name]], rows)
    assert [line for line in lines(judged) if "BROKEN" in line or "NOT EXPOSED" in line] == []


@pytest.mark.slow
def test_a_proof_that_fails_is_told_whichever_way_it_lies():
    broken = Proof(by="raft-b1")
    assert carried(column(("broken", broken))).ok
    lie = carried(column(("holds", broken)))
    assert not lie.ok
    assert "BROKEN in 3 of 3 runs of raft-b1" in " ".join(lines([lie]))
    other = carried(column(("broken", Proof(by="raft-b5"))))
    assert not other.ok
    assert "NOT EXPOSED by raft-b5 in 10 runs" in " ".join(lines([other]))


@pytest.mark.slow
def test_what_no_run_can_judge_is_not_held():
    exempt = Proof(by="raft-b5", checkers=("step-down-without-quorum",))
    judged = carried(column(("holds", exempt)))
    assert not judged.ok
    assert "could not be judged" in " ".join(lines([judged]))
    assert carried(column(("broken", msgspec.structs.replace(exempt, demand=Demand())))).ok


@pytest.mark.slow
def test_a_metric_breaks_above_its_bound_only():
    proof = Proof(by="raft-b5", metric="deposed_leader_exposure_ns")
    assert carried(column(("broken", proof))).ok
    assert not carried(column(("broken", msgspec.structs.replace(proof, above=3600 * SECOND)))).ok
    assert not carried(column(("broken", Proof(by="raft-b5", metric="no-such-figure")))).ok


def test_drawn_schedules_are_cut_into_rows_that_are_not_run_again(tmp_path):
    tasks = tasks_for([column(("holds", Proof()))], seeds=12)
    assert [len(task.seeds) for task in tasks] == [5, 5, 2]
    few = [msgspec.structs.replace(task, seeds=task.seeds[:1]) for task in tasks[:2]]
    told = []
    first, _ = run_matrix(few, tmp_path, jobs=1, on_row=lambda row, done, of: told.append((row.runs, done, of)))
    assert told == [(1, 1, 2), (1, 2, 2)]
    with (tmp_path / ROWS).open("ab") as file:
        file.write(b'{"half a row')
    again, _ = run_matrix(few, tmp_path, jobs=1, on_row=lambda row, done, of: told.append((row.runs, done, of)))
    assert again == first
    assert len(told) == 2


def test_rows_that_are_damaged_are_an_error(tmp_path):
    (tmp_path / ROWS).write_text("{}\n")
    with pytest.raises(ConfigError, match="damaged"):
        run_matrix([], tmp_path, jobs=1, on_row=lambda _row, _done, _of: None)


def test_a_task_is_another_one_once_its_proof_changed():
    (one,) = tasks_for([column(("holds", Proof()))], seeds=1)
    (other,) = tasks_for([column(("holds", Proof(settings={"persist": "off"})))], seeds=1)
    assert one.key != other.key


def test_demanding_adds_what_is_not_promised_and_nothing_else():
    promise = Promise(
        system="s",
        profile="p",
        source="",
        election_timeout_ns=1,
        heartbeat_ns=1,
        leader_bound_ns=7 * SECOND,
        later_gap_ns=9 * SECOND,
        exempt={"a": NotPromised("x"), "b": NotPromised("y")},
        tolerates={"kill": None},
    )
    more = demanded(promise, Demand(tolerates=("clock",)), ("a",))
    assert set(more.exempt) == {"b"}
    assert set(more.tolerates) == {"kill", "clock"}
    assert (more.step_down_ns, more.converge_ns, more.later_gap_ns) == (7 * SECOND, 7 * SECOND, 9 * SECOND)
    assert demanded(promise, Demand(within_ns=SECOND), ("a",)).leader_bound_ns == SECOND


def test_the_longest_outage_counts_to_the_last_operation_that_was_begun():
    def invoke(seq, at):
        return Invoke(seq=seq, t=at * MS, op=seq, process=0, f="append", value=1, target="n1")

    def ok(seq, at, status="ok"):
        return Return(seq=seq, t=at * MS, op=seq, status=status)

    begin = Begin(seq=0, t=0, schema=1, system="raft", nodes=("n1",), seed=1)
    history = History([begin, invoke(1, 1), ok(2, 5), ok(3, 9, "info"), invoke(4, 11), ok(5, 25), invoke(6, 40)])
    assert longest_outage(history) == 20 * MS
    assert longest_outage(History([begin, invoke(1, 1)])) == 0


def test_a_column_with_a_mistake_is_refused_with_its_file():
    cells = [{"invariant": invariant.id, "said": "Y"} for invariant in INVARIANTS]
    good = {"system": "raft", "profile": "raft", "cell": cells}
    assert parse_column(good, name="x", where="x.toml").name == "x"
    demand = {"invariant": "INV-1", "said": "X", "broken": [{"by": "a", "demand": {"within_ms": 5, "delay_ms": 2}}]}
    (proof,) = parse_column({**good, "cell": [demand, *cells[1:]]}, name="x", where="x.toml").cell[0].broken
    assert proof.demand == Demand(within_ns=5 * MS, delay_ns=2 * MS)
    for bad in ({"cell": cells[1:]}, {"colour": "red"}, {"cell": [{"invariant": "INV-1"}, *cells[1:]]}, {"cell": [1]}):
        with pytest.raises(ConfigError, match=r"x\.toml"):
            parse_column({**good, **bad}, name="x", where="x.toml")


def test_the_table_has_a_row_an_invariant_and_a_column_a_target():
    columns = chosen(())
    counts = {
        name: Count(failed=1 if says == "broken" else 0, passed=0 if says == "broken" else 3)
        for one in columns
        for cell in one.cell
        for name, says, _ in cell.proofs()
    }
    rows = [Row(key=one.name, column=one.name, runs=1, counts=counts) for one in columns]
    judged = cells_of(columns, rows)
    drawn = table(columns, judged)
    assert drawn.row_count == len(INVARIANTS)
    assert len(drawn.columns) == len(columns) + 1
    assert "Y 3; X raft-b1" in [mark(one) for one in judged if one.column == "raft-paper"]
    assert [chosen((name,))[0].system for name in ("zk-race", "zk-ephemeral")] == ["zk-ephemeral"] * 2
    with pytest.raises(ConfigError, match="unknown column"):
        chosen(("etcd",))


def test_the_packaged_table_is_what_the_columns_say():
    assert PACKAGED.read_bytes() == packaged(), "run: python -m tests.matrix --write"


def test_the_list_shows_every_cell_without_a_run_or_those_of_one_column():
    headers, rows = listing.matrix()
    assert headers[0] == "column"
    assert len(rows) == len(COLUMNS) * len(INVARIANTS)
    assert {row[0] for row in listing.matrix("raft")[1]} == {"raft"}
