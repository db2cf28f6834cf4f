"""The inner loop of the search for one register, in the part of Python that numba compiles.

What a configuration is, and which are superfluous, stands in ``search`` and ``frontier``; here it is a row of integers
and operations are bits of one word. Operations of unknown outcome that do the same are counted, not distinguished: they
never return, so which of them was used makes no difference. Called through ``fast``, compiled; as plain Python it gives
the same answers, slowly. Guarantees: nothing is kept but the arrays that are passed in. Out of scope: marks to go back
to, widths, budgets.

No array is made, cut or renamed in here: compiled code would count references to it, with an atomic instruction each
time, and spend more than half of its time on that. So rows go by their numbers, and who calls sees to the room.
"""

from __future__ import annotations

from typing import Any

READ, OTHER, WRITE, CAS = 0, 1, 2, 3
"""What an operation does: the value is a; it is not a; it becomes a; it is a and becomes b."""
ASSIGN = -1
"""The mode in which operations get their slots and nothing else is done."""
EXACT, GREEDY, GENEROUS, LAVISH = 0, 1, 2, 3
"""How unknown operations are counted: each kind; all together, fewest first; not at all; only to break a tie.

GENEROUS: what gets stuck, has no order. GREEDY and LAVISH: nothing is spent that is not there, so what fits, fits.
"""
SPARE = 4
"""A value is *free* where this number more unknown writes of it exist than any configuration spent; in GENEROUS mode,
where there is one. What an operation of known outcome leads to is then of no more use, only that it is done."""

SLOTS = 62
"""Operations that may be open at once: bits of a word that stays positive."""
VALUES_LED = 62
"""With more values than that, unknown cas are taken to lead anywhere."""

EVENT_OF_RETURN = -1
"""An event is the number of an operation that is called, or this minus the number of one that returns."""
DOES, A, B, ACTION, RET, SLOT, INFO, OF_AN_OPERATION = 0, 1, 2, 3, 4, 5, 6, 7
"""Columns of an operation. ACTION: equal for those that do the same. INFO: kind of its unknown likes, -1: it returns.
The first four are those of a kind, too. Kinds are in order: writes, then cas by the value that they expect."""
SEEN, APART, WANTED, FREE, HEAD, CAS_FROM, OF_A_VALUE = 0, 1, 2, 3, 4, 5, 6
"""Columns of a value: bits of the open reads that see it, of those that it must not be for, of the cas that want it;
whether it is free; its configurations (END: none); the first kind of cas from it (of the next value: where they end).
All but the last are given back as they came: zeros and END."""

STATE, DONE, USED, NEXT, FLAGS, SPENT, COLUMNS = 0, 1, 2, 3, 4, 5, 6
"""Columns of a configuration. NEXT: the next one in its state, END or GONE. SPENT: unknown operations used."""
END, GONE = -1, -2
FINAL, PASSED = 1, 2
"""FLAGS: not continued from; only passed through."""

AT, RETURNS, MOVERS, KEPT, DROPPED, STEPS, STAMP, REGISTERS = 0, 1, 2, 3, 4, 5, 6, 7
"""Places in ``ctl``."""
GOES_ON, STUCK, STEPS_OUT, MEMORY_OUT, ROOM_OUT = 0, 1, 2, 3, 4
"""Why a stretch ends. STEPS_OUT, ROOM_OUT: the return at which it stopped can be begun again with more."""
WORK_A_STEP = 8
"""Comparisons that cost as much as one configuration."""
SPREAD = 1024
"""Differences of merit distinguished where a frontier is cut to its width."""

Array = Any
"""An array of NumPy; compiled code has its own types."""


