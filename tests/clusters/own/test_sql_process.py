"""Operations by SQL through the whole way: a description, a client's process, and SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from types import MappingProxyType

import msgspec
import pytest

from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.client_process import ClientProcess, ClientProgram
from dethrone.clusters.own.clients import SQL
from dethrone.clusters.own.sql_table import given_to_client
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.clock import MS, SECOND
from tests.clusters.own.described import TEXT, described, specs

pytestmark = pytest.mark.processes

HTTP = TEXT[TEXT.index("put = ") : TEXT.index("[promise]")]
OPS = """
protocol = "sql"
driver = "sqlite3"
connect = { database = "{file}", timeout = 0.2 }
put = "INSERT INTO registers VALUES ({key}, {value}) ON CONFLICT DO UPDATE SET value = excluded.value"
get = "SELECT value FROM registers WHERE name = {key}"
append = "INSERT INTO lists (name, value) VALUES ({key}, {value})"
read = "SELECT value FROM lists WHERE name = {key} ORDER BY id"
fail_codes = ["SQLITE_BUSY"]
[ops.cas]
sql = "UPDATE registers SET value = {value} WHERE name = {key} AND value = {old}"
create = "INSERT INTO registers VALUES ({key}, {value})"
check = "SELECT value FROM registers WHERE name = {key}"
fail_codes = ["SQLITE_CONSTRAINT_PRIMARYKEY"]
[knobs]
file = ""
"""
TABLES = """
CREATE TABLE registers (name TEXT PRIMARY KEY, value INTEGER);
CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT, value INTEGER);
"""
SLOW = """
import time
paramstyle = "qmark"
class Error(Exception):
    pass
def connect(slow):
    if slow == "connect":
        time.sleep(60)
    return Connection()
class Connection:
    def cursor(self):
        return self
    description, rowcount = None, 1
    def execute(self, _, words):
        if words[0] == "slow":
            time.sleep(60)
    def commit(self):
        pass
    def close(self):
        pass
"""
LONG_NS = 20 * SECOND


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
    return path


@pytest.fixture
def client(file):
    of = OwnSystem(described((HTTP, OPS)))
    knobs = of.knobs({"file": str(file)}, profile=None, variant=None)
    made = of.client({name: msgspec.structs.replace(node, knobs=knobs) for name, node in specs(of).items()})
    yield made
    made.close()


def ask(client, f, value, *, timeout_ns=LONG_NS):
    out = client.invoke(f, value, target="n1", timeout_ns=timeout_ns)
    return out.status, out.value


def test_each_operation_is_a_transaction_of_sqlite(client, file):
    assert ask(client, "get", "k") == ("ok", None)
    assert ask(client, "cas", ["k", None, 1]) == ("ok", True)
    assert ask(client, "cas", ["k", None, 2]) == ("fail", None), "the key is there already, which fail_codes lists"
    assert ask(client, "put", ["k", 17]) == ("ok", None)
    assert ask(client, "cas", ["k", 17, 18]) == ("ok", True)
    assert ask(client, "cas", ["k", 17, 19]) == ("ok", False)
    assert ask(client, "get", "k") == ("ok", 18)
    assert ask(client, "read", "l") == ("ok", [])
    assert [ask(client, "append", ["l", item]) for item in (3, 4)] == [("ok", None)] * 2
    assert ask(client, "read", "l") == ("ok", [3, 4])
    with contextlib.closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT value FROM registers").fetchall() == [(18,)]


def test_a_key_that_looks_like_sql_is_only_a_key(client):
    key = "'); DROP TABLE registers; --"
    assert ask(client, "put", [key, 1]) == ("ok", None)
    assert ask(client, "get", key) == ("ok", 1)


def test_a_lock_of_another_client_is_a_refusal_before_the_commit(client, file):
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        out = client.invoke("put", ["k", 1], target="n1", timeout_ns=LONG_NS)
        assert (out.status, "SQLITE_BUSY" in out.error) == ("fail", True)
        other.execute("ROLLBACK")
    assert ask(client, "put", ["k", 1]) == ("ok", None)


def test_a_refusal_that_is_not_listed_is_doubt_and_shows_its_codes(client, file):
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("DROP TABLE lists")
    out = client.invoke("append", ["l", 1], target="n1", timeout_ns=LONG_NS)
    assert out.status == "info"
    assert "OperationalError 1 SQLITE_ERROR: no such table: lists" in out.error
    assert ask(client, "read", "l")[0] == "fail", "a read that failed changed nothing"


@pytest.mark.parametrize(("slow", "status"), [("connect", "fail"), ("execute", "info")])
def test_a_connection_that_is_not_made_in_time_is_no_doubt_and_a_statement_without_an_answer_is(tmp_path, slow, status):
    (tmp_path / "slow_sql.py").write_text(SLOW)
    ops = {"put": described((HTTP, OPS)).ops["put"]}
    ops = {"put": msgspec.structs.replace(ops["put"], driver="slow_sql", connect={"slow": slow})}
    given = given_to_client(ops, {"n1": {}}, ports={}, knobs=(), secrets=())
    process = ClientProcess(ClientProgram(f"{SQL.name}:SqlClient", SQL.parent, given, path=[str(tmp_path)]))
    of = OwnSystem(described())
    client = OwnClient({"n1": specs(of)["n1"]}, ops, port=0, process=process)
    with contextlib.closing(client):
        begun = time.monotonic()
        assert ask(client, "put", ["quick", 1])[0] == ("fail" if slow == "connect" else "ok")
        assert ask(client, "put", ["slow", 1], timeout_ns=LONG_NS if slow == "connect" else 500 * MS)[0] == status
        assert time.monotonic() - begun < 40


def test_a_driver_that_is_not_there_is_said_and_nothing_was_done():
    ops = {"put": msgspec.structs.replace(described((HTTP, OPS)).ops["put"], driver="no_such_driver")}
    given = given_to_client(ops, MappingProxyType({"n1": {}}), ports={}, knobs=(), secrets=())
    process = ClientProcess(ClientProgram(f"{SQL.name}:SqlClient", SQL.parent, given))
    with contextlib.closing(
        OwnClient({"n1": specs(OwnSystem(described()))["n1"]}, ops, port=0, process=process)
    ) as client:
        out = client.invoke("put", ["k", 1], target="n1", timeout_ns=LONG_NS)
    assert out.status == "fail"
    assert "no_such_driver" in out.error
