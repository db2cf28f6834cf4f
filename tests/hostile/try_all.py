"""Reads hostile inputs, each under a limit of time, all under one of memory; prints what broke as JSON lines.

    python tests/hostile/try_all.py SEED COUNT DIRECTORY [KIND]

An input may be refused by an error of the harness, or read. Anything else (a traceback, a hang, no memory) is broken.
"""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded, and nothing but tests uses it
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dethrone.clusters.own import answers
from dethrone.clusters.own.parse import parse
from dethrone.clusters.own.spec import ProbeTable
from dethrone.clusters.own.trace import read_lines
from dethrone.clusters.ssh.hosts import parse_hosts
from dethrone.harness.cli import run_options, settings
from dethrone.harness.commands import check, report
from dethrone.harness.core import registry, store
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.foreign.reading import READERS, read_file
from dethrone.harness.core.http_answer import AnswerReader
from dethrone.harness.core.interfaces import Malformed, NodeSpec, StatusCall
from dethrone.harness.core.limits import reading_trouble, trace_trouble, value_trouble
from dethrone.harness.core.schedule_text import read_schedule
from dethrone.harness.engine.nightly.night_file import read_night
from dethrone.harness.engine.replay.stored_run import read_stored
from dethrone.harness.engine.run import scenario_lookup
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import run
from dethrone.harness.engine.run.status_poller import status_reader
from dethrone.harness.report import json_objects
from tests.clusters.own.described import TEXT
from tests.hostile import make
from tests.stored import older

LIMIT_S = 20.0
MEMORY_BYTES = 2 << 30

MEMBERS = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
NODE = NodeSpec(
    name="n1", address="10.0.0.1", members=MEMBERS, knobs={}, profile="", variant=None, seed=1,
    data_dir="/d", log_dir="/l",
)  # fmt: skip
IDS = {name: name for name in MEMBERS}
STATUS = {"role": "leader", "term": 3, "leader": "n1", "raft": {"commit": 5, "last": [3, 7]}, "incarnation": 2}
COMMAND = {"code": 0, "out": json.dumps(STATUS), "groups": {"role": "leader", "term": "3"}, "incarnation": 1}
METRICS = b'# HELP raft_term t\nraft_term{a="b"} 5 1700000000000\nraft_state{state="leader"} 1\nraft_commit 1.2e1\n'
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
TRACE = {"dethrone": 1, "event": "elected", "term": 3, "voters": ["n1", "n2"], "group": "", "node": "n1", "time": 5}
APPENDED = {"dethrone": 1, "event": "appended", "entries": [[1, 1, "a"], [2, 1, "b"]]}
OURS = {
    "incarnation": 1, "n": 4, "mono_ns": 5, "name": "elected", "term": 2, "role": "LEADER", "source": "shell",
    "data": {"voters": ["n1", "n2"], "log": [[1, 2]]},
}  # fmt: skip
NIGHT = """
[night]
seeds = 4
strategies = ["random", "mixed"]
budget = "6h"
keep = "24h"
[[systems]]
system = "etcd"
versions = ["3.4", "3.5"]
nodes = 3
time-limit = "60s"
set = { quick = true, factor = 2 }
"""
HOSTS = """
expendable = ["n1", "n2"]
key = "id"
dead_man = "30s"
[hosts.n1]
address = "192.0.2.1"
user = "root"
[hosts.n2]
address = "192.0.2.2"
port = 22
"""
RUN_FILE = """
[run]
nodes = 3
time-limit = "60s"
faults = ["kill", "pause"]
concurrency = "2n"
seed = 5
set = { a = 1 }
"""
SCHEDULE = """
strategy = "x"
health_bound = "5s"
[[step]]
gap = "1s"
[[step.fault]]
kind = "kill"
victims = "leader"
hold = "2s"
"""
SCENARIO = f"""
system = "raft"
title = "t"
source = "s"
text = "t"
nodes = 3
time_limit = "20s"
{SCHEDULE.replace('strategy = "x"', "")}
[expected]
verdict = "pass"
"""
JSONL = [{"type": kind, "process": 0, "f": "write", "value": 3, "time": 5} for kind in ("invoke", "ok")]
EDN = b"{:type :invoke, :process 0, :f :write, :value 3}\n{:type :ok, :process 0, :f :write, :value 3}\n"
LOG = b"INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - 0\t:ok\t:write\t3\n"


