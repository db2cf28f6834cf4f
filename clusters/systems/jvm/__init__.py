"""Java servers with a few lines of Java next to them: how they are compiled on the host, started, asked and read.

The sources in this directory are compiled on each host before the first start, by the compiler jar of its image (about
a second): an image needs a Java runtime only, and no class file is shipped. ``Beside`` reports a status and the JVM's
clocks, so a clock fault is measured in the process that suffers it.

Guarantees: the status is what the server's own objects say at that moment (each main class documents which). What the
status means is out of scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from dethrone.clusters.docker.artifacts import COMPILER, COMPILER_FLAGS
from dethrone.clusters.docker.labels import JARS
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.systems.released import Released
from dethrone.harness.core.interfaces import CLOCK_SOCKET, Command, NodeSpec, StatusCall

T = TypeVar("T")

STATUS_PORT = 7002
"""Where ``Beside`` reports the status."""

_QUESTION = b"status"
_COMPILE = " ".join(("-jar", f"{JARS}/{COMPILER.file_name}", *COMPILER_FLAGS))

_START = f"""set -e
sources=$1 classes=$2 jars=$3; shift 3
if [ ! -d "$classes" ]; then
  rm -rf "$classes.new"
  java -XX:TieredStopAtLevel=1 {_COMPILE} -cp "$jars" -d "$classes.new" "$sources"/*.java
  mv "$classes.new" "$classes"
fi
exec java "$@"
"""

_LEAN = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError")
"""Several of these share a machine of two cores."""


def sources(node: NodeSpec, *classes: str) -> dict[str, bytes]:
    """The Java files of these classes and of ``Beside``, as they lie on the host."""
    here = Path(__file__).parent
    return {f"{node.run_dir}/java/{name}.java": (here / f"{name}.java").read_bytes() for name in (*classes, "Beside")}


def jars_of(recipe: str) -> str:
    """The jars of this recipe as a class path, in an image that may have others besides."""
    return ":".join(f"{JARS}/{jar.file_name}" for jar in ingredients_of(recipe).artifacts.jars)


def command(
    node: NodeSpec, main: str, arguments: Sequence[str], *, recipe: str, heap_mb: int, options: Sequence[str] = ()
) -> Command:
    """Start ``main`` on the jars of ``recipe``, with address, status port and clock socket before ``arguments``."""
    classes, jars = f"{node.run_dir}/classes-{recipe}", jars_of(recipe)
    java = (
        f"-Xmx{heap_mb}m",
        *_LEAN,
        "-Djava.net.preferIPv4Stack=true",
        "-Ddethrone.incarnation={incarnation}",
        *options,
        "-cp",
        f"{classes}:{jars}",
        main,
        node.address,
        str(STATUS_PORT),
        f"{node.run_dir}/{CLOCK_SOCKET}",
        *arguments,
    )
    return Command(argv=("/bin/sh", "-c", _START, "sh", f"{node.run_dir}/java", classes, jars, *java))


class JvmSystem(Released):
    """A released system whose status ``Beside`` reports."""

    def status_call(self, node: NodeSpec) -> StatusCall:
        """One frame to the program that runs next to the server, answered by one."""
        del node
        return StatusCall(port=STATUS_PORT, request=len(_QUESTION).to_bytes(4, "big") + _QUESTION, framing="u32")


def status_of(decoder: msgspec.json.Decoder[T], body: bytes) -> T | None:
    """What ``Beside`` reported; None: it is no such status."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
