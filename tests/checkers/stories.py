"""Stories: for each checker a shortest bad history and near-miss good ones, with their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.checkers.histories import ALL, Tale, plan, promise


@dataclass(frozen=True)
class Story:
    """A history with a known verdict. ``words`` stand in the finding's sentence or the reason."""

    checker: str
    outcome: str
    tell: Callable[[], Tale]
    words: str = ""
    nodes: int = 3
    promised: dict[str, Any] = field(default_factory=dict)
    workload: str = "log"
    own_shell: bool = False
    """Whether the nodes run in our own shell."""
    evidence: tuple[str, ...] = ()

    def plan(self) -> Any:
        observable = (*ALL, "shell") if self.own_shell else ALL
        made = plan(self.nodes, given=promise(**self.promised), workload=self.workload, observable=observable)
        return msgspec.structs.replace(made, evidence=self.evidence)


STORIES: dict[str, Story] = {}


def story(
    checker: str,
    outcome: str,
    words: str = "",
    *,
    nodes: int = 3,
    workload: str = "log",
    promised: dict[str, Any] | None = None,
    own_shell: bool = False,
    evidence: str = "",
) -> Callable[[Callable[[Tale], Any]], Callable[[Tale], Any]]:
    def keep(tell: Callable[[Tale], Any]) -> Callable[[Tale], Any]:
        def build() -> Tale:
            tale = Tale(nodes)
            tell(tale)
            return tale

        asked = tuple(evidence.split())
        STORIES[tell.__name__] = Story(
            checker, outcome, build, words, nodes, promised or {}, workload, own_shell, asked
        )
        return tell

    return keep


# --- one-leader-per-term ----------------------------------------------------------------------------------------


@story("one-leader-per-term", "fail", "n1 and n3 both lead in term 1")
def two_leaders_in_one_term(t):
    t.elected("n1", 1, "n1 n2").elected("n3", 1, "n2 n3")


@story("one-leader-per-term", "fail", "n1 and n3 both lead in term 4")
def two_leaders_by_polls_alone(t):
    t.poll("n2", 4, "n1").wait(900).poll("n2", 4, "n3")


@story("one-leader-per-term", "pass")
def two_leaders_of_two_terms_at_one_moment(t):
    t.elected("n1", 1, "n1 n2").elected("n3", 2, "n2 n3").poll("n1", 1, "n1").poll("n3", 2, "n3")


@story("one-leader-per-term", "pass")
def one_node_elected_twice_in_a_term_over_a_restart(t):
    t.elected("n1", 1, "n1 n2").restarted("n1").elected("n1", 1, "n1 n2")


@story("one-leader-per-term", "pass", promised={"leader_bound_to_term": False})
def a_leader_field_that_contradicts_the_role_proves_nothing(t):
    t.elected("n2", 5, "n2 n3").poll("n1", 5, "n1", leads=False).poll("n2", 5, "n2").poll("n3", 5, "n3")


@story("one-leader-per-term", "pass")
def role_and_term_of_two_moments_are_no_claim(t):
    t.elected("n2", 2, "n2 n3").poll("n1", 1, "n1").poll("n1", 2, "n1", atomic=False).poll("n1", 3, None)


@story("one-leader-per-term", "fail", "n2 and n1 both lead in term 2")
def a_poll_between_two_of_the_same_term_is_a_claim_though_not_atomic(t):
    t.elected("n2", 2, "n2 n3")
    for _ in range(3):
        t.poll("n1", 2, "n1", atomic=False)


# --- one-vote-per-term ------------------------------------------------------------------------------------------


@story("one-vote-per-term", "fail", "with a restart in between")
def a_vote_forgotten_over_a_restart(t):
    t.vote("n2", 1, "n1").restarted("n2").vote("n2", 1, "n3")


@story("one-vote-per-term", "pass")
def a_vote_repeated_and_a_vote_of_the_next_term(t):
    t.vote("n2", 1, "n1").restarted("n2").vote("n2", 1, "n1").vote("n2", 2, "n3")


@story("one-vote-per-term", "pass")
def a_relabel_is_no_vote(t):
    t.vote("n2", 1, "n1").traced("n2", "relabel", 1, candidate="n3").core("n2", "vote", 1, candidate="n3")


@story("one-vote-per-term", "pass")
def a_vote_told_before_it_was_stored_may_be_forgotten(t):
    t.poll("n2", 1, None, voted_for="n1").restarted("n2").poll("n2", 1, None, voted_for="n3").vote("n2", 1, "n3")


# --- term-never-decreases ---------------------------------------------------------------------------------------


@story("term-never-decreases", "fail", "after a restart")
def a_term_forgotten_over_a_restart(t):
    t.vote("n1", 3, "n2").restarted("n1").vote("n1", 1, "n1")


@story("term-never-decreases", "fail", "without a restart")
def a_term_that_falls_between_two_polls(t):
    t.poll("n1", 3, "n2").wait(10).poll("n1", 2, "n2")


@story("term-never-decreases", "pass")
def an_answer_that_overlaps_a_later_one_is_in_no_order(t):
    t.poll("n1", 3, "n2")
    t.now -= 1
    t.poll("n1", 2, "n2")


@story("term-never-decreases", "pass")
def a_term_told_just_before_a_crash_may_be_forgotten(t):
    t.vote("n1", 2, "n2").poll("n1", 9, None).restarted("n1").poll("n1", 0, None).poll("n1", 2, None)


@story("term-never-decreases", "pass")
def an_acknowledgement_that_waited_for_a_connection_leaves_after_newer_ones(t):
    t.acked("n1", 2, 288).acked("n1", 1, 222).acked("n1", 2, 289)


# --- leader-has-majority ----------------------------------------------------------------------------------------


@story("leader-has-majority", "fail", "2 of 5 votes", nodes=5)
def elected_by_a_minority(t):
    t.vote("n1", 1, "n1").vote("n2", 1, "n1").elected("n1", 1, "n1 n2")


@story("leader-has-majority", "fail", "not members: x1", nodes=5)
def a_stranger_does_not_count(t):
    t.elected("n1", 1, "n1 n2 x1")


@story("leader-has-majority", "pass", nodes=5)
def the_core_may_boast_but_the_witness_counts(t):
    t.core("n1", "elected", 1, voters=["n1"]).elected("n1", 1, "n1 n2 n3")


@story("leader-has-majority", "fail", "voted for others")
def a_leader_refuted_by_the_votes_of_others(t):
    t.vote("n2", 1, "n3").vote("n3", 1, "n3").poll("n1", 1, "n1")


# --- leader-completeness ----------------------------------------------------------------------------------------


def _committed(t):
    t.elected("n1", 1, "n1 n2").log("n1", (1, 1, "a")).log("n2", (1, 1, "a")).acked("n2", 1, 1).commit("n1", 1, 1)


@story("leader-completeness", "fail", "n3 became leader of term 2")
def a_leader_without_a_committed_entry(t):
    _committed(t)
    t.cut_log("n3", 1).elected("n3", 2, "n2 n3")


@story("leader-completeness", "pass")
def a_leader_with_every_committed_entry(t):
    _committed(t)
    t.elected("n2", 2, "n2 n3").log("n2", (2, 2, "b"))


@story("leader-completeness", "pass")
def an_entry_that_one_node_alone_held_was_not_committed(t):
    _committed(t)
    t.log("n1", (2, 1, "lost")).elected("n2", 2, "n2 n3")


@story("leader-completeness", "fail", "2 nodes stored it")
def what_a_quorum_stored_counts_even_if_the_leader_never_told(t):
    t.elected("n1", 1, "n1 n2").log("n1", (1, 1, "a")).log("n2", (1, 1, "a")).acked("n2", 1, 1)
    t.cut_log("n3", 1).elected("n3", 2, "n2 n3")


@story("leader-completeness", "n/a", "breaks nothing")
def a_single_election_where_nothing_is_broken(t):
    _committed(t)


@story("leader-completeness", "unknown", "not exercised")
def a_single_election_shows_nothing(t):
    _committed(t)
    t.kill("n3")


# --- log-matching -----------------------------------------------------------------------------------------------


@story("log-matching", "fail", "at index 1")
def one_index_and_term_with_two_payloads(t):
    t.log("n1", (1, 1, "a")).log("n2", (1, 1, "b"))


@story("log-matching", "fail", "differ in it or before it")
def equal_entries_after_different_ones(t):
    t.log("n1", (1, 1, "a"), (2, 3, "c")).log("n2", (1, 2, "b"), (2, 3, "c"))


