from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.local import labels
from dethrone.harness.core.errors import ConfigError

WORDS = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Zs")), min_size=1, max_size=40)


@given(run_id=WORDS, state_dir=WORDS)
def test_an_alias_says_what_was_put_into_it_in_one_word(run_id, state_dir):
    try:
        text = labels.alias(run_id=run_id, state_dir=state_dir)
    except ConfigError:
        return
    assert labels.of_alias(text) == (run_id, state_dir)
    assert not any(letter.isspace() for letter in text)
    assert len(text) <= labels.ALIAS_MAX


@given(text=st.text(max_size=60))
def test_an_alias_of_somebody_else_is_not_ours(text):
    if not text.startswith("dethrone.local:"):
        assert labels.of_alias(text) is None


def test_a_state_directory_too_long_for_an_alias_is_refused_by_name():
    with pytest.raises(ConfigError, match="too long"):
        labels.alias(run_id="r", state_dir="/" + "x" * 300)


def test_marks_are_read_back_out_of_an_environment():
    env = labels.environment({"PATH": "/bin", "SECRET": "x"}, run_id="r-1", state_dir="/a b", node="n1")
    raw = b"\0".join(f"{name}={value}".encode() for name, value in env.items())
    assert labels.of_environment(raw) == ("r-1", "/a b", "n1")
    assert "SECRET" not in env


@pytest.mark.parametrize("raw", [b"", b"PATH=/bin", b"DETHRONE_LOCAL_RUN=r", b"DETHRONE_LOCAL_STATE=/x", b"\xff=\xff"])
def test_half_a_mark_is_none(raw):
    assert labels.of_environment(raw) is None
