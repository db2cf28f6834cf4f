"""What backends do alike when they make hosts: names are checked first, and work is done for all hosts at once.

Guarantees: a name that passes can be part of a path, a container's and a host's name; every piece of work has ended
before an error of one is raised; a deployment that fails or is interrupted takes away what it made. Out of scope: what
a host is made of.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dethrone.harness.core.errors import ConfigError, HarnessError
from dethrone.harness.core.interfaces import DeploySpec, Host

T = TypeVar("T")
U = TypeVar("U")

THREADS = 16
NAME_MAX = 60


def check_names(spec: DeploySpec, *, reserved: Collection[str] = ()) -> None:
    """Raise ConfigError for a name of the run or of a node that no host can have, and for nodes without own names."""
    for word in (spec.run_id, *spec.nodes):
        plain = all(letter.isascii() and (letter.isalnum() or letter in "-_.") for letter in word)
        if not word or len(word) > NAME_MAX or word in reserved or not plain:
            raise ConfigError(
                f"{word!r} cannot be part of a host's name",
                cause=f"letters, digits, '-', '_' and '.' can, at most {NAME_MAX}",
                next_step="choose other node names",
            )
    if len(set(spec.nodes)) != len(spec.nodes) or not spec.nodes:
        raise ConfigError("node names must be given and differ", where=", ".join(spec.nodes))


@contextlib.contextmanager
def all_or_nothing(hosts: Collection[Host], undo: Callable[[], None]) -> Iterator[None]:
    """Where the body fails or is interrupted: close the ``hosts`` that are there by then, and undo the rest."""
    try:
        yield
    except BaseException:
        for host in hosts:
            host.close()
        with contextlib.suppress(HarnessError):
            undo()
        raise


def together(work: Callable[[T], U], items: Iterable[T], *, threads: int = THREADS) -> list[U]:
    """``work`` for all items at once. Waits for all of them, then raises the first error, if any."""
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="together") as pool:
        futures = [pool.submit(work, item) for item in items]
    return [future.result() for future in futures]
