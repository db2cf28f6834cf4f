"""Operations by SQL: what is asked of a driver, and what its answers and errors say of a change."""

from __future__ import annotations

import sys
from collections import deque
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.sql_answers import value_of
from dethrone.clusters.own.sql_client import MARKERS, DoubtError, NotDoneError, SqlClient, bound, codes

PUT, GET, CAS = "REPLACE INTO r VALUES ({key}, {value})", "SELECT v FROM r WHERE k = {key}", "UPDATE r SET v = {value}"
OP = {"sql": (), "create": (), "check": "", "guard": "", "fail_codes": (), "fail_pattern": None}


class DriverError(Exception):
    """The root of a driver's errors."""


class Driver(ModuleType):
    """A DB-API 2 module with one server. ``answers``: of the statements, a count, rows or an error; ``asked``: what it
    was asked, and how transactions and connections ended."""

    paramstyle = "qmark"
    Error = DriverError
    autocommit = False

    def __init__(self):
        super().__init__("fake_sql")
        self.answers, self.asked, self.connected, self.notices = [], [], [], deque()
        self.refuses = self.at_commit = self.at_rollback = None

    def connect(self, **how):
        self.connected.append(how)
        if self.refuses:
            raise self.refuses
        return self

    def cursor(self):
        return Cursor(self)

    def commit(self):
        self._end("commit", self.at_commit)

    def rollback(self):
        self._end("rollback", self.at_rollback)

    def close(self):
        self.asked.append("close")
        raise DriverError("a connection that is lost cannot be closed")

    def _end(self, how, error):
        self.asked.append(how)
        if isinstance(error, Exception):
            raise error
        self.notices.extend([] if error is None else [error])


class Cursor:
    def __init__(self, driver):
        self._driver = driver

    def execute(self, *words):
        self._driver.asked.append(words)
        answer = self._driver.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        found = isinstance(answer, list)
        self._rows, self.description = (answer, [("v",)]) if found else ([], None)
        self.rowcount = len(answer) if found else answer

    def fetchall(self):
        return self._rows

    def close(self):
        pass


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setitem(sys.modules, "fake_sql", made)
    return made


def client(**operations):
    connect = {"n1": {"host": "10.0.0.1", "password": "s3cret"}}
    ops = {f: {**OP, **op} for f, op in operations.items()}
    return SqlClient(
        {"driver": "fake_sql", "connect": connect, "connect_limit_s": 5, "hidden": ["s3cret"], "operations": ops}
    )


# --- statements ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "text", "parameters"),
    [
        ("qmark", "SET v = ?, w = ? WHERE k = ? AND x LIKE '5%'", (7, 7, "a'; DROP")),
        ("numeric", "SET v = :1, w = :2 WHERE k = :3 AND x LIKE '5%'", (7, 7, "a'; DROP")),
        ("named", "SET v = :value, w = :value WHERE k = :key AND x LIKE '5%'", {"value": 7, "key": "a'; DROP"}),
        ("format", "SET v = %s, w = %s WHERE k = %s AND x LIKE '5%%'", (7, 7, "a'; DROP")),
        (
            "pyformat",
            "SET v = %(value)s, w = %(value)s WHERE k = %(key)s AND x LIKE '5%%'",
            {"value": 7, "key": "a'; DROP"},
        ),
    ],
)
def test_words_become_parameters_in_the_style_of_the_driver(driver, style, text, parameters):
    driver.paramstyle, driver.answers = style, [1]
    statement = "SET v = {value}, w = {value} WHERE k = {key} AND x LIKE '5%'"
    client(put={"sql": [statement]}).put("n1", "a'; DROP", 7)
    assert driver.asked == [(text, parameters), "commit"]


def test_a_statement_without_words_has_no_parameters_and_keeps_its_signs(driver):
    driver.paramstyle, driver.answers = "format", [0, 1]
    client(put={"sql": ["SET x = '5%'", PUT]}).put("n1", "k", [1])
    assert driver.asked[:2] == [("SET x = '5%'",), ("REPLACE INTO r VALUES (%s, %s)", ("k", "[1]"))]


