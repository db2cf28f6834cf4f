"""What Docker hosts on this machine can do, found out by trying it in a container that lasts for seconds.

Guarantees: each row is yes, or no with the reason and what to do about it; nothing is built or pulled, and the
container is removed in any case. Out of scope: judging: a fault that needs what is missing says so when it is
asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
import docker.errors
import msgspec

from dethrone.clusters.agent.host.groups import LENT_GROUPS
from dethrone.clusters.agent.host.hand import why_no_vdso
from dethrone.clusters.docker.client import ENGINE_ERRORS, connect, temporary
from dethrone.clusters.docker.image import cached_tag
from dethrone.clusters.docker.labels import OWNER, PYTHON
from dethrone.harness.core.errors import HarnessError
from dethrone.harness.core.interfaces import OF_GROUPS, OF_MOUNTS, Available, No, Yes

Row = tuple[str, Available]

FUSE = Path("/dev/fuse")
_MEMORY_MIN = 2 * 1024**3
_PROBE_LIMIT_S = 30
_LASTS_S = 300
"""How long a container lasts if it is not removed: longer than all probes take on a busy machine."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try inside a host: ``script`` exits 0 if it works.

    ``proves``: words of ``Fault.needs`` that such a host satisfies.
    """

    name: str
    script: str
    why: str
    what_to_do: str
    proves: tuple[str, ...] = ()


PROBES = (
    Probe(
        name="docker: signals stop and end a process",
        # where processors are busy, a process takes its signal a moment later
        script="sleep 30 & p=$!; kill -STOP $p; code=1; for _ in 1 2 3 4 5 6 7 8 9; do "
        "grep -q '^State:.*T' /proc/$p/status && code=0 && break; sleep 0.2; done; kill -KILL $p; exit $code",
        why="a process cannot be stopped: no faults of processes",
        what_to_do="look for a policy of this machine that forbids signals",
        proves=("signals", "commands", "versions", "members"),
    ),
    Probe(
        name="docker: files are replaced and read back",
        script="d=$(mktemp -d) && echo a > $d/f && mv $d/f $d/old && echo b > $d/f "
        "&& test $(cat $d/old)$(cat $d/f) = ab; code=$?; rm -r $d; exit $code",
        why="files of a host cannot be replaced: no damage and no wipe",
        what_to_do="look for space, and for a file system that is read-only",
        proves=("files",),
    ),
    Probe(
        name="docker: NET_ADMIN in a container",
        script="ip link set dev lo down && ip link set dev lo up",
        why="the container may not change its own network",
        what_to_do="let the engine grant NET_ADMIN (no user namespaces that strip it, no policy against --cap-add)",
    ),
    Probe(
        name="docker: iptables in a container",
        script="iptables -w 2 -N DETHRONE-probe && iptables -w 2 -A DETHRONE-probe -s 198.18.0.1 -j DROP "
        "&& iptables -w 2 -F DETHRONE-probe && iptables -w 2 -X DETHRONE-probe",
        why="rules cannot be set inside a container: no partitions",
        what_to_do="use a kernel with nf_tables or ip_tables (`modprobe nf_tables`)",
        proves=("iptables",),
    ),
    Probe(
        name="docker: links of bad quality (NFQUEUE)",
        script="t='iptables -w 2 -t mangle'; $t -N DETHRONE-probe && $t -A DETHRONE-probe -s 192.0.2.1 -j NFQUEUE "
        "--queue-num 7003 --queue-bypass && test -e /proc/net/netfilter/nfnetlink_queue; code=$?; "
        "$t -F DETHRONE-probe; $t -X DETHRONE-probe; exit $code",
        why="the kernel has no queue for packets: no link and no hold on real hosts",
        what_to_do="use a kernel with xt_NFQUEUE and nfnetlink_queue; cuts work without them",
        proves=("links",),
    ),
    Probe(
        name="docker: ss -K resets flows",
        # a real flow on loopback: `ss -K` answers 0 even where the kernel cannot do it
        script=f"{PYTHON} - <<'END'\n"
        "import socket, subprocess, sys\n"
        "listener = socket.create_server(('127.0.0.1', 0))\n"
        "one = socket.create_connection(listener.getsockname())\n"
        "subprocess.run(['ss', '-K', 'dport', '=', str(listener.getsockname()[1])], capture_output=True)\n"
        "try:\n    one.send(b'x')\nexcept OSError:\n    sys.exit(0)\n"
        "sys.exit(1)\nEND",
        why="the kernel lacks INET_DIAG_DESTROY: flows that a cut stalled come back late after its heal",
        what_to_do="use a kernel with CONFIG_INET_DIAG_DESTROY; reports separate network time from "
        "protocol time anyway",
    ),
    Probe(
        name="docker: libfaketime skews a clock",
        script="library=$(find /usr/lib -name libfaketimeMT.so.1 | head -n 1) && "
        'test "$(LD_PRELOAD=$library FAKETIME=\'-400d\' date +%s)" -lt "$(($(date +%s) - 86400))"',
        why="libfaketime is not in the image or does not load: no clock faults on libc programs",
        what_to_do="leave the base image out, or put libfaketime into yours",
        proves=("faketime",),
    ),
    Probe(
        name="docker: limit on descriptors",
        script=f"sleep 5 & {PYTHON} - $! <<'END'\n"
        "import resource, sys\n"
        "pid, kind = int(sys.argv[1]), resource.RLIMIT_NOFILE\n"
        "resource.prlimit(pid, kind, (3, resource.prlimit(pid, kind)[1]))\n"
        "sys.exit(resource.prlimit(pid, kind)[0] != 3)\nEND",
        why="the limits of a running process cannot be changed: no descriptors on real hosts",
        what_to_do="let an agent run as root on its host",
        proves=("descriptors",),
    ),
)

MOUNT = Probe(
    name="docker: a file system of ours (FUSE)",
    script=f"{PYTHON} - <<'END'\n"
    "import ctypes, os, tempfile\n"
    "place = tempfile.mkdtemp()\n"
    "device = os.open('/dev/fuse', os.O_RDWR)\n"
    "kernel = ctypes.CDLL(None, use_errno=True)\n"
    "words = f'fd={device},rootmode=40000,user_id=0,group_id=0'.encode()\n"
    "if kernel.mount(b'dethrone-probe', place.encode(), b'fuse.dethrone', 6, words):\n"
    "    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"
    "kernel.umount2(place.encode(), 2)\nEND",
    why="a host cannot mount a file system: no powerloss and no disk on real hosts",
    what_to_do="use a kernel with FUSE, as root; for Docker, an engine that grants SYS_ADMIN and /dev/fuse",
    proves=tuple(sorted(OF_MOUNTS)),
)
"""Tried in a host that may mount, as hosts are in runs that need it."""


def _group(controller: str) -> Probe:
    """As ``agent.host.groups`` makes one: below the host's own group, which a container is shown read-only."""
    return Probe(
        name=f"docker: control group for {controller}",
        script=f"d={LENT_GROUPS}/{controller}; if ! test -d $d; then for d in /sys/fs/cgroup/{controller} "
        f"/sys/fs/cgroup/*,{controller} /sys/fs/cgroup/{controller},* /sys/fs/cgroup/unified /sys/fs/cgroup; do "
        "test -e $d/cgroup.procs && break; done; fi; g=$d/dethrone-probe; "
        "r='mount -o remount,bind,rw'; "
        "mkdir $g 2>/dev/null || { $r $d || $r /sys/fs/cgroup; mkdir $g; }; test -w $g/cgroup.procs && "
        f"{{ test -e $g/{controller}.stat || grep -qw {controller} $d/cgroup.controllers; }}; "
        "code=$?; rmdir $g; exit $code",
        why=f"no control group can be made below that of a host: no {controller} on real hosts",
        what_to_do=f"use a kernel with the controller {controller}, as root; for Docker, SYS_ADMIN must be granted",
        proves=(controller,),
    )


