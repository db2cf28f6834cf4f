"""A finding that is worded anew keeps the signature that 0.1.0 gave it."""

from __future__ import annotations

import pytest

from dethrone.harness.core.earlier_rules import earlier
from dethrone.harness.core.signature import fold

NODES = ("n1", "n2", "n3")
WORDINGS = [
    (
        "lost: 2 was there before a read that shows only 1 values without it; no later read shows it.",
        "lost: 2 was there before a read that shows only 1 values without it; no later read shows more.",
    ),
    (
        "stale: 5 values were there before a read that shows only 1 values; a later one shows all of them.",
        "stale: 5 values were there before a read that shows only 1 values without it; a later one shows it.",
    ),
    (
        "n2 still claimed to lead term 2, 4.98 s after losing its majority (limit 574 ms).",
        (
            "n2 still claims to lead term 2 4.984 s after it was cut off from hearing a majority; at most 573.9 ms is"
            " promised."
        ),
    ),
    (
        "n2 still claimed to lead term 2 of group g, 2 min 5 s after losing its majority (limit 574 ms).",
        (
            "n2 still claims to lead term 2 of group g 125.000 s after it was cut off from hearing a majority; at most"
            " 573.9 ms is promised."
        ),
    ),
    (
        "n1, n2, n3 had no leader for 6 s (limit 2 s), although all could talk to each other (majority).",
        (
            "n1, n2, n3 could all talk to each other (majority) and had no leader for 6.000 s; at most 2.000 s is"
            " promised."
        ),
    ),
    (
        (
            "n1, n2 lost their leader and elected none for 6 s (limit 2 s, and noise of the hosts explains 1.2 s more),"
            " although all could talk to each other (clique)."
        ),
        (
            "n1, n2 could all talk to each other (clique) and lost its leader and had none again for 6.000 s; at most"
            " 2.000 s is promised, and noise of the hosts explains 1.200 s more."
        ),
    ),
    (
        (
            "n1 stood for election 8 times in a row of group g within 2.1 s (limit 5) and neither led nor followed a"
            " leader, although n1, n2, n3 could all talk to each other (clique)."
        ),
        (
            "n1 sought to lead 8 times in a row of group g, for 2.100 s, and neither led nor followed anybody, although"
            " n1, n2, n3 could all talk to each other (clique); at most 5 times is promised."
        ),
    ),
    (
        (
            "Several candidates split the vote and none won in 14 of 14 terms with a candidate of "
            "group g (limit 30 %, and"
            " chance explains no more)."
        ),
        (
            "In 14 of 14 terms in which somebody stood of group g, several stood at once and nobody "
            "won; at most 30 % of"
            " them may end so, and chance does not explain more."
        ),
    ),
    (
        "n2 voted for n1 in term 2, then refused the repeated request of n1 because of that same vote.",
        (
            "n2 voted for n1 in term 2, and when that one asked again, for want of an answer, "
            "refused it because of that"
            " very vote."
        ),
    ),
    (
        "n1 stood for election in term 3 although it knew that its removal (entry 4) was committed.",
        "n1 sought to lead term 3 although it knew that its removal (entry 4) was committed.",
    ),
    (
        "n1 reported entry 4 of its term 2 as committed when only n1 of the members n1, n2, n3 had stored it.",
        "n1 told that entry 4 of its term 2 was committed when only n1 of the members n1, n2, n3 had stored it.",
    ),
    (
        "n1 reported entry 4 of its term 2 as committed when none of the members n1, n2, n3 had stored it.",
        "n1 told that entry 4 of its term 2 was committed when only nobody of the members n1, n2, n3 had stored it.",
    ),
    (
        "A client saw no holder of l of group g while c1 (token 4) certainly held it.",
        "Nobody was seen to hold l of group g while c1 (token 4) certainly did.",
    ),
    (
        "c1 renewed token 4 of l after token 9 had been granted to another owner.",
        "c1 renewed token 4 of l after token 9 had been told to somebody.",
    ),
    (
        "c1 renewed token 4 of l after token 9 had been granted to c2.",
        "c1 renewed token 4 of l after token 9 had been told to c2.",
    ),
    (
        "c1 was given token 4 of l, which c2 had received before.",
        "c1 was given token 4 of l, which c2 had been told before.",
    ),
    ("token: a and b both received token 3 of the lock.", "token: a and b were both told token 3 of the lock."),
    (
        "token: a and b received token 3 and then token 2 of the lock.",
        "token: a and b were told token 3 and after it token 2 of the lock.",
    ),
    (
        "After a heal n1 had not committed up to 4, which n2 had reported before the heal.",
        "After a heal n1 had not committed up to 4, which n2 had told before the heal.",
    ),
    ("committed in term 1: a client received the acknowledgement.", "committed in term 1: a client was told so."),
    (
        "n1 could not read it, and continued: it voted in term 1.",
        "n1 could not read it, and went on: it voted in term 1.",
    ),
    ("1 stands in it, but no client had written it.", "1 stands in it, but nobody had written it."),
    ("1 was decided, but it had not been proposed there.", "1 was decided, but nobody had proposed it there."),
    (
        "phantom: a read shows 3, which no client can have written before it returned.",
        "phantom: a read shows 3, which nobody can have written before it returned.",
    ),
    ("phantom: a read shows 3, which no client appended.", "phantom: a read shows 3, which nobody appended."),
    ("phantom: a read shows 3, which no client added.", "phantom: a read shows 3, which nobody added."),
    ("A read answered 3, which no client ever wrote.", "A read answered 3, which nobody ever wrote."),
    ("A dequeue answered 3, which no client ever put in.", "A dequeue answered 3, which nobody ever put in."),
    (
        "A dequeue had answered 3 before any client began to put it in.",
        "A dequeue had answered 3 before anybody began to put it in.",
    ),
    (
        "It leads back to itself, and no other operation wrote one of these values.",
        "It leads back to itself, and nobody else wrote one of these values.",
    ),
    (
        "lost: 3; no reader ever polled it, though one went past that index.",
        "lost: 3; nobody ever polled it, though a reader went past that index.",
    ),
]


@pytest.mark.parametrize(("today", "before"), WORDINGS, ids=[before[:40] for _, before in WORDINGS])
def test_the_wording_of_today_and_that_of_0_1_0_are_one_rule(today, before):
    rule = fold(before, NODES)
    assert earlier(fold(today, NODES)) == rule
    assert fold(today, NODES) != rule, "the wording has not changed: drop the line"


@pytest.mark.parametrize("before", [before for _, before in WORDINGS])
def test_a_rule_of_0_1_0_stays_as_it_is(before):
    rule = fold(before, NODES)
    assert earlier(rule) == rule