@story("log-matching", "fail", "committed different entries at index 1")
def two_entries_committed_at_one_index(t):
    t.elected("n1", 1, "n1 n2").log("n1", (1, 1, "a")).commit("n1", 1, 1)
    t.elected("n3", 2, "n2 n3").log("n3", (1, 2, "b")).log("n2", (1, 2, "b")).commit("n3", 2, 1)


@story("log-matching", "pass")
def an_uncommitted_tail_is_replaced(t):
    t.elected("n1", 1, "n1 n2").log("n1", (1, 1, "a")).log("n2", (1, 1, "a")).log("n1", (2, 1, "lost"))
    t.elected("n2", 2, "n2 n3").log("n2", (2, 2, "b")).cut_log("n1", 2).log("n1", (2, 2, "b")).acked("n1", 2, 2)
    t.commit("n2", 2, 2)


# --- commit-never-regresses -------------------------------------------------------------------------------------


@story("commit-never-regresses", "fail", "went back from commit 3 to 2")
def a_commit_that_falls(t):
    t.core("n1", "commit", 1, old=2, new=3).core("n1", "commit", 1, old=3, new=2)


@story("commit-never-regresses", "pass")
def a_commit_that_starts_again_after_a_restart(t):
    t.core("n1", "commit", 1, old=2, new=3).poll("n1", 1, commit=3).restarted("n1").poll("n1", 1, commit=0)
    t.core("n1", "commit", 1, old=0, new=2)


@story("commit-never-regresses", "fail", "although its log ended at 1")
def a_follower_that_commits_what_it_does_not_have(t):
    t.log("n2", (1, 1, "a")).core("n2", "commit", 1, old=0, new=5).acked("n2", 1, 1)


@story("commit-never-regresses", "pass")
def a_commit_noted_before_its_batch_is_on_disk(t):
    t.log("n2", (1, 1, "a")).core("n2", "commit", 1, old=0, new=2).log("n2", (2, 1, "b")).acked("n2", 1, 2)


@story("commit-never-regresses", "fail", "removed an entry that it had committed")
def a_committed_entry_is_cut_off(t):
    t.log("n2", (1, 1, "a"), (2, 1, "b")).core("n2", "commit", 1, old=0, new=2).acked("n2", 1, 2).cut_log("n2", 2)


@story("commit-never-regresses", "fail", "while it led")
def a_leader_cuts_its_own_log(t):
    t.elected("n1", 1, "n1 n2").log("n1", (1, 1, "a"), (2, 1, "b")).cut_log("n1", 2).commit("n1", 1, 1)


PROGRESS_NEEDS_CLOCKS: dict[str, Any] = {"tolerates": {"kill": None}, "safe_under": {"kill": None, "clock": None}}
"""A step of a clock may cost time, never safety."""


@story("commit-never-regresses", "fail", "went back from commit 3 to 2", promised=PROGRESS_NEEDS_CLOCKS)
def a_commit_that_falls_after_a_clock_step_that_may_cost_time_only(t):
    t.core("n1", "commit", 1, old=2, new=3).fault("clock", "n1", t.state)
    t.core("n1", "commit", 1, old=3, new=2)


@story(
    "commit-never-regresses", "pass", "clock on n1 is not among the tolerated", promised={"tolerates": {"kill": None}}
)
def a_commit_that_falls_after_a_clock_step_that_no_promise_names(t):
    t.core("n1", "commit", 1, old=2, new=3).fault("clock", "n1", t.state)
    t.core("n1", "commit", 1, old=3, new=2)


@story(
    "commit-never-regresses",
    "fail",
    "went back from commit 3 to 2",
    promised={"tolerates": {"pause": 1}, "safe_under": {"pause": None}},
)
def a_commit_that_falls_while_a_majority_is_paused(t):
    t.core("n1", "commit", 1, old=2, new=3).pause("n2")
    t.pause("n3")
    t.core("n1", "commit", 1, old=3, new=2)


@story("commit-never-regresses", "pass", "wipe on n2 is not among the tolerated", promised=PROGRESS_NEEDS_CLOCKS)
def a_commit_that_falls_after_a_disk_was_lost(t):
    t.core("n1", "commit", 1, old=2, new=3).fault("wipe", "n2", t.state)
    t.core("n1", "commit", 1, old=3, new=2)


# --- acknowledged-survives --------------------------------------------------------------------------------------


@story("acknowledged-survives", "fail", "2 to 'k' was acknowledged and is not in the final read")
def an_acknowledged_append_is_gone(t):
    t.append(1).append(2).mark("final").read([1])


@story("acknowledged-survives", "pass")
def an_unknown_append_may_be_there_or_not(t):
    t.append(1).append(2, status="info").append(3, status="lost").mark("final").read([1, 2])


@story("acknowledged-survives", "fail", "its append failed")
def a_failed_append_shows_up(t):
    t.append(1).append(2, status="fail").mark("final").read([1, 2])


@story("acknowledged-survives", "fail", "no client had written it")
def a_value_out_of_nothing(t):
    t.append(1).mark("final").read([1, 99])


@story("acknowledged-survives", "fail", "more than once")
def an_append_applied_twice(t):
    t.append(1).append(2).mark("final").read([1, 2, 1])


@story("acknowledged-survives", "fail", "before it was asked")
def a_stale_read(t):
    t.append(1).append(2).read([1]).mark("final").read([1, 2])


@story("acknowledged-survives", "pass", promised={"linearizable_reads": False})
def a_stale_read_that_was_not_promised_to_be_fresh(t):
    t.append(1).append(2).read([1]).mark("final").read([1, 2])


@story("acknowledged-survives", "fail", "disagree about the order")
def two_orders(t):
    t.append(1).append(2, status="info").append(3, status="info").mark("final").read([1, 2, 3]).read([1, 3, 2])


@story("acknowledged-survives", "pass")
def a_read_that_overlaps_the_append(t):
    op = t.invoke("read", "k", "n1")
    t.append(1).back(op, "ok", []).mark("final").read([1])


@story("acknowledged-survives", "unknown", "no final read succeeded")
def no_final_read(t):
    t.append(1).read([1])


# --- leader-when-owed -------------------------------------------------------------------------------------------


@story("leader-when-owed", "fail", "had no leader for")
def nobody_leads_although_all_can_talk(t):
    t.up().polls(3000, 1, None)


@story("leader-when-owed", "unknown", "term 0, which is not a valid term")
def a_leader_that_all_follow_in_term_0(t):
    t.up().polls(3000, 0, "n1")


@story("leader-when-owed", "fail", "had no leader for")
def one_that_nobody_follows_says_that_it_leads_in_term_0(t):
    t.up().polls(3000, 1, None, except_="n1=0:n1")


@story("leader-when-owed", "pass")
def a_leader_in_time(t):
    t.up().polls(1500, 1, None).polls(2000, 2, "n2")


@story("leader-when-owed", "unknown", "not exercised")
def a_window_shorter_than_the_bound(t):
    t.up().polls(1500, 1, None)


@story("leader-when-owed", "pass")
def no_leader_is_owed_while_no_majority_is_connected(t):
    t.up().polls(2500, 1, "n1")
    t.isolate("n1", "n1")
    t.now += 1
    t.kill("n2")
    t.polls(5000, 1, None, except_="n1=1:n1")


@story("leader-when-owed", "unknown", "no T2 window lasted 2 s (1 shorter ones)", evidence="window:T1 window:T2")
def a_cut_too_short_to_owe_a_leader_where_one_is_asked_for(t):
    t.up().polls(2500, 1, "n1")
    cut = t.isolate("n1", "n1")
    t.polls(500, 2, "n2", except_="n1=1:n1")
    t.heal(cut).polls(2500, 2, "n2")


@story("leader-when-owed", "pass", evidence="window:T1 window:T2")
def a_cut_long_enough_to_owe_a_leader_where_one_is_asked_for(t):
    t.up().polls(2500, 1, "n1")
    cut = t.isolate("n1", "n1")
    t.polls(2500, 2, "n2", except_="n1=1:n1")
    t.heal(cut).polls(2500, 2, "n2")


@story("leader-when-owed", "fail", "(T2)")
def a_connected_majority_without_a_leader(t):
    t.up().polls(2500, 1, "n1")
    t.isolate("n1", "n1")
    t.polls(3000, 1, None, except_="n1=1:n1")


def _stand_in_vain(t, *nodes):
    cut = t.up().isolate("n3", "n3")
    for term in range(1, 4):
        for node in nodes:
            t.vote(node, term, node).wait(100)
    t.heal(cut).polls(3000, 3, None)


