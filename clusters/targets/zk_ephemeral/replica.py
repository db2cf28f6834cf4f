"""A replica's side of the partition: leading or following, the ISR, the high watermark, clients' writes.

Guarantees: HW = least log end over the ISR, where a joining follower counts from the moment it is decided and a leaving
one until the service holds the smaller ISR; ISR changes are written with compare-and-set, one at a time. Out of scope:
how a leader is found (`race`, `controller`).

Source: docs/sources.md, zk-ephemeral: Kafka's "maximal ISR" (KIP-497).
"""

from __future__ import annotations

from typing import Any

from dethrone.clusters.targets.client_api import Append, Failed, Get, NotLeader, Ok, Put, Refused, Unknown
from dethrone.clusters.targets.zk_ephemeral import messages as m
from dethrone.clusters.targets.zk_ephemeral.state import Broker, Follower, Leadership, Parked, StoredState, read_state

FETCH, LAG, PARKED = "fetch", "lag", "parked"
PENDING_MAX = 10_000


# --- leading ------------------------------------------------------------------------------------------------------


def lead(b: Broker, epoch: int, isr: tuple[str, ...], version: int, contenders: tuple[str, ...]) -> None:
    """Become the leader of ``epoch``."""
    stop_following(b)
    b.set_term(epoch)
    b.leader = b.me
    b.leading = leading = Leadership(isr, version, b.controller_epoch, b.log.end)
    b.become(b.LEADER, "owns the leader node" if b.race else "the controller says so")
    b.note("leader_elected", {"id": b.me, "epoch": epoch, "isr": list(isr), "contenders": list(contenders)})
    b.note("elected", {"term": epoch, "leader": b.me, "voters": [b.service], "isr": list(isr)})
    for peer in b.peers:
        leading.followers[peer] = Follower(b.mono)
    b.timer(LAG, b.knobs.replica_lag_time_max // 2)
    if b.race and b.knobs.fencing:
        for peer in b.peers:
            b.send(peer, m.LeaderNotice(epoch))
    advance(b, leading)


def stop_leading(b: Broker, why: str) -> None:
    """Give the leadership up: pending writes may or may not survive."""
    leading = b.leading
    if leading is None:
        return
    b.leading = None
    b.leader = None
    b.note("step_down", {"why": why, "pending_writes": len(leading.writes)})
    b.timer(LAG, None)
    b.timer(PARKED, None)
    for peer, parked in leading.parked.items():
        b.send(peer, m.FetchReply(m.NOT_LEADER, b.term, parked.body.seq))
    for _, request, _ in leading.writes:
        b.reply(request, Unknown("stepped down before the write was confirmed"))


def deposed(b: Broker, epoch: int, why: str) -> None:
    """Proof of a newer leader: stop, and look who it is."""
    b.note("fenced", {"epoch": b.term, "newer": epoch, "why": why})
    b.count("fenced")
    if b.leading is not None and b.rules.gives_up("other"):
        stop_leading(b, why)
        b.become(b.FOLLOWER, why)
    b.look_again()


def on_fetch(b: Broker, src: str, body: m.Fetch) -> None:
    """A follower asks."""
    leading = b.leading
    if leading is None:
        code = m.NOT_LEADER if b.rules.accepts_epoch(b.term, body.epoch) else m.FENCED
        b.send(src, m.FetchReply(code, b.term, body.seq, leader=b.leader))
        return
    if not b.rules.accepts_epoch(b.term, body.epoch):
        b.note("fenced", {"what": "fetch", "from": src, "epoch": body.epoch, "known": b.term})
        b.send(src, m.FetchReply(m.FENCED, b.term, body.seq, leader=b.me))
        return
    if body.epoch > b.term and b.knobs.fencing:
        b.send(src, m.FetchReply(m.NOT_LEADER, b.term, body.seq))
        deposed(b, body.epoch, "a follower knows a newer epoch")
        return
    follower = leading.followers.get(src)
    if follower is None:
        return
    if follower.run == body.run and body.seq < follower.seq:
        return
    follower.run, follower.seq = body.run, body.seq
    log = b.log
    if b.knobs.truncate == "epoch":
        leaves = log.diverges(body.last_epoch, body.log_end)
        if leaves is not None:
            b.send(src, m.FetchReply(m.DIVERGING, b.term, body.seq, end=leaves[1], end_epoch=leaves[0]))
            return
    if body.log_end > log.end:
        b.send(src, m.FetchReply(m.OUT_OF_RANGE, b.term, body.seq, end=log.end))
        return
    _progress(b, leading, src, follower, body)
    if b.leading is leading and not answer_fetch(b, leading, src, body):
        leading.parked[src] = Parked(b.mono, body)
        if len(leading.parked) == 1:
            b.timer(PARKED, b.knobs.fetch_wait_max)


def _progress(b: Broker, leading: Leadership, src: str, follower: Follower, body: m.Fetch) -> None:
    leading.parked.pop(src, None)
    if body.log_end >= b.log.durable:
        follower.caught_up = b.mono
    elif body.log_end >= follower.end_before:
        follower.caught_up = max(follower.caught_up, follower.fetched)
    follower.fetched, follower.end_before = b.mono, b.log.durable
    moved = follower.end != body.log_end
    follower.end = body.log_end
    if src not in leading.isr and src not in leading.joining:
        least = max(b.log.hw, leading.start)
        if body.log_end >= least and not leading.joining and not leading.leaving:
            leading.joining.add(src)
            _publish_isr(b, leading, "caught up")
    elif moved:
        advance(b, leading)


def answer_fetch(b: Broker, leading: Leadership, src: str, body: m.Fetch, *, late: bool = False) -> bool:
    """Answer if there is news, or if the fetch waited long enough."""
    log = b.log
    if not late and body.log_end >= log.durable and body.hw >= min(log.hw, body.log_end):
        return False
    last = min(log.durable, body.log_end + b.rules.records_max())
    records = tuple(log.entries[body.log_end : last])
    b.send(src, m.FetchReply(m.FETCH_OK, b.term, body.seq, log.hw, records, in_isr=src in leading.isr))
    return True


def answer_parked(b: Broker, leading: Leadership) -> None:
    """Answer the waiting fetches for which there is news."""
    for src, parked in list(leading.parked.items()):
        if answer_fetch(b, leading, src, parked.body):
            leading.parked.pop(src, None)


def on_parked_timer(b: Broker) -> None:
    """Fetches that waited long enough are answered empty."""
    leading = b.leading
    if leading is None:
        return
    wait = b.knobs.fetch_wait_max
    for src, parked in list(leading.parked.items()):
        if b.mono - parked.at >= wait:
            answer_fetch(b, leading, src, parked.body, late=True)
            leading.parked.pop(src, None)
    if leading.parked:
        b.timer(PARKED, min(parked.at for parked in leading.parked.values()) + wait - b.mono)


def on_lag_timer(b: Broker) -> None:
    """Followers that lag for too long leave the ISR."""
    leading = b.leading
    if leading is None:
        return
    b.timer(LAG, b.knobs.replica_lag_time_max // 2)
    if leading.joining or leading.leaving:
        return
    late = {
        peer
        for peer in leading.isr
        if peer != b.me and b.mono - leading.followers[peer].caught_up > b.knobs.replica_lag_time_max
    }
    if late:
        leading.leaving |= late
        _publish_isr(b, leading, "lag")


def advance(b: Broker, leading: Leadership) -> None:
    """Move the high watermark and confirm what it reaches."""
    log = b.log
    counted = leading.isr
    high = log.durable
    for peer in counted:
        if peer != b.me and not (peer in leading.leaving and b.rules.isr_counts_at("decided")):
            high = min(high, leading.followers[peer].end)
    for peer in leading.joining:
        high = min(high, leading.followers[peer].end)
    if high > log.hw:
        log.hw = high
        log.apply()
        b.note("commit", {"index": high, "leader": b.me})
        b.hw_moved()
    confirm(b, leading)
    if leading.parked:
        answer_parked(b, leading)


def confirm(b: Broker, leading: Leadership) -> None:
    """Answer the writes that are appended, or committed, as acks wants it."""
    reach = b.log.durable if b.rules.acks_client("appended") else b.log.hw
    told = b.knobs.acks == "all"
    while leading.writes and leading.writes[0][0] <= reach:
        index, request, value = leading.writes.popleft()
        b.note(
            "write_acked", {"leader": b.me, "epoch": b.term, "index": index, "offset": index - 1, "acks": b.knobs.acks}
        )
        # acks=1 promises no position: the record may be replaced there
        b.reply(request, Ok(value, index, b.term) if told else Ok(None))


def _publish_isr(b: Broker, leading: Leadership, why: str) -> None:
    """Write the changed ISR with compare-and-set."""
    isr = tuple(
        peer for peer in b.brokers if (peer in leading.isr or peer in leading.joining) and peer not in leading.leaving
    )
    state = StoredState(b.me, b.term, isr, leading.controller_epoch).data()
    epoch = b.term
    if leading.leaving and b.rules.isr_counts_at("decided"):
        advance(b, leading)

    def told(answer: m.Answer) -> None:
        if b.leading is not leading or b.term != epoch:
            return
        if answer.code == m.OK or answer.data == state:
            _isr_changed(b, leading, isr, answer.version, why)
        elif answer.code == m.BAD_VERSION:
            leading.joining.clear()
            leading.leaving.clear()
            reread(b, leading, read_state(answer.data), answer.version)
        else:
            deposed(b, b.term, "the partition state is gone")

    b.session.call(m.SetNode(m.STATE_PATH, state, leading.version), told)


def _isr_changed(b: Broker, leading: Leadership, isr: tuple[str, ...], version: int, why: str) -> None:
    before = leading.isr
    leading.isr, leading.version = isr, version
    leading.joining.clear()
    leading.leaving.clear()
    if before != isr:
        b.note("isr_change", {"old": list(before), "new": list(isr), "why": why})
    advance(b, leading)


def reread(b: Broker, leading: Leadership, stored: StoredState | None, version: int) -> None:
    """The stored state is another one than this leader's: it keeps leading only if the state still names it."""
    if stored is None or stored.leader != b.me or stored.epoch != b.term:
        deposed(b, b.term if stored is None else stored.epoch, "the stored state names another leader or epoch")
        return
    _isr_changed(b, leading, stored.isr, version, "state changed")


# --- following ----------------------------------------------------------------------------------------------------


def follow(b: Broker, leader: str, epoch: int) -> None:
    """Follow this leader: cut the log, fetch."""
    if b.leading is not None and not b.rules.gives_up("other"):
        return
    new = b.leader != leader or b.term != epoch or not b.fetching
    stop_leading(b, "another leader")
    b.set_term(epoch)
    b.leader = leader
    b.become(b.FOLLOWER, f"follows {leader}")
    if not new:
        return
    b.note("leader_seen", {"leader": leader, "epoch": epoch})
    cut(b, b.rules.truncates_to(hw=b.log.hw, log_end=b.log.end, new_leader=True), "new leader")
    b.fetching = True
    b.in_isr = False
    _fetch_after_cut(b)


def stop_following(b: Broker) -> None:
    """No more fetches."""
    if b.fetching:
        b.fetching = False
        b.in_isr = False
        b.timer(FETCH, None)


def fetch(b: Broker) -> None:
    """Ask for what follows the log; asked again if nothing comes back."""
    if not b.fetching or b.leader is None:
        return
    b.fetch_seq += 1
    log = b.log
    end = b.rules.fetch_position(durable=log.durable, written=log.end)
    last = log.entries[end - 1].epoch if end else 0
    b.send(b.leader, m.Fetch(b.term, end, last, log.hw, b.run, b.fetch_seq))
    b.timer(FETCH, b.knobs.fetch_wait_max + b.knobs.call_retry)


def _fetch_after_cut(b: Broker) -> None:
    """Fetch now, or when the batch under way is done."""
    if not b.batches:
        fetch(b)


def on_fetch_reply(b: Broker, src: str, body: m.FetchReply) -> None:
    """The leader's answer to the fetch under way."""
    if not b.fetching or src != b.leader or body.seq != b.fetch_seq:
        return
    log = b.log
    if body.code == m.FETCH_OK:
        if not b.rules.accepts_epoch(b.term, body.epoch):
            b.note("fenced", {"what": "fetch_reply", "from": src, "epoch": body.epoch, "known": b.term})
            return
        term = b.rules.next_term(b.term, body.epoch)
        if term != b.term:
            b.set_term(term)
        b.in_isr = body.in_isr
        for one in body.records:
            if one.index == log.end + 1 and b.rules.accepts_epoch(log.last_term, one.epoch):
                log.append(one)
        hw = b.rules.follower_hw(hw=log.hw, leader_hw=body.hw, log_end=log.end)
        if hw != log.hw:
            log.hw = min(hw, log.end)
            log.apply()
            b.note("commit", {"index": log.hw, "leader": src})
            b.hw_moved()
        if body.records:
            b.write_log()
            if b.rules.fetch_position(durable=log.durable, written=log.end) > log.durable:
                fetch(b)
        else:
            fetch(b)
    elif body.code == m.DIVERGING:
        cut(b, min(body.end, log.end_of_term(body.end_epoch)[1]), "diverging")
        _fetch_after_cut(b)
    elif body.code == m.OUT_OF_RANGE:
        cut(b, body.end, "out of range")
        _fetch_after_cut(b)
    else:  # not the leader (any more): the service or the controller names the leader; ask again later
        b.note(
            "fenced" if body.code == m.FENCED else "not_leader",
            {"what": "fetch refused", "by": src, "epoch": body.epoch},
        )
        b.look_again()


def cut(b: Broker, end: int, why: str) -> None:
    """Cut the log behind ``end``."""
    log = b.log
    if end >= log.end:
        return
    b.note("truncated", {"from": end + 1, "to": log.end, "why": why, "hw": log.hw})
    b.cut_log(end)


# --- clients ------------------------------------------------------------------------------------------------------


def on_request(b: Broker, request: int, body: Any) -> None:
    """Followers serve neither reads nor writes."""
    leading = b.leading
    reading = type(body) is Get
    if not b.rules.serves_clients(leads=leading is not None, reading=reading):
        b.reply(request, NotLeader(b.leader if b.leader != b.me else None))
    elif reading:
        b.reply(request, Ok(b.log.read(body.key)))
    elif leading is None or not isinstance(body, Append | Put):
        b.reply(request, Refused("zk-ephemeral serves append, put and get"))
    elif not b.rules.enough_replicas(len(leading.isr)):
        b.note("write_refused", {"why": "NOT_ENOUGH_REPLICAS", "isr": list(leading.isr)})
        b.reply(request, Failed("NOT_ENOUGH_REPLICAS"))
    elif len(leading.writes) >= PENDING_MAX:
        b.reply(request, Refused(f"{PENDING_MAX} writes wait already"))
    else:
        index = b.log.end + 1
        b.log.append(m.Record(index, b.term, body))
        leading.writes.append((index, request, index if isinstance(body, Append) else None))
        b.write_log()