def assign(event: Array, ops: Array, free: Array) -> int:
    """A slot for each operation that returns, reused afterwards. Slots needed at once; too many: SLOTS + 1. ``free``:
    room for SLOTS integers."""
    count = slots = 0
    for at in range(len(event)):
        op = event[at]
        if op < 0:
            free[count] = ops[EVENT_OF_RETURN - op, SLOT]
            count += 1
        elif ops[op, INFO] < 0:
            if count > 0:
                count -= 1
                ops[op, SLOT] = free[count]
            elif slots < SLOTS:
                ops[op, SLOT] = slots
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
    by_value: Array,
    mode: int,
    free: int,
    config: tuple[int, int, int, int, int],
    before: Array,
    row: int,
    more: int,
) -> tuple[bool, int]:
    """Write a configuration at ``count`` unless one of its state is as good; unlink those that it makes superfluous.

    ``free``: bits of operations of which it makes no difference whether they were used. ``config``: (state, done, used,
    flags, number spent). It spent what this row of ``before`` says, and one of kind ``more``.
    Whether it was kept, and comparisons made.
    """
    state, done, used, flags, total = config
    kinds = spent.shape[1]
    last = END
    one = by_value[state, HEAD]
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
                mine = before[row, kind] + (1 if kind == more else 0)
                if spent[one, kind] > mine:
                    better = False
                elif spent[one, kind] < mine:
                    worse = False
        if better:
            return False, compared
        if worse:
            pool[one, NEXT] = GONE
            if last == END:
                by_value[state, HEAD] = after
            else:
                pool[last, NEXT] = after
        else:
            last = one
        one = after
    pool[count, STATE], pool[count, DONE], pool[count, USED] = state, done, used
    pool[count, FLAGS], pool[count, SPENT] = flags, total
    if mode != GENEROUS:
        for kind in range(kinds):
            spent[count, kind] = before[row, kind]
    if more >= 0:
        spent[count, more] += 1
    pool[count, NEXT] = by_value[state, HEAD]
    by_value[state, HEAD] = count
    return True, compared


def copied(pool: Array, spent: Array, row: int, to_pool: Array, to_spent: Array, to: int) -> None:
    """One row of the first two arrays, in the other two."""
    for column in range(COLUMNS):
        to_pool[to, column] = pool[row, column]
    for kind in range(spent.shape[1]):
        to_spent[to, kind] = spent[row, kind]


def leads(state: int, reach: Array, by_value: Array, unlike: int) -> bool:
    """Whether unknown cas lead from this state to another one that something needs."""
    if len(reach) == 0:
        return bool(by_value[state, CAS_FROM] < by_value[state + 1, CAS_FROM])
    there = reach[state]
    while there:
        low = bit_count((there & -there) - 1)
        if by_value[low, SEEN] | (unlike & ~by_value[low, APART]) | by_value[low, WANTED]:
            return True
        there &= there - 1
    return False


def extend(reach: Array, old: int, new: int) -> None:
    """Unknown cas lead from ``old`` to ``new``, too, and on to wherever they led from there."""
    further = reach[new] | (1 << new)
    for state in range(len(reach)):
        if state == old or reach[state] & (1 << old):
            reach[state] = (reach[state] | further) & ~(1 << state)


