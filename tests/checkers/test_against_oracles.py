"""The election checkers against oracles written from the definitions: pairs of events, nothing shared, nothing fast."""

from __future__ import annotations

import itertools

import networkx as nx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dethrone.checkers.acknowledged_survives import CHECKER as SURVIVES
from dethrone.checkers.graph import Adjacency, boundary, cliques, witness
from dethrone.checkers.leader_has_majority import CHECKER as MAJORITY
from dethrone.checkers.log_matching import CHECKER as MATCHING
from dethrone.checkers.one_leader_per_term import CHECKER as LEADER
from dethrone.checkers.one_vote_per_term import CHECKER as VOTE
from dethrone.checkers.term_never_decreases import CHECKER as TERM
from dethrone.harness.core.events import SCHEMA, Begin, End, Invoke, Mark, Observed, Return, Traced
from dethrone.harness.core.history import History
from dethrone.harness.core.rolling import number, roll
from tests.checkers.histories import plan, promise
from tests.checkers.soup import NODES, elections
from tests.traced import traced as an_event

many = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def failed(checker, history, **promised):
    given_promise = promise(**promised)
    return checker.check(history, given_promise, plan(given=given_promise)).outcome == "fail"


def observed(history):
    return [event for event in history if type(event) is Observed]


def traced(history, *names, source=None):
    return [
        event
        for event in history
        if type(event) is Traced and event.name in names and (source is None or event.source == source)
    ]


def surely_of_its_term(row, rows):
    """Atomic; or its neighbours among the same process' polls, in asking order, tell the same term around it."""
    if row.atomic:
        return True
    mine = sorted(
        (r for r in rows if (r.node, r.incarnation) == (row.node, row.incarnation)),
        key=lambda r: (r.span.lo, r.span.hi, r.seq),
    )
    in_file_order = sorted(mine, key=lambda r: r.seq)
    if all(a.span.lo <= b.span.lo for a, b in itertools.pairwise(in_file_order)):
        mine = in_file_order
    at = mine.index(row)
    if at in {0, len(mine) - 1}:
        return False
    before, after = mine[at - 1], mine[at + 1]
    return before.term == after.term == row.term and before.span.hi <= row.span.lo and row.span.hi <= after.span.lo


@many
@given(elections(), st.booleans())
def test_one_leader_per_term(history, bound):
    claims = {(event.term, event.node) for event in traced(history, "elected") if event.term > 0}
    rows = observed(history)
    if bound:
        for row in rows:
            if row.term > 0 and surely_of_its_term_in_file(row, history):
                claims |= {(row.term, row.node)} if row.leads else set()
                claims |= {(row.term, row.leader)} if row.leader else set()
    bad = any(a[0] == b[0] and a[1] != b[1] for a, b in itertools.combinations(claims, 2))
    assert failed(LEADER, history, leader_bound_to_term=bound) == bad


def surely_of_its_term_in_file(row, history):
    """As above; where any process' polls are out of order in the file, all are sorted by asking."""
    rows = observed(history)
    disordered = False
    for a, b in itertools.combinations(rows, 2):
        if (a.node, a.incarnation) == (b.node, b.incarnation) and a.span.lo > b.span.lo:
            disordered = True
    if row.atomic or disordered:
        mine = sorted(
            (r for r in rows if (r.node, r.incarnation) == (row.node, row.incarnation)),
            key=lambda r: (r.span.lo, r.span.hi, r.seq),
        )
        at = mine.index(row)
        if row.atomic:
            return True
        if at in {0, len(mine) - 1}:
            return False
        before, after = mine[at - 1], mine[at + 1]
        return before.term == after.term == row.term and before.span.hi <= row.span.lo and row.span.hi <= after.span.lo
    return surely_of_its_term(row, rows)


@many
@given(elections())
def test_one_vote_per_term(history):
    given_votes = {
        (event.node, event.term, event.data["candidate"])
        for event in traced(history, "vote", source="shell")
        if event.term > 0
    }
    told = {
        (row.node, row.incarnation, row.term, row.voted_for)
        for row in observed(history)
        if row.term > 0 and row.voted_for and surely_of_its_term_in_file(row, history)
    }
    bad = any(a[:2] == b[:2] and a[2] != b[2] for a, b in itertools.combinations(given_votes, 2))
    bad = bad or any(a[:3] == b[:3] and a[3] != b[3] for a, b in itertools.combinations(told, 2))
    assert failed(VOTE, history) == bad