@story("leader-when-owed", "unknown", "no window", promised={"rounds_random": 2})
def two_in_step_after_many_rounds_in_vain_where_waits_do_not_stay_random(t):
    _stand_in_vain(t, "n1", "n2")


@story("leader-when-owed", "fail", "had no leader for", promised={"rounds_random": 2})
def one_alone_stood_many_times_in_vain(t):
    _stand_in_vain(t, "n1")


@story("leader-when-owed", "fail", "had no leader for", promised={"rounds_random": 3})
def two_stood_in_vain_no_more_often_than_waits_stay_random(t):
    _stand_in_vain(t, "n1", "n2")


def _vote_in_vain(t, terms, *nodes, last=2100):
    """One vote split a term, 100 ms each, and then no leader for a while more."""
    t.up()
    for term in range(1, terms + 1):
        for node in nodes:
            t.vote(node, term, node)
        t.polls(100, term, None)
    t.polls(last, terms, None)


@story("leader-when-owed", "unknown", "no window", promised={"splits_max": 2})
def an_outage_that_two_split_votes_explain(t):
    _vote_in_vain(t, 2, "n1", "n2")


@story("leader-when-owed", "fail", "had no leader for")
def an_outage_of_split_votes_for_which_the_bound_has_room(t):
    _vote_in_vain(t, 2, "n1", "n2")


@story("leader-when-owed", "fail", "had no leader for", promised={"splits_max": 2})
def more_split_votes_in_a_row_than_chance_explains(t):
    _vote_in_vain(t, 9, "n1", "n2", last=2000)


@story("leader-when-owed", "fail", "had no leader for", promised={"splits_max": 2})
def an_outage_in_which_one_alone_stands(t):
    _vote_in_vain(t, 2, "n1")


@story("leader-when-owed", "fail", "had no leader for", promised={"splits_max": 2})
def a_split_vote_does_not_explain_that_nobody_stands_again(t):
    _vote_in_vain(t, 1, "n1", "n2", last=2600)


def _without_the_service(t):
    """A node that is no voter is paused: nothing between voters is broken."""
    t.up().polls(500, 1, "n1")
    return t.fault("pause", "service", t.state)


@story("leader-when-owed", "unknown", "no window", promised={"owed_in_calm": True})
def nobody_leads_while_a_node_that_is_needed_is_down(t):
    _without_the_service(t)
    t.polls(5000, 1, None)


@story("leader-when-owed", "fail", "had no leader for", promised={"owed_in_calm": True})
def nobody_leads_after_a_node_that_is_needed_came_back(t):
    fault = _without_the_service(t)
    t.polls(1000, 1, None).heal(fault).polls(3000, 1, None)


@story("leader-when-owed", "unknown", "no window", promised={"owed_in_calm": True})
def nobody_leads_after_a_node_that_is_needed_ended_by_itself(t):
    t.up().polls(500, 1, "n1").process("service", "exited", asked=False, code=134).polls(5000, 1, None)


@story("leader-when-owed", "fail", "had no leader for", promised={"owed_in_calm": True})
def nobody_leads_although_nothing_is_broken(t):
    t.up().polls(3000, 1, None)


@story("leader-when-owed", "fail", "lost their leader and elected none")
def a_leader_lost_in_fair_weather(t):
    t.up().polls(2500, 1, "n1").polls(3000, 2, None).polls(500, 3, "n1")


@story("leader-when-owed", "unknown", "unknown by noise")
def a_machine_that_stalls(t):
    t.up().polls(1000, 1, None).noise("n2").polls(1000, 1, None).noise("n3").polls(1000, 1, None)


_SECONDS = {"leader_bound_ns": 20_000_000_000, "later_gap_ns": 20_000_000_000}


@story("leader-when-owed", "fail", "had no leader for 30 s (limit 20 s", promised=_SECONDS)
def three_short_stalls_do_not_explain_half_a_minute(t):
    t.up().polls(8000, 1, None).noise("n1", 59).polls(8000, 1, None).noise("n2", 95).polls(8000, 1, None)
    t.noise("n3", 69).polls(6000, 1, None)


@story("leader-when-owed", "unknown", "unknown by noise: n1, n2, n3 had no leader for 20.", promised=_SECONDS)
def three_short_stalls_explain_a_second(t):
    t.up().polls(8000, 1, None).noise("n1", 59).polls(8000, 1, None).noise("n2", 95).polls(4000, 1, None)
    t.noise("n3", 69).polls(900, 1, None)


@story("leader-when-owed", "fail", "had no leader for")
def many_stalls_that_are_each_too_short_to_count(t):
    t.up()
    for _ in range(12):
        t.polls(250, 1, None).noise("n1", 49).noise("n2", 49)


@story("leader-when-owed", "unknown", "too few polls")
def nobody_was_asked(t):
    t.up().poll("n1", 1, None).wait(3000).poll("n1", 1, None)


def _serves_nobody(t):
    t.up()
    for value in range(6):
        op = t.invoke("append", ["k", value], "n1", process=value % 2)
        t.polls(500, 1, "n1").back(op, "info")
    t.polls(500, 1, "n1")


@story("leader-when-owed", "fail", "none of 5 writes sent to it succeeded")
def a_leader_that_serves_nobody(t):
    _serves_nobody(t)


@story("leader-when-owed", "fail", "none of 3 writes sent to it succeeded")
def a_leader_that_keeps_its_clients_waiting(t):
    t.up().polls(100, 1, "n1")
    for process in range(3):
        t.invoke("append", ["k", process], "n1", process=process)
    t.polls(3000, 1, "n1")


@story("leader-when-owed", "pass", promised={"leader_serves": False})
def a_leader_that_may_have_to_catch_up_first(t):
    _serves_nobody(t)


@story("leader-when-owed", "pass")
def writes_that_came_too_late_to_tell_anything(t):
    t.up().polls(3000, 1, "n1")
    for process in range(3):
        t.invoke("append", ["k", process], "n1", process=process)
    t.polls(500, 1, "n1")


# --- step-down-without-quorum -----------------------------------------------------------------------------------


@story("step-down-without-quorum", "fail", "still claimed to lead term 1")
def a_leader_that_clings(t):
    t.up().polls(500, 1, "n1")
    t.isolate("n1", "n1")
    t.polls(1500, 1, "n1")


@story("step-down-without-quorum", "unknown", "term 0, which is not a valid term")
def a_leader_that_clings_to_term_0(t):
    t.up().polls(500, 0, "n1")
    t.isolate("n1", "n1")
    t.polls(1500, 0, "n1")


@story("step-down-without-quorum", "pass")
def a_leader_that_steps_down_in_time(t):
    t.up().polls(500, 1, "n1")
    t.isolate("n1", "n1")
    t.polls(500, 1, "n1").polls(1000, 1, None)


@story("step-down-without-quorum", "fail", "still claimed to lead term 1")
def a_leader_that_sends_but_cannot_hear(t):
    t.up().polls(500, 1, "n1")
    t.one_way([("n2", "n1"), ("n3", "n1")], "n1", "n1")
    t.polls(1500, 1, "n1")


@story("step-down-without-quorum", "unknown", "not exercised", nodes=5)
def a_leader_that_still_hears_a_majority(t):
    t.up().polls(500, 1, "n1")
    t.isolate("n4 n5")
    t.polls(1500, 1, "n1")


@story("step-down-without-quorum", "unknown", "unknown by noise")
def a_cut_off_leader_on_a_host_that_stalls(t):
    t.up().polls(500, 1, "n1")
    t.isolate("n1", "n1")
    t.polls(600, 1, "n1").noise("n1").polls(500, 1, "n1").polls(500, 1, None)


# --- convergence-after-heal -------------------------------------------------------------------------------------


@story("convergence-after-heal", "fail", "n3 did not follow n1")
def a_node_that_never_comes_back(t):
    t.up().polls(500, 1, "n1")
    cut = t.isolate("n3")
    t.polls(500, 1, "n1", except_="n3=1")
    t.heal(cut).polls(2500, 1, "n1", except_="n3=1")


@story("convergence-after-heal", "unknown", "term 0, which is not a valid term")
def all_follow_one_after_the_heal_in_term_0(t):
    t.up().polls(500, 0, "n1")
    cut = t.isolate("n3")
    t.polls(500, 0, "n1")
    t.heal(cut).polls(2500, 0, "n1")


