"""The restart matrix, the file and its damages."""

import msgspec
import pytest

from dethrone.clusters.targets.kraft.messages import EndQuorumEpochRequest, FetchRequest, VoteRequest
from dethrone.clusters.targets.kraft.storage import LOG, STATE, read_state
from tests.clusters.kraft.spec import NO, A, B, C, One, disk, vote
from tests.world.effects import halted, names, note, sent


@pytest.mark.parametrize(
    ("image", "row", "state", "epoch"),
    [
        ({}, 6, "Unattached", 0),
        (disk(3), 6, "Unattached", 3),
        (disk(3, voted=B), 4, "Voted", 3),
        (disk(3, voted=A), 3, "Candidate", 3),
        (disk(3, leader=A), 2, "Resigned", 3),
        (disk(3, leader=B), 5, "Follower", 3),
        (disk(3, leader=B, log=(1, 3)), 5, "Follower", 3),
        (disk(3, leader=A, log=(1, 4)), 1, "Unattached", 4),
        (disk(3, voted=A, log=(4,)), 1, "Unattached", 4),
        (disk(3, voted=B, log=(4,)), 1, "Unattached", 4),
        (disk(3, leader=B, log=(4,)), 1, "Unattached", 4),
        ({LOG: disk(0, log=(2, 2))[LOG]}, 1, "Unattached", 2),
    ],
)
def test_the_start_state_follows_from_file_and_log(image, row, state, epoch):
    one = One(image)
    assert (one.node.state, one.node.epoch) == (state, epoch)
    assert note(one.booted, "start")["rule"] == row
    assert read_state(one.disk.shown[STATE]).leader_epoch == epoch


def test_the_documented_sample_makes_one_node_a_candidate_and_the_other_voted_in_epoch_222():
    image = disk(222, voted=1, voters=(1, 2))
    one, two = One(image, members="AB"), One(image, members="AB", node="B")
    assert (one.node.state, one.node.epoch) == ("Candidate", 222)
    assert (two.node.state, two.node.epoch) == ("Voted", 222)
    assert one.node.votes == {A: True}
    request = sent(one.booted, VoteRequest)[0][1]
    assert (request.candidate_epoch, request.candidate_id) == (222, 1)
    two.hear("A", request)
    assert two.node.state == "Voted"


def test_a_former_leader_says_that_it_resigned_and_campaigns_in_the_next_epoch_only():
    one = One(disk(3, leader=A))
    assert {to for to, _ in sent(one.booted, EndQuorumEpochRequest)} == {"B", "C"}
    assert sent(one.booted, EndQuorumEpochRequest)[0][1].preferred_successors == ()
    assert not one.hear("B", vote(B, 3))[-1].body.partition.vote_granted
    one.time_out()
    assert (one.node.state, one.node.epoch) == ("Candidate", 4)


def test_a_former_follower_goes_on_fetching():
    one = One(disk(3, leader=B, log=(1, 2)))
    ((to, request),) = sent(one.booted, FetchRequest)
    assert to == "B"
    assert (request.current_leader_epoch, request.fetch_offset, request.last_fetched_epoch) == (3, 2, 2)


def test_the_file_is_one_json_line_with_these_fields():
    one = One(disk(4))
    one.hear("B", vote(B, 4))
    content = one.disk.shown[STATE]
    assert content.count(b"\n") == 1
    assert content.endswith(b"\n")
    assert msgspec.json.decode(content) == {
        "clusterId": "dethrone",
        "leaderId": NO,
        "leaderEpoch": 4,
        "votedId": B,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }
    assert f"{STATE}.tmp" not in one.disk.shown


@pytest.mark.parametrize("content", ["unreadable", b"", b"{", b"[]", b'{"leaderEpoch":"x"}', b'{"data_version":7}'])
def test_a_file_that_cannot_be_read_is_deleted_with_a_warning_and_counts_as_absent(content):
    one = One({**disk(9, voted=B, log=(2, 3)), STATE: content})
    assert "quorum_state_deleted" in names(one.booted)
    assert (one.node.state, one.node.epoch) == ("Unattached", 3)
    assert not halted(one.booted)


def test_a_file_cut_anywhere_is_noticed_unless_only_its_end_of_line_is_missing():
    content = disk(9, voted=B)[STATE]
    for length in range(len(content) - 1):
        assert "quorum_state_deleted" in names(One({STATE: content[:length]}).booted), length
    assert One({STATE: content[:-1]}).node.state == "Voted"


def test_another_voter_set_than_the_stored_one_is_refused():
    assert halted(One(disk(3, voters=(1, 2, 3, 4))).booted)
    assert not halted(One(disk(3, voters=(3, 2, 1))).booted)
    assert not halted(One(disk(3, voters=())).booted)
    assert halted(One(disk(3), observers="C").booted)


def test_nothing_is_said_before_the_start_state_is_on_disk():
    one = One({LOG: disk(0, log=(2, 2))[LOG], **disk(1, voted=A)}, slow_start=True)
    assert [type(e).__name__ for e in one.booted[:2]] == ["Disk", "Await"]
    assert one.status().term == 1
    one.done()
    one.done()
    assert one.status().term == 2


@pytest.mark.parametrize("voted", [NO, A, B])
def test_an_observer_starts_unattached_or_following(voted):
    one = One(disk(3, voted=voted, voters=(1, 2)), node="C", observers="C")
    assert one.node.state == "Unattached"
    assert one.node.election_at > one.now * 10**6
    one = One(disk(3, leader=B, voters=(1, 2)), node="C", observers="C")
    assert one.node.state == "Follower"
    assert C not in one.node.voters
