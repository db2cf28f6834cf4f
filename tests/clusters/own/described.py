"""Descriptions for tests: one small text, changed where a test wants something else."""

from __future__ import annotations

import msgspec

from dethrone.clusters.own.parse import FileRead, parse
from dethrone.clusters.own.system import OwnSystem
from tests.clusters.systems import specs as systems

TEXT = """
[system]
name = "mine"
[node]
command = "/opt/mine --id {name} --peers {members} --log '{log_dir}/x y'"
ports = { peer = 7000, http = 8000 }
[probe]
http = "/status"
role = "raft.state"
term = "raft.term"
leader = "raft.leader"
commit = "raft.commit"
[trace]
events = ["elected", "vote_granted", "term_changed", "stepped_down", "committed"]
[ops]
put = "PUT /kv/{key} {value}"
get = "GET /kv/{key}"
cas = 'POST /kv/{key} {"old": {old}, "value": {value}}'
[promise]
election_timeout = "1s"
heartbeat = "100ms"
tolerates = ["partition", "kill"]
leader_within = "5s"
"""


def read(name):
    """Files that nodes get: only a program called ``prog`` is there."""
    if name != "prog":
        raise FileNotFoundError(name)
    return FileRead(b"\x7fELF", executable=True)


def described(*changes, text=TEXT):
    """The description with each (old, new) replaced; every ``old`` must be there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text, path="my.toml", read=read)


def system(*changes):
    """The same as a system."""
    return OwnSystem(described(*changes))


def specs(of, count=3):
    """Node name → specification."""
    made = systems.specs(of, count=count)
    return {
        name: msgspec.structs.replace(node, data_dir="/d", log_dir="/l", run_dir="/r", python="/py")
        for name, node in made.items()
    }