@story("convergence-after-heal", "pass")
def everybody_follows_after_the_heal(t):
    t.up().polls(500, 1, "n1", commit=4)
    cut = t.isolate("n3")
    t.polls(500, 1, "n1", except_="n3=1", commit=4)
    t.heal(cut).polls(500, 1, "n1", except_="n3=1").polls(2000, 1, "n1", commit=4)


def _split_after_a_heal(t, last):
    t.up().polls(500, 1, "n1")
    cut = t.isolate("n3")
    t.polls(500, 1, "n1", except_="n3=1").heal(cut)
    t.vote("n2", 2, "n2").vote("n3", 2, "n3").polls(2100, 2, None).polls(last, 3, "n2")


@story("convergence-after-heal", "pass", promised={"splits_max": 1})
def a_vote_split_by_chance_makes_them_late(t):
    _split_after_a_heal(t, 500)


@story("convergence-after-heal", "fail", "any leader")
def late_by_a_split_vote_for_which_the_bound_has_room(t):
    _split_after_a_heal(t, 500)


@story("convergence-after-heal", "unknown", "no heal was followed", promised={"splits_max": 1})
def it_ends_while_a_vote_is_split_by_chance(t):
    _split_after_a_heal(t, 0)


@story("convergence-after-heal", "fail", "had not committed up to 4")
def a_node_that_follows_but_does_not_catch_up(t):
    t.up().polls(500, 1, "n1", commit=4)
    cut = t.isolate("n3")
    t.polls(500, 1, "n1", except_="n3=1", commit=4)
    t.heal(cut)
    for _ in range(10):
        t.poll("n1", 1, "n1", commit=4).poll("n2", 1, "n1", commit=4).poll("n3", 1, "n1", commit=3).wait(247)


def _needed_when_it_heals(t, begun_ms):
    """A node that is no voter is broken that long after a heal, and the returned one finds no leader without it."""
    t.up().polls(500, 1, "n1")
    cut = t.isolate("n3")
    t.polls(500, 1, "n1", except_="n3=1").heal(cut)
    if begun_ms:
        t.polls(begun_ms, 1, "n1", except_="n3=1")
    fault = t.fault("partition", "service", t.state)
    t.polls(3000, 1, "n1", except_="n3=1")
    return fault


@story("convergence-after-heal", "unknown", "no heal was followed", promised={"owed_in_calm": True})
def a_node_that_is_needed_is_cut_off_in_the_moment_of_the_heal(t):
    _needed_when_it_heals(t, 0)


@story("convergence-after-heal", "unknown", "no heal was followed", promised={"owed_in_calm": True})
def a_node_that_is_needed_is_cut_off_soon_after_the_heal(t):
    _needed_when_it_heals(t, 500)


@story("convergence-after-heal", "fail", "n3 did not follow n1", promised={"owed_in_calm": True})
def a_node_stays_away_although_what_it_needs_came_back(t):
    t.heal(_needed_when_it_heals(t, 500)).polls(3000, 1, "n1", except_="n3=1")


# --- leader-stability -------------------------------------------------------------------------------------------


@story("leader-stability", "fail", "was deposed: n3 then led term 6")
def an_isolated_follower_deposes_the_leader_when_it_returns(t):
    t.up().polls(3000, 1, "n1")
    cut = t.isolate("n3")
    t.polls(500, 1, "n1", except_="n3=1").vote("n3", 6, "n3").polls(500, 1, "n1", except_="n3=6")
    t.heal(cut).elected("n3", 6, "n2 n3").polls(1000, 6, "n3")


@story("leader-stability", "fail", "cannot have won a pre-vote round", nodes=5)
def a_node_that_hears_nobody_raises_its_term(t):
    t.up().polls(1000, 1, "n1")
    t.isolate("n5")
    t.polls(1000, 1, "n1", except_="n5=1").polls(500, 1, "n1", except_="n5=2")


@story("leader-stability", "pass")
def a_node_that_won_a_pre_vote_before_may_depose_once(t):
    t.up().core("n3", "prevote_started", 4, reqTerm=5).core("n3", "prevote_result", 4, result="won", reqTerm=5)
    t.vote("n3", 5, "n3")
    cut = t.isolate("n3")
    t.elected("n1", 4, "n1 n2").polls(3000, 4, "n1", except_="n3=5")
    t.heal(cut).elected("n2", 6, "n1 n2").polls(1000, 6, "n2")


@story("leader-stability", "pass")
def a_node_that_won_a_pre_vote_while_the_leader_was_away_may_depose_once(t):
    t.up().elected("n1", 4, "n1 n2").polls(1000, 4, "n1")
    away = t.isolate("n1")
    t.core("n3", "prevote_started", 4, reqTerm=5).core("n3", "prevote_result", 4, result="won", reqTerm=5)
    t.vote("n3", 5, "n3")
    t.heal(away)
    cut = t.isolate("n3")
    t.polls(3000, 4, "n1", except_="n3=5")
    t.heal(cut).elected("n2", 6, "n1 n2").polls(1000, 6, "n2")


@story("leader-stability", "pass", nodes=5)
def a_node_whose_slow_disk_held_back_a_term_it_was_told(t):
    t.up().polls(1000, 1, "n1")
    t.isolate("n5")
    t.polls(1000, 1, "n1", except_="n5=1").traced("n5", "fsync_slow", 2, ms=1100, token=3)
    t.polls(500, 1, "n1", except_="n5=2")


@story("leader-stability", "pass")
def a_leader_cut_off_is_replaced(t):
    t.up().polls(3000, 1, "n1")
    t.isolate("n1", "n1")
    t.elected("n2", 2, "n2 n3").polls(1000, 2, "n2", except_="n1=1:n1")


@story("leader-stability", "unknown", "unknown by noise")
def a_leader_lost_while_a_host_stalls(t):
    t.up().polls(3000, 1, "n1").noise("n1").elected("n2", 2, "n2 n3").polls(1000, 2, "n2")


@story("leader-stability", "fail", "was deposed: n2 then led term 6")
def a_node_that_won_a_pre_vote_beside_a_leader_at_work(t):
    t.up().elected("n1", 4, "n1 n2").polls(2000, 4, "n1")
    t.core("n3", "prevote_started", 4, reqTerm=5).core("n3", "prevote_result", 4, result="won", reqTerm=5)
    t.vote("n3", 5, "n3")
    cut = t.isolate("n3")
    t.polls(3000, 4, "n1", except_="n3=5")
    t.heal(cut).elected("n2", 6, "n1 n2").polls(1000, 6, "n2")


def _five_slow_syncs(t, sync_ms, later_ms=0):
    """The shells of all five nodes record a sync of about that length, and later n4 leads; no canary saw it."""
    t.up().elected("n2", 4, "n2 n4 n5").polls(3000, 4, "n2")
    t.wait(sync_ms)
    for number, node in enumerate(t.nodes):
        t.traced(node, "fsync_slow", 4, ms=sync_ms - 2 * number, token=9)
    if later_ms:
        t.polls(later_ms, 4, "n2")
    t.elected("n4", 5, "n1 n4 n5").polls(1000, 5, "n4")


@story("leader-stability", "unknown", "unknown by noise: n2 lost its term 4 to n4", nodes=5, own_shell=True)
def a_leader_lost_while_all_five_disks_stood_still(t):
    _five_slow_syncs(t, 317)


@story("leader-stability", "fail", "was deposed: n4 then led term 5", nodes=5, own_shell=True)
def a_leader_lost_after_syncs_that_are_not_slow(t):
    _five_slow_syncs(t, 40)


@story("leader-stability", "fail", "was deposed: n4 then led term 5", nodes=5, own_shell=True)
def a_leader_lost_ten_seconds_after_the_disks_stood_still(t):
    _five_slow_syncs(t, 317, later_ms=10_000)


@story("leader-stability", "fail", "was deposed: n4 then led term 5", nodes=5)
def a_leader_lost_while_the_tested_nodes_themselves_say_that_their_disks_are_slow(t):
    _five_slow_syncs(t, 317)


def _stalls_of_the_own_shell(t, **explained):
    t.up().elected("n2", 4, "n2 n3").polls(3000, 4, "n2").wait(400)
    t.traced("n2", "stall", 4, ms=400, ns=400_000_000, where="turn", **explained)
    t.elected("n3", 5, "n1 n3").polls(1000, 5, "n3")


@story("leader-stability", "fail", "was deposed", own_shell=True)
def a_stall_of_the_leader_that_nothing_explains(t):
    _stalls_of_the_own_shell(t)


@story("leader-stability", "fail", "was deposed", own_shell=True)
def a_stall_of_the_leader_of_which_little_is_explained(t):
    _stalls_of_the_own_shell(t, run_delay_ns=40_000_000)


