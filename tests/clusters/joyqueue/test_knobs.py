"""The knobs: defaults of the original, both spellings, exact scaling, and every wrong word refused by name."""

from __future__ import annotations

import pytest

from clusters.protocols.joyqueue.knobs import KNOBS, PROFILES, Deferral, Knobs, parse, words
from clusters.protocols.joyqueue.target import TARGET
from harness.core.clock import MS
from harness.core.errors import ConfigError


def test_the_defaults_are_the_originals():
    knobs = parse({})
    assert (knobs.election_timeout_ms, knobs.vote_timeout_ms, knobs.heartbeat_timeout_ms) == (5000, 5000, 1000)
    assert (knobs.send_command_timeout_ms, knobs.transfer_leader_timeout_ms) == (5000, 10_000)
    assert (knobs.executor_thread_num_min, knobs.executor_thread_num_max) == (10, 50)
    assert knobs.heartbeat_max_timeout_ms == 0
    assert (knobs.persist_errors, knobs.callback_term_check) == ("refuse", True)
    assert (knobs.fix_missing_return, knobs.sync_flag_reset) == (False, False)


def test_the_table_and_the_type_agree():
    assert set(KNOBS) == set(Knobs.__struct_fields__)
    assert {name: knob.default for name, knob in KNOBS.items()} == words(Knobs())


@pytest.mark.parametrize("profile", PROFILES)
def test_words_and_knobs_are_each_others_inverse(profile):
    knobs = parse({"defer_task": "n2:vote:800,*:heartbeat:5", "learners": "n4,n5"}, profile=profile)
    assert parse(words(knobs)) == knobs
    assert knobs.defer_task == (Deferral("n2", "vote", 800), Deferral("*", "heartbeat", 5))
    assert knobs.learners == ("n4", "n5")


def test_the_mended_profile_mends_both_oddities_and_the_starved_one_is_late():
    mended = parse({}, profile="joyqueue-mended")
    assert (mended.fix_missing_return, mended.sync_flag_reset) == (True, True)
    assert parse({}, profile="joyqueue-starved").task_delay_max_ms > 0


@pytest.mark.parametrize(("name", "knob"), [(n, k) for n, k in KNOBS.items() if k.original])
def test_the_originals_name_means_the_same_knob(name, knob):
    assert getattr(parse({knob.original: "4000" if name == "election_timeout_ms" else "40"}), name) in {40, 4000}
    with pytest.raises(ConfigError, match="twice"):
        parse({knob.original: "40", name: "40"})


def test_all_times_are_scaled_exactly():
    knobs = parse({"time_factor": "0.002"})
    assert knobs.ns(5000) == 10 * MS
    assert knobs.ns(1) == 2000


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"election_timeout": "1"}, "election_timeout_ms"),
        ({"election_timeout_ms": "0"}, "election_timeout_ms"),
        ({"election_timeout_ms": "-5"}, "election_timeout_ms"),
        ({"election_timeout_ms": "5s"}, "election_timeout_ms"),
        ({"persist_errors": "ignore"}, "refuse"),
        ({"fix_missing_return": "on"}, "true"),
        ({"groups": "0"}, "groups"),
        ({"groups": "17"}, "groups"),
        ({"defer_task": "n2:votes:8"}, "defer_task"),
        ({"defer_task": "n2:vote:x"}, "defer_task"),
        ({"time_factor": "0"}, "time_factor"),
        ({"time_factor": "0.0000001"}, "time_factor"),
        ({"time_factor": "nan"}, "time_factor"),
        ({"executor_thread_num_min": "60"}, "executor_thread_num_min"),
        ({"heartbeat_timeout_ms": "5000"}, "heartbeat_timeout_ms"),
    ],
)
def test_a_wrong_word_is_refused_by_name(settings, said):
    with pytest.raises(ConfigError) as error:
        parse(settings)
    assert said in str(error.value)


def test_an_unknown_profile_names_the_nearest():
    with pytest.raises(ConfigError) as error:
        parse({}, profile="joyqueue-mend")
    assert "joyqueue-mended" in str(error.value)


@pytest.mark.parametrize(
    ("members", "settings", "node"),
    [
        (("A", "A"), {}, "A"),
        ((), {}, "A"),
        (("A",), {}, "B"),
        (("A", "B"), {"learners": "C"}, "A"),
        (("A",), {"learners": "A"}, "A"),
    ],
)
def test_a_core_is_refused_members_that_cannot_be(members, settings, node):
    with pytest.raises(ConfigError):
        TARGET.core(node=node, members=members, knobs=TARGET.knobs(settings), variant=None)


def test_a_core_is_refused_the_knobs_of_others():
    with pytest.raises(ConfigError):
        TARGET.core(node="A", members=("A",), knobs=None, variant=None)
