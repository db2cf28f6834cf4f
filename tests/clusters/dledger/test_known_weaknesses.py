"""The known weaknesses of DLedger, each as the sequence of faults that shows it, and the knob that mends it."""

import pytest

from dethrone.clusters.targets.client_api import Append, Get, Ok, Unknown
from dethrone.clusters.targets.dledger.messages import PushEntryResponse
from dethrone.clusters.targets.dledger.storage import TERM, TermState, term_bytes
from dethrone.harness.core.clock import MS
from dethrone.harness.core.machine import Rename
from tests.clusters.dledger.spec import One, World
from tests.world.disk import Disk

STORING = ("APPEND", "TRUNCATE")


def found(world, *names):
    return all(any(name in problem for problem in world.problems) for name in names)


def others(world, name):
    return [one for one in world.names if one != name]


def roles(world):
    return {name: box.node.role for name, box in world.boxes.items() if box.alive}


def forced(world, name, *, ms=40_000):
    """Only ``name`` campaigns of its own accord, until it leads."""

    def held_back():
        for box in world.boxes.values():
            if box.alive and box.name != name and not box.leads:
                box.node.next_vote = max(box.node.next_vote, box.clocks().wall + 5000 * MS)
        return world.boxes[name].leads

    assert world.run(ms, until=held_back), f"{name} does not lead"


def ahead(world, leader, *, write):
    """One follower is stopped, its stored term set ahead of the leader's, and started again."""
    lagging = others(world, leader)[0]
    world.kill(lagging)
    if write:
        assert world.write(leader, 99, ms=5000)
    term = world.boxes[leader].node.term
    disk = world.boxes[lagging].disk
    disk.store({TERM: term_bytes(TermState(term + 1, None))})
    world.start(lagging)
    return lagging


# --- DL-B1 and B2: a raised term --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_b1_a_lagging_node_with_a_higher_term_never_comes_back(seed):
    world, leader = World.with_leader(seed=seed)
    assert world.write(leader, 1)
    lagging = ahead(world, leader, write=True)
    world.boxes[lagging].notes.clear()
    world.run(300_000)
    assert world.leader() == leader
    node = world.boxes[lagging].node
    assert (node.role, node.leader, node.log.last) == ("CANDIDATE", None, 0)
    cases = [note.data["case"] for note in world.boxes[lagging].notes if note.name == "campaign_result"]
    assert set(cases) <= {3, 4}
    assert cases.count(4) > 20


@pytest.mark.parametrize("seed", range(6))
def test_b1_ends_when_a_leader_looks_at_larger_terms_first(seed):
    world, leader = World.with_leader(seed=seed, leader_checks_max_term_first=True)
    assert world.write(leader, 1)
    lagging = ahead(world, leader, write=True)
    assert world.run(20_000, until=lambda: world.boxes[lagging].node.role == "FOLLOWER")


def stopped_leader(seed, *, write):
    """The long way to it: the leader is stopped until both followers campaigned in vain, and comes back in time."""
    world, a = World.with_leader(seed=seed)
    assert world.write(a, 1)
    world.run(3000)
    term = world.boxes[a].node.term
    b, c = others(world, a)
    world.pause(a)

    def both_ended():
        return all(world.boxes[name].node.last_result == "WAIT_TO_VOTE_NEXT" for name in (b, c))

    if not world.run(12_000, until=both_ended):
        return None
    world.isolate(c)
    world.resume(a)
    if not world.run(8000, until=lambda: world.boxes[c].node.term == term + 1):
        return None
    world.run(3000)
    if world.boxes[a].node.term != term or world.boxes[b].node.leader != a:
        return None
    if write:
        assert world.write(a, 2, ms=3000)
    world.heal()
    return world, a, c, term


def test_b1_from_a_stopped_leader_and_a_cut():
    shown = 0
    for seed in range(30):
        story = stopped_leader(seed, write=True)
        if story is None:
            continue
        world, a, c, term = story
        world.run(60_000)
        shown += world.boxes[c].node.role == "CANDIDATE" and world.leader() == a and world.boxes[a].node.term == term
        assert world.problems == []
    assert shown >= 5


