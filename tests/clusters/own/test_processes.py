"""Several processes a node: what the file says of them, in which order they start, and what is refused."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.host.once import first_from
from dethrone.clusters.own.host.supervisor import due
from dethrone.clusters.own.processes import ProcessTable, in_order, waits_for
from dethrone.clusters.own.supervising import understood
from dethrone.clusters.own.system import OwnSystem
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Composed, Described, No, Yes
from tests.clusters.own.described import TEXT, described, specs

COMMAND = "command = \"/opt/mine --id {name} --peers {members} --log '{log_dir}/x y'\"\n"
TRACE = 'events = ["elected", "vote_granted", "term_changed", "stepped_down", "committed"]'
SEVERAL = """
[[process]]
name = "watch"
command = "watch {address}:{peer} {incarnation}"
after = "store"
ready = { log = 'up at \\d+' }
log = "{log_dir}/own.txt"

[[process]]
name = "store"
command = ["/opt/store", "{run_dir}/a b"]
ready = { port = "peer" }

[[node.first]]
command = "join {first}"
on = "others"
after = "store"

[[node.first]]
command = "initialise {data_dir}"

[setup]
command = "make-cluster {members}"
until = "cluster-state"
pattern = "^ok"

[probe]
"""
CHANGES = ((COMMAND, ""), (TRACE, TRACE + '\nfile = "{log_dir}/store.log"'), ("[probe]\n", SEVERAL.lstrip()))


def several(*more):
    return described(*CHANGES, *more)


def refused(*more):
    with pytest.raises(ConfigError) as error:
        several(*more)
    return error.value


def told(description, name):
    system = OwnSystem(description)
    files = system.files(specs(system)[name])
    return json.loads(files["/r/supervisor.json"])


def test_a_description_with_one_command_is_exactly_that_process():
    system = OwnSystem(described())
    assert system.processes() == ()
    assert system.started() == ()
    assert system.logs(specs(system)["n1"]) == ()
    assert system.command(specs(system)["n1"]).argv[0] == "/opt/mine"
    assert "/r/supervisor.py" not in system.files(specs(system)["n1"])


def test_several_processes_are_one_node_behind_a_supervisor_with_a_log_each():
    description = several()
    system = OwnSystem(description)
    assert isinstance(system, Composed)
    assert isinstance(system, Described)
    node = specs(system)["n2"]
    assert system.command(node).argv == ("/py", "-SE", "/r/supervisor.py", "/r/supervisor.json", "{incarnation}")
    assert system.processes() == ("store", "watch")
    assert system.logs(node) == ("/l/store.log", "/l/watch.log")
    store, watch = told(description, "n2")["processes"]
    assert store["argv"] == ["/opt/store", "/r/a b"]
    assert (store["ready"], store["output"], store["log"]) == ({"port": 7000}, "/l/store.log", "/l/store.log")
    assert watch["argv"] == ["watch", "10.0.0.2:7000", "{incarnation}"]
    assert (watch["after"], watch["log"], watch["ready"]) == (["store"], "/l/own.txt", {"log": r"up at \d+"})


def test_commands_of_the_first_start_and_the_setup_reach_the_nodes_that_run_them_in_their_order():
    description = several()
    first, other = told(description, "n1"), told(description, "n3")
    assert [one["argv"] for one in first["first"]] == [["initialise", "/d"]]
    assert [one["argv"] for one in other["first"]] == [["initialise", "/d"], ["join", "10.0.0.1"]]
    assert [one["after"] for one in other["first"]] == [None, "store"]
    assert first["setup"]["argv"][:1] == ["make-cluster"]
    assert (first["setup"]["until"], first["setup"]["pattern"]) == (["cluster-state"], "^ok")
    assert other["setup"] is None


def test_doctor_is_told_how_a_node_starts_step_by_step():
    assert understood(several()) == (
        "first start of each node, before anything starts: initialise {data_dir}",
        "store starts; ready when it listens on peer",
        "first start of others, once store is ready: join {first}",
        r"watch starts, once store is ready; ready when a line of its log matches 'up at \\d+'",
        "setup, once for the cluster, on n1: make-cluster {members}, until cluster-state succeeds",
    )


def test_one_command_with_a_first_start_keeps_its_output_where_it_was():
    description = described(("[probe]", '[node.first]\ncommand = "initialise"\n[probe]'))
    assert OwnSystem(description).processes() == ()
    (process,) = told(description, "n1")["processes"]
    assert (process["name"], process["output"], process["log"]) == ("node", None, "/l/node.log")


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        (("[node]\n", '[node]\ncommand = "x"\n'), "[node]", "both [node] command and [[process]]"),
        (('name = "store"', 'name = "Store"'), "name", "no name of a process"),
        (('name = "store"', 'name = "node"'), "name", "no name of a process"),
        (('name = "store"', 'name = "watch"'), "[[process]]", "two processes"),
        (('after = "store"\nready', 'after = "stor"\nready'), "watch after", "did you mean 'store'"),
        (("ready = { port", 'after = "watch"\nready = { port'), "after", "can start first"),
        (('{ port = "peer" }', '{ port = "pear" }'), "store ready port", "did you mean 'peer'"),
        (('{ port = "peer" }', '{ http = "/up" }'), "store ready", "one of port"),
        (('{ port = "peer" }', '{ http = "up", port = "peer" }'), "store ready http", "no path"),
        (('{ port = "peer" }', '{ log = "(" }'), "store ready log", "no pattern"),
        (('{ port = "peer" }', "{ }"), "store ready", "given: none"),
        (('{ port = "peer" }', '{ prot = "peer" }'), "store ready", "did you mean 'port'"),
        (('log = "{log_dir}/own.txt"', 'log = "own.txt"'), "watch log", "no absolute path"),
        (("{address}:{peer} {inc", "{adress}:{peer} {inc"), "watch command", "{address}"),
        (('on = "others"', 'on = "other"'), "[node.first] on", "no node"),
        (('on = "others"\nafter = "store"', 'on = "others"\nafter = "stor"'), "[node.first] after", "'store'"),
        (("initialise {data_dir}", "initialise {data}"), "[node.first] command", "{data_dir}"),
        (('command = "make-cluster {members}"', ""), "[setup]", "wrong form"),
        (('until = "cluster-state"', 'until = "cluster-state"\non = "all"'), "[setup] on", "no node"),
        (('pattern = "^ok"', 'pattern = "("'), "[setup] pattern", "no pattern"),
        (('\nfile = "{log_dir}/store.log"', ""), "[trace] file", "{log_dir}/store.log"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(change, where, said):
    error = refused(change)
    assert where in error.where
    assert said in str(error)


def test_a_node_that_runs_nothing_is_refused():
    with pytest.raises(ConfigError, match="not said what a node runs"):
        described((COMMAND, ""))


def test_a_command_on_a_node_that_the_cluster_lacks_is_refused_before_anything_starts():
    system = OwnSystem(several(('on = "others"', 'on = ["n2", "n4"]')))
    with pytest.raises(ConfigError, match="n4"):
        system.files(specs(system)["n1"])


def test_a_fault_may_name_one_of_the_processes_and_no_other():
    system = OwnSystem(several())
    assert isinstance(system.fault_support("kill:store"), Yes)
    answer = system.fault_support("pause:stoer")
    assert isinstance(answer, No)
    assert "store, watch" in answer.what_to_do
    assert isinstance(system.fault_support("descriptors"), No)
    assert isinstance(OwnSystem(described()).fault_support("descriptors"), Yes)
    assert isinstance(OwnSystem(described()).fault_support("kill:node"), No)


# --- the order, as a pure function --------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    names = [f"p{number}" for number in range(draw(st.integers(1, 6)))]
    tables = [
        ProcessTable(name=name, command="x", after=tuple(draw(st.sets(st.sampled_from(names[:at]))) if at else ()))
        for at, name in enumerate(names)
    ]
    return draw(st.permutations(tables))


@given(graphs())
def test_each_process_comes_after_those_that_it_waits_for_and_all_can_be_started(tables):
    ordered = in_order(tables, where="file")
    assert sorted(one.name for one in ordered) == sorted(one.name for one in tables)
    said = [{"name": one.name, "after": waits_for(one)} for one in ordered]
    begun: list[str] = []
    while len(begun) < len(tables):
        fresh = due(said, alive=begun, ready=begun, held=())
        assert fresh
        for name in fresh:
            assert set(waits_for(next(one for one in tables if one.name == name))) <= set(begun)
        begun += fresh
    assert due(said, alive=begun, ready=begun, held=()) == []


def test_what_is_held_down_is_not_due_and_what_waits_for_it_neither():
    said = [{"name": "a", "after": []}, {"name": "b", "after": ["a"]}]
    assert due(said, alive=(), ready=(), held=("a",)) == []
    assert due(said, alive=("b",), ready=("b",), held=()) == ["a"]


def test_processes_that_wait_for_nothing_keep_the_order_of_the_file():
    tables = [ProcessTable(name=name, command="x") for name in "cab"]
    assert [one.name for one in in_order(tables, where="file")] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("done", "empty", "number"),
    [
        (None, True, 0),
        (None, False, 0),
        ({"count": 2, "held": True}, False, 2),
        ({"count": 2, "held": True}, True, 0),
        ({"count": 1, "held": False}, True, 1),
    ],
)
def test_a_first_start_goes_on_where_it_was_and_a_wiped_node_has_another(done, empty, number):
    assert first_from(done, empty=empty) == number


def page_blocks(beginning):
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"^```toml\n({beginning}.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert blocks
    return blocks


def test_the_reference_shows_redis_with_sentinel_and_its_replicas_follow_the_first_node_once():
    (redis,) = page_blocks("# Redis")
    rest = TEXT[TEXT.index("[probe]") :].replace('port = "peer"', "").replace("[ops]", '[ops]\nport = "redis"')
    rest = rest.replace('http = "/status"', 'http = "/status"\nport = "redis"').replace(
        TRACE, TRACE + '\nfile = "{log_dir}/redis.log"'
    )
    description = described(text=redis + rest)
    system = OwnSystem(description)
    assert (system.name, system.processes()) == ("my-redis", ("redis", "sentinel"))
    assert system.image() == "node+redis-server+redis-sentinel"
    assert told(description, "n1")["first"] == []
    follow, _ = told(description, "n2")["first"]
    assert follow["argv"] == ["redis-cli", "-h", "10.0.0.2", "-p", "6379", "replicaof", "10.0.0.1", "6379"]
    files = system.files(specs(system)["n3"])
    assert b"sentinel monitor primary 10.0.0.1 6379 2\n" in files["/r/sentinel.conf"]


def test_the_reference_shows_a_setup_with_every_key():
    (setup,) = page_blocks(r"\[setup\]")
    found = described(("[probe]\n", f"{setup}\n[probe]\n")).starting.setup
    assert found is not None
    assert all(getattr(found, key) for key in found.__struct_fields__)


def test_the_reference_text_of_these_tests_is_still_a_description():
    assert described(text=TEXT).starting.plain
