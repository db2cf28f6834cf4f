"""Histories of other tools: EDN whatever its shape and however it is cut, and bad input told by its line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core.errors import ConfigError, HistoryError
from dethrone.harness.core.foreign.edn import DEPTH_MAX, forms
from dethrone.harness.core.foreign.reading import READERS, read_file, read_pieces
from dethrone.harness.core.operations import NEVER, identity

REGISTER = ("read", "write", "cas")


def read(text, form="jepsen-edn", functions=REGISTER, **named):
    data = text if isinstance(text, bytes) else text.encode()
    return read_pieces([data], form, functions, where="h", **named)


def refused(text, form="jepsen-edn", functions=REGISTER, **named):
    with pytest.raises(HistoryError) as error:
        read(text, form, functions, **named)
    return str(error.value)


def edn(kind, process, f="read", value="nil", more=""):
    return f"{{:type :{kind}, :process {process}, :f :{f}, :value {value}{more}}}\n"


def line(kind, process, f="read", value=None, **more):
    return json.dumps({"type": kind, "process": process, "f": f, "value": value, **more}) + "\n"


# --- EDN --------------------------------------------------------------------------------------------------------

words = st.from_regex(r"[a-z][a-z0-9.?*+!-]{0,6}", fullmatch=True)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**20), max_value=10**20),
    st.text(max_size=8),
    words.map(lambda word: ":" + word),
)
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(words.map(lambda word: ":" + word), inner, max_size=4),
        st.frozensets(atoms, max_size=3),
    ),
    max_leaves=20,
)
gaps = st.sampled_from([" ", "\n", ", ", "  ", " ; a comment } ]\n", " #_ [1 {:a 2}] ", "\t"])


def written(value, gap) -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        if value.startswith(":") and len(value) > 1 and '"' not in value and " " not in value:
            return value
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, dict):
        return "{" + gap.join(written(k, gap) + gap + written(v, gap) for k, v in value.items()) + "}"
    if isinstance(value, frozenset):
        return "#{" + gap.join(written(item, gap) for item in value) + "}"
    return "[" + gap.join(written(item, gap) for item in value) + "]"


def plain(value) -> bool:
    """Text that begins like a keyword and is none cannot be told from one here."""
    if isinstance(value, str):
        return not value.startswith(":") or (
            len(value) > 1 and value[1:].replace("-", "a").isalnum() and value.isascii()
        )
    if isinstance(value, dict):
        return all(map(plain, value.values()))
    return not isinstance(value, tuple | frozenset) or all(map(plain, value))


@given(st.lists(values.filter(plain), min_size=1, max_size=4), gaps, st.integers(min_value=1, max_value=9))
def test_edn_is_read_back_however_it_is_cut(wanted, gap, size):
    text = gap.join(written(value, gap) for value in wanted) + "\n"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = [value for value, _ in forms(pieces, "h")]
    assert list(map(identity, found)) == list(map(identity, wanted))


@given(st.text(alphabet='[]{}()#":\\;_ \n,a1-nil', max_size=40))
def test_any_text_is_read_or_refused_with_its_line(text):
    try:
        list(forms([text], "h"))
    except HistoryError as error:
        assert "line" in error.where  # noqa: PT017 - either outcome is right


def test_a_form_without_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("dethrone.harness.core.foreign.edn.FORM_MAX", 10_000)
    taken = []

    def pieces():
        yield "\n[\n{:type :ok, :value ["
        for _ in range(10_000):
            taken.append(1)
            yield "1 " * 500

    with pytest.raises(HistoryError) as error:
        list(forms(pieces(), "h", unpack=True))
    assert ("line 3" in error.value.where, len(taken) < 20) == (True, True)


def test_many_forms_are_no_form_without_end(monkeypatch):
    monkeypatch.setattr("dethrone.harness.core.foreign.edn.FORM_MAX", 10_000)
    for ops in (["{:a [1 2 3]}"] * 5000, ["{:a [1 2", " 3]} {:a 2} {:a {:b"] + [" 1}} {:a {:b"] * 4997 + [" 1}}"]):
        assert sum(1 for _ in forms(["[", *ops, "]"], "h", unpack=True)) == 5000


def test_a_character_that_was_escaped_in_two_halves_is_one():
    assert [value for value, _ in forms(['"\\ud83d\\ude00"'], "h")] == ["\U0001f600"]


def test_edn_that_histories_do_not_need_is_understood_as_well():
    text = '#inst "2020" \\a \\newline 1.5M 2N #foo.Bar{:a 1} ^{:doc "x"} [sym] (1 2) "\\u0041\\n"'
    assert [value for value, _ in forms([text], "h")] == ["2020", "a", "\n", 1.5, 2, {":a": 1}, ("sym",), (1, 2), "A\n"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("\n\n[1 2", "line 3"),
        ('\n"abc', "line 2"),
        ("{:a 1}\n}", "line 2"),
        ("[1\n)", "line 2"),
        ("\n\n{:a}", "line 3"),
        ("\n{{:a #{}} 1} 1/2", "line 2"),
        ('"\\q"', "line 1"),
        ("\n" + "[" * (DEPTH_MAX + 1), "line 2"),
        ("[" * 1_000_000, "line 1"),
        ("1" * 5000, "line 1"),
    ],
)
def test_broken_edn_is_refused_with_its_line(text, where):
    with pytest.raises(HistoryError) as error:
        list(forms([text], "h"))
    assert where in error.value.where


# --- the formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["one after another", "vector", "list"])
def test_jepsens_histories_in_every_shape(shape):
    body = (
        edn("invoke", 0, "write", "1", ", :time 5, :index 0")
        + "{:type :info, :process :nemesis, :f :start, :value {:a [1 #{2}]}, :time 5, :index 1}\n"
        + edn("invoke", 1, "cas", "[1 2]", ", :time 6, :index 2")
        + edn("ok", 0, "write", "1", ", :time 7, :index 3")
        + edn("fail", 1, "cas", "[1 2]", ', :time 8, :index 4, :error "no: {:a 1} \\"x\\""')
        + edn("invoke", 2, "read", "nil", ", :time 9, :index 5")
    )
    text = {"one after another": body, "vector": f"[{body}]", "list": f"\n({body})"}[shape]
    found = read(text)
    first = 2 if shape == "list" else 1
    assert [(op.f, op.status, op.value, op.invoked, op.returned, op.line) for op in found.rows] == [
        ("write", "ok", 1, 0, 2, first),
        ("cas", "fail", (1, 2), 1, 3, first + 2),
        ("read", "info", None, 4, NEVER, first + 5),
    ]
    assert [(op.invoked_ns, op.returned_ns) for op in found.rows] == [(5, 7), (6, 8), (9, -1)]
    assert found.notes == {"events_of_others": 1}
    assert found.doubts == ()


def test_maps_of_plain_values_and_others_are_read_alike():
    plain_map = edn("invoke", 0, "write", "7") + edn("ok", 0, "write", "7")
    odd = plain_map.replace("7", "#_ x 7")
    assert [op.value for op in read(plain_map).rows] == [op.value for op in read(odd).rows] == [7]


def test_independent_tuples_are_split_by_their_keys():
    text = (
        edn("invoke", 0, "write", "[7 1]")
        + edn("ok", 0, "write", "[7 1]")
        + edn("invoke", 0, "read", "[:k nil]")
        + edn("ok", 0, "read", "[:k 5]")
        + edn("invoke", 0, "cas", "[7 [1 2]]")
    )
    assert [(op.key, op.value, op.result) for op in read(text).rows] == [
        (7, 1, 1),
        (":k", None, 5),
        (7, (1, 2), None),
    ]


def test_pairs_of_a_cas_are_no_keys():
    text = edn("invoke", 0, "cas", "[1 2]") + edn("ok", 0, "cas", "[1 2]") + edn("invoke", 0, "read")
    assert [op.key for op in read(text).rows] == [None, None]


def test_the_etcd_logs():
    text = (
        "INFO  jepsen.core - Worker 1 starting\n"
        "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n"
        "INFO  jepsen.util - :nemesis\t:info\t:start\tnil\n"
        "INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]\n"
        "INFO  jepsen.util - 0\t:fail\t:read\t:timed-out\n"
        "INFO  jepsen.util - 1\t:info\t:cas\t:timed-out\n"
    )
    found = read(text, "jepsen-log")
    assert [(op.f, op.status, op.value, op.line, op.return_line) for op in found.rows] == [
        ("read", "fail", None, 2, 5),
        ("cas", "info", (3, 4), 4, 6),
    ]
    assert found.notes == {"events_of_others": 2}


def test_json_lines():
    text = (
        line("invoke", "a", "write", 1, key="x", time=3)
        + "\n"
        + line("invoke", "b", "read", key="y", node="n1")
        + line("ok", "b", "read", [1, {"k": None}])
        + line("info", "a", "write", 1)
        + line("invoke", "a", "write", 2)
    )
    found = read(text, "jsonl")
    assert [(op.key, op.status, op.result, op.line, op.return_line) for op in found.rows] == [
        ("x", "info", None, 1, 5),
        ("y", "ok", [1, {"k": None}], 3, 4),
        (None, "info", None, 6, 0),
    ]
    assert found.rows[0].process == found.rows[2].process != found.rows[1].process


def test_a_file_is_read_piece_by_piece(tmp_path):
    path = tmp_path / "h.edn"
    path.write_text("".join(edn("invoke", 0, "write", f"{n}") + edn("ok", 0, "write", f"{n}") for n in range(30_000)))
    found = read_file(path, "jepsen-edn", REGISTER)
    assert [op.value for op in found.rows] == list(range(30_000))
    assert found.rows[-1].return_line == 60_000


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("text", ["", "\n \n", "\n\n\n"])
def test_an_empty_file_is_no_history(form, text):
    assert "no operation" in refused(text, form)


def test_a_vector_of_nothing_is_no_history():
    assert "no operation" in refused("[]")


@pytest.mark.parametrize("form", READERS)
def test_a_file_that_is_no_text_is_refused(form):
    assert "UTF-8" in refused(b"\x1f\x8b\x08\x00\xff\xfe", form)


@pytest.mark.parametrize("form", ["jepsen-edn", "jsonl"])
def test_text_that_is_no_history_is_refused_with_its_line(form):
    assert "line 1" in refused("hello world", form)


WRITE = {"jepsen-edn": edn, "jsonl": line}


@pytest.mark.parametrize("form", WRITE)
def test_overlapping_operations_of_one_process(form):
    event = WRITE[form]
    told = refused(event("invoke", 0) + event("invoke", 1) + event("invoke", 0), form)
    assert ("line 3" in told, "of line 1" in told) == (True, True)


@pytest.mark.parametrize("form", WRITE)
def test_a_return_without_a_call(form):
    event = WRITE[form]
    assert "line 3" in refused(event("invoke", 0) + event("ok", 0) + event("ok", 0), form)


@pytest.mark.parametrize("form", WRITE)
def test_a_return_from_another_operation(form):
    event = WRITE[form]
    assert "line 2" in refused(event("invoke", 0, "read") + event("ok", 0, "write"), form)


@pytest.mark.parametrize("form", WRITE)
def test_an_unknown_operation(form):
    told = refused(WRITE[form]("invoke", 0, "dequeue"), form)
    assert ("line 1" in told, "cas, read, write" in told) == (True, True)


@pytest.mark.parametrize("form", WRITE)
def test_an_unknown_type(form):
    assert "line 2" in refused(WRITE[form]("invoke", 0) + WRITE[form]("maybe", 0), form)


@pytest.mark.parametrize("form", ["jepsen-edn", "jsonl"])
def test_times_that_run_backwards_are_counted_and_the_order_of_the_lines_stands(form):
    at = (lambda ns: {"more": f", :time {ns}"}) if form == "jepsen-edn" else (lambda ns: {"time": ns})
    text = "".join(
        WRITE[form](kind, process, **at(ns))
        for kind, process, ns in (("invoke", 0, 7), ("ok", 0, 6), ("invoke", 1, 5), ("ok", 1, 9))
    )
    found = read(text, form)
    assert [row.places for row in found.rows] == [(0, 1), (2, 3)]
    assert found.notes == {"times_backwards": 2}
    told = refused(text, form, timed=True)
    assert ("line 2" in told, "backwards" in told) == (True, True)


def indexed(*rows):
    """Op maps with an index, on a line each; the value of each is its index."""
    return "".join(edn(kind, process, value=index, more=f", :index {index}") for index, kind, process in rows)


def test_the_index_is_the_order_where_there_is_one():
    found = read(indexed((1, "invoke", 1), (0, "invoke", 0), (3, "ok", 0), (2, "ok", 1)))
    assert [(row.process, row.places, row.line) for row in found.rows] == [(0, (0, 3), 2), (1, (1, 2), 1)]


def test_an_index_with_gaps_is_an_order_all_the_same():
    found = read(indexed((7, "invoke", 0), (40, "ok", 0), (20, "invoke", 1), (30, "ok", 1)))
    assert [(row.process, row.places) for row in found.rows] == [(0, (0, 3)), (1, (1, 2))]


@pytest.mark.parametrize("twice", [0, 1, 5])
def test_an_index_that_stands_twice_is_two_histories(twice):
    text = indexed((0, "invoke", 0), (1, "ok", 0), (5, "invoke", 1), (twice, "ok", 1))
    assert "two histories" in refused(text)


def test_a_history_in_which_only_the_nemesis_acts_has_no_operations():
    found = read("{:type :info, :process :nemesis, :f :start, :value nil}\n")
    assert (len(found), found.notes) == (0, {"events_of_others": 1})


@pytest.mark.parametrize("odd", ["{:a 1}", "[{:a {}}]", "#{1}", "7", "nil"])
def test_types_and_operations_that_are_no_words(odd):
    assert "line 1" in refused(f"{{:type {odd}, :process 0, :f :read}}")
    assert "line 1" in refused(f"{{:type :invoke, :process 0, :f {odd}}}")


def test_two_histories_in_one_file_by_their_index():
    one = edn("invoke", 0, more=", :index 0") + edn("ok", 0, more=", :index 1")
    assert "two histories" in refused(one + one)


def test_two_histories_in_one_file_as_two_vectors():
    one = f"[{edn('invoke', 0)}{edn('ok', 0)}]"
    assert "two histories" in refused(one + one)


def test_two_histories_in_one_file_by_a_process_that_comes_back():
    one = edn("invoke", 0, "write", "1") + edn("info", 0, "write", "1")
    assert ("two histories" in refused(one + one), "line 3" in refused(one + one)) == (True, True)


def test_our_own_format_lets_a_thread_go_on_after_a_time_out():
    one = line("invoke", 0, "write", 1) + line("info", 0, "write", 1)
    assert len(read(one + one, "jsonl")) == 2


@pytest.mark.parametrize("form", ["jepsen-edn", "jsonl"])
def test_deeply_nested_values_are_refused_with_their_line(form):
    deep = "[" * 100_000 + "]" * 100_000
    text = edn("invoke", 0, "write", deep) if form == "jepsen-edn" else line("invoke", 0, "write", 1).replace("1", deep)
    assert "line 1" in refused(text, form)


def test_a_line_that_was_cut_off():
    text = line("invoke", 0) + line("ok", 0)
    assert "line 2" in refused(text[:-9], "jsonl")
    assert "line" in refused("[" + edn("invoke", 0)[:-3], "jepsen-edn")


def test_a_log_line_that_is_no_operation():
    assert "line 1" in refused("INFO  jepsen.util - 0\t:invok\t:read\tnil\n", "jepsen-log")


def test_more_operations_than_the_bound_are_said_and_the_first_ones_kept():
    text = "".join(edn("invoke", n, "write", f"{n}") + edn("ok", n, "write", f"{n}") for n in range(5))
    found = read(text, most=3)
    assert [op.value for op in found.rows] == [0, 1, 2]
    assert "more than 3 operations" in found.doubts[0]


def test_keys_in_some_operations_and_not_in_others():
    text = edn("invoke", 0, "read", "[1 nil]") + edn("ok", 0, "read", "[1 2]") + edn("invoke", 0, "read", "nil")
    assert "line 3 names no key" in refused(text)


def test_an_answer_of_another_key():
    text = edn("invoke", 0, "read", "[1 nil]") + edn("ok", 0, "read", "[2 2]")
    assert "line 2" in refused(text)


def test_an_unknown_format_is_wrong_usage():
    with pytest.raises(ConfigError, match="format"):
        read("", "edn")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(HistoryError, match="cannot read"):
        read_file(tmp_path / "nowhere", "jsonl", REGISTER)
