"""Whose files a run executes: those that the user names himself, never those that a run directory or a scenario names.

A run directory may come from another person, and so may a settings file in the directory where a command is started.
The files that it names would be imported, started or connected to with the user's rights: the file of a variant, a
fault, a workload, a strategy or a checker, the description of a system, an image, other people's hosts.

Guarantees: pure; a refusal names each of them. Out of scope: the user's command line, plug-ins that he installed, and
whether a file is his own (``dethrone.harness.core.owned``).
"""

from __future__ import annotations

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.engine.run.code_names import code_in
from dethrone.harness.engine.run.options import RunOptions

TRUST = "--trust"


def named_by(options: RunOptions, *, hosts_given: bool = False) -> list[str]:
    """What these options would execute or reach. ``hosts_given``: theirs do not matter, for the user names others."""
    found = []
    if registry.is_file(options.system):
        found.append(f"the system {options.system}")
    if options.variant is not None and registry.is_code(options.variant):
        found.append(f"the variant {options.variant}")
    found += [f"the {kind} {path}" for kind, path in code_in(options)]
    if options.base is not None:
        found.append(f"the image {options.base}")
    if options.hosts is not None and not hosts_given:
        found.append(f"the hosts of {options.hosts}")
    if options.host and not hosts_given:
        found.append(f"the hosts {', '.join(options.host)}")
    return found


def refuse_settings(options: RunOptions, *, where: str, doubt: str) -> None:
    """Raise ConfigError where these options, all of a settings file, name anything that would be executed.

    ``doubt``: why the file may not be the user's own; "" : it is, and says what he says.
    """
    found = named_by(options) if doubt else []
    if found:
        raise ConfigError(
            f"the settings file names what would be executed with your rights: {'; '.join(found)}",
            where=where,
            cause=f"another user may have written it: {doubt}",
            next_step=f"check each of them, then repeat the command with {TRUST}, or name them by flags; "
            "if the file is yours, `chown` it, or `chmod o-w` what others may write",
        )


def refuse_foreign(options: RunOptions, *, where: str, hosts_given: bool = False) -> None:
    """Raise ConfigError where these options, which are not the user's, name anything that would be executed."""
    found = named_by(options, hosts_given=hosts_given)
    if found:
        raise ConfigError(
            f"the run directory names what would be executed with your rights: {'; '.join(found)}",
            where=where,
            cause="a run directory may come from an untrusted source",
            next_step=f"check each of them, then repeat the command with {TRUST}",
        )