class TooSlow(BaseException):
    """An input took longer than the limit."""


def _too_slow(*_: object) -> None:
    raise TooSlow


class Kinds:
    """What is tried: kind → (what makes an input, what reads it)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        options = RunOptions(
            system="raft", backend="sim", nodes=3, seed=5, time_limit_ns=16_000_000_000, out=directory / "sample"
        )
        self.sample = run(options, Silence()).run_dir
        self.lines = older(self.sample).read_bytes().splitlines()
        self.plan = json.loads((self.sample / store.PLAN).read_bytes())
        self.record = json.loads((self.sample / store.RUN).read_bytes())
        self.verdict = json.loads((self.sample / store.VERDICT).read_bytes())
        self.schedule = json.loads((self.sample / store.PLANNED).read_bytes())
        self.systems = {name: registry.load(registry.SYSTEMS, name) for name in registry.names(registry.SYSTEMS)}

    def all(self) -> dict[str, tuple[make.Maker, Callable[[bytes], Any]]]:
        def of(sample: Any) -> make.Maker:
            return lambda rng: make.hostile_json(rng, sample)

        def text(sample: bytes) -> make.Maker:
            return lambda rng: make.hostile_text(rng, sample)

        def toml(sample: str) -> make.Maker:
            return lambda rng: make.hostile_toml(rng, sample)

        return {
            "status json": (of(STATUS), self.status),
            "status of a command": (of(COMMAND), self.status),
            "status metrics": (text(METRICS), self.status),
            "status torn": (text(json.dumps(STATUS).encode()), self.status),
            "http": (text(HTTP), self.http),
            "http with a length": (text(LENGTH), self.http),
            "trace line": (of(TRACE), self.trace),
            "trace entries": (of(APPENDED), self.trace),
            "trace torn": (text(json.dumps(APPENDED).encode()), self.trace),
            "trace of our nodes": (of(OURS), self.trace),
            "history": (self.hostile_history, self.judged(store.LINES)),
            "plan": (of(self.plan), self.judged(store.PLAN)),
            "run record": (of(self.record), self.judged(store.RUN)),
            "verdict": (of(self.verdict), self.judged(store.VERDICT)),
            "schedule json": (of(self.schedule), self.file("s.json", read_schedule)),
            "schedule toml": (toml(SCHEDULE), self.file("s.toml", read_schedule)),
            "scenario": (toml(SCENARIO), self.file("c.toml", lambda path: scenario_lookup.find(str(path)))),
            "night": (toml(NIGHT), self.file("n.toml", read_night)),
            "hosts": (toml(HOSTS), lambda data: parse_hosts(data.decode("utf-8", "replace"), source="hosts.toml")),
            "description": (toml(TEXT), self.description),
            "configuration": (toml(RUN_FILE), self.file("dethrone.toml", self.configuration)),
            "jsonl": (self.hostile_lines, self.foreign("jsonl")),
            "edn": (text(EDN), self.foreign("jepsen-edn")),
            "jepsen log": (text(LOG), self.foreign("jepsen-log")),
        }

    # --- makers -------------------------------------------------------------------------------------------------

    def hostile_history(self, rng: random.Random) -> bytes:
        if rng.random() < 0.2:
            return make.hostile_text(rng, b"\n".join(self.lines[:200]) + b"\n")
        lines = list(self.lines[: rng.choice([50, 400, len(self.lines)])])
        for _ in range(rng.choice([1, 1, 3, 20])):
            number = rng.randrange(len(lines))
            lines[number] = make.hostile_json(rng, json.loads(self.lines[number]))
        return b"\n".join(lines) + b"\n"

    def hostile_lines(self, rng: random.Random) -> bytes:
        return b"\n".join([make.hostile_json(rng, JSONL[0]), make.hostile_json(rng, JSONL[1]), b""])

    # --- readers ------------------------------------------------------------------------------------------------

    def status(self, body: bytes) -> None:
        names = ("role", "term", "leader", "incarnation")
        places = {**{name: name for name in names}, "commit": "raft.commit"}
        probes = (
            ProbeTable(http="/s", **places),
            ProbeTable(command="c", **places),
            ProbeTable(command="c", pattern=r"(?P<role>\w+) (?P<term>\d+)"),
            ProbeTable(metrics="/m", leads='raft_state{state="leader"}', term="raft_term", commit="raft_commit"),
            ProbeTable(log="l", became={"leader": "(?P<term>x)"}),
        )
        for probe in probes:
            found = answers.reading(probe, IDS, body, own="n1")
            if found is not None:
                reading_trouble(found)
            answers.explain(probe, IDS, body)
        for system in self.systems.values():
            found = system.reading(NODE, body)
            if found is not None:
                reading_trouble(found)

    def http(self, raw: bytes) -> None:
        asked = (("http", 1), ("http", 2), ("u32", 1))
        calls = (StatusCall(port=1, request=b"", framing=framing, answers=answers) for framing, answers in asked)
        for reader in (AnswerReader(body_max=1 << 20, until_close=True), *map(status_reader, calls)):
            try:
                for at in range(0, len(raw), 1000):
                    reader.feed(raw[at : at + 1000])
            except ValueError:
                continue

    def trace(self, line: bytes) -> None:
        for one in read_lines(line):
            if not isinstance(one, Malformed):
                trace_trouble(one)
                value_trouble(one.data)
        for system in self.systems.values():
            one = system.trace(line)
            if one is not None:
                trace_trouble(one)

    def judged(self, name: str) -> Callable[[bytes], None]:
        """A run directory with this file in it: judged, drawn, and read as what is to be replayed."""

        def read(data: bytes) -> None:
            place = self.directory / "run"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(self.sample, place)
            (place / name).write_bytes(data)
            row = check.check(place)
            json_objects.encode(row.as_object())
            row.suite()
            for step in (lambda: report.redraw(place, None), lambda: read_stored(place, trust=False)):
                try:
                    step()
                except HarnessError:
                    continue

        return read

    def file(self, name: str, reads: Callable[[Path], Any]) -> Callable[[bytes], None]:
        def read(data: bytes) -> None:
            path = self.directory / name
            path.write_bytes(data)
            reads(path)

        return read

    def configuration(self, path: Path) -> None:
        given = settings.merge({}, {}, path)
        settings.show(given)
        run_options.run_options("raft", given)

    def description(self, data: bytes) -> None:
        parse(data.decode("utf-8", "replace"), path="a.toml", read=lambda _: None)  # type: ignore[arg-type, return-value]

    def foreign(self, form: str) -> Callable[[bytes], None]:
        assert form in READERS
        return self.file("f", lambda path: read_file(path, form, ("read", "write", "cas"), most=100_000))


def main(seed: int, count: int, directory: Path, only: str) -> None:
    kinds = Kinds(directory)
    chosen = {name: pair for name, pair in kinds.all().items() if not only or only == name}
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _too_slow)
    for number in range(count):
        names = list(chosen)
        name = names[number % len(names)]
        makes, reads = chosen[name]
        data = makes(random.Random(f"{seed} {number}"))
        began = time.process_time()
        broken = ""
        try:
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
            reads(data)
        except HarnessError as error:
            str(error)
        except TooSlow:
            broken = "hang"
        except MemoryError:
            broken = "memory"
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            broken = f"{type(error).__name__}: {error!s:.120} at {Path(at.filename).name}:{at.lineno}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        took = round(time.process_time() - began, 2)
        print(json.dumps({"number": number, "kind": name, "bytes": len(data), "s": took, "broken": broken}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
