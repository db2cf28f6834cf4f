"""What a description of a system holds, as frozen data: one struct a table of the TOML file.

Durations are texts (``250ms``) here, as in the file. Out of scope: reading the file (``parse``) and what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from dethrone.clusters.own.clock import ClockTable
from dethrone.clusters.own.headers import AuthTable
from dethrone.clusters.own.maven_jars import Named
from dethrone.clusters.own.processes import Starting
from dethrone.clusters.own.table import Table, Words
from dethrone.clusters.own.tls import Encrypted
from dethrone.clusters.own.voting import Voting
from dethrone.clusters.recipe import name_of


class SystemTable(Table, frozen=True, kw_only=True):
    """``[system]``: ``name`` in reports; ``image``: the one to build hosts on; ``packages``: Debian's, added to it;
    ``debian``: the release that these are of, and that hosts' image is made of [bookworm].
    ``python``: packages of the Python index, ``name==version``, which nodes find wherever they run; ``npm``: of npm,
    ``name@version``.

    ``zones``: labels of the zones of n1, n2 …, repeated where there are more nodes. ``version``: of the build that is
    tested, or the command of this machine that prints it.
    """

    name: str
    zones: tuple[str, ...] = ()
    version: str | None = None
    version_command: Words | None = None
    image: str | None = None
    debian: str | None = None
    packages: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()

    @property
    def recipe(self) -> str:
        """The name of the image recipe that this asks for."""
        return name_of("node", self.packages, self.debian)


class NodeTable(Table, frozen=True, kw_only=True):
    """``[node]``: how a node is started. ``files``: path on the host → file here; ``texts``: → content with words;
    ``go``: → a Go program's directory here, or its package and version, which is built here. ``maven``: a directory on
    the host → artifacts whose jars it holds, with all that they need; ``java``: → Java sources here, compiled here.
    Without ``command``, by the processes that the file names.

    ``member`` is filled in for each node and joined by ``join``: ``{members}``; ``{others}`` omits the node itself;
    ``observer_member``: the same of a node that does not vote [as member].
    ``ports``: name → number; each name is a word. ``secrets``: knobs that are never shown. ``memory`` (``"512m"``,
    ``"4g"``) and ``pids``: what a host may use, where hosts have limits. ``user``, ``capabilities``: as whom, and with
    which; by default a node has a user of its own on its host and none. ``shows``: paths of this machine that nodes
    read with ``--on local``.
    """

    command: Words = ()
    member: str = "{name}={address}"
    observer_member: str | None = None
    join: str = ","
    ports: Mapping[str, int] = {}
    secrets: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    texts: Mapping[str, str] = {}
    go: Mapping[str, str] = {}
    maven: Mapping[str, Named] = {}
    java: Mapping[str, Named] = {}
    cwd: str = "/"
    memory: str | None = None
    pids: int | None = None
    shows: tuple[str, ...] = ()
    user: str | None = None
    capabilities: tuple[str, ...] = ()


class ProbeTable(Table, frozen=True, kw_only=True):
    """``[probe]``: how a node is asked what it is. One of ``http``, ``metrics``, ``command`` and ``log``.

    ``http``: a path, or several, which must all be answered. The fields are places in the answer: a path into JSON, a
    metric, a named group of ``pattern``; ``term`` may be a sum of several (``sums``), and ``leads`` is one or several
    ``conditions``. ``member_id``: what the answer calls a node. ``version``: which of several it is. ``atomic``: role,
    term and leader are of one moment. ``groups``: where JSON holds an object of consensus groups, name → fields, or a
    list of them with the name at ``group``; the other places are then within each. ``headers``, ``auth``, ``tls``: of
    an HTTP request. ``lasting``: the command runs on, and answers each line of its input.
    """

    http: str | tuple[str, ...] | None = None
    metrics: str | None = None
    command: Words | None = None
    lasting: bool = False
    log: str | None = None
    port: str | None = None
    pattern: str | None = None
    became: Mapping[str, str] = {}
    role: str | None = None
    leader_role: str | tuple[str, ...] = "leader"
    leads: str | tuple[str, ...] | None = None
    term: str | None = None
    leader: str | None = None
    member_id: str = "{name}"
    voted_for: str | None = None
    commit: str | None = None
    log_term: str | None = None
    log_index: str | None = None
    incarnation: str | None = None
    version: str | None = None
    groups: str | None = None
    group: str | None = None
    atomic: bool = False
    every: str = "80ms"
    headers: Mapping[str, str] = {}
    auth: AuthTable | None = None
    tls: Encrypted = False


class LogTable(Table, frozen=True, kw_only=True):
    """``[log]``: what the nodes' output says of their end, and of what they do.

    ``fatal``: plain texts; a line that contains one fails the run. ``file``: where they are looked for instead of the
    output. ``exits_ok``: exit codes with which a node may end by itself. ``patterns``: name → regular expression of
    lines that triggers wait for, looked for in the same place; a group ``(?P<term>…)`` is the term.
    """

    fatal: tuple[str, ...] = ()
    file: str | None = None
    exits_ok: tuple[int, ...] = ()
    patterns: Mapping[str, str] = {}


class TraceTable(Table, frozen=True, kw_only=True):
    """``[trace]``: which lines the nodes print (all of them whenever they apply), and where.

    ``voters``: the ``elected`` lines name the voters. ``sometimes``: assertions that must hold once in each run.
    """

    events: tuple[str, ...]
    file: str = "{log_dir}/node.log"
    voters: bool = False
    sometimes: tuple[str, ...] = ()


class OpTable(Table, frozen=True, kw_only=True):
    """One operation, over HTTP or by a command. ``request``: ``METHOD /path body``, with ``{key}``, ``{value}``,
    ``{old}``; of what faults ask for, with ``{target}``; or several (``requests``), and ``held``: where earlier answers
    say what the register held. ``command``: the same words and those of its node, run at the client, or ``at`` the
    node's host; its ``…_pattern`` are regular expressions that its output must match to mean what they are called; of
    ``ok_pattern`` the group ``value`` is the result. ``redis``: the words of a Redis command; ``fail_pattern`` is then
    of an error's text, and ``wait`` is how many replicas must confirm a change, a number or a knob in braces.
    ``client``: the class of the user's own whose method of the operation's name is called. ``sql``: statements, carried
    out in one transaction over a connection that ``driver`` makes with ``connect``; of a cas ``create``: those where
    the register is to hold nothing; ``check``: what reads it if no row was changed. ``guard``: a statement that must
    give true before the commit. ``fail_codes``: of errors that certainly refuse.

    ``ok``: answers that mean done; ``fail``: certainly not done, ever; ``absent``: there is nothing at that key;
    ``refused``: of a cas, the register held something else. Every other answer is doubt. ``value``: where the answer
    holds the result; None: it is the result. ``served_by``: where an HTTP answer names the node that served it, a place
    in its JSON or ``header:NAME``, for fronts that forward.
    """

    request: str | tuple[str, ...] = ""
    held: str | None = None
    command: Words | None = None
    redis: tuple[str, ...] = ()
    wait: int | str = 0
    client: str = ""
    sql: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    check: str = ""
    guard: str = ""
    driver: str = ""
    connect: Mapping[str, str | int | float | bool] = {}
    fail_codes: tuple[int | str, ...] = ()
    ok_pattern: str | None = None
    fail_pattern: str | None = None
    absent_pattern: str | None = None
    refused_pattern: str | None = None
    value: str | None = None
    served_by: str | None = None
    ok: tuple[int, ...] = (200, 201, 202, 204)
    fail: tuple[int, ...] = (421,)
    absent: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    headers: Mapping[str, str] = {}
    auth: AuthTable | None = None
    tls: Encrypted = False
    at: Literal["here", "host"] = "here"


class PromiseTable(Table, frozen=True, kw_only=True):
    """``[promise]``: what the system claims. What it omits is not promised, and so not judged.

    ``tolerates``: faults under which everything promised holds; ``safe_under``: further faults under which safety does.
    ``durable``: what was acknowledged is not lost; or a knob in braces whose value says so. ``stall_max``: a node may
    stand still for so long and deposes no leader [as ``noise_limit_ns`` says].
    """

    election_timeout: str
    heartbeat: str
    tolerates: tuple[str, ...]
    safe_under: tuple[str, ...] = ()
    leader_within: str | None = None
    step_down_within: str | None = None
    converge_within: str | None = None
    stall_max: str | None = None
    durable: bool | str = True
    tiers: tuple[Literal["T1", "T2", "T3", "T4", "T5"], ...] = ("T1", "T2")
    leader_bound_to_term: bool = False
    linearizable_reads: bool = False
    pre_vote: bool = False
    source: str = ""


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """``[membership]``: what only faults ask for, over the port named ``port``, and who votes (``voting``).

    ``asked``: as operations are; ``changes``: of members, by the node's own host. ``member``: the pattern that finds
    the node among the members, with the group ``id`` where the cluster knows it by another name; ``fresh``: it must
    return with nothing stored.
    """

    asked: Mapping[str, OpTable] = {}
    changes: Mapping[str, OpTable] = {}
    port: str = ""
    member: str = ""
    fresh: bool = False
    voting: Voting = Voting()

    @property
    def all(self) -> dict[str, OpTable]:
        """Both kinds of requests."""
        return {**self.asked, **self.changes}


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file. ``ops``: name of the operation → how it is asked for, over the port named ``ops_port``.

    ``clock``: what a node is asked by for its own wall clock; None: nothing.

    ``contents``: path on the host → bytes, ``executables``: all programs. ``folders``: path on the
    host → an archive of what is to be there.

    ``version``: of which of several versions this is; "": there is one only. ``versions``: name → the description of
    each, from the oldest to the newest, and ``reports``: what nodes say they are → its name; of the whole file only.
    ``pinned``: what else of its lock file is in use, by other versions.
    """

    path: str
    system: SystemTable
    node: NodeTable
    starting: Starting
    probe: ProbeTable
    trace: TraceTable | None
    ops: Mapping[str, OpTable]
    ops_port: str
    membership: Membership
    clock: ClockTable | None
    promise: PromiseTable
    knobs: Mapping[str, str]
    log: LogTable
    contents: Mapping[str, bytes]
    executables: tuple[str, ...]
    folders: Mapping[str, bytes]
    version: str = ""
    versions: Mapping[str, Description] = {}
    reports: Mapping[str, str] = {}
    pinned: tuple[str, ...] = ()