@story("leader-stability", "unknown", "unknown by noise", own_shell=True)
def a_stall_of_the_leader_that_run_delay_and_throttling_explain(t):
    _stalls_of_the_own_shell(t, run_delay_ns=40_000_000, throttled_ns=300_000_000)


@story("leader-stability", "fail", "was deposed", nodes=5)
def a_leader_lost_although_only_a_paused_follower_stalled(t):
    t.up().polls(3000, 1, "n1")
    fault = t.pause("n5")
    t.polls(1000, 1, "n1").noise("n5", 900)
    t.alive["n5"] = True
    t.heal(fault).polls(200, 1, "n1").noise("n5", 150).elected("n2", 2, "n2 n3 n4").polls(1000, 2, "n2")


# --- members-only -----------------------------------------------------------------------------------------------


@story("members-only", "fail", "with votes of n4", nodes=4)
def a_learner_votes(t):
    t.config("n1", 1, 2, "n1 n2 n3", "n4").vote("n4", 2, "n1").elected("n1", 2, "n1 n4")


@story("members-only", "fail", "with votes of x1")
def a_stranger_votes(t):
    t.elected("n1", 1, "n1 n2 x1")


@story("members-only", "pass")
def three_members_elect_one_of_them(t):
    t.vote("n2", 1, "n1").elected("n1", 1, "n1 n2")


@story("members-only", "pass", nodes=4)
def a_removal_that_the_new_leader_never_stored_is_not_in_force_there(t):
    t.log("n2", (1, 1, "a")).config("n2", 1, 2, "n1 n2 n3").elected("n1", 2, "n1 n3 n4")


@story("members-only", "pass", nodes=4)
def a_removal_that_was_overwritten_is_void(t):
    t.log("n1", (1, 1, "a"), (2, 1, "b")).config("n1", 1, 2, "n1 n2 n3").cut_log("n1", 2).elected("n1", 2, "n1 n3 n4")


@story("members-only", "pass", nodes=4)
def a_member_that_the_leader_appended_and_has_not_stored_yet_may_vote(t):
    t.config("n1", 1, 2, "n1 n2 n3")
    t.core("n1", "config", 1, what="appended", index=3, voters=["n1", "n2", "n3", "n4"])
    t.elected("n1", 2, "n1 n2 n4")


@story("members-only", "pass", nodes=4)
def a_removed_leader_asked_for_votes_and_its_own_is_left_aside(t):
    t.config("n1", 1, 2, "n2 n3 n4").vote("n1", 2, "n1").elected("n1", 2, "n1 n2 n3")


@story("members-only", "fail", "although it knew that its removal", nodes=4)
def a_removed_node_campaigns(t):
    t.elected("n1", 1, "n1 n2").config("n4", 1, 2, "n1 n2 n3").core("n4", "commit", 1, old=1, new=2)
    t.core("n4", "prevote_started", 1, reqTerm=2)


@story("members-only", "pass", nodes=4)
def a_removed_node_campaigns_until_it_knows_of_the_commit(t):
    t.elected("n1", 1, "n1 n2 n3").config("n4", 1, 2, "n1 n2 n3").core("n4", "prevote_started", 1, reqTerm=2)
    t.core("n4", "commit", 1, old=1, new=2).restarted("n4").core("n4", "prevote_started", 1, reqTerm=2)


def _grown(t):
    t.elected("n1", 1, "n1 n2 n3").log("n1", (2, 1, "c")).config("n1", 1, 2, "n1 n2 n3 n4")
    return t.acked("n2", 1, 2)


@story("members-only", "fail", "when only n1, n2 of the members n1, n2, n3, n4 had stored it", nodes=4)
def the_old_members_count_the_new_configuration(t):
    _grown(t).commit("n1", 1, 2).wait(5)
    for node in ("n3", "n4"):
        t.acked(node, 1, 2)


@story("members-only", "pass", nodes=4)
def the_new_members_count_the_new_configuration(t):
    _grown(t).acked("n4", 1, 2).commit("n1", 1, 2)
    for node in ("n2", "n3", "n4"):
        t.acked(node, 1, 3)


@story("members-only", "pass", nodes=4)
def an_acknowledgement_may_lie_in_a_trace_that_ends_too_soon(t):
    _grown(t).commit("n1", 1, 2)


@story("members-only", "pass", nodes=4)
def an_entry_before_the_change_may_have_been_counted_by_the_old_members(t):
    t.config("n1", 1, 1, "n1 n2 n3").elected("n1", 2, "n1 n2").log("n1", (2, 2, "a")).acked("n2", 2, 2)
    t.log("n1", (3, 2, "c")).config("n1", 2, 3, "n1 n2 n3 n4").commit("n1", 2, 2)
    for node in ("n2", "n3", "n4"):
        t.acked(node, 2, 3)


# --- vote-is-durable --------------------------------------------------------------------------------------------


@story("vote-is-durable", "fail", "its disk holds no vote of that term")
def a_vote_that_was_not_stored(t):
    t.vote("n2", 1, "n1").restarted("n2").found("n2", 1)


@story("vote-is-durable", "fail", "its disk holds a vote for n3")
def another_vote_is_stored(t):
    t.vote("n2", 1, "n1").restarted("n2").found("n2", 1, "n3")


@story("vote-is-durable", "fail", "its disk holds nothing")
def a_vote_file_that_was_gone_for_a_moment(t):
    t.acked("n2", 4, 7).restarted("n2").found("n2", 0, None, "absent")


@story("vote-is-durable", "fail", "answered in term 3, and after a restart its disk holds term 2")
def an_answer_in_a_term_that_was_not_stored(t):
    t.traced("n2", "persisted", 2).traced("n2", "answered", 3).restarted("n2").found("n2", 2)


@story("vote-is-durable", "fail", "continued: it voted in term 1")
def a_file_that_cannot_be_read_is_taken_for_a_new_node(t):
    t.vote("n2", 3, "n1").restarted("n2").found("n2", 0, None, "unreadable").vote("n2", 1, "n3")


@story("vote-is-durable", "pass")
def a_file_that_cannot_be_read_ends_the_node(t):
    t.vote("n2", 3, "n1").restarted("n2").found("n2", 0, None, "unreadable").traced("n2", "halt", 0, reason="vote file")


def numbers(t, node, *events, disk, file="read", complete=True):
    """A Paxos acceptor says (promised or accepted, instance, number), starts again and finds ``disk``."""
    for name, instance, number in events:
        t.traced(node, name, abs(instance), instance=instance, id=number)
    t.restarted(node)
    return t.traced(node, "found", 0, file=file, instances=disk, complete=complete)


@story("vote-is-durable", "fail", "promised number 7 in instance 3, and after a restart its disk holds no more than")
def a_promise_that_was_not_stored(t):
    numbers(t, "n2", ("promised", 3, 4), ("promised", 3, 7), disk={"3": [4, 0]})


@story("vote-is-durable", "fail", "accepted number 7 in instance -2, and after a restart its disk holds nothing")
def an_acceptance_that_was_not_stored(t):
    numbers(t, "n2", ("promised", -2, 7), ("accepted", -2, 7), disk={"-2": [7, 0]})


@story("vote-is-durable", "fail", "could not read its file after a restart, and continued: it promised number 1")
def an_acceptor_that_cannot_read_its_file_goes_on(t):
    numbers(t, "n2", ("promised", 3, 4), disk={}, file="unreadable").traced("n2", "promised", 3, instance=3, id=1)


@story("vote-is-durable", "pass")
def promises_and_acceptances_are_stored_or_gone_beyond(t):
    numbers(t, "n2", ("promised", 3, 4), ("accepted", 3, 4), ("promised", 3, 7), disk={"3": [9, 4], "5": [2, 0]})


@story("vote-is-durable", "pass")
def an_old_instance_that_the_witness_leaves_out_shows_nothing(t):
    numbers(t, "n2", ("promised", 1, 4), ("promised", 3, 4), disk={"3": [4, 0]}, complete=False)


@story("vote-is-durable", "pass")
def the_vote_and_a_later_term_are_stored(t):
    t.vote("n2", 1, "n1").restarted("n2").found("n2", 1, "n1").acked("n2", 2, 1).restarted("n2").found("n2", 2)


@story("vote-is-durable", "pass")
def a_vote_of_an_earlier_term_need_not_be_kept(t):
    t.vote("n2", 1, "n1").restarted("n2").found("n2", 5)


