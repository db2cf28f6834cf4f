"""MySQL in the gallery: what its small program makes of what servers say. PyMySQL is a stand-in here."""

from __future__ import annotations

import importlib
import io
import json
import sys
from types import ModuleType

import pytest

GROUP = "17957851827385585"
BOTH = (("n1", "ONLINE", "PRIMARY", 1), ("n2", "ONLINE", "SECONDARY", 0))
ALONE = (("n1", "ONLINE", "PRIMARY", 1),)


class FakeError(Exception):
    """PyMySQL's root of errors."""


class Server:
    """Answers statements with the next of ``answers``: rows, or an error."""

    def __init__(self):
        self.answers, self.opened = [], 0

    def connect(self, **_how):
        self.opened += 1
        if self.opened == 1 and self.answers[:1] == ["refuses"]:
            self.answers.pop(0)
            raise FakeError(2003, "refused")
        return self

    def cursor(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def execute(self, _statement):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self._rows = list(answer)

    def fetchall(self):
        return self._rows


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def status(monkeypatch, server):
    """The program, with a library that knows the one server."""
    pymysql = ModuleType("pymysql")
    pymysql.MySQLError, pymysql.connect = FakeError, server.connect
    monkeypatch.setitem(sys.modules, "pymysql", pymysql)
    name = "dethrone.clusters.gallery.mysql.status"
    yield importlib.import_module(name)
    sys.modules.pop(name)


def view(number):
    return [(f"{GROUP}:{number}" if number else "",)]


def test_a_server_says_its_role_the_number_of_its_view_and_who_is_primary_in_it(status, server):
    server.answers = [view(3), BOTH, view(3)]
    seen = status.Server("127.0.0.1", 3306).seen()
    assert status.Teller().answer(seen, 0.0) == {"role": "primary", "view": 3, "primary": "n1"}


def test_a_view_that_came_while_the_members_were_asked_for_is_no_answer(status, server):
    server.answers = [view(3), BOTH, view(4)]
    with pytest.raises(status.UnsettledError):
        status.Server("127.0.0.1", 3306).seen()


def test_a_server_that_is_expelled_is_never_primary_in_the_view_that_expelled_it(status):
    teller = status.Teller()
    teller.answer(status.Seen(5, BOTH), 0.0)
    with pytest.raises(status.UnsettledError):
        teller.answer(status.Seen(6, BOTH), 0.2)
    out = status.Seen(6, (("n1", "ERROR", "", 1),))
    assert teller.answer(out, 0.4) == {"role": "error", "view": 5, "primary": None}


def test_a_successor_is_never_primary_in_the_view_before_its_own(status):
    teller = status.Teller()
    teller.answer(status.Seen(5, BOTH), 0.0)
    with pytest.raises(status.UnsettledError):
        teller.answer(status.Seen(5, ALONE), 0.2)
    assert teller.answer(status.Seen(6, ALONE), 0.4)["view"] == 6


def test_members_that_left_and_came_back_between_two_questions_are_believed_after_a_while(status):
    teller = status.Teller()
    teller.answer(status.Seen(5, BOTH), 0.0)
    for now in (1.0, 2.9):
        with pytest.raises(status.UnsettledError):
            teller.answer(status.Seen(7, BOTH), now)
    assert teller.answer(status.Seen(7, BOTH), 3.0)["view"] == 7


def test_a_server_without_a_view_says_nothing_until_it_was_in_one(status):
    teller, offline = status.Teller(), status.Seen(0, (("n1", "OFFLINE", "", 1),))
    with pytest.raises(LookupError, match="OFFLINE"):
        teller.answer(offline, 0.0)
    teller.answer(status.Seen(5, BOTH), 0.2)
    assert teller.answer(offline, 0.4) == {"role": "offline", "view": 5, "primary": None}


def test_a_view_between_two_primaries_names_none(status):
    nobody = (("n1", "ONLINE", "SECONDARY", 1),)
    assert status.Teller().answer(status.Seen(6, nobody), 0.0) == {"role": "secondary", "view": 6, "primary": None}


@pytest.fixture
def said(status, server, monkeypatch, tmp_path):
    """What the program prints while the server answers like this."""

    def run(*answers, lines):
        server.answers = list(answers)
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * lines))
        monkeypatch.setattr(sys, "stdout", out := io.StringIO())
        status.main("127.0.0.1", "3306", str(tmp_path / "view"))
        return [json.loads(line) for line in out.getvalue().splitlines()]

    return run


def test_the_program_answers_each_line_and_connects_anew_after_an_error(said, server):
    found = said("refuses", view(3), BOTH, view(3), FakeError("gone"), view(3), BOTH, view(3), lines=4)
    assert [one.get("role") for one in found] == [None, "primary", None, "primary"]
    assert server.opened == 3


def test_a_server_that_starts_has_the_view_that_it_had_before(said):
    offline = [("n1", "OFFLINE", "", 1)]
    assert "no view yet" in said(view(0), offline, view(0), lines=1)[0]["error"]
    said(view(3), BOTH, view(3), view(4), ALONE, view(4), lines=2)
    assert said(view(0), offline, view(0), lines=1) == [{"role": "offline", "view": 4, "primary": None}]
