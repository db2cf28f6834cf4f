from __future__ import annotations

import pytest

from dethrone.clusters.node.journal import (
    VERSION,
    Booted,
    Digester,
    End,
    Head,
    Journal,
    RecordingRng,
    contrast,
    read_lines,
    replay,
    stream_name,
)
from dethrone.harness.core.clock import Clocks
from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.machine import DiskDone, Fired, Message, Note, Request, Send, SendFailed
from dethrone.harness.core.rng import Rng
from tests.clusters.node.toy_target import TARGET, Echo, Ping, Pong, Store, ToyCore, ToyTarget

EVENTS = [
    Fired("tick"),
    Message("n2", Ping(4), None),
    Message("n2", Pong(-4), 9),
    Request(1, Echo({"a": [1, None]})),
    Request(2, Store(5)),
    DiskDone(1, None),
    DiskDone(2, "EIO"),
    SendFailed("n2", Ping(4), "timeout"),
    Fired("tick"),
]


class LoudCore(ToyCore):
    """Says what it was asked to store."""

    def handle(self, event, now, rng, out):
        super().handle(event, now, rng, out)
        if isinstance(event, Request) and isinstance(event.body, Store):
            out.append(Note("loud", event.body.value, "TOY", {}))


class Loud(ToyTarget):
    """A target with one planted bug, which is known here under two names."""

    def core(self, *, node, members, knobs, variant):
        kind = LoudCore if variant in {"loud", "here/loud.py:Loud"} else ToyCore
        if variant == "/on/the/host.py:Loud":
            raise ConfigError("there is no such file here")
        return kind(node=node, members=members, transport=self.transport)


LOUD = Loud("tcp")


def write(path, *, incarnation=1, seed=3, bytes_max=1 << 20, close="stopped", events=EVENTS, variant=None):
    stream = stream_name("n1", incarnation)
    head = Head(
        version=VERSION,
        target="toy_target:TARGET",
        node="n1",
        incarnation=incarnation,
        members=("n1", "n2"),
        knobs={},
        profile=None,
        variant=variant,
        seed=seed,
        stream=stream,
        disk={"value": b"7"},
        unreadable=("other",),
    )
    journal = Journal(str(path), head, bytes_max=bytes_max)
    rng = RecordingRng(Rng(seed).stream(stream).seed)
    core = LOUD.core(node="n1", members=("n1", "n2"), knobs=None, variant="loud" if variant else None)
    lived = []
    out = []
    core.boot({"value": b"7", "other": "unreadable"}, Clocks(1, 2), rng, out)
    journal.boot(Clocks(1, 2), rng.take(), out)
    lived.append(out)
    for number, event in enumerate(events):
        out = []
        now = Clocks(number * 1000, number * 7)
        core.handle(event, now, rng, out)
        journal.step(event, now, rng.take(), out)
        lived.append(out)
        journal.flush()
    if close:
        journal.close(close)
    return lived, journal


def test_replay_gives_the_same_events_and_effects(tmp_path):
    lived, _ = write(tmp_path / "j")
    pairs = list(replay(tmp_path / "j", TARGET))
    assert pairs[0][0] == Booted({"value": b"7", "other": "unreadable"})
    assert [event for event, _ in pairs[1:]] == EVENTS
    assert [effects for _, effects in pairs] == lived


def test_a_journal_cut_off_by_a_kill_replays_to_its_last_whole_line(tmp_path):
    write(tmp_path / "j", close="")
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole[:-9])
    assert len(list(replay(tmp_path / "j", TARGET))) == len(EVENTS)


def test_each_incarnation_has_its_own_section_behind_a_torn_one(tmp_path):
    path = tmp_path / "j"
    write(path, incarnation=1, close="")
    path.write_bytes(path.read_bytes()[:-9])
    write(path, incarnation=2, events=EVENTS[:2])
    assert len(list(replay(path, TARGET))) == 3
    assert len(list(replay(path, TARGET, incarnation=1))) == len(EVENTS)
    with pytest.raises(HistoryError, match="no incarnation 5"):
        list(replay(path, TARGET, incarnation=5))


def test_another_behaviour_is_found_at_its_step(tmp_path):
    path = tmp_path / "j"
    write(path)
    text = path.read_bytes()
    changed = text.replace(b'["n2",{"type":"ping","n":4', b'["n2",{"type":"ping","n":5')
    assert changed != text
    path.write_bytes(changed)
    with pytest.raises(HistoryError, match="step 2"):
        list(replay(path, TARGET))


def test_the_first_step_of_a_planted_bug_is_shown_beside_what_the_build_without_it_does(tmp_path):
    write(tmp_path / "j", variant="loud")
    assert len(list(replay(tmp_path / "j", LOUD))) == len(EVENTS) + 1
    step, event, did, would = contrast(tmp_path / "j", LOUD)
    assert (step, event) == (5, Request(2, Store(5)))
    assert [effect for effect in did if effect not in would] == [Note("loud", 5, "TOY", {})]


def test_a_build_that_never_did_otherwise_shows_no_step(tmp_path):
    write(tmp_path / "j", variant="loud", events=[event for event in EVENTS if type(event) is not Request])
    assert contrast(tmp_path / "j", LOUD) is None


def test_a_variant_that_has_another_place_here_is_told(tmp_path):
    write(tmp_path / "j", variant="/on/the/host.py:Loud")
    assert len(list(replay(tmp_path / "j", LOUD, variant="here/loud.py:Loud"))) == len(EVENTS) + 1
    assert contrast(tmp_path / "j", LOUD, variant="here/loud.py:Loud")[0] == 5


def test_damage_in_the_middle_is_an_error_not_an_end(tmp_path):
    path = tmp_path / "j"
    write(path)
    lines = path.read_bytes().split(b"\n")
    lines[3] = lines[3][:-4]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(HistoryError, match="line 4 is damaged"):
        list(replay(path, TARGET))


def test_the_cap_stops_the_journal_and_says_so(tmp_path):
    _, journal = write(tmp_path / "j", bytes_max=900)
    assert journal.stopped == "cap"
    *_, last = read_lines(tmp_path / "j")
    assert isinstance(last, End)
    assert last.reason == "cap"
    assert len(list(replay(tmp_path / "j", TARGET))) == last.steps + 1


def test_the_digest_tells_kinds_apart():
    digest = Digester()
    assert digest([]) == ""
    assert digest([Note("a", 1, "R", {"x": 1, "y": 2})]) == digest([Note("a", 1, "R", {"y": 2, "x": 1})])
    assert digest([Send("a", 1)]) != digest([Send("a", 2)])