@story("vote-is-durable", "n/a", "nothing in this schedule ends a process")
def nobody_is_started_again(t):
    t.up().found("n2", 0, None, "absent").vote("n2", 1, "n1")


@story("vote-is-durable", "unknown", "not exercised")
def a_node_that_never_said_anything_is_started_again(t):
    t.up().restarted("n2").found("n2", 0, None, "absent")


# --- lease-exclusion --------------------------------------------------------------------------------------------


@story("lease-exclusion", "fail", "c1 (token 4) and c2 (token 9) both certainly held l")
def two_certain_holds(t):
    t.lock("acquire", "c1", 4).wait(100).lock("acquire", "c2", 9)


@story("lease-exclusion", "pass", "clock on n1 is not among the tolerated", promised=PROGRESS_NEEDS_CLOCKS)
def two_certain_holds_after_a_clock_step_under_which_only_safety_without_time_is_claimed(t):
    t.fault("clock", "n1", t.state)
    t.lock("acquire", "c1", 4).wait(100).lock("acquire", "c2", 9)


@story("lease-exclusion", "pass")
def a_lease_is_counted_from_the_question(t):
    t.lock("acquire", "c1", 4, took=300).wait(197).lock("acquire", "c2", 9)


@story("lease-exclusion", "fail", "both certainly held l")
def a_renewed_lease_is_given_away(t):
    t.lock("acquire", "c1", 4).wait(400).lock("renew", "c1", 4).wait(200).lock("acquire", "c2", 9)


@story("lease-exclusion", "pass")
def a_lease_that_was_given_back(t):
    t.lock("acquire", "c1", 4).lock("release", "c1", 4).lock("acquire", "c2", 9).lock("acquire", "c2", 12)


@story("lease-exclusion", "pass")
def a_release_that_nobody_answered_may_have_ended_it(t):
    t.lock("acquire", "c1", 4).lock("release", "c1", None, status="lost").lock("acquire", "c2", 9)


@story("lease-exclusion", "pass")
def an_old_release_may_end_a_new_hold(t):
    t.lock("acquire", "c1", 4).lock("release", "c1", None, status="info").lock("acquire", "c1", 8).lock(
        "acquire", "c2", 9
    )


@story("lease-exclusion", "pass")
def an_owner_asks_again_for_a_shorter_time(t):
    t.lock("acquire", "c1", 4, ttl=900).lock("acquire", "c1", 6, ttl=100).wait(120).lock("acquire", "c2", 9)


@story("lease-exclusion", "pass")
def an_owner_in_doubt_holds_possibly_and_not_certainly(t):
    t.lock("acquire", "c1", None, status="info").lock("acquire", "c2", 9).lock("acquire", "c3", None, status="fail")


@story("lease-exclusion", "fail", "after token 9 had been granted to c2")
def a_token_that_falls(t):
    t.lock("acquire", "c2", 9).wait(600).lock("acquire", "c1", 4)


@story("lease-exclusion", "fail", "renewed token 4 of l after token 9 had been granted to c2")
def a_superseded_owner_renews(t):
    t.lock("acquire", "c1", 4).wait(600).lock("acquire", "c2", 9).wait(600).lock("renew", "c1", 4)


@story("lease-exclusion", "fail", "c1 was seen with token 4 of l after token 9")
def an_old_holder_is_seen(t):
    t.lock("acquire", "c1", 4).wait(600).lock("acquire", "c2", 9).holder(["c1", 4])


@story("lease-exclusion", "pass")
def an_old_holder_is_seen_by_who_asked_before(t):
    op = t.lock("acquire", "c1", 4).wait(600).invoke("holder", "l")
    t.lock("acquire", "c2", 9).back(op, "ok", ["c1", 4])


@story("lease-exclusion", "pass", promised={"linearizable_reads": False})
def an_old_holder_is_seen_where_reads_may_be_old(t):
    t.lock("acquire", "c1", 4).wait(600).lock("acquire", "c2", 9).holder(["c1", 4])


@story("lease-exclusion", "fail", "after c1 had given it back")
def a_token_that_was_given_back_is_seen(t):
    t.lock("acquire", "c1", 4).lock("release", "c1", 4).holder(["c1", 4])


@story("lease-exclusion", "fail", "A client saw no holder of l")
def a_certain_holder_is_not_seen(t):
    t.lock("acquire", "c1", 4).holder(None)


@story("lease-exclusion", "pass")
def nobody_is_seen_once_the_time_is_over(t):
    t.lock("acquire", "c1", 4).wait(490).holder(None, took=30)


@story("lease-exclusion", "fail", "served a read under its lease of term 1")
def an_old_leader_reads_under_its_lease(t):
    t.commit("n1", 1, 3).commit("n2", 2, 5).wait(5).core(
        "n1", "read_served", 1, mode="lease", readIndex=3, lease_left=7
    )


@story("lease-exclusion", "pass")
def an_old_leader_reads_before_the_new_one_commits_or_after_a_round(t):
    t.commit("n1", 1, 3).core("n1", "read_served", 1, mode="lease", readIndex=3, lease_left=7).commit("n2", 2, 5).wait(
        5
    )
    t.core("n1", "read_served", 1, mode="lease", readIndex=3)


@story("lease-exclusion", "n/a", "no client asked for a lease")
def a_run_without_leases(t):
    t.append(1).mark("final").read([1])


@story("lease-exclusion", "unknown", "no client certainly held", workload="lease")
def a_run_in_which_nobody_got_one(t):
    t.lock("acquire", "c1", None, status="info")


# --- no-livelock ------------------------------------------------------------------------------------------------


def _in_vain(t, times):
    for _ in range(times):
        t.core("n1", "prevote_started", 1, reqTerm=2).wait(150)
    return t


@story("no-livelock", "fail", "n1 stood for election 8 times in a row")
def a_node_asks_again_and_again(t):
    _in_vain(t.up(), 8).wait(1200)


@story("no-livelock", "pass")
def a_node_asks_again_until_it_leads(t):
    _in_vain(t.up(), 6).core("n1", "prevote_result", 1, result="won").vote("n1", 2, "n1").elected("n1", 2, "n1 n2")
    _in_vain(t, 6).core("n1", "leader_seen", 3, leader="n2").wait(1200)


@story("no-livelock", "fail", "n2 stood for election 7 times in a row")
def a_node_stands_in_term_after_term(t):
    t.up()
    for term in range(1, 8):
        t.vote("n2", term, "n2").wait(200)
    t.wait(1200)


@story("no-livelock", "pass")
def a_node_asks_while_it_is_cut_off(t):
    t.up().wait(2500)
    cut = t.isolate("n1")
    _in_vain(t, 9)
    t.heal(cut).wait(2500)


@story("no-livelock", "unknown", "unknown by noise")
def a_node_asks_while_hosts_stall(t):
    _in_vain(t.up(), 4).noise("n2")
    _in_vain(t, 4).wait(1200)


def _in_step(t):
    """Two that could not win stood three times; then nothing is in their way, and they go on."""
    cut = t.up().isolate("n3", "n3")
    for term in range(1, 4):
        t.vote("n1", term, "n1").vote("n2", term, "n2").wait(100)
    t.heal(cut)
    for term in range(4, 12):
        t.vote("n1", term, "n1").vote("n2", term, "n2").wait(200)
    t.wait(1200)


@story("no-livelock", "unknown", "no window", promised={"rounds_random": 2})
def two_go_on_in_step_after_many_rounds_in_vain_where_waits_do_not_stay_random(t):
    _in_step(t)


@story("no-livelock", "fail", "n1 stood for election 8 times in a row", promised={"rounds_random": 3})
def two_go_on_in_step_after_no_more_rounds_in_vain_than_waits_stay_random(t):
    _in_step(t)


@story("no-livelock", "pass")
def rounds_that_a_slow_disk_held_back_are_told_at_once(t):
    t.up().wait(2500).traced("n1", "fsync_slow", 1, ms=4400, token=14)
    for _ in range(9):
        t.core("n1", "prevote_started", 1, reqTerm=2).wait(4)
    _in_vain(t.wait(400), 3).core("n1", "leader_seen", 3, leader="n2").wait(2500)


@story("no-livelock", "fail", "n1 stood for election 8 times in a row")
def a_node_asks_again_and_again_after_its_disk_was_slow(t):
    t.up().traced("n1", "fsync_slow", 1, ms=4400, token=14).wait(450)
    _in_vain(t, 8).wait(2500)