@many
@given(elections())
def test_term_never_decreases(history):
    own = {"vote", "elected", "acked", "persisted"}
    shell = [event for event in traced(history, *own, source="shell") if event.term > 0]
    core = [event for event in history if type(event) is Traced and event.source == "core" and event.term > 0]
    polls = [row for row in observed(history) if row.term > 0]
    bad = False
    for kind in [core, [event for event in shell if event.name == "persisted"]]:  # messages may leave late
        for a, b in itertools.permutations(kind, 2):
            same = (a.node, a.incarnation) == (b.node, b.incarnation)
            bad = bad or (same and a.n < b.n and a.term > b.term)
    for a, b in itertools.permutations(polls, 2):
        same = (a.node, a.incarnation) == (b.node, b.incarnation)
        bad = bad or (same and a.span.hi < b.span.lo and a.term > b.term)
    floor = shell or [row for row in polls if row.leads]  # the histories are shorter than a second
    for a, b in itertools.product(floor, [*shell, *core, *polls]):
        bad = bad or (a.node == b.node and a.incarnation < b.incarnation and a.term > b.term)
    assert failed(TERM, history) == bad


@many
@given(elections())
def test_leader_has_majority_by_witnessed_voters(history):
    bad = any(
        event.term > 0 and len(set(event.data["voters"]) & set(NODES)) < 2
        for event in traced(history, "elected", source="shell")
    )
    assert failed(MAJORITY, history, leader_bound_to_term=False) == bad


# --- logs -------------------------------------------------------------------------------------------------------

writes = st.tuples(
    st.sampled_from(NODES), st.integers(1, 4), st.integers(1, 2), st.sampled_from("ab"), st.integers(1, 3)
)


restarts = st.tuples(st.sampled_from(NODES), st.integers(1, 4))
"""A node starts again, and of its log no more than so many entries are left."""


@many
@given(st.lists(writes | restarts, max_size=10))
def test_log_matching(steps):
    def tell(node, name, term, **data):
        data = {key.replace("start", "from"): value for key, value in data.items()}
        events.append(
            an_event(name, data, seq=len(events), node=node, n=len(events), term=term, source="shell", **lives[node])
        )

    lives = {node: {"incarnation": 1} for node in NODES}
    events = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=NODES, seed=1)]
    logs: dict[str, list[tuple[int, str]]] = {node: [] for node in NODES}
    seen: dict[tuple[int, int], tuple[tuple[int, str], ...]] = {}
    bad = False
    for node, start, *more in steps:
        log = logs[node]
        if not more:
            lives[node] = {"incarnation": lives[node]["incarnation"] + 1}
            del log[start:]
            known = 0
            for term, payload in log:
                known = roll(known, term, number(payload))
            if log:
                tell(node, "log_kept", log[-1][0], count=len(log), hash=f"{known:016x}")
            tell(node, "log_truncate", 0, start=len(log) + 1)
            continue
        term, payload, count = more
        at = min(start, len(log) + 1)
        entries = []
        for index in range(at, at + count):
            entry = (term, payload)
            if index <= len(log):
                if log[index - 1] != entry:
                    del log[index - 1 :]
                    log.append(entry)
            else:
                log.append(entry)
            entries.append([index, term, payload])
            prefix = tuple(log[:index])
            bad = bad or seen.setdefault((index, term), prefix) != prefix
        tell(node, "log_append", term, start=at, entries=entries)
    events.append(End(seq=len(events), t=0, count=0, digest="", reason="complete"))
    assert failed(MATCHING, History(events)) == bad


# --- operations -------------------------------------------------------------------------------------------------


@st.composite
def operations(draw):
    """Appends of 1 … n and reads of one key, overlapping as drawn; the last reads are final."""
    events = [Begin(seq=0, t=0, schema=SCHEMA, system="raft", nodes=NODES, seed=1)]
    pending: list[tuple[int, str, int]] = []
    value = op = 0

    def add(kind, **fields):
        events.append(kind(seq=len(events), t=len(events), **fields))

    def finish(position):
        number, f, _ = pending.pop(position)
        if f == "append":
            add(Return, op=number, status=draw(st.sampled_from(["ok", "ok", "info", "fail"])))
        else:
            pool = list(range(1, value + 2))
            add(Return, op=number, status="ok", value=draw(st.lists(st.sampled_from(pool), max_size=4)), node="n1")

    for _ in range(draw(st.integers(0, 6))):
        if pending and draw(st.booleans()):
            finish(draw(st.integers(0, len(pending) - 1)))
        elif draw(st.booleans()):
            value += 1
            add(Invoke, op=op, process=0, f="append", value=["k", value], target="n1")
            pending.append((op, "append", value))
            op += 1
        else:
            add(Invoke, op=op, process=0, f="read", value="k", target="n1")
            pending.append((op, "read", 0))
            op += 1
    while pending:
        finish(0)
    add(Mark, name="final")
    for _ in range(draw(st.integers(1, 2))):
        add(Invoke, op=op, process=0, f="read", value="k", target="n1")
        pending.append((op, "read", 0))
        op += 1
        finish(0)
    add(End, count=len(events), digest="", reason="complete")
    return History(events)