def test_b2_with_equal_logs_it_deposes_a_healthy_leader():
    shown = 0
    for seed in range(30):
        story = stopped_leader(seed, write=False)
        if story is None:
            continue
        world, a, _, term = story
        world.run(60_000)
        shown += world.boxes[a].node.term > term
        assert set(roles(world).values()) == {"LEADER", "FOLLOWER"}
        assert world.problems == []
    assert shown >= 5


def test_b2_an_isolated_node_keeps_its_term_so_that_a_plain_cut_does_no_harm():
    world, leader = World.with_leader()
    term = world.boxes[leader].node.term
    world.isolate(others(world, leader)[0])
    world.run(120_000)
    world.heal()
    world.run(20_000)
    assert (world.leader(), world.boxes[leader].node.term) == (leader, term)
    assert sorted(roles(world).values()) == ["FOLLOWER", "FOLLOWER", "LEADER"]


# --- DL-B3: the term of the log's end ---------------------------------------------------------------------------------


def lagging_candidate(**knobs):
    """A leads term 2 with a full log; B holds all of it and just restarted; C got its second entry in term 2."""
    world = World("ABC", asleep="ABC", **knobs)
    for name, log in (("A", (0, 1, 1, 1)), ("B", (0, 1, 1, 1)), ("C", (0,))):
        world.prepare(name, term=2, voted_for="A", log=log)
        world.start(name)
    world.hold = lambda src, dst, body: dst == "C" and getattr(body, "type", "") == "APPEND" and body.entry.index > 1
    assert world.run(10_000, until=lambda: world.leader() == "A" and world.boxes["C"].node.log.last == 1)
    world.restart("B")
    world.run(5000)
    assert world.boxes["A"].node.committed == 3
    world.kill("A")
    world.hold = None
    world.run(30_000)
    return world


@pytest.mark.parametrize("ledger_end_term", ["curr_term", "entry"])
def test_b3_the_current_term_in_place_of_the_last_entrys_loses_committed_entries(ledger_end_term):
    world = lagging_candidate(ledger_end_term=ledger_end_term, commit_own_term_only=False)
    if ledger_end_term == "curr_term":
        assert world.leader() == "C"
        assert found(world, "INV-4")
    else:
        assert world.leader() == "B"
        assert world.problems == []


# --- DL-B4: a vote that is not durable --------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "broken"), [("upstream", True), ("none", True), ("atomic", False)])
def test_b4_two_leaders_of_one_term_when_a_vote_is_not_stored(mode, broken):
    world = World("ABC", asleep="ABC", persist_mode=mode)
    if mode != "none":  # without any file all are in term 0
        for name, term in (("A", 6), ("B", 5), ("C", 6)):
            world.prepare(name, term=term)
    world.start("B")
    world.boxes["B"].node.next_vote = 1 << 62
    world.boxes["B"].full = mode != "none"
    world.start("A")
    world.run(10_000, until=lambda: world.boxes["A"].leads)
    world.run(20)
    assert world.boxes["A"].leads == broken
    assert ("ENOSPC" in world.boxes["B"].halted) != broken
    world.boxes["B"].full = False
    world.restart("B")
    world.boxes["B"].node.next_vote = 1 << 62
    world.isolate("A")
    world.start("C")
    world.run(20_000, until=lambda: world.boxes["C"].leads)
    world.run(20)
    assert found(world, "INV-1", "INV-2: B") == broken
    assert broken or world.problems == []


