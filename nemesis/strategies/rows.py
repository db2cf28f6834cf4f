"""What the triggered strategies draw: on which events whom to hit, and how. General rows, none written for one bug.

    after a vote is granted                        restart, cut power of, kill or pause the voter; cut the candidate off
    after becoming leader, before the first append kill, isolate, pause … the leader
    after a campaign is sent                       kill or restart the candidate; cut it off until the next one stands
    while a vote is asked for or promised          kill, restart or cut power of who is about to store something
    after a write is acknowledged                  kill, isolate, restart … who acknowledged it; or all others at once;
                                                   or everybody, as when a rack loses power
    after an append, after a commit                kill, isolate, restart … whose it is
    on heal                                        break somewhere else
    on step-down                                   restart who stepped down
    on a configuration change                      kill, isolate, restart who appended it
    while pre-voting                               cut or slow the links between the one who asks and one voter
    on a logged line that the system names         kill, isolate, restart, pause who logged it, or a peer

Each is what at least three known bugs of consensus systems needed. Guarantees: pure; a row is offered only where its
event can be seen and its fault kinds are asked for. Out of scope: what comes before (``triggered``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import Ns
from dethrone.harness.core.interfaces import Fault, traits_of
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.rng import Rng
from dethrone.harness.core.schedule import OnEvent, PlannedFault
from dethrone.harness.core.watches import LOGGED
from dethrone.nemesis.strategies.durations import soon, within_patience
from dethrone.nemesis.triggers import READS

MANY = frozenset({"write-acked", "appended", "committed"})
"""Events that come all the time: any of the next ones is as good as the first."""

ISOLATE = "isolate"
"""A partition that takes its victim out: mostly alone, else deaf or mute."""

CUTTING = ("isolate", "isolate", "isolate", "one-way-in", "one-way-out")
"""Shapes that are drawn for it: alone, deaf or mute."""

ONE_LINK = "one-link"
"""A partition of one link only, both ways."""

ALONE = "alone"
"""The same, never deaf or mute: its victim and all others hear nothing of each other."""

NEXT = ("elected", "elected", "elected", "campaign-sent")
"""What others do next about an election: an end for a fault that hit one of them, as often as it is drawn."""


LOGGED_DEEDS = ("kill", "powerloss", ISOLATE, "restart", "pause")
"""What is done on a line that the system names: nothing is known of it but its node and its moment."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """On ``event``, hit ``victims`` by one of ``deeds``: fault kinds, or this module's words for partitions.

    ``unseats``: the event comes only if the leader was hit before. ``weight``: how often it is drawn. ``partner``: who
    else is in the event, and may be hit at once by one of ``partner_deeds``: what one of two learned is then known to
    neither. ``at_once``: mostly without any delay; else while what the event set off is under way. ``until``: events of
    others of which one may end the fault. ``where``: of the event.
    """

    event: str
    victims: tuple[str, ...]
    deeds: tuple[str, ...]
    unseats: bool = True
    weight: int = 2
    partner: tuple[str, ...] = ()
    partner_deeds: tuple[str, ...] = ()
    at_once: bool = True
    until: tuple[str, ...] = ()
    where: Mapping[str, str] = {}


ROWS: tuple[Row, ...] = (
    Row(
        event="vote-granted",
        victims=("voter",),
        deeds=("restart", "restart", "restart", "powerloss", "powerloss", "powerloss", "kill", "pause", "damage"),
        weight=4,
        partner=("candidate",),
        partner_deeds=(ISOLATE, ISOLATE, ISOLATE, "kill", "pause"),
    ),
    Row(
        event="elected",
        victims=("actor",),
        deeds=("kill", "powerloss", ISOLATE, ISOLATE, "pause", "restart", "link", "hold"),
        weight=3,
        partner=("voter", "voters"),
        partner_deeds=("restart", "powerloss", "kill"),
    ),
    Row(event="campaign-sent", victims=("actor",), deeds=("kill", "restart", "powerloss", "hold"), weight=2),
    Row(
        event="campaign-sent",
        victims=("actor",),
        deeds=(ALONE, ALONE, "pause", "restart"),
        weight=3,
        at_once=False,
        until=NEXT,
    ),
    Row(event="vote-granted", victims=("candidate",), deeds=(ALONE, ALONE, "pause", "restart"), weight=3, until=NEXT),
    Row(
        event="campaign-sent",
        victims=("peer", "peers"),
        deeds=("kill", "restart", "powerloss"),
        weight=4,
        at_once=False,
    ),
    Row(
        event="pre-vote-granted",
        victims=("candidate", "voter"),
        deeds=("kill", "restart", "powerloss", ISOLATE),
        at_once=False,
    ),
    Row(
        event="write-acked",
        victims=("actor", "actor", "peers", "all"),
        deeds=("kill", "powerloss", ISOLATE, "restart", "pause"),
        unseats=False,
        partner=("peer",),
        partner_deeds=("restart", "powerloss"),
    ),
    Row(
        event="healed",
        victims=("peer", "leader"),
        deeds=("kill", "powerloss", ISOLATE, "restart", "pause", "stop"),
        unseats=False,
    ),
    Row(
        event="committed",
        victims=("actor",),
        deeds=("kill", "powerloss", ISOLATE, "restart", "pause"),
        unseats=False,
        weight=1,
        partner=("peer",),
        partner_deeds=("restart", "powerloss"),
    ),
    Row(
        event="appended",
        victims=("actor",),
        deeds=("kill", "powerloss", ISOLATE, "restart"),
        unseats=False,
        weight=1,
    ),
    Row(event="stepped-down", victims=("actor",), deeds=("restart", "powerloss", "kill"), weight=1),
    Row(
        event="configuration-appended",
        victims=("actor",),
        deeds=("kill", "powerloss", ISOLATE, "restart"),
        unseats=False,
    ),
    Row(event="pre-voting", victims=("peer",), deeds=(ONE_LINK, "link", "hold", "pause"), weight=1),
)


def kind_of(deed: str) -> str:
    """The fault kind that does it."""
    return "partition" if deed in {ISOLATE, ALONE, ONE_LINK} else deed


def offered(
    *, kinds: Collection[str], promise: Promise, observable: Collection[str] | None, operations: Collection[str]
) -> tuple[Row, ...]:
    """The rows whose events can come and be seen, each with the deeds whose kinds are asked for.

    ``observable`` None: everything that has a trace is; ``logged:NAME`` in it: lines of the pattern of this name.
    ``operations``: what the workload does.
    """
    traced = observable is None or "traced" in observable
    seen = {
        "write-acked": bool(set(operations) - READS),
        "pre-voting": traced and promise.pre_vote,
        "pre-vote-granted": traced and promise.pre_vote,
        "configuration-appended": traced and "reconfigure" in operations,
        "elected": True,
        "healed": True,
    }
    out = []
    for row in ROWS:
        deeds = tuple(deed for deed in row.deeds if kind_of(deed) in kinds)
        partners = tuple(deed for deed in row.partner_deeds if kind_of(deed) in kinds)
        if deeds and seen.get(row.event, traced):
            out.append(msgspec.structs.replace(row, deeds=deeds, partner_deeds=partners))
    deeds = tuple(deed for deed in LOGGED_DEEDS if kind_of(deed) in kinds)
    for channel in sorted(observable or ()) if deeds else ():
        event, _, name = channel.partition(":")
        if event == LOGGED and name:
            out.append(Row(event=event, victims=("actor", "peer"), deeds=deeds, weight=1, where={"pattern": name}))
    return tuple(out)


def draw_row(rng: Rng, rows: Collection[Row]) -> Row:
    """One of them, by weight."""
    return rng.choice([row for row in rows for _ in range(row.weight)])


def hit(
    row: Row,
    rng: Rng,
    *,
    kinds: Mapping[str, Fault],
    nodes: int,
    name: str,
    after: str,
    within_ns: Ns,
    hold_ns: Ns,
    promise: Promise,
    room: bool,
) -> PlannedFault:
    """A fault of this row. ``room``: one more node may be taken out for a while; else what can end at once does.

    It waits until the fault called ``after`` is in force, and on heal for that one's.
    """
    once = row.event in {"elected", "stepped-down", "healed", "configuration-appended", LOGGED}
    count = 1 if once or rng.chance(2, 3) else rng.between(2, 3)
    if row.event in MANY:
        count = rng.between(1, 40)
    when = OnEvent(
        event=row.event,
        within_ns=within_ns,
        count=count,
        where={"fault": after} if row.event == "healed" else row.where,
        after=after,
    )
    if row.at_once:
        delay_ns = 0 if rng.chance(2, 3) else within_patience(rng, promise)
    else:
        delay_ns = 0 if rng.chance(1, 6) else soon(rng, promise)
    planned = PlannedFault(
        name=name, kind="", victims=rng.choice(row.victims), delay_ns=delay_ns, hold_ns=hold_ns, when=when
    )
    done = _done(planned, row.deeds, rng, kinds=kinds, nodes=nodes, room=room)
    if row.until and done.hold_ns and done.until is None and rng.chance(3, 4):
        ends = OnEvent(event=rng.choice(row.until), by=f"spared-by:{name}", within_ns=done.hold_ns)
        done = msgspec.structs.replace(done, until=ends)
    return done


def partner(
    row: Row,
    first: PlannedFault,
    rng: Rng,
    *,
    kinds: Mapping[str, Fault],
    nodes: int,
    name: str,
    hold_ns: Ns,
    room: bool,
) -> PlannedFault:
    """The fault that hits who else is in the event that ``first`` waits for, at the same moment."""
    planned = msgspec.structs.replace(first, name=name, victims=rng.choice(row.partner), hold_ns=hold_ns)
    return _done(planned, row.partner_deeds, rng, kinds=kinds, nodes=nodes, room=room)


def _done(
    planned: PlannedFault,
    deeds: tuple[str, ...],
    rng: Rng,
    *,
    kinds: Mapping[str, Fault],
    nodes: int,
    room: bool,
) -> PlannedFault:
    """``planned`` with one of the deeds, held or not; what else a kind needs is drawn by itself."""
    passing = [deed for deed in deeds if traits_of(kinds[kind_of(deed)]).ends_process]
    brief = [deed for deed in deeds if deed in passing or deed in {ONE_LINK, "link", "hold"}]
    if planned.victims in {"peers", "voters", "all"}:  # all at once, but not for long
        if passing:
            brief, room = passing, False
        else:
            planned = msgspec.structs.replace(planned, victims="actor")
    deed = rng.choice(deeds if room or not brief else brief)
    kind = kind_of(deed)
    traits = traits_of(kinds[kind])
    ends_at_once = traits.lasts == "at-once" or (
        traits.brief and (not room or (deed == "powerloss" and rng.chance(2, 3)))
    )
    hold_ns = 0 if ends_at_once else planned.hold_ns
    until = None
    if deed == ISOLATE:
        params: Mapping[str, Any] = {"shape": rng.choice(CUTTING)}
    elif deed == ALONE:
        params = {"shape": "isolate"}
    elif deed == ONE_LINK:
        params = {"links": [["actor", "peer"], ["peer", "actor"]]}
    else:
        knobs = {"victims": planned.victims}
        params = kinds[kind].draw(rng.stream(kind), nodes=nodes, hold_ns=hold_ns, knobs=knobs).params
    if deed == "hold" and isinstance(planned.when, OnEvent):
        # What was held back arrives when the same is under way once more.
        again = OnEvent(event=planned.when.event, by=f"hit-by:{planned.name}", within_ns=max(1, hold_ns))
        until = again if rng.chance(2, 3) else None
    return msgspec.structs.replace(planned, kind=kind, hold_ns=hold_ns, params=params, until=until)
