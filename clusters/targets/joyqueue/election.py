"""The candidate's side: election timer, pre-vote, campaign, counting, vote timer, the start of a leadership.

Guarantees: the original's steps in their order, with its oddities: a step-down by a vote answer does not end the tally
(JQ-B1), pre-votes and votes share one flag per member that only the send task resets (JQ-B2), a send task reads the
term when it runs (JQ-B3). Out of scope: answering others (`responding`) and replication.

Source: docs/sources.md, joyqueue: ``RaftLeaderElection``, whose function names are kept.
"""

from __future__ import annotations

from dethrone.clusters.targets.joyqueue import replication
from dethrone.clusters.targets.joyqueue.group import CANDIDATE, FOLLOWER, LEADER, Group
from dethrone.clusters.targets.joyqueue.messages import JoyQueueAnswer, NullAnswer, VoteRequest, VoteResponse
from dethrone.clusters.targets.joyqueue.node import FAR, Call, Task
from dethrone.clusters.targets.joyqueue.rules import Round

# --- timers -----------------------------------------------------------------------------------------------------


def on_election_timer(g: Group) -> None:
    """The timer rang: early, as its delay is drawn late; or it is due; or it was not pending at all."""
    g.armed = FAR
    pending = g.reset_at is not None
    if g.started and g.reset_at is not None:
        now = g.election_now()
        if g.deadline is None:
            if now < g.reset_at + g.timeout_min:
                g.arm_election_timer(g.reset_at + g.timeout_min)
                return
            g.deadline = g.reset_at + g.rules.election_delay(g.node.rng)
        if now < g.deadline:
            g.arm_election_timer(g.deadline)
            return
    g.reset_at = g.deadline = None
    handle_election_timeout(g, pending=pending)


def handle_election_timeout(g: Group, *, pending: bool = True) -> None:
    """``handleElectionTimeout``: rows 1-7. ``pending``: the timer's handle was not null."""
    if not g.started and g.rules.expiry_needs_service():
        g.note("error", {"what": "election timeout, election service not started"})
        return
    g.count("election_timeouts")
    g.note("election_timeout", {"state": g.role, "pending": pending})
    if g.rules.leads_alone(len(g.voters)):
        become_leader(g, voters=(g.me,))
        return
    if g.rules.ignores_expiry(leads=g.role == LEADER):
        return
    if g.leader is not None:
        g.leader = None
        g.note("leader_seen", {"leader": None, "why": "election_timeout"})
    try:
        pre_vote(g)
    except Exception as error:  # noqa: BLE001 - the original catches everything here, logs it and continues
        g.note("error", {"what": f"pre-vote failed: {error}"})
        if not g.rules.rearms_after_failed_pre_vote():
            return
    g.reset_election_timer()


def handle_vote_timeout(g: Group) -> None:
    """``handleVoteTimeout``: the campaign ends; the next pre-vote follows at the next election timeout."""
    g.vote_at = FAR
    if not g.started:
        g.note("error", {"what": "vote timeout, election service not started"})
        return
    g.note("vote_timeout", {"state": g.role})
    if g.role != CANDIDATE or not g.rules.steps_down_on_vote_timeout():
        return
    g.step_down(g.term, "vote_timeout")


# --- asking -----------------------------------------------------------------------------------------------------


def pre_vote(g: Group) -> None:
    """``preVote``: ask all others without raising the term."""
    g.round += 1
    g.note("prevote_started", {"reqTerm": g.term + 1, "round": g.round, "log": g.own_log()})
    _ask_all(g, "prevote")


def elect_self(g: Group, *, why: str) -> None:
    """``electSelf``: steps 1-11. The election timer keeps running."""
    before, role = g.term, g.role
    g.term = g.rules.next_term(before)
    g.role = CANDIDATE
    g.leader = None
    g.voted_for = g.me
    g.campaigned_term = g.term
    g.persist("campaign")
    g.count("elections")
    g.note("term_change", {"from": before, "to": g.term, "why": why})
    g.note("role_change", {"from": role, "to": CANDIDATE, "term": g.term, "why": why})
    if g.rules.offline_during_campaign():
        g.go_offline(g.term)
    g.note("elect_self", {"term": g.term})
    g.note("election_started", {"term": g.term, "log": g.own_log()})
    g.reset_vote_timer()
    _ask_all(g, "vote")


def _ask_all(g: Group, kind: Round) -> None:
    """Own flag, log end captured once, one send task per member."""
    if g.rules.counts_itself(kind):
        g.flags[g.me] = True
    g.answered = {g.me}
    end = g.rules.last_log(kind, last_term=g.log.last_term, right=g.log.end, term=g.term)
    reset = g.rules.resets_flag("round", kind)
    for peer in g.others:
        if reset:
            g.flags[peer] = False
        g.node.submit(g, kind, peer, end)