def test_b4_a_kill_between_delete_and_rename_leaves_no_term_file():
    old = term_bytes(TermState(7, "A"))
    for mode, left in (("upstream", None), ("atomic", old)):
        one = One(term=7, voted_for="A", persist_mode=mode)
        one.asked(term=8)
        one.slow = True
        one.run(20)
        (batch, *_) = one.batches
        disk = Disk()
        disk.store({TERM: old})
        renamed = next(i for i, op in enumerate(batch.ops) if isinstance(op, Rename))
        for op in batch.ops[:renamed]:
            disk.carry_out(op)
        assert disk.shown.get(TERM) == left
        again = One(image=disk.shown, persist_mode=mode)
        assert again.node.term == (0 if left is None else 7)


# --- DL-B5: the wall clock --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("clock", "broken"), [("wall", True), ("monotonic", False)])
def test_b5_a_leader_whose_clock_is_stepped_back_and_that_is_cut_off_leads_on(clock, broken):
    world, leader = World.with_leader(clock=clock)
    world.run(5000)
    world.step_wall(-60_000, leader)
    world.isolate(leader)
    world.run(25_000)
    leaders = [name for name, box in world.boxes.items() if box.leads]
    assert (leader in leaders, len(leaders)) == ((True, 2) if broken else (False, 1))
    assert world.problems == []  # they lead different terms


@pytest.mark.parametrize(("clock", "broken"), [("wall", True), ("monotonic", False)])
def test_b5_a_leader_whose_clock_is_stepped_back_keeps_others_from_electing_while_logs_are_equal(clock, broken):
    world, leader = World.with_leader(clock=clock)
    world.run(5000)
    world.step_wall(-60_000, leader)
    world.run(25_000)
    # the silent leader still answers ALREADY_HAS_LEADER, so that every campaign ends in case 2
    assert [name for name, box in world.boxes.items() if box.leads] == [leader]
    for name in others(world, leader):
        assert (world.boxes[name].node.role == "CANDIDATE") == broken
        cases = [note.data["case"] for note in world.boxes[name].notes if note.name == "campaign_result"]
        assert (len(cases) > 5 and cases[-5:] == [2] * 5) == broken
    world.run(60_000)
    assert sorted(roles(world).values()) == ["FOLLOWER", "FOLLOWER", "LEADER"]


def test_b5_once_its_log_is_longer_the_others_elect_and_depose_it():
    world, leader = World.with_leader()
    world.run(5000)
    world.step_wall(-60_000, leader)
    world.run(10_000)
    assert not world.write(leader, 1, ms=3000)
    # now it refuses by its log, before it looks at terms or says that it leads
    assert world.run(20_000, until=lambda: world.leader() not in (leader, None))
    world.run(2100)
    assert not world.boxes[leader].leads
    assert world.problems == []


@pytest.mark.parametrize(("clock", "broken"), [("wall", True), ("monotonic", False)])
def test_b5_a_follower_whose_clock_is_stepped_forward_campaigns_at_once(clock, broken):
    world = World("ABC", clock=clock)
    follower = others(world, world.elect())[0]
    world.run(5000)
    world.step_wall(10_000, follower)
    before = len([note for note in world.boxes[follower].notes if note.name == "campaign"])
    world.run(1000)
    campaigns = [note for note in world.boxes[follower].notes if note.name == "campaign"]
    assert (len(campaigns) > before) == broken


@pytest.mark.parametrize(("clock", "broken"), [("wall", True), ("monotonic", False)])
def test_b5_a_candidate_whose_clock_is_stepped_back_does_not_campaign(clock, broken):
    world = World("ABC", asleep="BC", clock=clock)
    box = world.boxes["A"]
    assert world.run(10_000, until=lambda: box.node.waits is None and box.node.next_vote > 0)
    world.step_wall(-60_000, "A")
    before = len(box.notes)
    world.run(55_000)
    assert any(note.name == "campaign" for note in box.notes[before:]) != broken
    world.run(10_000)
    assert any(note.name == "campaign" for note in box.notes[before:])


