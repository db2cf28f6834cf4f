"""The inner loop of the search for one register, in the part of Python that numba compiles.

What a configuration is, and which are superfluous, stands in ``search`` and ``frontier``; here it is a row of integers
and operations are bits of one word. Operations of unknown outcome that do the same are counted, not told apart: they
never return, so which of them was used makes no difference. Called through ``fast``, compiled; as plain Python it gives
the same answers, slowly. Promises: nothing is kept but the arrays that are passed in or returned. Leaves out marks to
go back to, widths, budgets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

READ, OTHER, WRITE, CAS = 0, 1, 2, 3
"""What an operation does: the value is a; it is not a; it becomes a; it is a and becomes b."""
EXACT, GREEDY, GENEROUS, LAVISH = 0, 1, 2, 3
"""How unknown operations are counted: each kind; all together, fewest first; not at all; only to break a tie.

GENEROUS: what gets stuck, has no order. GREEDY and LAVISH: nothing is spent that is not there, so what fits, fits.
"""
SPARE = 4
"""A value is *free* where so many more unknown writes of it are there than any configuration spent; in GENEROUS mode,
where there is one. What an operation of known outcome leads to is then of no more use, only that it is done."""

SLOTS = 62
"""Operations that may be open at once: bits of a word that stays positive."""
VALUES_LED = 62
"""With more values than that, unknown cas are taken to lead anywhere."""

STATE, DONE, USED, NEXT, FLAGS, SPENT, COLUMNS = 0, 1, 2, 3, 4, 5, 6
"""Columns of a configuration. NEXT: the next one in its state, END or GONE. SPENT: unknown operations used."""
END, GONE = -1, -2
FINAL, PASSED = 1, 2
"""FLAGS: not to be gone on from; only passed through."""

AT, RETURNS, MOVERS, KEPT, DROPPED, STEPS, STAMP, REGISTERS = 0, 1, 2, 3, 4, 5, 6, 7
"""Places in ``ctl``."""
GOES_ON, STUCK, STEPS_OUT, MEMORY_OUT = 0, 1, 2, 3
WORK_A_STEP = 8
"""Comparisons that cost as much as one configuration."""
SPREAD = 1024
"""Differences of merit told apart where a frontier is cut to its width."""

Array = Any
"""An array of NumPy; compiled code has its own types."""


def assign(event: Array, returns: Array, info: Array, slot: Array) -> int:
    """A slot for each operation that returns, reused afterwards. Slots needed at once; too many: SLOTS + 1."""
    free = np.empty(SLOTS, dtype=np.int64)
    count = slots = 0
    for at in range(len(event)):
        op = event[at]
        if returns[at]:
            free[count] = slot[op]
            count += 1
        elif info[op] < 0:
            if count > 0:
                count -= 1
                slot[op] = free[count]
            elif slots < SLOTS:
                slot[op] = slots
                slots += 1
            else:
                return SLOTS + 1
    return slots


def bit_count(word: int) -> int:
    """Bits set in a word that is not negative."""
    word = word - ((word >> 1) & 0x5555555555555555)
    word = (word & 0x3333333333333333) + ((word >> 2) & 0x3333333333333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((word * 0x0101010101010101) >> 56) & 0x7F


def keep(
    pool: Array,
    spent: Array,
    count: int,
    head: Array,
    mode: int,
    free: int,
    config: tuple[int, int, int, int, int],
    before: Array,
    more: int,
) -> tuple[bool, int]:
    """Write a configuration at ``count`` unless one of its state is as good; unlink those that it makes superfluous.

    ``free``: bits of operations of which it makes no difference whether they were used. ``config``: (state, done, used,
    flags, number spent). It spent what ``before`` says, and one of kind ``more``.
    Whether it was kept, and comparisons made.
    """
    state, done, used, flags, total = config
    kinds = spent.shape[1]
    last = END
    one = head[state]
    compared = 0
    while one != END:
        compared += 1
        after = pool[one, NEXT]
        other_done, other_used, other_total = pool[one, DONE], pool[one, USED], pool[one, SPENT]
        better = (done & ~other_done) == 0 and (other_used & ~used & ~free) == 0
        worse = (other_done & ~done) == 0 and (used & ~other_used & ~free) == 0
        if mode == LAVISH:
            if better and worse:
                better = other_total <= total
                worse = not better
        else:
            better = better and other_total <= total
            worse = worse and total <= other_total
        if mode == EXACT and (better or worse):
            for kind in range(kinds):
                mine = before[kind] + (1 if kind == more else 0)
                if spent[one, kind] > mine:
                    better = False
                elif spent[one, kind] < mine:
                    worse = False
        if better:
            return False, compared
        if worse:
            pool[one, NEXT] = GONE
            if last == END:
                head[state] = after
            else:
                pool[last, NEXT] = after
        else:
            last = one
        one = after
    pool[count, STATE], pool[count, DONE], pool[count, USED] = state, done, used
    pool[count, FLAGS], pool[count, SPENT] = flags, total
    for kind in range(kinds):
        spent[count, kind] = before[kind]
    if more >= 0:
        spent[count, more] += 1
    pool[count, NEXT] = head[state]
    head[state] = count
    return True, compared


def grown(rows: Array, size: int) -> Array:
    """The same rows with room for more."""
    out = np.empty((size, rows.shape[1]), dtype=rows.dtype)
    out[: len(rows)] = rows
    return out


def leads(state: int, reach: Array, seen: Array, apart: Array, unlike: int, wanted: Array, cas_kinds: Array) -> bool:
    """Whether unknown cas lead from this state to another one that something needs."""
    if len(reach) > 0:
        there = reach[state]
        while there:
            low = bit_count((there & -there) - 1)
            if seen[low] | (unlike & ~apart[low]) | wanted[low]:
                return True
            there &= there - 1
        return False
    for at in range(len(cas_kinds)):
        if cas_kinds[at] == state:
            return True
    return False


def extend(reach: Array, old: int, new: int) -> None:
    """Unknown cas lead from ``old`` to ``new``, too, and on to wherever they led from there."""
    further = reach[new] | (1 << new)
    for state in range(len(reach)):
        if state == old or reach[state] & (1 << old):
            reach[state] = (reach[state] | further) & ~(1 << state)


def stretch(
    course: tuple[Array, Array, Array, Array, Array, Array, Array, Array, Array],
    kinds: tuple[Array, Array, Array, Array],
    opened: Array,
    movers: Array,
    available: Array,
    reach: Array,
    most_spent: Array,
    scratch: tuple[Array, Array, Array, Array, Array, Array, Array],
    ctl: Array,
    pool: Array,
    spent: Array,
    mode: int,
    width: int,
    expand_max: int,
    until: int,
    steps_max: int,
    rows_max: int,
) -> tuple[int, Array, Array]:
    """Go on to return number ``until``; why it ended, and the frontier: ``ctl[KEPT]`` rows of the arrays returned.

    course: event → operation, whether it is its return; by operation what it does, a, b, action, return, slot, kind of
    its unknown likes (-1: it returns). kinds: by kind of unknown ones what they do, a, b, action. scratch: zeros by
    state (four), END by state, zeros by action (two); all but the last two are given back as they came.
    """
    event, is_return, does, a, b, action, ret, slot, info = course
    kind_does, kind_a, kind_b, kind_action = kinds
    seen, apart, wanted, is_free, head, tried, tried_settled = scratch
    at, returns, open_movers, kept = ctl[AT], ctl[RETURNS], ctl[MOVERS], ctl[KEPT]
    steps, dropped, stamp = ctl[STEPS], ctl[DROPPED], ctl[STAMP]
    many = len(kind_does)
    unlike = total = 0
    for place in range(len(opened)):
        op = opened[place]
        if op >= 0:
            bit = 1 << place
            if does[op] == READ:
                seen[a[op]] |= bit
            elif does[op] == OTHER:
                unlike |= bit
                apart[a[op]] |= bit
            elif does[op] == WRITE:
                total |= bit
            else:
                wanted[a[op]] |= bit
    room = max(64, len(pool))
    wide = np.empty((room, COLUMNS), dtype=np.int64)
    wide_spent = np.empty((room, many), dtype=np.int32)
    code = GOES_ON
    while returns < until and at < len(event):
        op = event[at]
        what, place = does[op], slot[op]
        if not is_return[at]:
            at += 1
            kind = info[op]
            if kind >= 0:
                available[kind] += 1
                if available[kind] == 1 and what == CAS and len(reach) > 0:
                    extend(reach, a[op], b[op])
                continue
            opened[place] = op
            bit = 1 << place
            if what == READ:
                seen[a[op]] |= bit
            elif what == OTHER:
                unlike |= bit
                apart[a[op]] |= bit
            else:
                to = open_movers
                while to > 0 and ret[movers[to - 1]] > ret[op]:
                    movers[to] = movers[to - 1]
                    to -= 1
                movers[to] = op
                open_movers += 1
                if what == WRITE:
                    total |= bit
                else:
                    wanted[a[op]] |= bit
            continue
        bit = 1 << place
        observes = what <= OTHER
        pending = 0
        for one in range(kept):
            if observes:
                if (pool[one, STATE] == a[op]) == (what == READ):
                    pool[one, DONE] |= bit
                elif not pool[one, DONE] & bit:
                    pending += 1
            elif not pool[one, USED] & bit:
                pending += 1
        free = 0
        if pending and many and mode >= GENEROUS:
            for kind in range(many):
                if kind_does[kind] == WRITE:
                    more_than = 0 if mode == GENEROUS else most_spent[kind] + SPARE
                    is_free[kind_a[kind]] = 1 if available[kind] > more_than else 0
            for place_of in range(open_movers):
                other = movers[place_of]
                if is_free[a[other] if does[other] == WRITE else b[other]]:
                    free |= 1 << slot[other]
        count = 0
        if pending:
            if room < 2 * kept + 64:
                room = 2 * kept + 64
                wide = np.empty((room, COLUMNS), dtype=np.int64)
                wide_spent = np.empty((room, many), dtype=np.int32)
            for owing in range(2):
                for one in range(kept):
                    done, used = pool[one, DONE], pool[one, USED]
                    waits = not (done & bit) if observes or free & bit else not (used & bit)
                    if waits != (owing == 1):
                        continue
                    state = pool[one, STATE]
                    wide[count, STATE], wide[count, DONE], wide[count, USED] = state, done, used
                    wide[count, FLAGS] = 0 if waits else FINAL
                    wide[count, SPENT] = pool[one, SPENT]
                    wide[count, NEXT] = head[state]
                    head[state] = count
                    for kind in range(many):
                        wide_spent[count, kind] = spent[one, kind]
                    count += 1
            position = examined = compared = 0
            while position < count:
                one = position
                position += 1
                if wide[one, NEXT] == GONE or wide[one, FLAGS] & FINAL:
                    continue
                examined += 1
                if examined > expand_max:
                    dropped = 1
                    break
                steps += 1
                if compared >= WORK_A_STEP:
                    steps += compared // WORK_A_STEP
                    compared %= WORK_A_STEP
                if steps > steps_max:
                    code = STEPS_OUT
                    break
                if count > rows_max:
                    code = MEMORY_OUT
                    break
                if room < count + open_movers + many + 1:
                    room = 2 * room + open_movers + many
                    wide = grown(wide, room)
                    wide_spent = grown(wide_spent, room)
                state, done, used = wide[one, STATE], wide[one, DONE], wide[one, USED]
                now = done | seen[state] | (unlike & ~apart[state])
                used_up, row_spent = wide[one, SPENT], wide_spent[one]
                flags = PASSED if done & bit and mode != GENEROUS else 0
                stamp += 1
                for place_of in range(open_movers):
                    other = movers[place_of]
                    its = 1 << slot[other]
                    if used & its or (free & its and (done & its or (mode == GENEROUS and does[other] == WRITE))):
                        continue  # used, or an unknown write does as well
                    blind = does[other] == WRITE
                    if not blind and a[other] != state:
                        continue
                    after = a[other] if blind else b[other]
                    gain = seen[after] | (unlike & ~apart[after])
                    if (
                        blind
                        and its != bit
                        and not (gain & ~now or wanted[after] & ~used & ~its)
                        and not leads(after, reach, seen, apart, unlike, wanted, kind_a)
                    ):
                        continue
                    if done & its:
                        if tried_settled[action[other]] == stamp:
                            continue
                        tried_settled[action[other]] = stamp
                    else:
                        if tried[action[other]] == stamp:
                            continue
                        tried[action[other]] = stamp
                    then = now | gain | its
                    if blind:
                        then |= total
                    gone = used | its
                    end = FINAL if gone & bit or ((observes or free & bit) and then & bit) else flags
                    config = (after, then, gone, end, used_up)
                    fresh, looked = keep(wide, wide_spent, count, head, mode, free, config, row_spent, -1)
                    compared += looked
                    if fresh:
                        count += 1
                for kind in range(many):
                    if available[kind] == 0 or (mode != GENEROUS and row_spent[kind] >= available[kind]):
                        continue
                    blind = kind_does[kind] == WRITE
                    if not blind and kind_a[kind] != state:
                        continue
                    after = kind_a[kind] if blind else kind_b[kind]
                    gain = seen[after] | (unlike & ~apart[after])
                    instead = free & bit and what == WRITE and blind and after == a[op]
                    if (
                        not instead
                        and not (gain & ~now or wanted[after] & ~used)
                        and not leads(after, reach, seen, apart, unlike, wanted, kind_a)
                    ):
                        continue
                    if tried[kind_action[kind]] == stamp or tried_settled[kind_action[kind]] == stamp:
                        continue
                    then = now | gain
                    if blind:
                        then |= total
                    end = FINAL if (observes or free & bit) and then & bit else flags
                    spends = mode != GENEROUS
                    config = (after, then, used, end, used_up + (1 if spends else 0))
                    more = kind if spends else -1
                    fresh, looked = keep(wide, wide_spent, count, head, mode, free, config, row_spent, more)
                    compared += looked
                    if fresh:
                        if spends:
                            most_spent[kind] = max(most_spent[kind], wide_spent[count, kind])
                        count += 1
            for one in range(count):
                head[wide[one, STATE]] = END
            if code != GOES_ON:
                break
            left = 0
            for one in range(count):
                if wide[one, NEXT] != GONE and wide[one, DONE] & bit and not wide[one, FLAGS] & PASSED:
                    left += 1
            if left == 0:
                code = STUCK
                break
        elif not observes and kept > 1:
            if room < kept:
                room = kept
                wide = np.empty((room, COLUMNS), dtype=np.int64)
                wide_spent = np.empty((room, many), dtype=np.int32)
            count = left = kept
            wide[:kept] = pool[:kept]
            wide_spent[:kept] = spent[:kept]
            for one in range(kept):
                wide[one, NEXT], wide[one, FLAGS] = END, FINAL
                wide[one, DONE] |= bit
        else:
            for one in range(kept):
                pool[one, DONE] &= ~bit
                pool[one, USED] &= ~bit
        if count:
            # what differed in this operation only may be superfluous now
            if len(pool) < left:
                pool = np.empty((2 * left, COLUMNS), dtype=np.int64)
                spent = np.empty((2 * left, many), dtype=np.int32)
            filled = compared = 0
            for one in range(count):
                if wide[one, NEXT] == GONE or not wide[one, DONE] & bit or wide[one, FLAGS] & PASSED:
                    continue
                config = (wide[one, STATE], wide[one, DONE] & ~bit, wide[one, USED] & ~bit, 0, wide[one, SPENT])
                fresh, looked = keep(pool, spent, filled, head, mode, free & ~bit, config, wide_spent[one], -1)
                compared += looked
                if fresh:
                    filled += 1
            steps += compared // WORK_A_STEP
            for one in range(filled):
                head[pool[one, STATE]] = END
            kept = 0
            for one in range(filled):
                if pool[one, NEXT] != GONE:
                    if one != kept:
                        pool[kept] = pool[one]
                        spent[kept] = spent[one]
                    kept += 1
            if kept > width:
                dropped = 1
                kept = thinned(pool, spent, wide, wide_spent, kept, width)
        at += 1
        returns += 1
        opened[place] = -1
        if what == READ:
            seen[a[op]] &= ~bit
        elif what == OTHER:
            unlike &= ~bit
            apart[a[op]] &= ~bit
        else:
            to = 0
            while movers[to] != op:
                to += 1
            open_movers -= 1
            while to < open_movers:
                movers[to] = movers[to + 1]
                to += 1
            if what == WRITE:
                total &= ~bit
            else:
                wanted[a[op]] &= ~bit
    for place in range(len(opened)):
        op = opened[place]
        if op >= 0:
            seen[a[op]] = apart[a[op]] = wanted[a[op]] = 0
    for kind in range(many):
        is_free[kind_a[kind]] = 0
    ctl[AT], ctl[RETURNS], ctl[MOVERS], ctl[KEPT] = at, returns, open_movers, kept
    ctl[STEPS], ctl[DROPPED], ctl[STAMP] = steps, dropped, stamp
    return code, pool, spent


def thinned(pool: Array, spent: Array, wide: Array, wide_spent: Array, kept: int, width: int) -> int:
    """Keep the best rows: those that owe least and may use most. How many; ``wide`` has room for all."""
    merit = np.empty(kept, dtype=np.int64)
    least = 1 << 60
    for one in range(kept):
        merit[one] = bit_count(pool[one, USED]) + pool[one, SPENT] - bit_count(pool[one, DONE])
        least = min(least, merit[one])
    places = np.zeros(SPREAD + 1, dtype=np.int64)
    for one in range(kept):
        merit[one] = min(merit[one] - least, SPREAD - 1)
        places[merit[one] + 1] += 1
    for step in range(SPREAD):
        places[step + 1] += places[step]
    for one in range(kept):
        to = places[merit[one]]
        places[merit[one]] += 1
        wide[to] = pool[one]
        wide_spent[to] = spent[one]
    pool[:width] = wide[:width]
    spent[:width] = wide_spent[:width]
    return width


COMPILED = ("assign", "bit_count", "grown", "extend", "leads", "keep", "thinned", "stretch")
"""What numba compiles: each after what it calls."""
