"""The words of one node of a description: what ``{name}``, ``{members}`` and the others stand for on its host.

Guarantees: pure; a function of the description and the node. Out of scope: which words a text may hold (``parse``), and
filling them in (``words``).
"""

from __future__ import annotations

from collections.abc import Iterable

from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.voting import voters_of
from dethrone.clusters.own.words import fill
from dethrone.harness.core.interfaces import NodeSpec


def words_of(description: Description, node: NodeSpec) -> dict[str, str]:
    """All words of this node but ``{incarnation}``, which the agent knows."""
    table, voting = description.node, description.membership.voting
    voters = voters_of(voting, tuple(node.members), node.knobs, path=description.path)
    forms = {name: table.member if name in voters else table.observer_member or table.member for name in node.members}
    said = {name: fill(form, member_words(description, name, node)) for name, form in forms.items()}

    def joined(names: Iterable[str]) -> str:
        return table.join.join(said[name] for name in names)

    return {
        **member_words(description, node.name, node),
        **node.knobs,
        "members": joined(said),
        "others": joined(name for name in said if name != node.name),
        "voters": joined(voters),
        "observers": joined(name for name in said if name not in voters),
        "role": voting.roles[node.name not in voters],
        **places_of(node),
        "first": next(iter(node.members.values())),
        "nodes": str(len(node.members)),
        "python": node.python,
        "seed": str(node.seed),
    }


def member_words(description: Description, name: str, node: NodeSpec) -> dict[str, str]:
    """The words that speak of one member."""
    ports = {port: str(number) for port, number in description.node.ports.items()}
    number = str(list(node.members).index(name) + 1)
    return {**ports, "name": name, "number": number, "address": node.members[name]}


def ids_of(description: Description, node: NodeSpec) -> dict[str, str]:
    """What an answer calls a member → its name."""
    form = description.probe.member_id
    return {fill(form, member_words(description, name, node)): name for name in node.members}


def places_of(node: NodeSpec) -> dict[str, str]:
    """The words of its directories."""
    return {"run_dir": node.run_dir, "data_dir": node.data_dir, "log_dir": node.log_dir}
