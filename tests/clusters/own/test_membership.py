"""``[membership]``: how a described system is asked to move leadership, and to change its members."""

from __future__ import annotations

import http.server
import json
import re

import pytest

from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.operations import MEMBERSHIP, operations
from dethrone.clusters.own.spec import NodeTable
from dethrone.clusters.own.system import load
from dethrone.clusters.systems.membership import program
from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError, MissingCapability
from dethrone.harness.core.interfaces import No, Yes
from dethrone.harness.engine.run.asked_of_system import refuse_unremaking
from tests.clusters.own.described import TEXT, specs, system
from tests.clusters.systems.specs import at_loopback
from tests.served import served

SECOND = 1_000_000_000
WORDS = {"n1": {"address": "127.0.0.1", "number": "1"}, "n2": {"address": "10.0.0.2", "number": "2"}}


def parsed(**raw):
    return operations(raw, NodeTable(ports={"http": 80}), {}, where="[membership]", names=MEMBERSHIP)


@pytest.fixture
def server():
    """Says yes, and keeps what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.path)
            self.send_response(421 if self.path.endswith("n9") else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with served(running):
        yield running.server_address[1], asked


def client(port, op):
    nodes = {"n1": at_loopback(), "n2": at_loopback()}
    return OwnClient(nodes, parsed(transfer=op)[0], port=port, words=WORDS)


def test_by_a_request_the_leader_is_given_name_address_and_number_of_the_next_one(server):
    port, asked = server
    one = client(port, "POST /to/{target}/{target_address}/{target_number}")
    done = one.invoke("transfer", "n2", target="n1", timeout_ns=SECOND)
    assert (done.status, done.node, asked) == ("ok", "n1", ["/to/n2/10.0.0.2/2"])
    one.close()


def test_an_answer_that_is_declared_to_be_a_refusal_is_certain(server):
    one = client(server[0], {"request": "POST /to/{target}", "fail": [421]})
    assert one.invoke("transfer", "n9", target="n1", timeout_ns=SECOND).status == "fail"
    one.close()


@pytest.mark.parametrize(
    ("command", "status"), [("/bin/echo moved {target_address}", "ok"), ("/bin/echo not leader", "fail")]
)
def test_by_a_command_its_output_says_what_came_of_it(command, status):
    one = client(1, {"command": command, "ok_pattern": "^moved 10.0.0.2$", "fail_pattern": "not leader"})
    assert one.invoke("transfer", "n2", target="n1", timeout_ns=5 * SECOND).status == status


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"transfer": "POST /to/{key}"}, "{key}"),
        ({"transfer": {"command": "lead {target}"}}, "fail_pattern"),
        ({"put": "PUT /x"}, "put"),
        ({"client": "c.py:Client", "serves": ["append"]}, "append"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(raw, why):
    with pytest.raises(ConfigError, match="membership") as refused:
        parsed(**raw)
    assert why in str(refused.value)


def test_a_described_system_is_asked_for_transfers_only_where_its_file_says_how():
    asked = system(("[promise]", '[membership]\nport = "peer"\ntransfer = "POST /to/{target}"\n[promise]'))
    assert asked.operations() - system().operations() == {"transfer"}
    client = asked.client(specs(asked))
    gone = client.invoke("transfer", "n2", target="n9", timeout_ns=SECOND)
    assert (gone.status, gone.error) == ("fail", "no node 'n9'")
    client.close()


def test_a_file_of_a_client_that_is_not_there_is_named(tmp_path):
    file = tmp_path / "mine.toml"
    table = '[membership]\nclient = "gone.py:Client"\nserves = ["transfer"]\n[promise]'
    file.write_text(TEXT.replace("[promise]", table))
    with pytest.raises(ConfigError, match=r"gone\.py") as refused:
        load(file)
    assert "[membership] client" in str(refused.value)


CHANGES = """[membership]
port = "http"
members = "GET /members"
member = '"{target}@{target_address}"'
remove = "DELETE /members/{target}"
add = { command = "ctl --at {address}:{http} add {target_number}" }
fresh = true
[promise]"""


def test_members_change_only_where_the_file_says_how_and_the_host_gets_what_it_needs_for_that():
    able = system(("[promise]", CHANGES))
    assert isinstance(able.changes_members(), Yes)
    assert isinstance(system().changes_members(), No)
    assert able.operations() == system().operations()
    nodes = specs(able)
    files = able.files(nodes["n1"])
    config = json.loads(files[f"{nodes['n1'].run_dir}/membership.json"])
    assert files[f"{nodes['n1'].run_dir}/membership.py"] == program()
    assert (config["fresh"], config["data_dir"]) == (True, nodes["n1"].data_dir)
    assert re.search(config["member"], f'["n1@{nodes["n1"].address}"]')
    assert not re.search(config["member"], f'["n2@{nodes["n2"].address}"]')
    asked = config["others"][0]
    place = (asked["remove"]["address"], asked["remove"]["port"], asked["remove"]["method"], asked["remove"]["path"])
    assert place == (nodes["n2"].address, 8000, "DELETE", "/members/n1")
    assert asked["add"]["argv"] == ["ctl", "--at", f"{nodes['n2'].address}:8000", "add", "1"]
    assert [one["members"]["address"] for one in config["others"]] == [nodes["n2"].address, nodes["n3"].address]
    assert able.look_at_members(nodes["n1"]) == ("/py", "-S", "/r/membership.py", "look", "/r")
    assert system().look_at_members(nodes["n1"]) == ()
    assert ("[membership] add", "ctl") in able.programs(nodes["n1"])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("member = '\"{target}@{target_address}\"'\n", "", "belong together"),
        ('remove = "DELETE /members/{target}"\n', "", "belong together"),
        ("fresh = true", 'fresh = "yes"', "true or false"),
        ("'\"{target}@", "'(", "no regular expression"),
        ("/members/{target}", "/members/{key}", "{key}"),
        ('add = { command = "ctl --at {address}:{http} add {target_number}" }', 'add = ["ADD"]', "add"),
    ],
)
def test_changes_of_members_that_cannot_be_meant_are_refused_with_their_place(old, new, why):
    assert old in CHANGES
    with pytest.raises(ConfigError, match="membership") as refused:
        system(("[promise]", CHANGES.replace(old, new)))
    assert why in str(refused.value)


def test_a_system_whose_members_cannot_change_refuses_the_fault_before_the_run():
    refuse_unremaking(registry.load(registry.SYSTEMS, "etcd"), "member")
    for named in ("nacos", "raft"):
        of = registry.load(registry.SYSTEMS, named)
        refuse_unremaking(of, "kill")
        with pytest.raises(MissingCapability, match=f"members of {named} cannot be changed"):
            refuse_unremaking(of, "member")
