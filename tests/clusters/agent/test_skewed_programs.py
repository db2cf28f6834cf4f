"""Clocks and waits of programs in C, Go (static), Java and Python, as they tell them, while their vDSO is patched."""

from __future__ import annotations

import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.agent.host import waits
from dethrone.clusters.agent.host.hand import Hand, clocks_now, own_vdso, vdso_base
from dethrone.clusters.agent.host.vdso import NO_SKEW, VdsoSkew, run_label
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.hoststate import HEALTHY, ClockSkew, HostState
from dethrone.harness.core.interfaces import Command
from dethrone.harness.core.rng import Rng

from .conftest import AGENT, PYTHON, RUN

HERE = Path(__file__).parent / "skewed"
HOUR = 3600 * SECOND
WAIT_S, TOLERANCE_S = 0.2, 0.02
LIMIT_S = 60
LABEL = run_label(RUN).hex()
TOOLS = {"c": ("gcc",), "go": ("go",), "java": ("javac", "java"), "python": ()}
SPANS = {"c": ("span",), "go": ("sleep", "after"), "java": ("park", "sleep"), "python": ("event", "sleep")}
"""How a program of each language waits for a span of time."""
RUNTIME = {"c": "libc", "go": "go", "java": "jvm", "python": "cpython"}
pytestmark = [
    pytest.mark.processes,
    pytest.mark.measures,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="clocks are skewed in the vDSO on x86-64 only"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    place = tmp_path_factory.mktemp("skewed")
    known = {}

    def command(language):
        lacking = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
        if lacking and not os.environ.get("CI"):
            pytest.skip(f"{lacking[0]} is not installed")
        if language not in known:
            known[language] = built(language, place)
        return known[language]

    return command


def built(language, place):
    if language == "c":
        argv = ["gcc", "-O1", "-pthread", "-o", str(place / "reader"), str(HERE / "reader.c")]
        command = [str(place / "reader")]
    elif language == "go":
        argv = ["go", "build", "-C", str(HERE), "-ldflags=-checklinkname=0", "-o", str(place / "reader-go"), "."]
        command = [str(place / "reader-go")]
    elif language == "java":
        argv = ["javac", "-d", str(place), str(HERE / "Reader.java")]
        command = ["java", "-cp", str(place), "Reader"]
    else:
        return [sys.executable, str(HERE / "reader.py")]
    subprocess.run(argv, check=True, timeout=300, env={**os.environ, "CGO_ENABLED": "0"})
    return command


class Program:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = self.process.pid
        self.ask("clocks")

    def say(self, word):
        self.process.stdin.write(word.encode() + b"\n")

    def heard(self, limit_s=LIMIT_S):
        assert select.select([self.process.stdout], [], [], limit_s)[0], "no answer"
        return self.process.stdout.readline().decode().split()

    def ask(self, word):
        self.say(word)
        return self.heard()

    def skews(self, since=None):
        """The skews (ns) of its wall and monotonic clock now, and the time (ns) that passed since ``since``."""

        def once():
            before = time.monotonic_ns(), time.time_ns()
            wall, mono = map(int, self.ask("clocks"))
            after = time.monotonic_ns(), time.time_ns()
            moment = (before[0] + after[0]) // 2
            return after[0] - before[0], wall - (before[1] + after[1]) // 2, mono - moment, moment

        # System.nanoTime and Go's runtime read the same clock as Python's monotonic one.
        _, wall, mono, moment = min(once() for _ in range(50))
        return wall, mono, moment - (since[1] if since else 0)

    def waited_s(self, word):
        before = time.monotonic()
        assert self.ask(word) == ["done"]
        return time.monotonic() - before

    def waits(self, word, rate=1.0):
        """Whether it waits as long as it should by a clock of this rate: busy cores may wake it late, nothing early."""
        for _ in range(5):
            late_s = self.waited_s(word) * rate - WAIT_S
            if late_s < TOLERANCE_S:
                return late_s > -TOLERANCE_S
        return False

    def vdso(self):
        with Path(f"/proc/{self.pid}/mem").open("rb") as memory:
            memory.seek(vdso_base(self.pid))
            return memory.read(len(own_vdso()))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def start(programs):
    running = []

    def run(language):
        running.append(Program(programs(language)))
        return running[-1]

    yield run
    for one in running:
        one.end()


HAND = Hand()


def skew(program, *, wall=NO_SKEW, mono=NO_SKEW, check=True):
    since = clocks_now()
    asked = {"do": "skew", "pid": program.pid, "label": LABEL, "wall": wall, "mono": mono, "since": since}
    return HAND.answer({**asked, "check": check}), since


@pytest.mark.parametrize("given", [VdsoSkew(HOUR), VdsoSkew(-HOUR), VdsoSkew(0, 100_000), VdsoSkew(0, -100_000)])
@pytest.mark.parametrize("language", TOOLS)
def test_wall_time_is_skewed_alone_waits_take_their_length_and_nothing_is_left(start, language, given):
    program = start(language)
    before = program.vdso()
    done, since = skew(program, wall=given)
    assert done["runtime"] == RUNTIME[language], done
    wall, mono, elapsed = program.skews(since)
    assert abs(wall - given.at(elapsed)) < MS
    assert abs(mono) < MS
    reading = HAND.answer({"do": "read", "pid": program.pid, "clocks": [0]})["clocks"]["0"]
    assert abs(reading["read_ns"] - reading["real_ns"] - given.at(reading["real_ns"] - since[0])) < MS
    for word in SPANS[language]:
        assert program.waits(word), word
    assert HAND.answer({"do": "restore", "pid": program.pid, "label": LABEL})["restored"]
    assert program.vdso() == before == own_vdso()
    assert max(map(abs, program.skews()[:2])) < MS


@pytest.mark.parametrize("language", TOOLS)
def test_steps_of_monotonic_time_are_refused_and_rates_to_all_but_static_go(start, language):
    program = start(language)
    for given in (VdsoSkew(HOUR), VdsoSkew(-HOUR), VdsoSkew(0, 0, SECOND, SECOND)):
        assert "monotonic time of a running process is not stepped" in skew(program, mono=given)[0]["why"]
    done, since = skew(program, mono=VdsoSkew(0, 50_000))
    if language == "go":
        wall, mono, elapsed = program.skews(since)
        assert abs(mono - elapsed // 20) < MS
        assert abs(wall) < MS
        for word in SPANS["go"]:  # 200 ms of its own clock
            assert program.waits(word, rate=1.05), word
    else:
        assert "only static Go programs wait for spans of time" in done["why"]
        assert program.vdso() == own_vdso()
    assert max(map(abs, program.skews()[:2])) < (SECOND if language == "go" else MS)


@pytest.mark.parametrize(
    ("given", "language"), [(VdsoSkew(HOUR), "go"), (VdsoSkew(-HOUR), "go"), (VdsoSkew(HOUR), "c")]
)
def test_a_step_of_monotonic_time_would_be_read_as_it_is(start, language, given):
    """What is refused is not refused because it could not be done."""
    program = start(language)
    done, _ = skew(program, mono=given, check=False)
    assert done["runtime"] == RUNTIME[language]
    wall, mono, _ = program.skews()
    assert abs(mono - given.offset_ns) < MS
    assert abs(wall) < MS
    assert program.waits(SPANS[language][0])


def test_a_condition_variable_that_waits_until_a_wall_time_is_seen_and_the_skew_refused(start):
    program = start("c")
    program.say("wall")
    seen = []
    while not seen:
        seen = waits.waits_seen(program.pid)
    assert seen[0].clock == "wall"
    done, _ = skew(program, wall=VdsoSkew(HOUR))
    assert "waits until a wall time (FUTEX_WAIT_BITSET)" in done["why"]
    assert program.heard() == ["done"]
    assert program.vdso() == own_vdso()


def clocks_waited_for(program):
    """A thread that was just held is seen running until a processor was free for it to wait again."""
    deadline = time.monotonic() + LIMIT_S
    while not (seen := waits.waits_seen(program.pid)):
        assert time.monotonic() < deadline
    return [one.clock for one in seen]


def test_a_wait_until_a_wall_time_under_a_skew_stays_visible(start):
    program = start("c")
    assert "why" not in skew(program, wall=VdsoSkew(HOUR))[0]
    program.say("wall")  # it takes an hour and 200 ms
    assert clocks_waited_for(program) == ["wall"]
    assert HAND.answer({"do": "restore", "pid": program.pid, "label": LABEL})["restored"]
    assert clocks_waited_for(program) == ["wall"], "after it was held, too"


def test_all_calls_for_wall_time_are_skewed_alike(start):
    program = start("c")
    skew(program, wall=VdsoSkew(-HOUR))
    for _ in range(3):
        micros, seconds, again, coarse, unknown = map(int, program.ask("others"))
        real = time.time_ns() - HOUR
        assert abs(micros * 1000 - real) < SECOND
        assert abs(coarse - real) < SECOND
        assert seconds == again
        assert abs(seconds - real // SECOND) <= 1
        assert unknown == -1


def test_a_forked_child_inherits_a_skew_and_a_process_that_is_executed_does_not(start):
    program = start("c")
    skew(program, wall=VdsoSkew(HOUR))
    wall = int(program.ask("fork")[0])
    assert abs(wall - time.time_ns() - HOUR) < SECOND
    program.say("exec")
    assert abs(int(program.ask("clocks")[0]) - time.time_ns()) < SECOND
    assert HAND.answer({"do": "patched", "label": LABEL})["patched"] == []


def test_a_thread_that_reads_its_clock_all_the_time_survives_each_change(start):
    program = start("c")
    program.say("spin")
    changes = 0
    while not select.select([program.process.stdout], [], [], 0)[0]:
        assert "why" not in skew(program, wall=VdsoSkew(HOUR + changes))[0]
        assert "why" not in HAND.answer({"do": "restore", "pid": program.pid, "label": LABEL})
        changes += 1
    assert program.heard() == ["done"]
    assert changes
    assert program.vdso() == own_vdso()


@pytest.mark.parametrize(("language", "busy"), [("go", ""), ("c", "spin")])
def test_a_hand_killed_at_any_moment_leaves_a_process_that_runs_and_can_be_healed(start, language, busy):
    program = start(language)
    rng = Rng(7)
    question = {"do": "skew", "pid": program.pid, "label": LABEL, "wall": VdsoSkew(HOUR), "mono": NO_SKEW}
    lines = [{**question, "since": clocks_now()}, {"do": "restore", "pid": program.pid}]
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines * 200)
    for _ in range(12):
        argv = [PYTHON, "-S", str(AGENT), "hand", "--socket", "-"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hand:
            os.set_blocking(hand.stdin.fileno(), False)
            os.write(hand.stdin.fileno(), text[: 48 << 10])
            hand.stdout.readline()
            if busy:  # it reads its clock all the time, so it mostly has to be taken out of its vDSO
                program.say(busy)
            time.sleep(rng.between(0, 20_000) / 1e6)  # the moment is the input of this test
            hand.send_signal(signal.SIGKILL)
        assert not busy or program.heard() == ["done"]
        assert len(program.ask("clocks")) == 2
    restored = HAND.answer({"do": "restore", "pid": program.pid, "label": LABEL})
    assert "why" not in restored
    assert program.vdso() == own_vdso()
    assert program.waits("sleep")


@pytest.mark.parametrize("rate", [50_000, -50_000])
def test_drifted_monotonic_time_settles_before_it_is_restored_and_never_goes_back(start, rate):
    program = start("go")
    done, since = skew(program, mono=VdsoSkew(0, rate))
    assert "why" not in done
    while time.monotonic_ns() - since[1] < 2 * SECOND:
        program.waited_s("sleep")
    asked = {"do": "settle", "pid": program.pid, "label": LABEL}
    settles_ns = HAND.answer(asked)["settles_ns"]
    assert 0 < settles_ns < 2 * SECOND
    ends, last = time.monotonic_ns() + settles_ns, 0
    while time.monotonic_ns() < ends:
        mono = int(program.ask("clocks")[1])
        assert mono >= last
        last = mono
    assert HAND.answer(asked) == {"settles_ns": 0}
    assert HAND.answer({"do": "restore", "pid": program.pid, "label": LABEL})["restored"]
    assert int(program.ask("clocks")[1]) >= last
    assert max(map(abs, program.skews()[:2])) < MS


def test_an_agent_drifts_monotonic_time_of_static_go_alone_and_lets_it_settle(programs, box, host):
    drift = HostState(clock=ClockSkew(mono_rate_ppm=50_000))
    box.start_node()
    refused = host.converge(drift)
    assert "only static Go programs wait for spans of time" in refused.why
    assert host.converge(HEALTHY).confirmed
    assert host.converge(HostState(down="SIGKILL")).confirmed
    command = Command(argv=(*programs("go"), "idle"))
    host.prepare(msgspec.structs.replace(box.start(), command=command, clock_socket=None), {}, dead_man_ns=0)
    began = host.converge(drift)
    assert began.confirmed, began.why
    again = host.converge(HostState(clock=ClockSkew(offset_ns=HOUR, mono_rate_ppm=50_000)))
    assert again.confirmed, again.why
    clock = again.detail["clock"]
    assert 0 < began.detail["clock"]["mono_skew_ns"] < clock["mono_skew_ns"] < SECOND
    assert abs(clock["skew_ns"] - HOUR) < MS
    healed = host.converge(HEALTHY)
    assert healed.confirmed, healed.why
    assert "before" not in healed.detail
    assert HAND.answer({"do": "patched", "label": LABEL})["patched"] == []
    assert "at most 100000 ppm" in host.converge(HostState(clock=ClockSkew(mono_rate_ppm=200_000))).why


def test_only_patches_of_the_run_are_restored(start):
    program = start("c")
    skew(program, wall=VdsoSkew(HOUR))
    other = {"do": "restore", "pid": program.pid, "label": run_label("other").hex()}
    assert not HAND.answer(other)["restored"]
    assert (
        "another run"
        in HAND.answer({**other, "do": "skew", "wall": NO_SKEW, "mono": NO_SKEW, "since": [0] * 12})["why"]
    )
    assert [one["pid"] for one in HAND.answer({"do": "patched", "label": LABEL})["patched"]] == [program.pid]


def test_a_process_that_never_existed_is_refused_in_words():
    done = HAND.answer({"do": "read", "pid": 1 << 22, "clocks": [0]})
    assert "is gone" in done["why"]
