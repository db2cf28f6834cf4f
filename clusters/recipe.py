"""What the name of an image recipe says: which recipe, the Debian packages besides, and another Debian to put them on.

    node
    node+etcd-server
    node+mysql-server-core@sid

Guarantees: pure; a name that says nothing else is a recipe's. Out of scope: whether there is such a recipe
(``dethrone.clusters.docker.recipe_files``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

RELEASE = "bookworm"
"""The Debian release of images made here, unless another one is asked for: it carries etcd 3.4 and a Python that can
run a node."""

_DEBIAN = re.compile(r"[a-z]{2,20}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A name's parts. ``debian``: the code name of a release; None: the usual one."""

    recipe: str
    packages: tuple[str, ...] = ()
    debian: str | None = None

    @property
    def sound(self) -> bool:
        """Whether packages and release look like such."""
        fits = self.debian is None or is_release(self.debian)
        return fits and all(_PACKAGE.fullmatch(package) for package in self.packages)


def named(image: str) -> Named:
    """What this name says.

    >>> named("node+a+b@sid")
    Named(recipe='node', packages=('a', 'b'), debian='sid')
    >>> named("etcd"), named("node+$(reboot)").sound
    (Named(recipe='etcd', packages=(), debian=None), False)
    """
    before, at, debian = image.partition("@")
    recipe, *packages = before.split("+")
    return Named(recipe=recipe, packages=tuple(packages), debian=debian if at else None)


def name_of(recipe: str, packages: Sequence[str], debian: str | None) -> str:
    """The name that says this.

    >>> name_of("node", ["a"], "sid"), name_of("node", [], None)
    ('node+a@sid', 'node')
    """
    return "+".join((recipe, *packages)) + (f"@{debian}" if debian else "")


def is_release(word: str) -> bool:
    """Whether it may be the code name of a Debian release."""
    return _DEBIAN.fullmatch(word) is not None
