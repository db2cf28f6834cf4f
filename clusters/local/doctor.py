"""What local hosts can do on this machine, found out by trying it in one that lasts a second.

Guarantees: each row is yes, or no with the reason and what to do about it; the host is removed in any case. The
same things are tried as in a container (``dethrone.clusters.docker.doctor``). Out of scope: judging.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence

import msgspec

from dethrone.clusters.docker.doctor import GRANTED, PROBES, Probe, probed, proved
from dethrone.clusters.docker.labels import AGENT, PYTHON
from dethrone.clusters.local.room import PROGRAMS, programs_of
from dethrone.clusters.local.rootless import is_inside
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.interfaces import Available, Backend, DeploySpec, No, Yes
from dethrone.harness.core.ledger import Ledger, state_dir

PROBE_LIMIT_NS = 15_000_000_000
PROBE = '{"do": "probe"}'
"""The question to the process that skews clocks (``agent.host.hand``)."""

Row = tuple[str, Available]

VDSO = Probe(
    name="local: a skew in the vDSO",
    script=f"echo '{PROBE}' | {PYTHON} -S {AGENT} hand --socket - | tee /dev/stderr | grep -q old",
    why="the vDSO of a process cannot be changed: no clock faults on programs without libc",
    what_to_do="use a machine with x86-64 that allows ptrace; the answer says more",
    proves=("vdso",),
)


def rows(backend: Backend) -> Sequence[Row]:
    """All rows. Where no host can be made, only why; without root, what a host can do is not tried."""
    able = backend.available()
    found: list[Row] = [("local: namespaces" if os.geteuid() == 0 else "local: namespaces without root", able)]
    found += [(f"local: programs of {recipe}", _programs(recipe)) for recipe in PROGRAMS if PROGRAMS[recipe]]
    if isinstance(able, No):
        return found
    found.append(("local: a user of their own for nodes", _users()))
    if os.geteuid() != 0:
        return found
    try:
        return [*found, *_tried(backend)]
    except HarnessError as error:
        return [*found, ("local: a host", No(why=f"{error.what}: {error.cause}", what_to_do=error.next_step))]


def capabilities(backend: Backend) -> Mapping[str, Available]:
    """What faults may need → whether a host had it; where no host could be tried, why."""
    found = dict(rows(backend))
    out = proved(found, _probes())
    if out:
        return out
    known = backend.traits.capabilities
    why = next((answer for answer in found.values() if isinstance(answer, No)), None)
    able = backend.available()
    untried = {one: Yes() if one in known else why or Yes() for probe in _probes() for one in probe.proves}
    return dict.fromkeys(untried, able) if isinstance(able, No) else untried


def _users() -> Available:
    if os.geteuid() == 0 and not is_inside():
        return Yes()
    return No(
        why="without root there is one user only: nodes share the agent's, though not its capabilities",
        what_to_do="nothing, for a system that you trust; else run as root, or --on docker",
    )


def _programs(recipe: str) -> Available:
    try:
        programs_of(recipe)
    except HarnessError as error:
        return No(why=error.what, what_to_do=error.next_step)
    return Yes()


def _tried(backend: Backend) -> list[Row]:
    run_id = f"doctor-{secrets.token_hex(4)}"
    ledger = Ledger(state_dir(), run_id)
    clean = False
    try:
        ledger.record("deploying", backend=backend.name, nodes=["n1"])
        needs = frozenset(one for probe in GRANTED for one in probe.proves) & backend.traits.capabilities
        state = str(ledger.directory)
        spec = DeploySpec(run_id=run_id, nodes=("n1",), image="node", base=None, state_dir=state, needs=needs)
        hosts = backend.deploy(spec, origin_ns=0, news=lambda _: None, progress=lambda _: None)

        def attempt(script: str) -> tuple[int, str]:
            code, out, err = hosts["n1"].run(["/bin/sh", "-c", script], timeout_ns=PROBE_LIMIT_NS)
            return code, (out + err).decode(errors="replace")

        try:
            return [probed(one, attempt) for one in _probes()]
        finally:
            hosts["n1"].close()
    finally:
        with contextlib.suppress(HarnessError):
            backend.destroy(run_id)
            clean = True
        ledger.close(clean=clean)


def _probes() -> list[Probe]:
    return [*(msgspec.structs.replace(one, name=_own(one.name)) for one in (*PROBES, *GRANTED)), VDSO]


def _own(name: str) -> str:
    return name.replace("docker: ", "local: ").replace(" in a container", "")