@given(
    st.lists(st.text(st.characters(exclude_characters="{}")) | st.sampled_from(["{key}", "{value}", "{old}"])),
    st.sampled_from(sorted(MARKERS)),
)
def test_no_value_stands_in_a_statement_and_all_else_stands_as_it_was(parts, style):
    words = {"key": "KEY", "value": "VALUE", "old": "OLD"}
    named = [part[1:-1] for part in parts if part.startswith("{")]
    text, parameters = bound("".join(parts), style, words)
    by_name = style in ("named", "pyformat")
    assert parameters == ({word: words[word] for word in named} if by_name else tuple(words[word] for word in named))
    if style in ("format", "pyformat") and named:
        assert text % parameters == "".join(words.get(part[1:-1], part) for part in parts)
    elif style == "qmark":
        assert text == "".join("?" if part.startswith("{") else part for part in parts)


def test_what_is_no_driver_is_refused_when_the_client_is_made(driver):
    driver.paramstyle = None
    with pytest.raises(TypeError, match="fake_sql is no DB-API 2 module"):
        client()


# --- changes ------------------------------------------------------------------------------------------------------


def test_several_statements_are_one_transaction_and_its_connection_is_kept(driver):
    driver.answers = [[[1]], 1, 1]
    asking = client(append={"sql": ["SELECT 1", PUT]}, put={"sql": [PUT]})
    asking.append("n1", "k", 1)
    asking.put("n1", "k", 2)
    said = ("REPLACE INTO r VALUES (?, ?)", ("k", 1))
    assert driver.asked == [("SELECT 1",), said, "commit", (said[0], ("k", 2)), "commit"]
    assert driver.connected == [{"host": "10.0.0.1", "password": "s3cret"}]


def test_without_a_connection_nothing_has_happened_and_no_password_is_shown(driver):
    driver.refuses = DriverError(2003, "no route for s3cret")
    with pytest.raises(NotDoneError, match=r"no connection: DriverError 2003: .*no route for \*\*\*"):
        client(put={"sql": [PUT]}).put("n1", "k", 1)
    assert driver.asked == []


def test_a_connection_that_commits_by_itself_is_not_used(driver):
    driver.autocommit = True
    with pytest.raises(NotDoneError, match="commit each statement"):
        client(put={"sql": [PUT]}).put("n1", "k", 1)
    assert driver.asked == ["close"]


@pytest.mark.parametrize(
    ("listed", "error", "raised"),
    [
        ({"fail_codes": [1290]}, DriverError(1290, "read-only"), NotDoneError),
        ({"fail_codes": ["25006"]}, DriverError({"S": "ERROR", "C": "25006", "M": "read-only"}), NotDoneError),
        ({"fail_pattern": "read-?only"}, DriverError("this server is read-only"), NotDoneError),
        ({"fail_codes": [1290], "fail_pattern": "read"}, DriverError(2013, "lost connection"), DoubtError),
        ({}, DriverError(1290, "read-only"), DoubtError),
        ({"fail_codes": [32]}, BrokenPipeError(32, "lost"), DoubtError),
        ({"fail_pattern": "lost"}, ConnectionError("lost"), DoubtError),
    ],
)
def test_only_a_listed_error_of_the_server_before_the_commit_is_a_refusal(driver, listed, error, raised):
    driver.answers = [error, 1]
    asking = client(put={"sql": [PUT], **listed})
    with pytest.raises(raised):
        asking.put("n1", "k", 1)
    refused = raised is NotDoneError
    assert driver.asked[1:] == ["rollback" if refused else "close"], "nothing of the transaction is left"
    asking.put("n1", "k", 1)
    assert len(driver.connected) == (1 if refused else 2)