def _split(t, terms, won=()):
    for term in terms:
        t.vote("n1", term, "n1").vote("n2", term, "n2").wait(350)
        if term in won:
            t.elected("n1", term, "n1 n3")
        t.elected("n3", term + 1, "n2 n3").acked("n1", term + 1, 1).acked("n2", term + 1, 1).wait(50)
    return t


@story("no-livelock", "fail", "Several candidates split the vote and none won in 14 of 14 terms with a candidate")
def votes_are_split_in_every_term(t):
    _split(t.up(), range(1, 29, 2)).wait(2000)


@story("no-livelock", "pass")
def votes_are_split_now_and_then(t):
    _split(t.up(), range(1, 29, 2), won=range(5, 29)).wait(2000)


@story("no-livelock", "fail", "n2 voted for n1 in term 2, then refused the repeated request of n1")
def whoever_asks_again_is_refused_what_it_was_given(t):
    t.up().vote("n2", 2, "n1").traced("n2", "refused", 2, candidate="n1", why="voted").wait(2500)


@story("no-livelock", "pass")
def another_candidate_another_term_and_another_life_are_refused(t):
    t.up().vote("n2", 2, "n1").traced("n2", "refused", 2, candidate="n3", why="voted")
    t.traced("n2", "refused", 3, candidate="n1", why="voted").restarted("n2")
    t.traced("n2", "refused", 2, candidate="n1", why="voted").wait(2500)


# --- coverage ---------------------------------------------------------------------------------------------------


@story("coverage", "pass")
def a_run_that_showed_enough(t):
    t.up().elected("n1", 1, "n1 n2").polls(3000, 1, "n1").append(1)


@story("coverage", "unknown", "no write was acknowledged")
def a_run_without_writes(t):
    t.up().polls(3000, 1, "n1").append(1, status="info")


@story("coverage", "pass", workload="election")
def a_run_that_was_not_meant_to_write(t):
    t.up().polls(3000, 1, "n1")


@story("coverage", "unknown", "no election was seen", workload="election")
def a_run_in_which_nobody_was_ever_elected(t):
    t.up().polls(3000, 0, None)


@story("coverage", "pass", workload="election", promised={"leaderless": True})
def a_run_of_a_system_in_which_nobody_ever_leads(t):
    t.up().polls(3000, 0, None)


# --- crash ------------------------------------------------------------------------------------------------------

PANIC = ("starting", "panic: runtime error: index out of range [3]", "goroutine 1 [running]:", "exit status 2")


@story("crash", "fail", "n3 exited on its own with code 2, and no one asked for it: panic: runtime error")
def a_node_panics_while_nothing_is_broken(t):
    t.up().mark("faults").wait(500).died("n3", 2, *PANIC)


@story("crash", "fail", "n3 exited on its own with code 2 before the first fault")
def a_node_panics_before_the_first_fault(t):
    t.process("n3", "started").wait(200).died("n3", 2, *PANIC)


@story("crash", "fail", "n2 exited on its own by signal 11, and no one asked for it (its log is empty)")
def a_node_that_was_started_again_after_a_kill_dies_of_its_own_signal(t):
    t.up().mark("faults")
    fault = t.wait(500).kill("n2")
    t.wait(500).revive(fault, "n2").wait(200).died("n2", -11)


@story("crash", "fail", "KeyError: 7")
def the_core_of_a_node_raises(t):
    t.up().mark("faults").wait(500)
    t.traced("n3", "crashed", 1, where="handle(Message)", error="KeyError(7)").died("n3", 71, "KeyError: 7")


@story("crash", "fail", "n1 printed a line that its description calls fatal ('DATA RACE')")
def a_node_prints_a_fatal_line_and_continues(t):
    t.up().mark("faults").wait(500).printed("n1", "DATA RACE", "WARNING: DATA RACE").polls(500, 1, "n1")


@story("crash", "pass")
def a_node_that_halted_and_said_why(t):
    t.up().mark("faults").traced("n3", "halt", 1, reason="the disk failed").died("n3", 70)


@story("crash", "pass")
def a_killed_node_was_asked_to_end(t):
    t.up().mark("faults")
    fault = t.wait(500).kill("n2")
    t.wait(500).revive(fault, "n2")


@story("crash", "pass", promised={"exits_ok": (3,)})
def a_node_ends_with_a_code_that_its_description_calls_harmless(t):
    t.up().mark("faults").wait(500).died("n3", 3, "no longer a member, leaving")


@story("crash", "pass", "panic: runtime error", promised={"tolerates": {"kill": None}})
def a_node_panics_under_a_fault_that_it_need_not_survive(t):
    t.up().mark("faults")
    t.wait(500).pause("n2")
    t.wait(500).died("n3", 2, *PANIC)


@story("crash", "unknown", "SIGKILL")
def a_node_is_killed_from_outside(t):
    t.up().mark("faults").wait(500).died("n3", -9, "serving")


@story("crash", "unknown", "lack of memory")
def the_machine_runs_out_of_memory(t):
    t.up().mark("faults").wait(500).died("n3", 137, "serving", oom_kills=1)


@story("crash", "unknown", "SIGTERM")
def another_user_stops_a_node(t):
    t.up().mark("faults").wait(500).died("n3", 143, "shutting down")


@story("crash", "unknown", "a wrong command or configuration does too")
def a_node_never_answers_and_exits_as_after_a_wrong_flag(t):
    t.process("n3", "started").wait(200).died("n3", 2, "unknown flag --election", "usage: node [flags]")


@story("crash", "unknown", "does not record its last lines")
def a_node_that_crashed_by_itself(t):
    t.up().mark("faults").polls(3000, 1, "n1").append(1).process("n3", "exited", asked=False, code=71)


# --- linearizable -----------------------------------------------------------------------------------------------


@story("linearizable", "fail", "'r0'", workload="register")
def an_old_value_is_read_after_a_newer_one_was_written(t):
    t.did("put", ["r0", 1]).did("put", ["r0", 2]).did("get", "r0", 1)


@story("linearizable", "fail", "'r0'", workload="register")
def two_swaps_succeed_from_one_value(t):
    t.did("put", ["r0", 1]).did("cas", ["r0", 1, 2], told=True).did("cas", ["r0", 1, 3], told=True).did("get", "r0", 3)


@story("linearizable", "fail", "'r0'", workload="register")
def a_swap_is_refused_by_the_value_that_it_expects(t):
    t.did("put", ["r0", 1]).did("get", "r0", 1).did("cas", ["r0", 1, 2], told=False).did("get", "r0", 1)


@story("linearizable", "fail", "'r0'", workload="register")
def a_failed_write_is_read(t):
    t.did("put", ["r0", 1]).did("put", ["r0", 2], status="fail").did("get", "r0", 2)


@story(
    "linearizable", "fail", "no client can have written", workload="register", promised={"linearizable_reads": False}
)
def a_value_of_a_register_out_of_nothing(t):
    t.did("put", ["r0", 1]).did("get", "r0", 1).did("get", "r0", 9)


@story("linearizable", "pass", workload="register")
def an_unknown_write_takes_effect_late(t):
    t.did("put", ["r0", 1]).did("put", ["r0", 2], status="info").did("get", "r0", 1).did("get", "r0", 2)


@story("linearizable", "pass", workload="register")
def a_read_beside_a_write_may_show_either(t):
    t.did("put", ["r0", 1])
    op = t.invoke("put", ["r0", 2], process=1)
    t.did("get", "r0", 1).did("get", "r0", 2).back(op)


@story("linearizable", "pass", workload="register")
def a_swap_that_was_never_carried_out_says_nothing(t):
    t.did("put", ["r0", 1]).did("cas", ["r0", 1, 2], status="fail").did("get", "r0", 1)


@story("linearizable", "pass", workload="register", promised={"linearizable_reads": False})
def an_old_value_where_reads_may_be_old(t):
    t.did("put", ["r0", 1]).did("put", ["r0", 2]).did("get", "r0", 1)


@story("linearizable", "unknown", "neither true nor false", workload="register")
def a_swap_that_tells_no_outcome(t):
    t.did("put", ["r0", 1]).did("cas", ["r0", 1, 2]).did("get", "r0", 1)


# --- set --------------------------------------------------------------------------------------------------------


@story("set", "fail", "lost: 1 of s0", workload="set")
def an_acknowledged_element_is_gone(t):
    t.did("add", ["s0", 1]).did("add", ["s0", 2]).did("read", "s0", [2])


@story("set", "fail", "phantom", workload="set")
def a_failed_add_shows_up(t):
    t.did("add", ["s0", 1]).did("add", ["s0", 2], status="fail").did("read", "s0", [1, 2])