# --- DL-B6: a half-open link ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_b6_a_leader_that_sends_but_cannot_hear_costs_two_patiences(seed):
    world, leader = World.with_leader(seed=seed)
    world.run(4000 + 307 * seed)
    at = world.now
    world.cut |= {(name, leader) for name in others(world, leader)}
    old = world.boxes[leader]
    assert world.run(10_000, until=lambda: not old.leads)
    assert 3900 * MS <= world.now - at <= 6100 * MS
    assert world.run(10_000, until=lambda: world.leader() is not None)
    assert 10_000 * MS < world.now - at <= 13_500 * MS
    world.run(30_000)
    cases = [note.data["case"] for note in old.notes if note.name == "campaign_result"]
    assert set(cases[-5:]) == {3}


# --- DL-B7: an immediate vote after a raised term ---------------------------------------------------------------------


@pytest.mark.parametrize("names", ["ABC", "ABCDE"])
@pytest.mark.parametrize("seed", range(10))
def test_b7_with_an_immediate_vote_a_dead_leader_is_not_replaced(seed, names):
    for handling, replaced in (("immediate", False), ("bump_only", True)):
        world = World(names, seed=seed, flag_handling=handling)
        leader = "A"
        forced(world, leader)  # when all start at once, not even the first leader is found
        world.run(3000)
        term = world.boxes[leader].node.term
        world.kill(leader)
        world.run(60_000)
        assert (world.leader() is not None) == replaced
        climbed = max(box.node.term for box in world.boxes.values() if box.alive) - term
        assert climbed > 10 if handling == "immediate" else climbed < 10


# --- DL-B8: two leaders of different terms ----------------------------------------------------------------------------


def test_b8_a_stopped_leader_leads_on_until_its_next_round_is_answered():
    world, leader = World.with_leader()
    world.run(3000)
    world.pause(leader)
    world.isolate(leader)  # what was queued for it would depose it at once
    assert world.run(30_000, until=lambda: any(world.boxes[name].leads for name in others(world, leader)))
    world.heal()
    world.resume(leader)
    assert sorted(box.leads for box in world.boxes.values()) == [False, True, True]
    world.run(2100)
    assert not world.boxes[leader].leads
    assert world.problems == []


def test_a_restarted_leader_may_lead_its_term_again():
    world, leader = World.with_leader()
    assert world.write(leader, 1)
    term = world.boxes[leader].node.term
    world.restart(leader)
    world.run(3000)
    assert (world.leader(), world.boxes[leader].node.term) == (leader, term)
    assert world.problems == []


# --- the log ----------------------------------------------------------------------------------------------------------


def old_entry_on_a_majority(**knobs):
    """A leads and copies an entry of term 1 to B; then C leads, whose log ends with an entry of term 2."""
    world = World("ABC", asleep="ABC", **knobs)
    for name, term, log in (("A", 3, (0, 1)), ("B", 3, (0,)), ("C", 2, (0, 2))):
        world.prepare(name, term=term, log=log)
    world.start("A")
    world.start("B")
    assert world.run(20_000, until=lambda: world.leader() == "A" and world.boxes["B"].node.log.last == 1)
    world.run(2000)
    committed = world.boxes["A"].node.committed
    world.kill("A")
    world.start("C")
    assert world.run(30_000, until=lambda: world.leader() == "C")
    world.run(5000)
    assert world.boxes["B"].node.log.entries[1].term == 2
    return world, committed


@pytest.mark.parametrize("own_term_only", [False, True])
def test_l1_entries_of_older_terms_committed_by_counting_are_overwritten(own_term_only):
    world, committed = old_entry_on_a_majority(commit_own_term_only=own_term_only)
    assert committed == (-1 if own_term_only else 1)
    assert found(world, "INV-4", "committed entry is cut off") != own_term_only
    assert not own_term_only or world.problems == []


