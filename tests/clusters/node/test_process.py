"""Real processes around the toy core: what the shell promises whatever the protocol."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from dethrone.clusters.node.journal import replay
from tests.clusters.node.node_cluster import Client, wait_for
from tests.clusters.node.toy_target import POLITE, TARGET

pytestmark = pytest.mark.processes

BOTH = pytest.mark.parametrize("target", ["toy_target:TARGET", "toy_http.target:TARGET"])


def heard(node):
    return node.status()["extra"]["heard"]


def meshed(cluster):
    """The nodes of a cluster that was started, once all have heard all others."""
    cluster.start()
    names = set(cluster.nodes)
    wait_for(lambda: all(set(heard(node)) == names - {name} for name, node in cluster.nodes.items()))
    return list(cluster.nodes.values())


@pytest.fixture
def n1(clusters):
    """A node that runs alone."""
    cluster = clusters(1)
    cluster.start()
    return cluster.nodes["n1"]


class FakePeer:
    """A TCP peer made of a plain socket: what it writes is what the node reads."""

    def __init__(self, node, name):
        self.sock = socket.create_connection((node.address, node.cluster.config["peer_port"]), timeout=5)
        if name is not None:
            self.send({"hello": name})

    def send(self, value):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.sock.sendall(len(data).to_bytes(4, "big") + data)

    def closed(self):
        """Whether the node hangs up, within the socket's limit."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


@BOTH
def test_peers_find_each_other_and_a_stopped_node_says_goodbye(clusters, target):
    n1 = meshed(clusters(3, target=target))[0]
    n1.signal(signal.SIGTERM)
    assert n1.wait() == 0
    assert [line["event"] for line in n1.trace()][:3] == ["boot", "persisted", "start"]
    assert n1.trace()[-1]["event"] == "stopped"
    assert [line["seq"] for line in n1.trace()] == list(range(1, len(n1.trace()) + 1))
    assert '"reason":"stopped"' in n1.journal_path.read_text().splitlines()[-1]


def test_a_graceful_core_is_told_of_sigterm_and_what_it_stores_and_says_then_is_stored_and_heard(clusters):
    n1, n2 = meshed(clusters(2, target="toy_target:POLITE"))
    n1.signal(signal.SIGTERM)
    assert n1.wait() == 0
    events = [line["event"] for line in n1.trace()]
    assert "goodbye" in events
    assert events[-1] == "stopped"
    assert (n1.data / "goodbye").read_bytes() == b"1"
    journal = n2.journal_path
    wait_for(lambda: '"n":-5000' in journal.read_text(), what="the farewell")
    assert sum(1 for _ in replay(n1.journal_path, POLITE)) > 1


def test_a_graceful_core_whose_last_words_cannot_leave_ends_all_the_same(clusters):
    n1, n2 = meshed(clusters(2, target="toy_target:POLITE"))
    n2.signal(signal.SIGSTOP)
    n1.signal(signal.SIGTERM)
    assert n1.wait() == 0


def test_a_message_that_found_no_connection_is_told_as_failed(clusters):
    cluster = clusters(2, target="toy_target:TARGET")
    cluster.nodes["n1"].start()
    wait_for(lambda: cluster.nodes["n1"].status()["extra"]["failures"] > 3, what="failures")


@BOTH
def test_a_live_journal_replays_to_the_same_effects(clusters, target):
    n1 = meshed(clusters(2, target=target, rpc_timeout_ms=4000))[0]
    client = n1.client()
    assert client.ask("store", value=3)["value"] == 3
    assert client.ask("flood", to="n2", count=500)["value"] > 0
    n1.kill()
    assert sum(1 for _ in replay(n1.journal_path, TARGET)) > 500


@BOTH
def test_a_dead_peer_is_found_again(clusters, target):
    n1, n2 = meshed(clusters(2, target=target))
    n2.kill()
    if "http" in target:
        before = n1.status()["extra"]["failures"]
        wait_for(lambda: n1.status()["extra"]["failures"] > before + 2, what="failures are told to the core")
    n2.start()
    wait_for(lambda: "n1" in heard(n2), limit_s=2.0, what="n1 dials n2 again")
    before = heard(n1)["n2"]
    wait_for(lambda: heard(n1)["n2"] > before + 3)


def test_what_was_acknowledged_survives_kill_9_and_the_draws_differ_after_a_restart(n1):
    assert n1.client().ask("store", value=42)["value"] == 42
    n1.kill()
    n1.start()
    status = n1.status()
    assert (status["term"], status["incarnation"]) == (42, 2)
    assert status["persisted"] == {"term": 42, "voted_for": "n1", "raw": {"voted_for": "n1"}}
    first, second = (line["data"]["draw"] for line in n1.events("start"))
    assert first != second
    assert [line["incarnation"] for line in n1.events("boot")] == [1, 2]