@story("set", "pass", workload="set")
def an_unknown_add_may_be_there_or_not(t):
    t.did("add", ["s0", 1]).did("add", ["s0", 2], status="info").did("read", "s0", [1]).did("read", "s0", [2, 1])


@story("set", "pass", workload="set", promised={"linearizable_reads": False})
def a_read_lacks_an_element_for_a_while_where_reads_may_be_old(t):
    t.did("add", ["s0", 1]).did("read", "s0", []).mark("final").did("read", "s0", [1])


@story("set", "unknown", "no read was asked", workload="set", promised={"linearizable_reads": False})
def a_follower_is_behind_and_the_last_reads_failed(t):
    t.did("add", ["s0", 1]).did("read", "s0", []).mark("final").did("read", "s0", status="fail")


@story("set", "n/a", "does none of these operations")
def reads_of_lists_are_no_reads_of_sets(t):
    t.append(1).read([1])


# --- log --------------------------------------------------------------------------------------------------------


def told(index: int) -> dict[str, int]:
    return {"index": index, "term": 1}


@story("log", "fail", "lost: 1 had been acknowledged of k")
def an_acknowledged_value_is_in_no_later_read(t):
    t.append(1).append(2, status="info").read([2])


@story("log", "fail", "duplicate")
def a_value_stands_twice_in_a_log(t):
    t.append(1).append(2).read([1, 2, 1])


@story("log", "fail", "duplicate: 1 stands at index 3")
def a_value_was_told_one_index_and_is_seen_at_another(t):
    t.append(1, told=told(3)).did("poll", "k", [[4, 1]])


@story("log", "fail", "reordered: 1 had been appended")
def a_value_stands_behind_one_that_was_appended_after_it(t):
    t.append(1).append(2).read([2, 1])


@story("log", "fail", "reordered: 1 had been appended")
def an_append_is_told_a_lower_index_than_one_before_it(t):
    t.append(1, told=told(5)).append(2, told=told(4)).read([])


@story("log", "fail", "reordered: reader 0 went back")
def a_reader_goes_back(t):
    t.append(1, told=told(3)).append(2, told=told(4)).did("poll", "k", [[3, 1], [4, 2]]).did("poll", "k", [[3, 1]])


@story("log", "fail", "diverged: at place 0")
def two_readers_see_two_beginnings(t):
    one, two = t.invoke("append", ["k", 1]), t.invoke("append", ["k", 2])
    t.back(one).back(two).read([1]).read([2, 1])


@story("log", "fail", "diverged: index 3")
def two_values_were_told_one_index(t):
    t.append(1, told=told(3)).append(2, told=told(3)).read([1, 2])


@story("log", "fail", "gap: reader 0 went")
def a_reader_skips_a_value(t):
    t.append(1, told=told(3)).append(2, told=told(4)).append(3, told=told(5)).did("poll", "k", [[3, 1], [5, 3]])


@story("log", "fail", "phantom")
def a_value_of_a_failed_append_is_read(t):
    t.append(1).append(2, status="fail").read([1, 2])


@story("log", "fail", "stale: 2 had been acknowledged")
def a_read_lacks_what_a_later_one_shows(t):
    t.append(1).append(2).read([1]).read([1, 2])


@story("log", "pass")
def appends_at_one_time_stand_in_any_order(t):
    one, two = t.invoke("append", ["k", 1]), t.invoke("append", ["k", 2])
    t.back(two, "ok", told(3)).back(one, "ok", told(4)).append(3, told=told(7)).read([2, 1, 3]).read([2, 1, 3])


@story("log", "pass")
def an_unknown_append_shows_up_late_or_never(t):
    t.append(1, status="info").append(2).read([2]).append(3, status="lost").read([2, 1])


@story("log", "pass")
def each_key_is_a_log_of_its_own(t):
    t.append(1, "a", told=told(4)).append(2, "b", told=told(5)).read([1], "a").read([2], "b").read([], "c")


@story("log", "pass")
def a_reader_leaves_out_marks_of_the_log_and_goes_back_after_a_seek(t):
    t.append(1, told=told(3)).append(2, told=told(6)).did("poll", "k", [[3, 1], [6, 2]])
    t.did("seek", ["k", 3]).did("poll", "k", [[3, 1]])


@story("log", "n/a", "acknowledged-survives judges", promised={"linearizable_reads": False})
def an_old_log_where_reads_may_be_old(t):
    t.append(1).read([]).read([1])


@story("log", "n/a", "does none of these operations", workload="set")
def a_run_of_sets_has_no_log(t):
    t.did("add", ["s0", 1]).did("read", "s0", [1])


@story("log", "unknown", "no read was asked after")
def nobody_looked_into_the_log(t):
    t.append(1)


# --- list-append ------------------------------------------------------------------------------------------------


@story("list-append", "fail", "G-single", workload="list-append")
def a_transaction_sees_half_of_another_one(t):
    t.did("txn", [["append", "x0", 1], ["append", "x1", 2]], [["append", "x0", 1], ["append", "x1", 2]])
    t.did("txn", [["r", "x0", None], ["r", "x1", None]], [["r", "x0", [1]], ["r", "x1", []]])


@story("list-append", "fail", "incompatible-order", workload="list-append")
def two_transactions_read_two_orders(t):
    t.did("txn", [["append", "x0", 1]], [["append", "x0", 1]]).did("txn", [["append", "x0", 2]], [["append", "x0", 2]])
    t.did("txn", [["r", "x0", None]], [["r", "x0", [1, 2]]]).did("txn", [["r", "x0", None]], [["r", "x0", [2]]])


@story("list-append", "pass", workload="list-append")
def an_unknown_transaction_may_have_happened_or_not(t):
    t.did("txn", [["append", "x0", 1]], status="info").did("txn", [["append", "x1", 2]], status="lost")
    t.did("txn", [["r", "x0", None], ["r", "x1", None]], [["r", "x0", [1]], ["r", "x1", []]])


@story("list-append", "pass", workload="list-append", promised={"linearizable_reads": False})
def an_old_list_where_reads_may_be_old(t):
    t.did("txn", [["append", "x0", 1]], [["append", "x0", 1]]).did("txn", [["r", "x0", None]], [["r", "x0", []]])


# --- lock -------------------------------------------------------------------------------------------------------


@story("lock", "fail", "overlap: a with token 1 and b with token 2", workload="lease")
def two_owners_hold_at_one_moment(t):
    t.lock("acquire", "a", 1).wait(100).lock("acquire", "b", 2)


@story("lock", "fail", "token", workload="lease")
def a_token_that_does_not_rise(t):
    t.lock("acquire", "a", 5).lock("release", "a", 5).lock("acquire", "b", 3)


@story("lock", "pass", workload="lease")
def a_lock_that_ran_out_is_taken_by_somebody_else(t):
    t.lock("acquire", "a", 1).wait(600).lock("acquire", "b", 2)


# --- coverage ---------------------------------------------------------------------------------------------------

OF_PHASES = "answers:warmup answers:faults answers:quiet writes:warmup writes:faults writes:quiet"


def _phases(t, *, acknowledged_under_faults):
    t.up().elected("n1", 1, "n1 n2").mark("warmup").append(0).polls(1000, 1, "n1").mark("faults")
    for value in range(1, 41):
        t.append(value, status="ok" if value <= acknowledged_under_faults else "info")
    t.polls(1000, 1, "n1").mark("heal").mark("quiet").append(41).polls(1000, 1, "n1").mark("stop")


@story("coverage", "unknown", "3 of 40 writes of the phase faults were acknowledged", evidence=OF_PHASES)
def hardly_a_write_was_acknowledged_before_the_quiet_phase(t):
    _phases(t, acknowledged_under_faults=3)


@story("coverage", "pass", evidence=OF_PHASES)
def one_write_in_ten_was_acknowledged_under_faults(t):
    _phases(t, acknowledged_under_faults=4)


@story("coverage", "pass")
def hardly_a_write_was_acknowledged_under_faults_in_a_run_of_an_older_version(t):
    _phases(t, acknowledged_under_faults=3)


@story("coverage", "unknown", "1 of 3 voters reported their status 3 times in the phase quiet", evidence=OF_PHASES)
def only_one_node_answers_in_the_quiet_phase(t):
    _phases(t, acknowledged_under_faults=40)
    quiet = next(at for at, event in enumerate(t.events) if getattr(event, "name", "") == "quiet")
    t.events[quiet:] = [event for event in t.events[quiet:] if getattr(event, "role", "") == "" or event.node == "n1"]
    t.events[:] = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(t.events)]
