"""Messages over links of bad quality, where the node sees to it: doubled, later, kept back, and none lost."""

from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.node.inbox import WAITING_MAX, Arrival, Inbox, Wish
from dethrone.clusters.node.transport import FAR
from dethrone.harness.core.clock import MS
from dethrone.harness.core.rng import Rng


def inbox(**wishes):
    made = Inbox(Rng(1))
    made.wish({src: Wish(**wish) for src, wish in wishes.items()})
    return made


def message(number, src="b", request=None):
    return Arrival(src, number, request)


def bodies(some):
    return [one.body for one in some]


def test_without_a_wish_messages_are_handled_as_they_come():
    made = inbox(c={"hold": 3})
    assert bodies(made.arrive(0, message(1))) == [1]
    assert (made.next_at, made.counts) == (FAR, {})


def test_the_next_messages_are_kept_back_and_others_pass_them():
    made = inbox(b={"hold": 2})
    assert [bodies(made.arrive(0, message(number))) for number in (1, 2, 3)] == [[], [], [3]]
    assert bodies(made.wish({})) == [1, 2]
    assert made.counts["b"] == {"seen": 3, "held": 2, "released": 2}


def test_a_message_comes_twice_and_a_request_once():
    made = inbox(b={"duplicate_percent": 100, "reorder_ns": 5 * MS})
    assert bodies(made.arrive(0, message(1))) == [1]
    assert bodies(made.arrive(0, message(2, request=7))) == [2]
    assert made.next_at < 5 * MS
    assert bodies(made.due(5 * MS)) == [1]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("bc"))),
    st.builds(
        Wish,
        duplicate_percent=st.integers(0, 100),
        reorder_percent=st.integers(0, 100),
        reorder_ns=st.integers(0, 9),
        hold=st.integers(0, 4),
    ),
)
def test_every_message_is_handled_at_least_once_and_at_most_twice(steps, wish):
    made = inbox(b={name: getattr(wish, name) for name in wish.__struct_fields__})
    now, handled = 0, []
    for number, (later, src) in enumerate(steps):
        now += later
        handled += made.due(now)
        handled += made.arrive(now, message(number, src))
    handled += made.wish({})
    assert made.next_at == FAR or made.next_at <= now + 9
    handled += made.due(now + 9)
    sent = {(src, number) for number, (_, src) in enumerate(steps)}
    seen = [(one.src, one.body) for one in handled]
    assert set(seen) == sent
    assert all(seen.count(one) <= 1 + (one[0] == "b") for one in sent)
    others = [body for src, body in seen if src == "c"]
    assert others == sorted(others)


def test_what_waits_is_bounded():
    made = inbox(b={"hold": 2 * WAITING_MAX})
    passed = [one for number in range(WAITING_MAX + 3) for one in made.arrive(0, message(number))]
    assert len(passed) == made.counts["b"]["overflow"] == 3
