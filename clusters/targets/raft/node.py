"""The state of one Raft node and the steps that every handler shares: notes, terms, roles, deadlines, the disk.

Guarantees: a change of term or vote is on disk before anything that shows it leaves. The first such change of an event
marks its place among the effects; one write with one barrier goes there once the event is handled. A leader's own log
batches carry no barrier: it sends at once and counts itself when the batch is done. A node reports to ``status`` only
what it could still report after a crash. Out of scope: every decision (`rules`) and the handlers.

Source: Raft paper, figure 2; thesis 3.8 (persisted state), 10.2.1 (writing to the leader's disk in parallel).
"""

from __future__ import annotations

from typing import Literal

from dethrone.clusters.targets.client_api import Failed, Get, Holder, Unknown
from dethrone.clusters.targets.kit.core import KitNode
from dethrone.clusters.targets.raft.knobs import RaftKnobs
from dethrone.clusters.targets.raft.leading import FAR, NEVER, Handover, Leading, PreRound, Progress
from dethrone.clusters.targets.raft.machine import Machine
from dethrone.clusters.targets.raft.messages import Config
from dethrone.clusters.targets.raft.rules import Position, Rules
from dethrone.clusters.targets.raft.storage import HardState, Log, vote_ops
from dethrone.harness.core.clock import Ns
from dethrone.harness.core.machine import Await, Disk, DiskOp, Note, SetTimer

FOLLOWER, CANDIDATE, LEADER = "FOLLOWER", "CANDIDATE", "LEADER"

ELECTION, HEARTBEAT, RETRY, TRANSFER = "election", "heartbeat", "retry", "transfer"
"""The timers: the election deadline; a leader's rounds; repeated vote requests; the end of a transfer."""