def test_a_connection_that_cannot_roll_a_refused_transaction_back_is_not_used_again(driver):
    driver.answers, driver.at_rollback = [DriverError(1290, "read-only"), 1], DriverError(2013, "lost connection")
    asking = client(put={"sql": [PUT], "fail_codes": [1290]})
    with pytest.raises(NotDoneError, match="1290"):
        asking.put("n1", "k", 1)
    assert driver.asked[1:] == ["rollback", "close"]
    driver.at_rollback = None
    asking.put("n1", "k", 1)
    assert len(driver.connected) == 2


def test_every_error_at_the_commit_is_doubt_even_a_listed_one(driver):
    driver.answers, driver.at_commit = [1], DriverError(1290, "read-only")
    with pytest.raises(DoubtError, match="at the commit: DriverError 1290"):
        client(put={"sql": [PUT], "fail_codes": [1290]}).put("n1", "k", 1)
    assert driver.asked[1:] == ["commit", "close"]


@pytest.mark.parametrize("broken", [None, DriverError("lost")])
def test_a_change_of_no_row_is_rolled_back_and_has_not_happened(driver, broken):
    driver.answers, driver.at_rollback = [0], broken
    with pytest.raises(NotDoneError, match="no row"):
        client(put={"sql": [PUT]}).put("n1", "k", 1)
    assert driver.asked[1:] == ["rollback", *(["close"] if broken else [])]


@pytest.mark.parametrize("count", [-1, None])
def test_a_change_that_the_driver_does_not_count_is_doubt(driver, count):
    driver.answers = [count]
    with pytest.raises(DoubtError, match="does not say"):
        client(add={"sql": [PUT]}).add("n1", "k", 1)
    assert driver.asked[1:] == ["close"]


def test_a_warning_of_the_server_leaves_a_change_in_doubt_and_not_the_next_one(driver):
    driver.answers, driver.at_commit = [1, 1, 1], {b"S": b"WARNING", b"M": b"canceling wait for replication"}
    asking = client(put={"sql": [PUT]})
    with pytest.raises(DoubtError, match="the server warned"):
        asking.put("n1", "k", 1)
    driver.at_commit = {b"S": b"NOTICE"}
    asking.put("n1", "k", 2)
    driver.at_commit = None
    asking.put("n1", "k", 3)


# --- cas ----------------------------------------------------------------------------------------------------------


def exchanged(driver, answers, old=1, new=2, **more):
    driver.answers = answers
    found = client(cas={"sql": [CAS], **more}).cas("n1", "k", old, new)
    return value_of("cas", found, {"old": old, "value": new})


def test_a_cas_that_changed_one_row_is_done(driver):
    assert exchanged(driver, [1]) is True


def test_a_cas_that_changed_no_row_has_not_happened_and_claims_nothing(driver):
    with pytest.raises(NotDoneError, match="no row"):
        exchanged(driver, [0])
    assert driver.asked[-1] == "rollback"


@pytest.mark.parametrize("count", [2, -1])
def test_a_cas_that_changed_several_rows_or_an_unknown_number_is_doubt(driver, count):
    with pytest.raises(DoubtError):
        exchanged(driver, [count])
    assert "commit" not in driver.asked


@pytest.mark.parametrize(
    ("rows", "old", "new", "done"),
    [
        ([[3]], 1, 2, False),
        ([["3"]], 1, 2, False),
        ([[b"3"]], 1, 2, False),
        ([], 1, 2, False),
        ([[None]], 1, 2, False),
        ([[1]], 1, 1, True),
        ([[1]], 1, 2, [[1]]),
        ([[3], [4]], 1, 2, [[3], [4]]),
    ],
)
def test_a_cas_is_refused_only_if_its_transaction_read_something_else(driver, rows, old, new, done):
    assert exchanged(driver, [0, rows], old, new, check=GET) == done
    assert driver.asked[-1] == "commit"


