"""What a host does to remove its node from the members and add it again, against nodes that answer over HTTP."""

from __future__ import annotations

import contextlib
import http.server
import json
import sys

import msgspec
import pytest

from dethrone.clusters.systems import membership_host
from dethrone.clusters.systems.membership import MEMBER_ID, Changes, Request, Words, membership_files, program
from dethrone.clusters.systems.membership_host import Membership
from tests.clusters.systems.specs import at_loopback
from tests.served import served


class Cluster:
    """Two other nodes, n2 and n3, that share a list of members. ``deaf``: they refuse changes; ``gone``: every call."""

    def __init__(self):
        self.members = {"n1": "17", "n2": "2", "n3": "3"}
        self.changes, self.refusing, self.gone = [], set(), False
        self.servers = {name: self.server(name) for name in ("n1", "n2", "n3")}

    def server(self, name):
        cluster = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(500 if cluster.gone else 200)

            def do_PUT(self):
                self.change(lambda: cluster.members.update(n1="18"))

            def do_DELETE(self):
                self.change(lambda: cluster.members.pop("n1"))

            def change(self, carry_out):
                cluster.changes.append(f"{self.command} {self.path} at {name}")
                if name in cluster.refusing or cluster.gone:
                    self.answer(421)
                else:
                    carry_out()
                    self.answer(200)

            def answer(self, status):
                body = json.dumps([{"name": key, "id": value} for key, value in cluster.members.items()]).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@pytest.fixture
def cluster():
    made = Cluster()
    with contextlib.ExitStack() as stack:
        for server in made.servers.values():
            stack.enter_context(served(server))
        yield made


@pytest.fixture
def host(cluster, tmp_path, monkeypatch):
    """The directories of n1, and a verb that runs there. ``hurried``: its verbs give up soon meanwhile."""
    monkeypatch.setattr(membership_host, "PAUSE_S", 0.01)
    (tmp_path / "data" / "wal").mkdir(parents=True)
    (tmp_path / "data" / "wal" / "0").write_text("log")

    class Host:
        data = tmp_path / "data"

        @contextlib.contextmanager
        def hurried(self):
            with monkeypatch.context() as meanwhile:
                meanwhile.setattr(membership_host, "LIMIT_S", 0.3)
                yield

        def placed(self, member=r'"name": "n1", "id": "(?P<id>\d+)"', *, fresh=True):
            node = msgspec.structs.replace(
                at_loopback(),
                members=dict.fromkeys(cluster.servers, ""),
                run_dir=str(tmp_path),
                data_dir=str(self.data),
            )
            for path, content in membership_files(node, Changes(ask=self.ask, member=member, fresh=fresh)).items():
                assert path.startswith(f"{tmp_path}/membership.")
                (tmp_path / path.rpartition("/")[2]).write_bytes(content)
            return self

        def ask(self, what, of):
            place = {"address": "127.0.0.1", "port": cluster.servers[of].server_address[1]}
            way = {"members": ("GET", "/"), "remove": ("DELETE", f"/{MEMBER_ID}"), "add": ("PUT", "/n1")}[what]
            return Request(**place, method=way[0], path=way[1], body="{}" if what == "add" else "")

        def run(self, verb):
            return getattr(Membership(str(tmp_path)), verb)()

        def left(self):
            return sorted(one.name for one in tmp_path.iterdir() if one.name in {"membership", "rejoins"})

    return Host()


def test_a_node_is_removed_by_its_id_and_returns_with_nothing_stored_and_each_end_is_seen(cluster, host):
    host.placed()
    assert "not asked for" in host.run("check")
    assert host.run("begin") == host.run("begin") == host.run("check") == ""
    assert cluster.changes == ["DELETE /17 at n2"]
    assert (sorted(cluster.members), host.left()) == (["n2", "n3"], ["membership"])
    assert (host.data / "wal" / "0").exists(), "it may still run"
    assert host.run("end") == host.run("end") == ""
    assert cluster.changes[1:] == ["PUT /n1 at n2"]
    assert (list(host.data.iterdir()), host.left()) == ([], ["rejoins"])
    assert "not asked for" in host.run("check")