def run_vote_task(task: Task[Group], kind: Round) -> None:
    """A send task: the flag first, then the term as it is now, even if the node has changed its role since."""
    g, peer = task.group, task.peer
    if not g.started:
        return
    if g.rules.resets_flag("task", kind):
        g.flags[peer] = False
    last_term, last_pos = task.body
    term = g.rules.pre_vote_term(g.term) if kind == "prevote" else g.term
    number = g.node.call(g, kind, peer)
    if kind == "prevote":
        g.note("prevote_sent", {"peer": peer, "term": term, "round": g.round})
    else:
        g.note("vote_sent", {"peer": peer, "term": term})
    g.send(peer, VoteRequest(g.name, term, g.me, last_term, last_pos, kind == "prevote", number))


# --- counting ---------------------------------------------------------------------------------------------------


def vote_request_callback(g: Group, call: Call[Group], answer: JoyQueueAnswer) -> None:
    """``VoteRequestCallback``: an answer of another term's request is dropped; an error in a handler is only logged."""
    if not g.rules.keeps_answer(asked_in=call.term, term=g.term):
        g.count("answers_of_old_terms")
        return
    if isinstance(answer, NullAnswer) or not isinstance(answer, VoteResponse):
        g.note("vote_answer_ignored", {"peer": call.peer, "why": type(answer).__name__})
        return
    if call.kind == "prevote":
        handle_pre_vote_response(g, answer)
    else:
        handle_vote_response(g, answer)


def handle_pre_vote_response(g: Group, answer: VoteResponse) -> None:
    """``handlePreVoteResponse``: rows 2-6."""
    voter = answer.vote_node_id
    if not g.rules.answers_count_in("prevote", follower=g.role == FOLLOWER, candidate=g.role == CANDIDATE):
        g.note("vote_answer_ignored", {"peer": voter, "why": g.role})
        return
    if g.rules.steps_down_for(answer.term, g.term):
        _note_answer(g, "prevote_answer", answer, counted=False)
        g.step_down(answer.term, "prevote_answer")
        if not g.rules.tallies_after_step_down("prevote"):
            return
    if voter not in g.flags:
        g.note("error", {"what": f"pre-vote answer of {voter}, who is no member"})
        return
    if not g.rules.accepts_answer_of(answer.term, g.term):
        _note_answer(g, "prevote_answer", answer, counted=False)
        return
    g.flags[voter] = answer.vote_granted
    g.answered.add(voter)
    granted = sum(g.flags.values())
    _note_answer(g, "prevote_answer", answer, counted=answer.vote_granted)
    if g.rules.majority("prevote", granted=granted, nodes=len(g.voters), answered=len(g.answered)):
        voters = [name for name, flag in g.flags.items() if flag]
        g.note("prevote_result", {"result": "won", "reqTerm": g.term + 1, "round": g.round, "granted": voters})
        elect_self(g, why="prevote_won")


def handle_vote_response(g: Group, answer: VoteResponse) -> None:
    """``handleVoteResponse``: rows 2-5. Row 3 does not return (JQ-B1) unless the knob mends it."""
    voter = answer.vote_node_id
    if not g.rules.answers_count_in("vote", follower=g.role == FOLLOWER, candidate=g.role == CANDIDATE):
        g.note("vote_answer_ignored", {"peer": voter, "why": g.role})
        return
    fallthrough = False
    if g.rules.steps_down_for(answer.term, g.term):
        g.step_down(answer.term, "vote_answer")
        if not g.rules.tallies_after_step_down("vote"):
            _note_answer(g, "vote_answer", answer, counted=False)
            return
        fallthrough = True
    if voter not in g.flags:
        g.note("error", {"what": f"vote answer of {voter}, who is no member"})
        return
    g.flags[voter] = answer.vote_granted
    g.answered.add(voter)
    granted = sum(g.flags.values())
    _note_answer(g, "vote_answer", answer, counted=answer.vote_granted, fallthrough=fallthrough)
    if g.rules.majority("vote", granted=granted, nodes=len(g.voters), answered=len(g.answered)):
        become_leader(g, voters=tuple(name for name, flag in g.flags.items() if flag))


def _note_answer(g: Group, name: str, answer: VoteResponse, *, counted: bool, fallthrough: bool = False) -> None:
    data = {
        "peer": answer.vote_node_id,
        "term": answer.term,
        "granted": answer.vote_granted,
        "counted": counted,
        "total": sum(g.flags.values()),
    }
    if fallthrough:
        data["fallthrough"] = True
    g.note(name, data)


# --- a leadership -----------------------------------------------------------------------------------------------


def become_leader(g: Group, *, voters: tuple[str, ...]) -> None:
    """``becomeLeader``: in the current term, even a later one. ``voters``: whose flags made the majority."""
    g.become(LEADER, "elected")
    g.leader = g.me
    for name in g.flags:
        g.flags[name] = False
    g.count("elected")
    replication.start_leading(g)
    replication.start_new_heartbeat(g)
    g.go_online(g.term)
    g.persist("other")
    g.note("elected", {"term": g.term, "voters": sorted(voters), "members": list(g.voters)})
    g.note("become_leader", {"term": g.term, "flags": sorted(voters)})
    g.cancel_election_timer()
    g.cancel_vote_timer()
    replication.feed(g)