@many
@given(operations())
def test_acknowledged_survives_with_linearizable_reads(history):
    returns = {event.op: event for event in history if type(event) is Return}
    appends = {}
    reads = []
    final = next(event.seq for event in history if type(event) is Mark)
    for event in history:
        if type(event) is Invoke and event.f == "append":
            appends[event.value[1]] = (event.seq, returns[event.op])
        elif type(event) is Invoke:
            reads.append((event.seq, returns[event.op].seq, returns[event.op].value))
    bad = False
    for asked, answered, values in reads:
        bad = bad or len(set(values)) != len(values)
        for v in values:
            bad = bad or v not in appends or appends[v][0] > answered or appends[v][1].status == "fail"
        for v, (_, back) in appends.items():
            acked = back.status == "ok" and back.seq < asked
            shown = any(v in other and done < asked for _, done, other in reads)
            somewhere = any(v in other for *_, other in reads)
            bad = bad or (v not in values and ((acked and (somewhere or asked > final)) or shown))
    for (*_, a), (*_, b) in itertools.combinations(reads, 2):
        longest = max((values for *_, values in reads), key=len)
        bad = bad or longest[: len(a)] != a or longest[: len(b)] != b
    assert failed(SURVIVES, history) == bad


# --- graphs -----------------------------------------------------------------------------------------------------


@st.composite
def adjacencies(draw):
    size = draw(st.integers(1, 5))
    full = (1 << size) - 1
    status = [draw(st.sampled_from(["healthy", "healthy", "healthy", "sick", "dead", "?"])) for _ in range(size)]
    open_, cut = [0] * size, [0] * size
    for i, j in itertools.permutations(range(size), 2):
        word = draw(st.sampled_from(["open", "open", "cut", "?"]))
        open_[i] |= (word == "open") << j
        cut[i] |= (word == "cut") << j
    healthy = sum((word == "healthy") << bit for bit, word in enumerate(status))
    sick = sum((word == "sick") << bit for bit, word in enumerate(status))
    dead = sum((word == "dead") << bit for bit, word in enumerate(status))
    names = tuple(f"n{bit}" for bit in range(size))
    del full
    return Adjacency(names, healthy | sick, healthy, dead, tuple(open_), tuple(cut), tuple(open_))


@many
@given(adjacencies(), st.integers(1, 3))
def test_cliques_are_those_of_networkx(adjacency, least):
    graph = nx.Graph()
    size = len(adjacency.voters)
    graph.add_nodes_from(bit for bit in range(size) if adjacency.healthy >> bit & 1)
    for i, j in itertools.combinations(list(graph), 2):
        if adjacency.open[i] >> j & 1 and adjacency.open[j] >> i & 1:
            graph.add_edge(i, j)
    expected = {sum(1 << bit for bit in clique) for clique in nx.find_cliques(graph) if len(clique) >= least}
    assert set(cliques(adjacency.two_way(), adjacency.healthy, least)) == expected


@many
@given(adjacencies())
def test_a_witness_set_is_what_its_tier_says(adjacency):
    size = len(adjacency.voters)
    quorum = size // 2 + 1
    found = witness(adjacency, quorum)
    everyone = range(size)

    def up(i, j):
        both = adjacency.healthy >> i & 1 and adjacency.healthy >> j & 1
        return bool(both and adjacency.open[i] >> j & 1 and adjacency.open[j] >> i & 1)

    def certain(members):
        """(every packet between inside and outside certainly passes or certainly does not, which ways pass)."""
        ways = set()
        for i, j in itertools.product(members, set(everyone) - set(members)):
            if adjacency.dead >> j & 1:
                continue
            both = []
            for a, b in ((i, j), (j, i)):
                if adjacency.cut[a] >> b & 1:
                    both.append(False)
                elif adjacency.open[a] >> b & 1 and adjacency.alive >> a & 1 and adjacency.alive >> b & 1:
                    both.append(True)
                else:
                    return None
            ways.add(tuple(both))
        return ways

    owed = set()
    for count in range(quorum, size + 1):
        for members in itertools.combinations(everyone, count):
            if not all(adjacency.healthy >> i & 1 for i in members):
                continue
            if not all(up(i, j) for i, j in itertools.combinations(members, 2)):
                continue
            grown = any(
                k not in members and adjacency.healthy >> k & 1 and all(up(i, k) for i in members) for k in everyone
            )
            ways = certain(members)
            if grown or ways is None:
                continue
            if count == size:
                owed.add("T1")
            elif ways <= {(False, False)}:
                owed.add("T2")
            elif ways <= {(False, False), (True, True)}:
                owed.add("T3")
            else:
                owed.add("T5")
    if found is None or found.tier == "T4":
        assert not owed
        return
    assert found.tier in owed
    assert found.tier == min(owed, key=["T1", "T2", "T3", "T5"].index)
    assert boundary(adjacency, found.mask) != "uncertain"
