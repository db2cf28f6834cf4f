"""Runs that noise spoiled are made again, a few times, and counted apart from those that lack evidence."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import msgspec
import pytest

from dethrone.harness.core import store
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.verdict import Verdict
from dethrone.harness.engine.campaign import campaign, live_seeds
from dethrone.harness.engine.campaign.admission import NOISE_PERCENT_MAX, QUIET_RUNS, Admission
from dethrone.harness.engine.campaign.idle_cores import IdleCores
from dethrone.harness.engine.nightly.night_rows import NightRow
from dethrone.harness.engine.nightly.run_order import Job
from dethrone.harness.engine.run.exit_status import EXIT_PASS, EXIT_TROUBLE, EXIT_UNKNOWN
from dethrone.harness.engine.run.judgement import Judgement, RunResult
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.runner import dry_run
from dethrone.harness.report import json_objects
from dethrone.harness.report.night import sums
from dethrone.harness.report.terminal import noise_words


def came_to(options: RunOptions, word: str) -> RunResult:
    """A run that passed, or is unknown for the reason ``word``; ``noise``: that of its hosts. Or one in trouble."""
    unknown = word != "pass"
    judgement = Judgement(
        outcome="unknown" if unknown else "pass", reason=word, verdicts=(), host_noise=word == "noise"
    )
    return RunResult(
        run_dir=options.out,
        seed=options.seed,
        plan=None,
        judgement=judgement,
        trouble=("a host did not answer",) if word == "trouble" else (),
        interrupted=False,
        exit_code={"pass": EXIT_PASS, "trouble": EXIT_TROUBLE}.get(word, EXIT_UNKNOWN),
    )


class Host:
    """Runs that come to what they are told to, in turn."""

    def __init__(self, *words: str) -> None:
        self.words, self.places = list(words), []

    def __call__(self, options: RunOptions, listener: object) -> RunResult:
        word = self.words.pop(0)
        self.places.append(options.out.name)
        return came_to(options, word)


def rows(monkeypatch, tmp_path, *words: str, seeds=(0,)):
    host = Host(*words)
    monkeypatch.setattr(live_seeds, "run", host)
    options = RunOptions(system="raft", backend="docker")
    return campaign.run_campaign(options, seeds, tmp_path / "c", Silence(), lambda _: None), host


def test_a_run_that_noise_spoiled_is_repeated_with_its_seed_and_counted(monkeypatch, tmp_path):
    (row,), host = rows(monkeypatch, tmp_path, "noise", "pass")
    assert (row.outcome, row.repeats, row.repeated, row.by_noise) == ("pass", 1, True, False)
    assert host.places == ["seed-0", "seed-0-again"]
    assert row.run_dir.endswith("seed-0-again")


def test_repeats_have_an_end_and_the_row_says_that_noise_was_the_reason(monkeypatch, tmp_path):
    (row,), host = rows(monkeypatch, tmp_path, "noise", "noise", "noise", "pass")
    assert (row.outcome, row.repeats, row.by_noise) == ("unknown", live_seeds.NOISE_REPEATS, True)
    assert len(set(host.places)) == live_seeds.NOISE_REPEATS + 1
    assert host.words == ["pass"], "it was asked once more than it may"


def test_a_run_that_lacks_evidence_is_not_repeated(monkeypatch, tmp_path):
    (row,), host = rows(monkeypatch, tmp_path, "no window")
    assert (row.outcome, row.repeats, row.by_noise) == ("unknown", 0, False)
    assert host.places == ["seed-0"]


def test_a_campaign_says_how_many_runs_noise_took(monkeypatch, tmp_path):
    made, _ = rows(monkeypatch, tmp_path, "noise", "noise", "noise", "noise", "pass", "no window", seeds=(0, 1, 2))
    said = json_objects.campaign_object(made, out=tmp_path, exit_code=2)
    assert said["counts"] == {"unknown": 2, "pass": 1}
    assert said["noise"] == {"unknown": 1, "repeated": 3}
    assert said["at_once"] == 1
    assert noise_words(made) == " (1 of the unknown by noise, 3 repeated because of noise)"
    assert noise_words([]) == ""


def ends(admission, **noise):
    """A run begins and ends, as noisy as that."""
    return admission.ended(admission.next(), **{"by_noise": False, "noise_percent": 0.0, **noise})


@pytest.mark.parametrize(
    ("noisy", "widths"),
    [({"noise_percent": NOISE_PERCENT_MAX + 1}, (5, 4, 3, 2, 1, 1)), ({"by_noise": True}, (3, 1, 1))],
    ids=["noisy", "spoiled"],
)
def test_noise_lowers_how_many_run_at_once_and_quiet_runs_raise_it_again(noisy, widths):
    admission = Admission(range(1000), most=6)
    for before, expected in pairwise((6, *widths)):
        assert ends(admission, **noisy) is (expected < before)
        assert admission.width == expected
    for width in range(1, 6):
        for _ in range(QUIET_RUNS * width):
            assert admission.width == width
            assert not ends(admission, noise_percent=NOISE_PERCENT_MAX)
    assert admission.width == 6
    for _ in range(100):
        ends(admission)
    assert admission.width == 6


def test_runs_that_one_disturbance_spoiled_together_lower_it_once():
    admission = Admission("abcdefgh", most=4)
    assert [admission.next() for _ in "abcd"] == list("abcd")
    lowered = [admission.ended(one, by_noise=True, noise_percent=90) for one in "abcd"]
    assert (lowered, admission.width) == ([True, False, False, False], 2)
    assert [admission.next() for _ in "efg"] == ["e", "f", None]
    assert admission.ended("e", by_noise=True, noise_percent=90)
    assert admission.width == 1


def test_what_must_be_alone_begins_beside_nothing_and_nothing_begins_beside_it():
    admission = Admission("aBc", most=3, alone=str.isupper)
    assert (admission.next(), admission.next()) == ("a", None)
    admission.again("a2")
    admission.ended("a", by_noise=False, noise_percent=0)
    assert (admission.next(), admission.next()) == ("a2", None)
    admission.ended("a2", by_noise=False, noise_percent=0)
    assert (admission.next(), admission.next()) == ("B", None)
    admission.ended("B", by_noise=False, noise_percent=0)
    assert (admission.next(), admission.next(), admission.left) == ("c", None, 0)


def test_what_has_no_room_waits_until_there_is_some_or_nothing_runs():
    admission = Admission("ab", most=2)
    assert (admission.next(room=False), admission.next(room=False)) == ("a", None)
    assert not admission.ended("a", by_noise=False, noise_percent=0)
    assert admission.next(room=False) == "b"


def test_the_share_of_noise_is_that_of_the_checker_coverage():
    noise = {"stretches": 5, "longest_ns": 7, "excused_percent": 12.5, "unwatched": []}
    verdict = Verdict(
        checker="coverage", version="1", kind="coverage", outcome="pass", reason="", evidence={"noise": noise}
    )
    assert Judgement(outcome="pass", reason="", verdicts=(verdict,)).noise_percent == 12.5
    assert Judgement(outcome="pass", reason="", verdicts=()).noise_percent == 0


@pytest.fixture
def idle(monkeypatch):
    """A machine whose processors are idle."""
    monkeypatch.setattr(IdleCores, "enough", lambda *_: True)


class Beside:
    """Runs side by side: what each came to by its directory, and how many were under way as each began."""

    def __init__(self, odd):
        self.odd, self.under_way, self.seen = odd, set(), {}
        self.lock = threading.Condition()

    def __call__(self, options, listener):
        name = options.out.name
        with self.lock:
            self.under_way.add(name)
            self.seen[name] = len(self.under_way)
            self.lock.notify_all()
            if "again" not in name and name != "seed-4":  # the first four wait for each other
                self.lock.wait_for(lambda: len(self.seen) >= 3, timeout=20)
        with self.lock:
            self.under_way.discard(name)
        return came_to(options, self.odd.get(name, "pass"))


@contextlib.contextmanager
def threads(jobs):
    with ThreadPoolExecutor(jobs) as pool:
        yield pool


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("what", ["noise", "trouble"])
def test_runs_go_side_by_side_and_a_spoiled_one_is_repeated_alone(monkeypatch, tmp_path, what):
    hosts = Beside({"seed-1": what})
    monkeypatch.setattr(live_seeds, "run", hosts)
    monkeypatch.setattr(live_seeds, "workers", threads)
    options = RunOptions(system="raft", backend="docker")
    made = campaign.run_campaign(options, range(5), tmp_path / "c", Silence(), lambda _: None, jobs=3)
    assert [(one.seed, one.outcome, one.repeats) for one in made] == [
        (seed, "pass", int(seed == 1)) for seed in range(5)
    ]
    assert hosts.seen["seed-1-again"] == 1
    assert max(one.at_once for one in made) == 3
    assert "up to 3 at once" in noise_words(made)
    assert [one.seed for one in campaign.read_rows(tmp_path / "c")] != []


def test_the_first_run_measures_the_machine_for_all_and_a_repeat_for_itself(tmp_path, monkeypatch):
    scales = {}

    def measured(options, listener):
        if options.out.name == "seed-7":
            drawn = dry_run(options)
            plan = msgspec.structs.replace(drawn, time_scale=1.5, calibration={"needed": 1.4})
            options.out.mkdir(parents=True)
            store.write_json(options.out / store.PLAN, plan)
        scales[options.out.name] = (options.time_scale, options.data_in)
        return came_to(options, "noise" if options.out.name == "seed-8" else "pass")

    monkeypatch.setattr(live_seeds, "run", measured)
    monkeypatch.setattr(live_seeds, "workers", lambda _: threads(1))
    monkeypatch.setattr(IdleCores, "enough", lambda *_: not {"seed-7"} - {*scales})
    options = RunOptions(system="raft", backend="local")
    campaign.run_campaign(options, [7, 8, 9], tmp_path / "c", Silence(), lambda _: None, jobs=2)
    assert scales == {
        "seed-7": (None, "memory"),
        "seed-8": (1.5, "memory"),
        "seed-8-again": (None, "memory"),
        "seed-9": (1.5, "memory"),
    }
    scales.clear()
    given = msgspec.structs.replace(options, time_scale=2.0, data_in="disk")
    campaign.run_campaign(given, [7, 9], tmp_path / "d", Silence(), lambda _: None, jobs=2)
    assert scales == {"seed-7": (2.0, "disk"), "seed-9": (2.0, "disk")}


@pytest.mark.usefixtures("idle")
def test_trouble_of_a_run_that_was_alone_is_not_blamed_on_others(monkeypatch, tmp_path):
    hosts = Beside({f"seed-1{again}": "trouble" for again in ("", "-again")})
    monkeypatch.setattr(live_seeds, "run", hosts)
    monkeypatch.setattr(live_seeds, "workers", threads)
    options = RunOptions(system="raft", backend="docker")
    made = campaign.run_campaign(options, range(5), tmp_path / "c", Silence(), lambda _: None, jobs=3)
    (bad,) = [one for one in made if one.seed == 1]
    assert (bad.exit_code, bad.repeats, hosts.seen.keys() & {"seed-1-again-2"}) == (EXIT_TROUBLE, 1, set())


def test_hosts_that_belong_to_the_user_bear_one_run_at_a_time(tmp_path):
    options = RunOptions(system="raft", backend="ssh")
    with pytest.raises(ConfigError, match="whose hosts are yours"):
        campaign.run_campaign(options, [0, 1], tmp_path / "c", Silence(), lambda _: None, jobs=2)


@pytest.mark.parametrize(("by_noise", "word"), [(True, "1 unknown by noise"), (False, "1 unknown by evidence")])
def test_a_night_keeps_noise_apart_from_missing_evidence(by_noise, word):
    job = Job(number=1, cell="raft", seed=1, why="due")
    row = NightRow(
        job=job,
        outcome="unknown",
        exit_code=2,
        run_dir="1",
        report="",
        began_ns=0,
        elapsed_ns=1,
        reason="",
        by_noise=by_noise,
    )
    assert word in sums([row], 1)