class Node(KitNode):
    """One node."""

    __slots__ = (
        "answered",
        "applied",
        "armed",
        "booted_at",
        "campaigned_term",
        "commit",
        "config",
        "config_index",
        "contact",
        "contact_on_send",
        "deadline",
        "disk_pending",
        "durable",
        "election_wall",
        "electorate",
        "force",
        "knobs",
        "leader",
        "leading",
        "lease_wall",
        "log",
        "machine",
        "me",
        "peers",
        "reset_at",
        "role",
        "round",
        "round_no",
        "rules",
        "self_vote_token",
        "term",
        "timeout_min",
        "vote_mark",
        "voted_for",
        "voters",
        "votes",
        "votes_in_flight",
    )

    def __init__(self, me: str, members: tuple[str, ...], knobs: RaftKnobs, rules: Rules) -> None:
        super().__init__()
        self.me = me
        self.knobs = knobs
        self.rules = rules
        self.log = Log(Config(tuple(members)), sync=rules.syncs("log"))
        self.machine = Machine(knobs.clock_drift_bound, rules)

        self.term = 0
        self.voted_for: str | None = None
        self.role = FOLLOWER
        self.leader: str | None = None
        self.contact: Ns = NEVER
        """When an AppendEntries of the current term last arrived."""
        self.commit = 0
        self.applied = 0
        self.leading: Leading | None = None

        self.config = self.log.configs[0][1]
        self.config_index = 0
        self.voters: tuple[str, ...] = self.config.voters
        self.electorate: tuple[str, ...] = self.config.voters
        self.peers: tuple[str, ...] = ()

        self.booted_at: Ns = 0
        self.timeout_min = knobs.election_timeout_min
        self.reset_at: Ns = 0
        """When the election deadline was last reset. The timeout itself is drawn when first needed, see `election`."""
        self.deadline: Ns | None = None
        self.armed: Ns = FAR
        self.election_wall = rules.clock("election") == "wall"
        self.lease_wall = rules.clock("lease") == "wall"
        self.contact_on_send = rules.refreshes_contact("sent")

        self.round: PreRound | None = None
        self.round_no = 0
        self.votes: set[str] = set()
        self.answered: set[str] = set()
        self.campaigned_term = 0
        self.force = False

        self.vote_mark = 0
        """Where among the effects the term or the vote first changed; holds while ``unsettled``."""
        self.unsettled = False
        self.self_vote_token = 0
        self.durable = HardState()
        """The term and vote that are known to be on disk."""
        self.votes_in_flight = 0
        self.disk_pending: dict[int, tuple[HardState | int, Ns]] = {}
        """Batch → (what it makes durable: a vote or a log index, when it was started), oldest first."""
        self._use(0, self.config)

    # --- terms and roles ------------------------------------------------------------------------------------------

    def touch_vote(self) -> None:
        """Term or vote changed: everything that leaves from here on in this event waits for the disk."""
        if not self.unsettled:
            self.unsettled = True
            self.vote_mark = len(self.out)

    def adopt(self, term: int, why: str) -> None:
        """Adopt a term that was seen: no vote given in it yet, follower, no leader known. The deadline is kept."""
        before = self.term
        if self.leading is not None:
            self.stop_leading("higher_term")
        self.term = term
        self.voted_for = None
        self.touch_vote()
        self.count("terms_adopted")
        self.note("term_change", {"from": before, "to": term, "why": why})
        self.close_round("closed")
        self.leader = None
        self.become(FOLLOWER, why)

    def become(self, role: str, why: str) -> None:
        """Change the role, if it is another one."""
        before = self.role
        if before == role:
            return
        if before == CANDIDATE:
            self.out.append(SetTimer(RETRY, None))
        self.role = role
        self.note("role_change", {"from": before, "to": role, "term": self.term, "why": why})

    def stop_leading(self, why: Literal["higher_term", "check_quorum", "removed"]) -> None:
        """Step down. Pending writes may still be committed by a successor: unknown; reads had no effect: failed."""
        lead = self.leading
        if lead is None:
            return
        self.note("step_down", {"why": why, "pending_writes": len(lead.writes), "pending_reads": len(lead.reads)})
        if lead.lease_shown:
            self.note("lease", {"void": why})
        self.leading = None
        self.overdue_at = FAR
        self.out.append(SetTimer(HEARTBEAT, None))
        self.leader = None  # or it would refuse its successor's pre-vote
        self.contact = NEVER
        self.count("step_downs")
        self.become(FOLLOWER, why)
        self.reset_deadline()
        for index, request in lead.writes.items():
            if isinstance(self.log.entries[index - 1].command, Get | Holder):
                self.reply(request, Failed("stepped down before the read was committed"))
            else:
                self.reply(request, Unknown("stepped down before the commit"))
        for read in lead.reads:
            self.note("read_refused", {"mode": read.mode, "why": "stepped down"})
            self.reply(read.id, Failed("stepped down before the read was confirmed"))
        if lead.change is not None:
            self.reply(lead.change.id, Unknown("stepped down before the change was committed"))
        if lead.handover is not None:
            self._end_handover(lead.handover, why)

    def _end_handover(self, handover: Handover, why: str) -> None:
        """Answer the transfer's client that this node no longer leads; whether the target does is not yet known."""
        self.out.append(SetTimer(TRANSFER, None))
        done = handover.sent and why == "higher_term"
        self.note("transfer", {"phase": "done" if done else "aborted", "target": handover.target, "why": why})
        asked = Unknown("stepped down; the target was asked to campaign")
        self.reply(handover.id, asked if handover.sent else Failed(why))

    # --- the election deadline ------------------------------------------------------------------------------------

    def election_now(self) -> Ns:
        """The present moment on the election clock."""
        return self.wall if self.election_wall else self.mono

    def reset_deadline(self) -> None:
        """Restart the wait. The timer moves only if it would now ring after the earliest possible deadline."""
        self.reset_at = now = self.wall if self.election_wall else self.mono
        self.deadline = None
        if self.armed > now + self.timeout_min:
            self.arm(now + self.timeout_min)

    def arm(self, at: Ns) -> None:
        """Set the election timer."""
        self.armed = at
        self.out.append(SetTimer(ELECTION, at, "wall" if self.election_wall else "mono"))

    # --- hearing and logs -----------------------------------------------------------------------------------------

    def may_campaign(self) -> bool:
        """Whether this node may try to lead, by the configuration in force and, while that is open, the one before."""
        configs = self.log.configs
        leaving = self.config_index > self.commit and len(configs) > 1 and self.me in configs[-2][1].voters
        return self.rules.may_campaign(self.me, self.voters, leaving=leaving)

    def leads_or_hears(self) -> bool:
        """Whether this node leads, or heard its leader within the sticky window."""
        return self.role == LEADER or self.rules.hears_leader(leader=self.leader, silence=self.mono - self.contact)

    def holds_off(self) -> bool:
        """Whether this node started so recently that it may have forgotten a promise to a leader."""
        return self.rules.holds_off_after_start() and self.mono - self.booted_at < self.timeout_min

    def last_log(self) -> Position:
        """The end of the log as reported to others."""
        return self.rules.last_log(self.log.last_term, self.log.end, self.term)

    def own_log(self) -> Position:
        """The end of the log as it is."""
        return self.log.last_term, self.log.end

    def close_round(self, result: Literal["won", "lost", "expired", "closed"]) -> None:
        """End the pre-vote round, if one is open."""
        open_round = self.round
        if open_round is None:
            return
        self.round = None
        self.out.append(SetTimer(RETRY, None))
        self.note(
            "prevote_result",
            {
                "result": result,
                "reqTerm": open_round.req_term,
                "round": open_round.no,
                "granted": sorted(open_round.granted),
            },
        )

    def refresh_config(self, how: str) -> None:
        """Use the configuration in force after the log or the commit index changed."""
        index, config = self.rules.config_in_force(self.log.configs, self.commit)
        if index == self.config_index and config is self.config:
            return
        self._use(index, config)
        self.note(
            "config",
            {"what": how, "index": index, "voters": list(config.voters), "learners": list(config.learners)},
        )

    def use_loaded_config(self) -> None:
        """Use the configuration that a loaded log holds."""
        index, config = self.rules.config_in_force(self.log.configs, self.commit)
        self._use(index, config)

    def _use(self, index: int, config: Config) -> None:
        self.config, self.config_index = config, index
        self.voters = config.voters
        self.electorate = self.rules.electorate(config, self.log.configs)
        self.peers = tuple(name for name in (*config.voters, *config.learners) if name != self.me)
        lead = self.leading
        if lead is None:
            return
        for peer in self.peers:
            if peer not in lead.progress:
                lead.progress[peer] = Progress(self.log.end + 1)
        for peer, p in lead.progress.items():
            # a removed peer gets entries until it stores its removal: else it would keep campaigning, unaware of it
            p.leaving = 0 if peer in self.peers else p.leaving or index

    # --- disk -----------------------------------------------------------------------------------------------------

    def start_batch(self, ops: tuple[DiskOp, ...], makes_durable: HardState | int) -> int:
        """Append a disk batch without a barrier; its token."""
        token = self.batch(ops)
        self.disk_pending[token] = (makes_durable, self.mono)
        return token

    def write_vote(self) -> None:
        """Put the one write of term and vote, and its barrier, where they first changed in this event."""
        mark, self.unsettled = self.vote_mark, False
        state = HardState(self.term, self.voted_for)
        if not self.knobs.persist:
            self.durable = state
            return
        self.token += 1
        token = self.token
        self.disk_pending[token] = (state, self.mono)
        self.votes_in_flight += 1
        if self.role == CANDIDATE:
            self.self_vote_token = token
        ops = vote_ops(
            self.rules.persist_vote(state),
            sync=self.rules.syncs("vote"),
            delete_first=self.rules.replace_file() == "delete_rename",
        )
        persisted = Note("persisted", self.term, self.role, {"term": state.term, "voted_for": state.voted_for})
        if self.rules.answers_after_persist():
            self.out[mark:mark] = (Disk(token, ops), Await(token), persisted)
        else:
            self.out.append(Disk(token, ops))

    def write_log(self) -> None:
        """Hand the waiting records to the disk as one batch."""
        if not self.knobs.persist:
            self.log.take_ops()
            self.log.durable = self.log.end
            return
        ops = self.log.take_ops()
        if ops:
            self.start_batch(ops, self.log.end)

    def cut_log(self, start: int) -> list[int]:
        """Remove the log from ``start`` on; batches under way then make less durable. The removed entries' terms."""
        terms = [entry.term for entry in self.log.cut(start - 1)]
        for token, (what, since) in self.disk_pending.items():
            if isinstance(what, int) and what >= start:
                self.disk_pending[token] = (start - 1, since)
        return terms

    def await_log(self, index: int) -> None:
        """Hold back what follows until the log is durable up to ``index``."""
        if self.log.durable >= index and not self.log.ops:
            return
        self.write_log()
        if self.log.durable < index and self.disk_pending:
            self.out.append(Await(next(reversed(self.disk_pending))))

    def log_batch_pending(self) -> bool:
        """Whether a log batch is under way."""
        return any(type(what) is int for what, _ in self.disk_pending.values())