def stretch(
    event: Array,
    ops: Array,
    kinds: Array,
    opened: Array,
    movers: Array,
    available: Array,
    reach: Array,
    most_spent: Array,
    by_value: Array,
    tried: Array,
    places: Array,
    ctl: Array,
    pool: Array,
    spent: Array,
    wide: Array,
    wide_spent: Array,
    mode: int,
    width: int,
    expand_max: int,
    until: int,
    steps_max: int,
    rows_max: int,
) -> int:
    """Continue to return number ``until``, or to where something is dropped for the first time; why it ended. The
    frontier is the first ``ctl[KEPT]`` rows of ``pool`` and ``spent``; ``wide`` and ``wide_spent`` have as many rows.

    opened: by slot, -1: none. movers: those of them that may change the value, the first to return first. available:
    by kind. reach: by value, the others that unknown cas lead to, as bits; none where there are too many. most_spent:
    by kind, of all configurations. tried: by action and whether it was settled, the stamp of the last try. places:
    SPREAD + 1 integers for ``thinned``. Mode ASSIGN: what ``assign`` says, by ``movers`` as its scratch.
    """
    if mode == ASSIGN:
        return assign(event, ops, movers)
    at, returns, open_movers, kept = ctl[AT], ctl[RETURNS], ctl[MOVERS], ctl[KEPT]
    steps, dropped, stamp = ctl[STEPS], ctl[DROPPED], ctl[STAMP]
    calm = dropped == 0
    many, room = len(kinds), len(pool)
    writes = by_value[0, CAS_FROM]
    unlike = total = 0
    for place in range(len(opened)):
        op = opened[place]
        if op >= 0:
            bit = 1 << place
            what, value = ops[op, DOES], ops[op, A]
            if what == READ:
                by_value[value, SEEN] |= bit
            elif what == OTHER:
                unlike |= bit
                by_value[value, APART] |= bit
            elif what == WRITE:
                total |= bit
            else:
                by_value[value, WANTED] |= bit
    code = GOES_ON
    while returns < until and at < len(event):
        op = event[at]
        if op >= 0:
            at += 1
            what, value, kind = ops[op, DOES], ops[op, A], ops[op, INFO]
            if kind >= 0:
                available[kind] += 1
                if available[kind] == 1 and what == CAS and len(reach) > 0:
                    extend(reach, value, ops[op, B])
                continue
            place = ops[op, SLOT]
            opened[place] = op
            bit = 1 << place
            if what == READ:
                by_value[value, SEEN] |= bit
            elif what == OTHER:
                unlike |= bit
                by_value[value, APART] |= bit
            else:
                to = open_movers
                while to > 0 and ops[movers[to - 1], RET] > ops[op, RET]:
                    movers[to] = movers[to - 1]
                    to -= 1
                movers[to] = op
                open_movers += 1
                if what == WRITE:
                    total |= bit
                else:
                    by_value[value, WANTED] |= bit
            continue
        op = EVENT_OF_RETURN - op
        what, value, place = ops[op, DOES], ops[op, A], ops[op, SLOT]
        bit = 1 << place
        observes = what <= OTHER
        pending = 0
        for one in range(kept):
            if observes:
                if (pool[one, STATE] == value) == (what == READ):
                    pool[one, DONE] |= bit
                elif not pool[one, DONE] & bit:
                    pending += 1
            elif not pool[one, USED] & bit:
                pending += 1
        free = 0
        if pending and many and mode >= GENEROUS:
            for kind in range(writes):
                more_than = 0 if mode == GENEROUS else most_spent[kind] + SPARE
                by_value[kinds[kind, A], FREE] = 1 if available[kind] > more_than else 0
            for place_of in range(open_movers):
                other = movers[place_of]
                if by_value[ops[other, A] if ops[other, DOES] == WRITE else ops[other, B], FREE]:
                    free |= 1 << ops[other, SLOT]
        count = 0
        if pending:
            for owing in range(2):
                for one in range(kept):
                    done, used = pool[one, DONE], pool[one, USED]
                    waits = not (done & bit) if observes or free & bit else not (used & bit)
                    if waits != (owing == 1):
                        continue
                    copied(pool, spent, one, wide, wide_spent, count)
                    state = pool[one, STATE]
                    wide[count, FLAGS] = 0 if waits else FINAL
                    wide[count, NEXT] = by_value[state, HEAD]
                    by_value[state, HEAD] = count
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
                    code = ROOM_OUT
                    break
                state, done, used, used_up = wide[one, STATE], wide[one, DONE], wide[one, USED], wide[one, SPENT]
                now = done | by_value[state, SEEN] | (unlike & ~by_value[state, APART])
                flags = PASSED if done & bit and mode != GENEROUS else 0
                stamp += 1
                for place_of in range(open_movers):
                    other = movers[place_of]
                    its = 1 << ops[other, SLOT]
                    blind = ops[other, DOES] == WRITE
                    if used & its or (free & its and (done & its or (mode == GENEROUS and blind))):
                        continue  # used, or an unknown write does as well
                    if not blind and ops[other, A] != state:
                        continue
                    after = ops[other, A] if blind else ops[other, B]
                    gain = by_value[after, SEEN] | (unlike & ~by_value[after, APART])
                    if (
                        blind
                        and its != bit
                        and not (gain & ~now or by_value[after, WANTED] & ~used & ~its)
                        and not (many and leads(after, reach, by_value, unlike))
                    ):
                        continue
                    settled = 1 if done & its else 0
                    if tried[ops[other, ACTION], settled] == stamp:
                        continue
                    tried[ops[other, ACTION], settled] = stamp
                    then = now | gain | its
                    if blind:
                        then |= total
                    gone = used | its
                    end = FINAL if gone & bit or ((observes or free & bit) and then & bit) else flags
                    config = (after, then, gone, end, used_up)
                    fresh, looked = keep(wide, wide_spent, count, by_value, mode, free, config, wide_spent, one, -1)
                    compared += looked
                    if fresh:
                        count += 1
                if many == 0:
                    continue
                for turn in range(writes + by_value[state + 1, CAS_FROM] - by_value[state, CAS_FROM]):
                    kind = turn if turn < writes else by_value[state, CAS_FROM] + turn - writes
                    if available[kind] == 0 or (mode != GENEROUS and wide_spent[one, kind] >= available[kind]):
                        continue
                    blind = turn < writes
                    after = kinds[kind, A] if blind else kinds[kind, B]
                    gain = by_value[after, SEEN] | (unlike & ~by_value[after, APART])
                    instead = free & bit and what == WRITE and blind and after == value
                    if (
                        not instead
                        and not (gain & ~now or by_value[after, WANTED] & ~used)
                        and not leads(after, reach, by_value, unlike)
                    ):
                        continue
                    if tried[kinds[kind, ACTION], 0] == stamp or tried[kinds[kind, ACTION], 1] == stamp:
                        continue
                    then = now | gain
                    if blind:
                        then |= total
                    end = FINAL if (observes or free & bit) and then & bit else flags
                    spends = mode != GENEROUS
                    config = (after, then, used, end, used_up + (1 if spends else 0))
                    more = kind if spends else -1
                    fresh, looked = keep(wide, wide_spent, count, by_value, mode, free, config, wide_spent, one, more)
                    compared += looked
                    if fresh:
                        if spends:
                            most_spent[kind] = max(most_spent[kind], wide_spent[count, kind])
                        count += 1
            for one in range(count):
                by_value[wide[one, STATE], HEAD] = END
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
            count = kept
            for one in range(kept):
                copied(pool, spent, one, wide, wide_spent, one)
                wide[one, NEXT], wide[one, FLAGS] = END, FINAL
                wide[one, DONE] |= bit
        else:
            for one in range(kept):
                pool[one, DONE] &= ~bit
                pool[one, USED] &= ~bit
        if count:
            # what differed in this operation only may be superfluous now
            filled = compared = 0
            for one in range(count):
                if wide[one, NEXT] == GONE or not wide[one, DONE] & bit or wide[one, FLAGS] & PASSED:
                    continue
                config = (wide[one, STATE], wide[one, DONE] & ~bit, wide[one, USED] & ~bit, 0, wide[one, SPENT])
                fresh, looked = keep(pool, spent, filled, by_value, mode, free & ~bit, config, wide_spent, one, -1)
                compared += looked
                if fresh:
                    filled += 1
            steps += compared // WORK_A_STEP
            for one in range(filled):
                by_value[pool[one, STATE], HEAD] = END
            kept = 0
            for one in range(filled):
                if pool[one, NEXT] != GONE:
                    if one != kept:
                        copied(pool, spent, one, pool, spent, kept)
                    kept += 1
            if kept > width:
                dropped = 1
                kept = thinned(pool, spent, wide, wide_spent, places, kept, width)
        at += 1
        returns += 1
        if calm and dropped:
            until = returns
        opened[place] = -1
        if what == READ:
            by_value[value, SEEN] &= ~bit
        elif what == OTHER:
            unlike &= ~bit
            by_value[value, APART] &= ~bit
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
                by_value[value, WANTED] &= ~bit
    for place in range(len(opened)):
        op = opened[place]
        if op >= 0:
            value = ops[op, A]
            by_value[value, SEEN] = by_value[value, APART] = by_value[value, WANTED] = 0
    for kind in range(writes):
        by_value[kinds[kind, A], FREE] = 0
    ctl[AT], ctl[RETURNS], ctl[MOVERS], ctl[KEPT] = at, returns, open_movers, kept
    ctl[STEPS], ctl[DROPPED], ctl[STAMP] = steps, dropped, stamp
    return code


def thinned(pool: Array, spent: Array, wide: Array, wide_spent: Array, places: Array, kept: int, width: int) -> int:
    """Keep the best rows: those that owe least and may use most. How many; ``wide`` has room for all."""
    least = 1 << 60
    for one in range(kept):
        merit = bit_count(pool[one, USED]) + pool[one, SPENT] - bit_count(pool[one, DONE])
        pool[one, NEXT] = merit
        least = min(least, merit)
    for merit in range(SPREAD + 1):
        places[merit] = 0
    for one in range(kept):
        merit = min(pool[one, NEXT] - least, SPREAD - 1)
        pool[one, NEXT] = merit
        places[merit + 1] += 1
    for merit in range(SPREAD):
        places[merit + 1] += places[merit]
    for one in range(kept):
        merit = pool[one, NEXT]
        to = places[merit]
        places[merit] += 1
        if to < width:
            copied(pool, spent, one, wide, wide_spent, to)
    for one in range(width):
        copied(wide, wide_spent, one, pool, spent, one)
    return width