def test_a_refusal_that_cannot_be_committed_is_doubt(driver):
    driver.at_commit = DriverError("40001")
    with pytest.raises(DoubtError):
        exchanged(driver, [0, [[3]]], check=GET)


def test_a_cas_from_nothing_has_statements_of_its_own(driver):
    assert exchanged(driver, [1], old=None, create=[PUT]) is True
    assert driver.asked[0] == ("REPLACE INTO r VALUES (?, ?)", ("k", 2))
    with pytest.raises(NotDoneError, match="no statement `create`"):
        exchanged(driver, [1], old=None)
    assert len(driver.connected) == 1


# --- reads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "rows", "value"),
    [
        ("get", [], None),
        ("get", [(None,)], None),
        ("get", [(7,)], 7),
        ("get", [(b"7",)], 7),
        ("get", [("text",)], "text"),
        ("get", [(7,), (8,)], [[7], [8]]),
        ("get", [(7, 8)], [[7, 8]]),
        ("read", [], []),
        ("read", [(None,)], []),
        ("read", [(1,), ("2",), (b"x",)], [1, 2, "x"]),
        ("read", [("[1, 2]",)], [1, 2]),
        ("read", [([1, 2],)], [1, 2]),
        ("read", [("[1, 2",)], ["[1, 2"]),
        ("read", [(1, 2)], [[1, 2]]),
    ],
)
def test_rows_are_a_value_or_not_understood(driver, f, rows, value):
    driver.answers = [rows]
    found = getattr(client(**{f: {"sql": [GET]}}), f)("n1", "k")
    assert value_of(f, found, {"key": "k"}) == value
    assert driver.asked[1:] == ["commit"]


def test_a_read_without_rows_of_any_kind_is_no_answer(driver):
    driver.answers = [1]
    with pytest.raises(DoubtError, match="gives no rows"):
        client(get={"sql": [GET]}).get("n1", "k")


@pytest.mark.parametrize("rows", [[], [[None]], [[0]], [[b"\0"]], [["0"]], [["f"]], [[False]]])
def test_a_guard_that_does_not_hold_after_the_statements_undoes_them(driver, rows):
    driver.answers = [[[7]], rows]
    with pytest.raises(NotDoneError, match="the guard"):
        client(get={"sql": [GET], "guard": "SELECT serves"}).get("n1", "k")
    assert driver.asked[1:] == [("SELECT serves",), "rollback"]


@pytest.mark.parametrize("rows", [[[1]], [[True]], [["1"]], [["t"]], [[b"\1"]]])
def test_a_guard_that_holds_lets_a_change_be_committed(driver, rows):
    driver.answers = [1, rows]
    client(put={"sql": [PUT], "guard": "SELECT serves"}).put("n1", "k", 1)
    assert driver.asked[-1] == "commit"


# --- errors -------------------------------------------------------------------------------------------------------


class StatedError(DriverError):
    sqlstate, errno, pgcode = "40001", 1213, None


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (DriverError(1290, "read-only"), {"1290"}),
        (DriverError({"C": "25006"}), {"25006"}),
        (DriverError("42S02", "no table"), {"42S02"}),
        (DriverError("a text of words"), set()),
        (DriverError(), set()),
        (StatedError("deadlock found"), {"40001", "1213"}),
    ],
)
def test_codes_are_found_where_drivers_keep_them(error, found):
    assert codes(error) == found


@given(st.sampled_from(["put", "append", "add", "cas"]), st.integers() | st.text(), st.booleans())
def test_no_error_that_is_not_listed_makes_a_change_certainly_not_done(f, code, late):
    driver = Driver()
    sys.modules["fake_sql"] = driver
    error = DriverError(code, "text")
    driver.answers, driver.at_commit = ([1], error) if late else ([error], None)
    asking = client(**{f: {"sql": [PUT], "fail_codes": ["a code"]}})
    with pytest.raises(DoubtError):
        getattr(asking, f)("n1", "k", *([1, 2] if f == "cas" else [1]))
    del sys.modules["fake_sql"]