def test_what_a_system_needs_not_forget_is_kept(host):
    host.placed(fresh=False)
    assert host.run("begin") == host.run("end") == ""
    assert (host.data / "wal" / "0").exists()


def test_a_leader_that_alone_may_change_members_is_asked_to_remove_itself(cluster, host):
    host.placed()
    cluster.refusing = {"n2", "n3"}
    assert host.run("begin") == ""
    assert cluster.changes == [f"DELETE /17 at {name}" for name in ("n2", "n3", "n1")]


def test_nothing_is_asked_before_an_answer_was_understood(cluster, host):
    host.placed(member="no such pattern")
    assert host.run("begin") == "0 of 2 nodes that answer list it as a member before the removal"
    assert (cluster.changes, host.left()) == ([], [])
    assert host.run("end") == ""
    assert (host.data / "wal" / "0").exists()


def test_a_look_shows_what_each_of_the_others_says_and_changes_nothing(cluster, host, capsys):
    host.placed()
    assert host.run("look") == ""
    others = json.loads(capsys.readouterr().out)["others"]
    assert [(one["done"], one["listed"], one["id"]) for one in others] == [(True, True, "17")] * 2
    assert others[0]["said"].startswith('[{"name": "n1"')
    cluster.gone = True
    host.placed(member="n4")
    assert host.run("look") == ""
    others = json.loads(capsys.readouterr().out)["others"]
    assert [(one["done"], one["listed"], one["id"]) for one in others] == [(False, False, None)] * 2
    assert (cluster.changes, host.left()) == ([], [])


def test_a_refused_change_is_no_change_and_the_refusal_is_named(cluster, host):
    host.placed()
    cluster.refusing = {"n1", "n2", "n3"}
    with host.hurried():
        assert "still listed by 2 of 2" in host.run("begin")
    assert host.run("check") == "all nodes that answer list it as a member"
    assert host.run("end") == ""
    assert (host.left(), (host.data / "wal" / "0").exists()) == ([], True)


def test_while_no_other_node_answers_what_was_seen_last_counts(cluster, host):
    host.placed()
    host.run("begin")
    cluster.gone = True
    with host.hurried():
        assert host.run("check") == ""
        assert "listed by 0 of 0" in host.run("end")
    assert (host.left(), (host.data / "wal" / "0").exists()) == (["membership"], True)
    cluster.gone = False
    assert host.run("end") == ""
    assert host.left() == ["rejoins"]


def test_an_end_that_was_killed_after_the_node_was_added_removes_nothing(cluster, host):
    host.placed()
    host.run("begin")
    cluster.members["n1"] = "19"
    assert host.run("end") == ""
    assert cluster.changes == ["DELETE /17 at n2"]
    assert (host.data / "wal" / "0").exists()


def test_a_command_is_run_on_the_host_itself(host, monkeypatch):
    host.placed()
    monkeypatch.setattr(
        host, "ask", lambda what, of: Words((sys.executable, "-c", f"print('{of} {MEMBER_ID} {what}')"))
    )
    host.placed(member=r"(?P<id>n\d)")
    one = Membership(str(host.data.parent))
    assert one.listed() == [True, True]
    assert one.member_id == "n3"
    asked = one.config["own"]["remove"]
    assert membership_host.asked(asked, "n7") == (True, "n1 n7 remove\n")


def test_the_program_says_why_it_did_not_work_and_needs_nothing_but_itself(host):
    host.placed(member="no such pattern")
    with pytest.raises(SystemExit, match="membership: 0 of 2"):
        membership_host.main(["begin", str(host.data.parent)])
    assert b"import dethrone" not in program()
    assert b"from dethrone" not in program()
