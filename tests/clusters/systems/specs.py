"""Shared by the tests of systems: node specifications."""

from __future__ import annotations

from dethrone.harness.core.interfaces import NodeSpec


def at_loopback(name="n1"):
    """A node at 127.0.0.1, of which only the address counts."""
    return NodeSpec(
        name=name, address="127.0.0.1", members={}, knobs={}, profile="", variant=None, seed=0, data_dir="", log_dir=""
    )


def specs(system, settings=None, *, profile=None, variant=None, count=3, network="10.0.0", root="/x"):
    """Node name → specification of a cluster of ``system``."""
    profile = profile or next(iter(system.profiles()))
    knobs = system.knobs({**system.defaults().settings, **(settings or {})}, profile=profile, variant=variant)
    members = {f"n{i}": f"{network}.{i}" for i in range(1, count + 1)}
    return {
        name: NodeSpec(
            name=name,
            address=address,
            members=members,
            knobs=knobs,
            profile=profile,
            variant=variant,
            seed=7,
            data_dir=f"{root}/{name}/data",
            log_dir=f"{root}/{name}/log",
        )
        for name, address in members.items()
    }
