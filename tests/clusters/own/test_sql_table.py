"""``[ops]`` with ``protocol = "sql"``: what may stand there, and what two systems of the gallery would write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.own.clients import SQL
from dethrone.clusters.own.node_words import member_words
from dethrone.clusters.own.sql_table import given_to_client
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.errors import ConfigError
from tests.clusters.own.described import TEXT, described, specs, system

HTTP = TEXT[TEXT.index("put = ") : TEXT.index("[promise]")]
PACKAGES = ('name = "mine"', 'name = "mine"\npython = ["pymysql==1.1.2"]')
SERVES = """SELECT MAX(MEMBER_ID = @@server_uuid AND MEMBER_STATE = 'ONLINE')
  AND 2 * SUM(MEMBER_STATE = 'UNREACHABLE') < COUNT(*) FROM performance_schema.replication_group_members"""
MYSQL = """
protocol = "sql"
driver = "pymysql"
connect = { host = "{address}", port = "{peer}", user = "u", password = "{password}", database = "k", client_flag = 2 }
put = '''INSERT INTO registers VALUES ({key}, CAST({value} AS JSON))
  ON DUPLICATE KEY UPDATE value = CAST({value} AS JSON)'''
append = '''INSERT INTO lists VALUES ({key}, JSON_ARRAY({value}))
  ON DUPLICATE KEY UPDATE value = JSON_ARRAY_APPEND(value, '$', {value})'''
fail_codes = [1062, 1290]
[ops.get]
sql = "SELECT value FROM registers WHERE name = {key}"
guard = '''GUARD'''
[ops.read]
sql = "SELECT value FROM lists WHERE name = {key}"
guard = '''GUARD'''
[ops.cas]
sql = "UPDATE registers SET value = CAST({value} AS JSON) WHERE name = {key} AND value = CAST({old} AS JSON)"
create = "INSERT INTO registers VALUES ({key}, CAST({value} AS JSON))"
[knobs]
password = ""
""".replace("GUARD", SERVES)
POSTGRESQL = """
protocol = "sql"
driver = "pg8000.dbapi"
connect = { host = "{address}", port = "{peer}", user = "postgres", database = "postgres" }
append = '''INSERT INTO lists VALUES ({key}, jsonb_build_array({value}::bigint))
  ON CONFLICT (key) DO UPDATE SET value = lists.value || excluded.value'''
read = "SELECT value FROM lists WHERE key = {key}"
put = '''INSERT INTO registers VALUES ({key}, to_jsonb({value}::bigint))
  ON CONFLICT (key) DO UPDATE SET value = excluded.value'''
get = "SELECT value FROM registers WHERE key = {key}"
fail_codes = ["25006"]
[ops.cas]
sql = "UPDATE registers SET value = to_jsonb({value}::bigint) WHERE key = {key} AND value = to_jsonb({old}::bigint)"
create = "INSERT INTO registers VALUES ({key}, to_jsonb({value}::bigint)) ON CONFLICT DO NOTHING"
"""


def given(ops, settings=None):
    """What the client's process is made with."""
    of = system(PACKAGES, (HTTP, ops))
    knobs = of.knobs(settings or {}, profile=None, variant=None)
    description = described(PACKAGES, (HTTP, ops))
    nodes = {name: msgspec.structs.replace(node, knobs=knobs) for name, node in specs(of).items()}
    words = {name: {**node.knobs, **member_words(description, name, node)} for name, node in nodes.items()}
    table = description.node
    return given_to_client(description.ops, words, ports=table.ports, knobs=description.knobs, secrets=table.secrets)


@pytest.mark.parametrize("ops", [MYSQL, POSTGRESQL], ids=["mysql", "postgresql"])
def test_the_operations_of_two_systems_of_the_gallery_can_be_said(ops):
    made = given(ops)
    assert set(made["operations"]) == {"put", "get", "cas", "append", "read"}
    assert json.loads(json.dumps(made)) == msgspec.json.decode(msgspec.json.encode(made))
    assert OwnSystem(described(PACKAGES, (HTTP, ops))).defaults().workload == "register"


def test_connections_have_the_words_of_their_node_and_its_port_as_a_number():
    made = given(MYSQL, {"password": "s3cret"})
    assert made["connect"]["n2"] == {
        "host": "10.0.0.2",
        "port": 7000,
        "user": "u",
        "password": "s3cret",
        "database": "k",
        "client_flag": 2,
    }
    assert made["hidden"] == ["s3cret"]


def test_statements_and_codes_are_shared_or_of_one_operation():
    ops = described(PACKAGES, (HTTP, MYSQL.replace("[ops.cas]", "[ops.cas]\nfail_codes = []\nfail_pattern = 'x'"))).ops
    assert ops["put"].fail_codes == (1062, 1290)
    assert (ops["cas"].fail_codes, ops["cas"].fail_pattern) == ((), "x")
    assert len(ops["cas"].create) == len(ops["append"].sql) == 1
    assert described(PACKAGES, (HTTP, MYSQL)).ops_port == ""