GRANTED = (MOUNT, *map(_group, sorted(OF_GROUPS)))
"""Tried in a host that may mount."""
VDSO = "docker: a skew in the vDSO"


def rows(*, recipe: str = "node", base: str | None = None) -> list[Row]:
    """All rows. Where the engine does not answer, only that."""
    try:
        client = connect(limit_s=_PROBE_LIMIT_S)
    except HarnessError as error:
        return [("docker: engine", No(why=f"{error.what}: {error.cause}", what_to_do=error.next_step))]
    try:
        info = client.info()
        image = cached_tag(client, recipe, base=base)
        found = [
            ("docker: engine", Yes()),
            ("docker: engine on this machine", _local()),
            ("docker: storage driver", _storage(str(info.get("Driver", "?")))),
            ("docker: cpu and memory", _size(int(info.get("NCPU", 0)), int(info.get("MemTotal", 0)))),
            (VDSO, _vdso()),
            ("docker: image built", _image(image)),
        ]
        return found + (_probed(client, image) if image else [])
    except ENGINE_ERRORS as error:
        return [("docker: engine", No(why=f"it stopped answering: {error}", what_to_do="run `dethrone doctor` again"))]
    finally:
        client.close()


def _local() -> Available:
    address = os.environ.get("DOCKER_HOST", "unix://")
    if address.startswith("unix://"):
        return Yes()
    return No(
        why=f"DOCKER_HOST is {address}: clients here cannot reach addresses of networks over there",
        what_to_do="run the harness on the engine's machine",
    )


