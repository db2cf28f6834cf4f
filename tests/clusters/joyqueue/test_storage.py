"""Metadata and log on disk: round trips, torn and damaged files, what a restart makes of them."""

from __future__ import annotations

import pytest

from dethrone.clusters.targets.joyqueue.storage import (
    LOG,
    METADATA,
    TOPIC,
    group_names,
    label_of,
    metadata_bytes,
    record,
)
from tests.clusters.joyqueue.spec import One, World, disk, entries, metadata_of
from tests.world.effects import names

PATH, LOG_PATH = f"{TOPIC}/{METADATA}", f"{TOPIC}/{LOG}"


def log_bytes(*terms):
    return b"".join(record(at, entry)[0] for at, entry in enumerate(entries(*terms)))


def test_what_is_written_has_the_originals_fields():
    text = metadata_bytes(metadata_of("A", "AB", 3, "B"))
    for field in (b"electionType", b"allNodes", b"learners", b"localNodeId", b"leaderId", b"votedFor", b"currentTerm"):
        assert field in text


def test_one_group_is_the_topic_itself_and_several_have_numbers_and_labels():
    assert group_names(1) == ("topic",)
    assert label_of("topic") == ""
    assert group_names(2) == ("topic/0", "topic/1")
    assert label_of("topic/1") == "topic/1"


# --- restarts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "term", "voted_for", "right"),
    [
        ({}, 0, None, 0),
        (disk(5), 5, None, 0),
        (disk(5, "B"), 5, "B", 0),
        (disk(5, "A"), 5, "A", 0),
        (disk(5, "A", (1, 5, 5)), 5, "A", 3),
        ({**disk(5, "B", (1, 2)), LOG_PATH: log_bytes(1, 2)[:-3]}, 5, "B", 1),
        ({**disk(5, "B"), f"{TOPIC}/metadata.tmp": b"half"}, 5, "B", 0),
    ],
)
def test_every_restart_is_a_follower_with_term_and_vote_of_the_disk_and_no_leader(image, term, voted_for, right):
    one = One(image=image)
    group = one.group
    assert (group.role, group.term, group.voted_for, group.leader) == ("FOLLOWER", term, voted_for, None)
    assert group.log.end == right
    assert "start" in names(one.booted)
    assert group.reset_at == one.now


@pytest.mark.parametrize("power", [False, True])
def test_votes_terms_and_entries_survive_a_kill_and_a_loss_of_power(power):
    world, leader = World.with_leader()
    for value in range(3):
        assert world.write(leader, value)
    world.run(2000)
    before = {name: (box.group.term, box.group.voted_for, box.group.log.digests) for name, box in world.boxes.items()}
    for name in "ABC":
        world.restart(name, power=power)
    for name, box in world.boxes.items():
        assert (box.group.term, box.group.voted_for, box.group.log.digests) == before[name]
    assert world.problems == []