def test_the_record_has_the_common_fields(clusters):
    cluster = clusters(1)
    cluster.start()
    status = cluster.nodes["n1"].status()
    common = (
        "node system group role term leader voted_for log_end commit hw persisted started_at mono_ms wall_ms mono_ns"
    )
    assert set(common.split()) | {"wall_ns", "timers", "counters", "extra", "incarnation", "held"} == set(status)
    assert status["log_end"] == {"index": 0, "term": 0}
    assert status["system"] == "toy"
    assert status["mono_ms"] == status["mono_ns"] // 1_000_000
    assert abs(status["wall_ns"] - time.time_ns()) < 5_000_000_000


def test_status_is_answered_fast_and_without_an_effect(n1):
    client = n1.client()
    times = []
    for _ in range(300):
        began = time.perf_counter_ns()
        client.status()
        times.append(time.perf_counter_ns() - began)
    # The best tenth: what the node needs, not what else runs on this machine.
    assert sorted(times)[30] < 1_000_000
    assert not n1.events("shell_failed")


def test_requests_are_pipelined_and_answered_by_their_ids(clusters):
    cluster = clusters(1)
    cluster.start()
    client = cluster.nodes["n1"].client()
    sent = {client.send(request={"type": "echo", "value": n}): n for n in range(500)}
    answers = [client.read() for _ in range(500)]
    assert {each["id"]: each["reply"]["value"] for each in answers} == sent


def test_everything_is_in_the_trace_before_it_can_be_seen(clusters):
    cluster = clusters(2)
    n1 = cluster.nodes["n1"]
    listener = socket.create_server((cluster.nodes["n2"].address, cluster.config["peer_port"]))
    listener.settimeout(5)
    n1.start()
    link, _ = listener.accept()
    link.settimeout(5)
    peer = FakePeer(n1, "n2")
    peer.send({"type": "ping", "n": -5})
    stream = link.makefile("rb")
    seen = []
    while len(seen) < 40:
        body = json.loads(stream.read(int.from_bytes(stream.read(4), "big")))
        trace = n1.trace()
        if body.get("type") == "pong":
            assert body["n"] in [line["data"]["n"] for line in trace if line["event"] == "acked"]
            seen.append(body["n"])
            peer.send({"type": "ping", "n": body["n"] - 1})
            peer.send({"type": "ping", "n": body["n"] - 1})
    client = n1.client()
    for value in range(1, 20):
        assert client.ask("store", value=value)["value"] == value
        events = [(line["event"], line["term"]) for line in n1.trace()]
        assert events.index(("persisted", value)) < events.index(("stored", value))
    listener.close()


def test_a_disk_error_drops_what_waited_and_is_told_to_the_core(n1):
    n1.status()  # answered: the data directory is there
    (n1.data / "folder").mkdir()
    answer = n1.client().ask("store", value=9, path="folder")
    assert "Is a directory" in answer["value"]
    assert not n1.events("stored")
    assert not [line for line in n1.events("persisted") if line["term"] == 9]
    assert len(n1.events("disk_error")) == 1
    assert n1.status()["counters"]["shell_effects_dropped"] >= 2, "on a busy machine a timer waited behind them, too"


def test_an_unreadable_file_reaches_the_core_which_halts(clusters):
    cluster = clusters(1)
    n1 = cluster.nodes["n1"]
    n1.data.mkdir()
    (n1.data / "value").symlink_to("nowhere")
    n1.start()
    assert n1.wait() == 70
    assert n1.events("halt")[0]["data"] == {"reason": "value is unreadable"}


def test_halt_ends_with_70_and_traces_what_came_before(n1):
    n1.client().send(request={"type": "misbehave", "how": "halt"})
    assert n1.wait() == 70
    assert [line["event"] for line in n1.trace()][-2:] == ["last", "halt"]