def test_an_operation_may_be_a_command_among_statements():
    command = "ok_pattern = 'done'\nadd = { command = 'ctl add {key} {address}', fail_pattern = 'no' }\nfail_codes"
    found = described(PACKAGES, (HTTP, MYSQL.replace("fail_codes", command)))
    assert (found.ops["add"].sql, found.ops["add"].command) == ((), "ctl add {key} {address}")
    assert (found.ops["put"].command, found.ops_port) == (None, "")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('driver = "pymysql"\n', "", "which driver speaks SQL"),
        ('"pymysql"', '"py mysql"', "is no Python module"),
        ('protocol = "sql"\n', "", 'driver needs protocol = "sql"'),
        ('protocol = "sql"', 'protocol = "sqll"', "unknown protocol"),
        ('protocol = "sql"', 'protocol = "sql"\nport = "peer"', "port says nothing of an operation by SQL"),
        ('protocol = "sql"', 'protocol = "sql"\nok = [200]', "ok says nothing"),
        ("[ops.cas]", "[ops.cas]\nrefused = [1]", "refused says nothing"),
        ("[ops.cas]", "[ops.cas]\nok_pattern = 'x'", "ok_pattern says nothing"),
        ("[ops.cas]", '[ops.cas]\ndriver = "sqlite3"', "driver is theirs"),
        ("[ops.get]", "[ops.get]\ncheck = 'SELECT 1'", "check belongs to cas"),
        ("[ops.get]", '[ops.get]\ncommand = "ctl"', "sql needs protocol"),
        ('sql = "SELECT value FROM registers WHERE name = {key}"', "sql = []", "has no statement"),
        ('sql = "SELECT value FROM registers WHERE name = {key}"', "sql = ['SELECT 1', ' ']", "is empty"),
        ("FROM registers WHERE name = {key}", "FROM registers WHERE name = '{key}'", "within quotes"),
        ("FROM registers WHERE name = {key}", "FROM registers WHERE name = {value}", "unknown word"),
        ("FROM registers WHERE name = {key}", "FROM registers WHERE name = {kee}", "{key}"),
        ('create = "INSERT INTO registers VALUES ({key},', 'create = "INSERT INTO registers VALUES ({old},', "{old}"),
        ("[1062, 1290]", "[1062, 'a b']", "no code of an error"),
        ("[1062, 1290]", "[1062, 1.5]", "wrong form"),
        ("[1062, 1290]", "[]\nfail_pattern = '('", "no regular expression"),
        ('password = "{password}"', 'password = "hunter2"', "password stands in the description"),
        ('password = "{password}"', 'dsn = "mysql://root:hunter2@{address}"', "dsn stands in the description"),
        ('password = "{password}"', 'dsn = "host={address} password=hunter2"', "dsn stands in the description"),
        ('host = "{address}"', 'host = "{adress}"', "{address}"),
        ('host = "{address}"', "host = ['{address}']", "wrong form"),
        ("client_flag = 2", "autocommit = true", "is a transaction"),
        (re.search("connect = .*", MYSQL)[0], "connect = {}", "how to connect"),
        (re.search("connect = .*", MYSQL)[0], "", "how to connect"),
    ],
)
def test_what_cannot_be_carried_out_by_sql_is_refused_with_the_description(old, new, error):
    assert old in MYSQL
    with pytest.raises(ConfigError) as refused:
        described(PACKAGES, (HTTP, MYSQL.replace(old, new)))
    assert error in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_driver_comes_with_a_package_or_with_python():
    with pytest.raises(ConfigError, match="no package brings the driver 'pymysql'"):
        described((HTTP, MYSQL))
    assert described((HTTP, MYSQL.replace('"pymysql"', '"sqlite3"'))).ops["get"].driver == "sqlite3"


@pytest.mark.parametrize("line", ['guard = "SELECT 1"', "fail_codes = [1]", "connect = { host = 'a' }"])
def test_other_protocols_have_none_of_its_keys(line):
    for before in ("put = ", "get = "):
        key = line.partition(" ")[0]
        with pytest.raises(ConfigError, match=f'{key} needs protocol = "sql"'):
            described((before, f"{line}\n{before}"))
    with pytest.raises(ConfigError, match=f'{key} needs protocol = "sql"'):
        described(('get = "GET /kv/{key}"', f'get = {{ request = "GET /kv/{{key}}", {line} }}'))


def test_what_only_faults_ask_for_is_not_by_sql():
    table = '[membership]\nprotocol = "sql"\ntransfer = "SELECT 1"\n[promise]'
    with pytest.raises(ConfigError, match="unknown protocol"):
        described(("[promise]", table))


def test_the_process_finds_the_client_and_the_packages(monkeypatch, tmp_path):
    monkeypatch.setattr("dethrone.clusters.own.clients.unpacked", lambda *_, **__: tmp_path / "packages")
    of = system(PACKAGES, (HTTP, MYSQL))
    first, second = (of.client(specs(of))._process._program for _ in range(2))
    assert (first.file, first._name, first._path) == (SQL, "SqlClient", [str(tmp_path / "packages")])
    assert first is second


def test_the_reference_shows_operations_by_sql_that_are_right():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```toml\n# by SQL.*?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    text = TEXT.replace("[ops]\n" + HTTP, block.replace("[system]\n", "").replace("python = ", "#"))
    text = text.replace("ports = { peer = 7000,", "ports = { sql = 3306,")
    found = described(('name = "mine"', 'name = "mine"\npython = ["pymysql==1.1.2"]'), text=text)
    assert set(found.ops) == {"put", "get", "cas", "append", "read"}
    assert all(op.driver == "pymysql" for op in found.ops.values())