@pytest.mark.parametrize("committed_only", [False, True])
def test_l2_a_value_that_was_read_disappears(committed_only):
    world, leader = World.with_leader(get_committed_only=committed_only)
    assert world.write(leader, 1)
    world.run(3000)
    world.isolate(leader)
    lost = world.request(leader, Append("k", 2))
    world.run(2600)
    assert isinstance(world.replies[lost], Unknown)
    assert "502" in world.replies[lost].why
    read = world.ask(leader, Get("k"), ms=10)
    by_index = world.ask(leader, Get("2", mode="index"), ms=10)
    assert read.value == ([1] if committed_only else [1, 2])
    assert isinstance(by_index, Ok) != committed_only
    rest = others(world, leader)
    assert world.run(20_000, until=lambda: any(world.boxes[name].leads for name in rest))
    new = world.leader()
    assert world.write(new, 3, ms=3000)
    world.heal()
    world.run(20_000)
    assert world.ask(world.leader(), Get("k")).value == [1, 3]
    assert world.boxes[leader].node.log.digests == world.boxes[new].node.log.digests


@pytest.mark.parametrize("checks", [False, True])
def test_l3_a_deposed_leader_counts_comparisons_of_a_newer_term(checks):
    world = World("ABCDE", asleep="ABCDE", push_checks_leader=checks)
    for name in "ABCDE":
        world.prepare(name, term=3, log=(0,))
        world.start(name)
    forced(world, "A")
    world.run(3000)
    term = world.boxes["A"].node.term

    def apart(src, dst, body):
        kind = getattr(body, "type", "")
        return (src == "A" and dst in "BCE" and kind == "APPEND") or (src + dst == "DC" and kind in STORING)

    world.hold = apart
    world.request("A", Append("k", "z"))  # stored by A and D
    world.run(100)
    assert [box.node.log.last for box in world.boxes.values()] == [1, 0, 0, 1, 0]
    world.pause("A")
    world.isolate("A")  # what was queued for it would depose it at once
    world.isolate("D")
    forced(world, "E")
    world.hold = lambda src, dst, body: src == "E" and getattr(body, "type", "") in STORING
    world.request("E", Append("k", "w"))  # kept by E alone
    world.run(100)
    world.heal()
    world.isolate("A")
    world.isolate("E")
    world.hold = apart
    forced(world, "D")
    assert world.run(10_000, until=lambda: world.boxes["B"].node.log.last == 1)
    world.hold = lambda src, dst, body: src + dst == "DC" and getattr(body, "type", "") in STORING
    world.heal()
    world.isolate("E")
    world.resume("A")
    world.run(1000)
    committed = [note for note in world.boxes["A"].notes if note.name == "commit" and note.data["new"] == 2]
    assert bool(committed) != checks
    assert not committed or committed[0].term == term + 1
    world.kill("A")
    world.kill("D")
    world.hold = None
    world.heal()
    forced(world, "E")
    world.run(5000)
    assert found(world, "INV-4") != checks
    assert not checks or world.problems == []


@pytest.mark.parametrize(("fsync", "broken"), [("async", True), ("each", False)])
def test_l4_a_power_cut_takes_an_entry_that_was_pushed_and_its_place_is_given_again(fsync, broken):
    world, leader = World.with_leader(sync=(0, 0), fsync=fsync)
    assert world.write(leader, 1)
    world.run(3000)
    b, c = others(world, leader)
    world.sever(leader, c)
    world.hold = lambda src, dst, body: isinstance(body, PushEntryResponse) and dst == leader
    world.request(leader, Append("k", "x"))
    assert world.run(1000, until=lambda: world.boxes[b].node.log.last == 1)
    term = world.boxes[leader].node.term
    world.kill(leader, power=True)
    world.hold = None
    world.heal()
    world.isolate(b)
    world.start(leader)
    assert world.run(5000, until=lambda: world.leader() == leader)
    assert world.boxes[leader].node.term == term
    assert world.boxes[leader].node.log.last == (0 if broken else 1)
    world.request(leader, Append("k", "y"))
    world.run(1000)
    assert world.judge.logs_match() != broken
    world.heal()
    world.run(10_000)
    assert world.judge.logs_match()  # contents are compared, so the follower is repaired
