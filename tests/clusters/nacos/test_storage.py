from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.targets import client_api
from dethrone.clusters.targets.nacos import storage
from dethrone.clusters.targets.nacos.items import Items
from dethrone.clusters.targets.nacos.messages import Datum, DatumPublish, PublishAck, RaftPeer
from tests.clusters.nacos.spec import One
from tests.world.disk import Disk

keys = st.text(max_size=300) | st.sampled_from([".", "..", "a/b", "x.tmp", "meta.properties", ""])


@given(st.dictionaries(keys, st.integers() | st.text(), max_size=6), st.integers(0, 2**62), st.none() | st.just("n2"))
def test_what_is_written_is_loaded(values, term, vote_for):
    disk = Disk()
    datums = [Datum(key, value, number) for number, (key, value) in enumerate(values.items(), 1)]
    for datum in datums:
        disk.carry_out_all(storage.write_datum("public", datum))
    disk.carry_out_all(storage.write_meta(storage.Meta(term, vote_for)))
    assert storage.load_datums(disk.shown, "public") == datums
    assert storage.load_meta(disk.shown) == storage.Meta(term, vote_for)
    for datum in datums:
        disk.carry_out_all(storage.delete_datum("public", datum.key))
    assert list(disk.shown) == [storage.META]


@given(keys)
def test_every_key_has_a_name_of_its_own_below_the_namespace(key):
    path = storage.datum_path("public", key)
    folder, _, name = path.rpartition("/")
    assert folder == "data/naming/data/public"
    assert name
    assert name not in {".", ".."}
    assert len(name) <= 200
    assert not name.endswith(".tmp")


def test_the_witness_reads_what_a_batch_renamed_into_place():
    ops = storage.write_meta(storage.Meta(3))
    assert storage.meta_written(ops) == storage.Meta(3)
    assert storage.meta_written(ops[:2]) is None
    assert storage.meta_written(storage.delete_meta()) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", storage.Meta()),
        (b"#comment\n! more\n\nterm = 7 \r\nother=1\n", storage.Meta(7)),
        (b"term=3\nvoteFor=n2\n", storage.Meta(3, "n2")),
        (b"term=3\nvoteFor=\n", storage.Meta(3)),
    ],
)
def test_a_properties_file_is_read_leniently(content, expected):
    assert storage.parse_meta(content) == expected


@pytest.mark.parametrize(
    "disk",
    [
        {storage.META: "unreadable"},
        {storage.META: b"term=minus one"},
        {storage.META: b"term=\xff"},
        {"data/naming/data/public/x": "unreadable"},
        {"data/naming/data/public/x": b""},
        {"data/naming/data/public/x": b'{"key":"x","val\xff'},
    ],
)
def test_a_damaged_file_stops_the_node_at_the_start(disk):
    bench = One(disk=disk)
    assert "data/naming/data/" in (bench.halted() or "")
    assert bench.fire("election") == []


def test_files_of_others_and_scratch_files_are_passed_over():
    disk = {
        "journal": "unreadable",
        "data/naming/data/public/x.tmp": b"half",
        storage.META + ".tmp": b"\xff",
        "data/naming/data/other/x": b"{}",
    }
    bench = One(disk=disk)
    assert bench.halted() is None
    assert len(bench.state.items) == 0


def test_the_term_is_written_when_data_is_published_and_at_no_other_time():
    bench = One().put(leader_due_ms=500)
    for event in (lambda: bench.fire("election"), lambda: bench.vote("n2", 9), lambda: bench.beat("n2", 9)):
        event()
        assert not bench.notes("term_persisted")
    source = RaftPeer("n2", "n2", 9, state="LEADER")
    assert bench.ask("n2", DatumPublish(1, Datum("x", 1, 1), source)) == PublishAck(1)
    assert bench.note("term_persisted") == {"stored_term": 9}
    assert bench.note("persisted") == {"stored_term": 9, "voted_for": None}


def test_the_stored_term_of_the_status_is_what_the_disk_confirmed():
    bench = One("n1", standalone="true")
    bench.put(term=4)
    bench.client(client_api.Put("x", 1))
    assert bench.core.status(bench.clocks()).extra["stored_term"] == 0
    bench.disks_done()
    assert bench.core.status(bench.clocks()).extra["stored_term"] == 4


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from(["a", "l/1", "l/2", "l", "m/x"])), max_size=20
    )
)
def test_items_agree_with_a_plain_dictionary(steps):
    items, model = Items(), {}
    for number, (step, key) in enumerate(steps, 1):
        if step == "put":
            items.put(Datum(key, number, number))
            model[key] = number
        else:
            assert items.delete(key) == (model.pop(key, None) is not None)
        listed = sorted(value for name, value in model.items() if name.startswith("l/"))
        assert items.read("l") == model.get("l", listed or None)
        assert items.read("a") == model.get("a")
        assert {stamp.key: stamp.timestamp for stamp in items.stamps()} == model
        assert len(items) == len(model)