@pytest.mark.parametrize("how", ["raise", "value_error"])
def test_an_exception_of_the_core_ends_with_71_and_is_in_trace_and_journal(n1, how):
    n1.client().send(request={"type": "misbehave", "how": how})
    assert n1.wait() == 71
    crash = n1.trace()[-1]
    assert crash["event"] == "crashed"
    assert "told to raise" in crash["data"]["traceback"]
    assert not n1.events("never")
    with pytest.raises((RuntimeError, ValueError), match="told to raise"):
        list(replay(n1.journal_path, TARGET))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"target": "no_such"}, "no protocol target"),
        ({"knobs": {"a": "b"}}, "no such knob"),
        ({"node": "n9"}, "n9"),
        ({"rpc_timeout_ms": 0}, "positive"),
    ],
)
def test_a_wrong_configuration_ends_with_64_and_one_message(clusters, fields, says):
    cluster = clusters(1)
    n1 = cluster.nodes["n1"]
    n1.start(**fields)
    assert n1.wait() == 64
    text = (n1.home / "stderr").read_text()
    assert says in text
    assert "Traceback" not in text
    assert not n1.trace_path.exists()


def test_a_taken_port_is_told(clusters):
    cluster = clusters(1)
    n1 = cluster.nodes["n1"]
    with socket.create_server((n1.address, cluster.config["peer_port"])):
        n1.start()
        assert n1.wait() == 72
    assert "cannot listen" in (n1.home / "stderr").read_text()


def test_malformed_clients_are_cut_off_and_harm_nobody(n1):
    good = n1.client()
    for noise in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        (3).to_bytes(4, "big") + b"\xff\xfe{",
        (2).to_bytes(4, "big") + b"[]",
        (40_000).to_bytes(4, "big") + b"[" * 40_000,
        (8).to_bytes(4, "big") + b'{"id":1.',
    ):
        bad = Client(n1.address, n1.cluster.config["client_port"])
        bad.sock.sendall(noise)
        with pytest.raises(ConnectionError):
            bad.read()
    good.send(request={"type": "unknown"})
    assert "unknown" in good.read()["error"]
    good.send(request={"type": "echo", "value": "[" * 10})
    assert good.read()["reply"]["value"] == "[" * 10
    assert good.status()["counters"]["shell_client_malformed"] == 7


def test_a_client_that_leaves_before_its_answer_harms_nobody(n1):
    for value in range(20):
        client = n1.client()
        client.send(request={"type": "store", "value": value})
        client.close()
    good = n1.client()
    assert good.ask("store", value=99)["value"] == 99


def test_a_client_that_does_not_read_is_cut_off(n1):
    deaf = n1.client()
    deaf.sock.settimeout(0.2)
    good = n1.client()

    def cut_off():
        try:
            for _ in range(20):
                deaf.send(request={"type": "echo", "value": "x" * 200_000})
        except TimeoutError:
            pass
        except OSError:
            return True
        return good.status()["counters"].get("shell_client_cut_off", 0) > 0

    wait_for(cut_off)


def test_strangers_and_noise_at_the_peer_port_are_refused(clusters):
    cluster = clusters(2)
    cluster.nodes["n1"].start()
    n1 = cluster.nodes["n1"]
    n1.client()
    assert FakePeer(n1, "stranger").closed()
    nameless = FakePeer(n1, None)
    nameless.send({"type": "ping", "n": 1})
    assert nameless.closed()
    peer = FakePeer(n1, "n2")
    peer.send({"type": "ping", "n": -1})
    wait_for(lambda: heard(n1).get("n2") == 1)
    for noise in (b"\x00\xff", b'{"type":"none"}', b"[" * 30_000):
        peer = FakePeer(n1, "n2")
        peer.send(noise)
        assert peer.closed()
    huge = FakePeer(n1, "n2")
    huge.sock.sendall(b"\xff\xff\xff\xff")
    assert huge.closed()
    counters = n1.status()["counters"]
    assert counters["shell_unknown_hello"] == 1
    assert counters["shell_malformed"] == 6


def test_a_newer_flow_of_a_peer_replaces_the_older(clusters):
    cluster = clusters(2)
    cluster.nodes["n1"].start()
    n1 = cluster.nodes["n1"]
    n1.client()
    old = FakePeer(n1, "n2")
    old.send({"type": "ping", "n": -1})
    wait_for(lambda: heard(n1).get("n2") == 1)
    new = FakePeer(n1, "n2")
    assert old.closed()
    new.send({"type": "ping", "n": -1})
    wait_for(lambda: heard(n1).get("n2") == 2)


def http(node, text):
    with socket.create_connection((node.address, node.cluster.config["peer_port"]), timeout=5) as sock:
        sock.sendall(text)
        data = b""
        while more := sock.recv(65536):
            data += more
            if re.search(rb"\r\n\r\n.+", data, re.DOTALL) and b"Connection: close" not in data:
                break
        return data


