"""Which client carries out the operations of a description: with a process, where they need a library.

Guarantees: one process for all operations of a table of a client, forked from one that all clients share; it finds the
packages of ``[system] python``. Out of scope: how each operation is carried out (``client``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from dethrone.clusters.own import sql_client
from dethrone.clusters.own.client import OwnClient
from dethrone.clusters.own.client_process import ClientProcess, ClientProgram
from dethrone.clusters.own.node_words import ids_of, member_words
from dethrone.clusters.own.python_packages import unpacked
from dethrone.clusters.own.spec import Description, OpTable
from dethrone.clusters.own.sql_table import given_to_client
from dethrone.harness.core.interfaces import NodeSpec

SQL = Path(sql_client.__file__)


Programs = MutableMapping[str, ClientProgram]
"""What clients share, by what it is made with."""


def client_of(
    description: Description,
    ops: Mapping[str, OpTable],
    port_name: str,
    nodes: Mapping[str, NodeSpec],
    programs: Programs,
) -> OwnClient:
    """A new client of ``ops``, which are asked at this port."""
    port = description.node.ports.get(port_name, 0)
    words = {name: {**node.knobs, **member_words(description, name, node)} for name, node in nodes.items()}
    process = _process(description, ops, nodes, words, programs)
    known: dict[str, Any] = {"ids": ids_of(description, next(iter(nodes.values()))), "words": words}
    known |= {"fresh_reads": description.promise.linearizable_reads, "folder": Path(description.path).parent}
    return OwnClient(nodes, ops, port=port, process=process, **known)


def _process(
    description: Description,
    ops: Mapping[str, OpTable],
    nodes: Mapping[str, NodeSpec],
    words: Mapping[str, Mapping[str, str]],
    programs: Programs,
) -> ClientProcess | None:
    table, system = description.node, description.system
    client = next((op.client for op in ops.values() if op.client), "")
    if not client and not any(op.sql for op in ops.values()):
        return None
    packages = unpacked(system.python, description.path, pinned=description.pinned)
    path = [] if packages is None else [str(packages)]
    folder, given, modules = Path(description.path).parent, {}, set()
    if client:
        for name, node in nodes.items():
            given[name] = {"address": node.address, **table.ports, "knobs": dict(node.knobs)}
    else:
        client, folder = f"{SQL.name}:{sql_client.SqlClient.__name__}", SQL.parent
        given = given_to_client(ops, words, ports=table.ports, knobs=description.knobs, secrets=table.secrets)
        modules = {op.driver for op in ops.values() if op.driver}
    key = json.dumps([client, given, path], sort_keys=True)
    program = ClientProgram(client, folder, given, path=path, modules=sorted(modules))
    return ClientProcess(programs.setdefault(key, program))
