"""Members that do not vote: how many vote is known of any number of nodes, and a run counts them alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.clusters.own.node_words import words_of
from dethrone.clusters.own.voting import Voting, voters_of
from dethrone.clusters.own.words import fill
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Electorate
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from tests.clusters.own.described import TEXT, described, specs, system

NAMES = tuple(f"n{number}" for number in range(1, 10))


def voting(*lines):
    return ("[promise]", "\n".join(["[membership]", *lines, "[promise]"]))


def voters(of, count, **knobs):
    return of.voters(NAMES[:count], knobs, profile="own")


def test_without_a_word_about_it_all_nodes_vote():
    of = system()
    assert isinstance(of, Electorate)
    assert voters(of, 5) == NAMES[:5]
    words = words_of(described(), specs(of)["n2"])
    assert (words["voters"], words["observers"], words["role"]) == (words["members"], "", "voter")


@pytest.mark.parametrize(("nodes", "voting_nodes"), [(1, 1), (3, 3), (5, 3), (7, 3)])
def test_a_number_of_voters_suits_any_number_of_nodes(nodes, voting_nodes):
    assert voters(system(voting("voters = 3")), nodes) == NAMES[:voting_nodes]


def test_observers_are_named_and_a_name_that_the_cluster_lacks_takes_nothing():
    of = system(voting('observers = ["n2", "n4", "n9"]'))
    assert voters(of, 5) == ("n1", "n3", "n5")
    assert voters(of, 3) == ("n1", "n3")


def test_a_knob_may_say_how_many_vote():
    of = system(("[promise]", '[knobs]\nvoting = 3\n[membership]\nvoters = "{voting}"\n[promise]'))
    assert voters(of, 5, voting="4") == NAMES[:4]
    with pytest.raises(ConfigError, match="'none' voters"):
        voters(of, 5, voting="none")


@given(st.integers(1, 9), st.none() | st.integers(1, 12), st.sets(st.sampled_from(NAMES[1:])))
def test_at_least_one_votes_and_they_keep_their_order(count, number, observers):
    nodes = NAMES[:count]
    table = Voting(voters=number, observers=() if number else tuple(sorted(observers)))
    found = voters_of(table, nodes, {}, path="my.toml")
    assert found
    assert [node for node in nodes if node in found] == list(found)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["voters = 0"], "'0' voters"),
        (["voters = -1"], "'-1' voters"),
        (['voters = "three"'], "is no number"),
        (['voters = "{quik}"'], "'quik'"),
        (["voters = true"], "wrong form"),
        (["voters = 3", 'observers = ["n4"]'], "both voters and observers"),
        (['observers = ["leader"]'], "'leader' is no node"),
        (['roles = ["yes", "no"]'], "roles without"),
        (["voters = 3", 'roles = ["yes"]'], "wrong form"),
        (["voterz = 3"], "'voterz'"),
    ],
)
def test_what_cannot_be_meant_is_refused(lines, said):
    with pytest.raises(ConfigError) as error:
        described(voting(*lines), ("[promise]", "[knobs]\nquick = 1\n[promise]"))
    assert said in str(error.value)


def test_a_cluster_of_observers_alone_is_refused():
    with pytest.raises(ConfigError, match="none of n1 votes"):
        voters(system(voting('observers = ["n1"]')), 1)


def test_a_nodes_command_and_files_say_who_votes_each_in_its_form():
    of = system(
        voting("voters = 2", 'roles = ["false", "true"]'),
        ("--id {name}", "--nonvoter={role} --voters={voters} --observers={observers}"),
        ("ports =", 'member = "{name}@{peer}"\nobserver_member = "{name}@{peer}:observer"\nports ='),
    )
    nodes = specs(of, count=4)
    assert of.command(nodes["n3"]).argv[1:6] == (
        "--nonvoter=true",
        "--voters=n1@7000,n2@7000",
        "--observers=n3@7000:observer,n4@7000:observer",
        "--peers",
        "n1@7000,n2@7000,n3@7000:observer,n4@7000:observer",
    )
    assert of.command(nodes["n1"]).argv[1] == "--nonvoter=false"


@pytest.mark.parametrize(("on", "runs"), [("observers", ["n3", "n4"]), ("voters", ["n1", "n2"])])
def test_a_command_of_the_first_start_may_be_that_of_voters_or_of_observers(on, runs):
    of = system(voting("voters = 2"), ("[probe]", f'[[node.first]]\ncommand = "add {{name}}"\non = "{on}"\n[probe]'))
    nodes = specs(of, count=4)
    told = {name: json.loads(of.files(node)["/r/supervisor.json"])["first"] for name, node in nodes.items()}
    assert [name for name, first in told.items() if first] == runs


def test_a_plan_of_such_a_system_counts_its_voters_only(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace("[promise]", "[membership]\nvoters = 3\n[promise]"))
    plan = draft(RunOptions(system=str(file), nodes=5), seed=1).plan
    assert (plan.nodes, plan.voters) == (NAMES[:5], NAMES[:3])
    assert draft(RunOptions(system=str(file), nodes=3), seed=1).plan.voters == NAMES[:3]


def test_the_reference_shows_zookeeper_with_observers_and_names_every_key():
    page = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(# with observers.*?)^```$", page, re.MULTILINE | re.DOTALL)
    rest = TEXT[TEXT.index("[probe]") :].replace('"/status"', '"/status"\nport = "client"')
    told = described(text=block + rest.replace("[ops]", '[ops]\nport = "client"'))
    nodes = specs(system(voting("voters = 3")), count=4)
    config = fill(told.node.texts["{run_dir}/zoo.cfg"], words_of(told, nodes["n4"])).splitlines()
    assert config[6:] == [
        "peerType=observer",
        *(f"server.{number}=10.0.0.{number}:2888:3888" for number in (1, 2, 3)),
        "server.4=10.0.0.4:2888:3888:observer",
    ]
    section = page[page.index("#### Members that do not vote") :]
    assert all(f"{field.name} = " in section for field in msgspec.structs.fields(Voting))