def test_strangers_and_noise_are_refused_over_http(clusters):
    cluster = clusters(2, target="toy_http.target:TARGET")
    n1 = cluster.nodes["n1"]
    n1.start()
    n1.client()
    body = b'{"type":"ping","n":-3}'
    head = b"POST /ping HTTP/1.1\r\nContent-Length: %d\r\n" % len(body)
    assert http(n1, head + b"\r\n" + body).startswith(b"HTTP/1.1 403 ")
    assert http(n1, head + b"X-Dethrone-Node: n9\r\n\r\n" + body).startswith(b"HTTP/1.1 403 ")
    assert http(n1, b"no http\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert http(n1, b"GET /x HTTP/1.1\r\nX-Dethrone-Node: n2\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert http(n1, head + b"X-Dethrone-Node: n2\r\n\r\n" + b"{" * len(body)).startswith(b"HTTP/1.1 400 ")
    good = http(n1, (head + b"x-dethrone-node: n2\r\n\r\n" + body))
    assert good.startswith(b"HTTP/1.1 200 ")
    assert good.endswith(b'{"type":"pong","n":-3}')
    assert n1.events("acked")[-1]["data"] == {"to": "n2", "n": -3}


def test_a_silent_peer_over_http_is_a_time_out_for_the_core(clusters):
    cluster = clusters(2, target="toy_http.target:TARGET", rpc_timeout_ms=80)
    n1, n2 = cluster.nodes.values()
    with socket.create_server((n2.address, cluster.config["peer_port"])):
        n1.start()
        wait_for(lambda: n1.status()["extra"]["failures"] > 4)
    counters = n1.status()["counters"]
    assert counters["shell_call_timeout"] > 4
    assert counters["shell_call_failed"] >= counters["shell_call_timeout"]


def test_after_a_pause_late_timers_come_before_queued_messages(clusters):
    cluster = clusters(2)
    n1, n2 = cluster.nodes.values()
    with socket.create_server((n2.address, cluster.config["peer_port"])):
        n1.start()
        n1.client()
        peer = FakePeer(n1, "n2")
        peer.send({"type": "ping", "n": -1})
        wait_for(lambda: heard(n1).get("n2") == 1)
        n1.signal(signal.SIGSTOP)
        state = Path(f"/proc/{n1.process.pid}/stat")
        wait_for(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", what="stopped")
        peer.send({"type": "ping", "n": -2})
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > 0.3, what="a pause longer than the timer and the stall bound")
        n1.signal(signal.SIGCONT)
        acked = wait_for(lambda: [line for line in n1.events("acked") if line["data"]["n"] == -2])
    stall = n1.events("stall")[0]
    assert stall["data"]["ms"] >= 100
    after = [line for line in n1.trace() if line["seq"] > stall["seq"]]
    assert after[0]["event"] == "tick"
    assert after[0]["seq"] < acked[0]["seq"]
    assert n1.status()["extra"]["late_ms"] >= 150


def test_a_wall_timer_fires(n1):
    client = n1.client()
    assert client.ask("misbehave", how="wall") == {"type": "told", "value": None}
    wait_for(lambda: any("wall" in line for line in n1.journal_path.read_text().splitlines() if '"fired"' in line))


def test_the_clock_socket_tells_both_clocks_and_survives_a_kill(n1):
    n1.client()
    n1.kill()
    n1.start()
    n1.client()
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(str(n1.home / "clock"))
            low = time.monotonic_ns()
            line = sock.makefile().read()
        clocks = json.loads(line)
        assert set(clocks) == {"mono_ns", "wall_ns"}
        assert abs(clocks["mono_ns"] - low) < 1_000_000_000


def asked(node, text):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(node.home / "links"))
        sock.sendall(text.encode() + b"\n")
        return json.loads(sock.makefile().read())


def test_the_link_socket_takes_wishes_and_refuses_what_is_none(n1):
    n1.client()
    assert asked(n1, '{"n2": {"hold": 2}}') == {"counts": {}}
    assert "error" in asked(n1, '{"n2": {"burn": 2}}')
    assert "error" in asked(n1, "nonsense")
    assert asked(n1, "{}") == {"counts": {}}
    n1.client()


def test_a_full_journal_stops_and_the_node_goes_on(clusters):
    cluster = clusters(1, journal_bytes_max=1500)
    cluster.start()
    n1 = cluster.nodes["n1"]
    stopped = wait_for(lambda: n1.events("journal_stopped"))
    assert stopped[0]["data"] == {"reason": "cap"}
    size = n1.journal_path.stat().st_size
    assert size < 1700
    assert n1.client().ask("echo", value=1)["value"] == 1
    assert n1.journal_path.stat().st_size == size