def _storage(driver: str) -> Available:
    if driver == "vfs":
        return No(
            why="vfs copies the whole image for each container: slow to deploy",
            what_to_do="let the engine's data lie on a file system that overlay2 can use (not itself an overlay)",
        )
    return Yes()


def _size(cpus: int, memory: int) -> Available:
    if cpus >= 2 and memory >= _MEMORY_MIN:
        return Yes()
    return No(
        why=f"{cpus} processors and {memory // 1024**2} MiB: five nodes will stall by themselves",
        what_to_do="use 2 processors and 2 GiB or more, or three nodes; noise makes liveness unknown, never failed",
    )


def _vdso() -> Available:
    why = why_no_vdso()
    if not why:
        return Yes()
    return No(why=f"{why}: no clock faults on programs without libc", what_to_do="use a machine with x86-64")


def _image(tag: str | None) -> Available:
    if tag is not None:
        return Yes()
    return No(
        why="not built yet: the first run builds it, in about a minute",
        what_to_do="run `dethrone demo` once; the probes inside a container follow then",
    )


def _probed(client: docker.DockerClient, image: str) -> list[Row]:
    """Try everything in two containers, which end by themselves: one as hosts are, one as hosts that may mount."""
    more: dict[str, Any] = {"cap_add": ["NET_ADMIN"], "network_mode": "none"}
    mounting = {**more, "cap_add": ["NET_ADMIN", "SYS_ADMIN"], "security_opt": ["apparmor=unconfined"]}
    if FUSE.exists():
        mounting["devices"] = [str(FUSE)]
    return [*_inside(client, image, PROBES, more), *_inside(client, image, GRANTED, mounting)]


def _inside(client: docker.DockerClient, image: str, probes: Sequence[Probe], more: Mapping[str, Any]) -> list[Row]:
    with temporary(client, image, ["sleep", str(_LASTS_S)], {OWNER: "probe"}, **more) as container:
        container.start()

        def attempt(script: str) -> tuple[int, str]:
            code, output = container.exec_run(["timeout", "10", "/bin/sh", "-c", script])
            said = output.decode(errors="replace") if isinstance(output, bytes) else ""
            return (1, "the engine did not report how it ended") if code is None else (int(code), said)

        return [probed(probe, attempt) for probe in probes]


def capabilities() -> Mapping[str, Available]:
    """What faults may need → whether a host had it; where no host could be tried, why."""
    found = dict(rows())
    out = proved(found, (*PROBES, *GRANTED))
    missing = next((answer for answer in found.values() if isinstance(answer, No)), Yes())
    tried = {one: found.get("docker: image built", missing) for probe in (*PROBES, *GRANTED) for one in probe.proves}
    return {**tried, "vdso": found.get(VDSO, missing), **out}


def proved(found: Mapping[str, Available], probes: Iterable[Probe]) -> dict[str, Available]:
    """What the probes among these rows prove."""
    return {one: found[probe.name] for probe in probes if probe.name in found for one in probe.proves}


def probed(probe: Probe, attempt: Callable[[str], tuple[int, str]]) -> Row:
    """The row of one probe; ``attempt`` runs its script and returns exit code and output."""
    code, output = attempt(probe.script)
    if code == 0:
        return (probe.name, Yes())
    said: Sequence[str] = [line for line in output.splitlines() if line.strip()]
    detail = f" ({said[-1].strip()[:120]})" if said else ""
    return (probe.name, No(why=f"{probe.why}{detail}", what_to_do=probe.what_to_do))
