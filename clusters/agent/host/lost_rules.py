"""Looks for faults that another program undid: rules, commands, disks, shares of a processor, the helper for links.

Guarantees: what is lost is put back, and reported as ``rules-lost`` with the last moment at which it was seen in force,
so that the history does not claim a fault that was not there. Out of scope: how each of them is read and put back,
which the module of each knows (``firewall``, ``commands``, ``disks``, ``cpu_limit``, ``qualities``).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from dethrone.clusters.agent.host.common import SECOND, Refused, complain, now_ns
from dethrone.clusters.agent.host.firewall import Firewall, Rules
from dethrone.clusters.agent.host.verbs import Host

RULES_PERIOD_S = 1.0
"""How often rules in force are checked: with nftables in 0.1 ms if nothing changed; legacy rules are read."""
LINKS_PERIOD_S = 0.1
"""How often the helper that shapes links is looked at: while it is stopped, no packet of these links passes."""


def watch_rules(host: Host) -> None:
    """For ever: rules and all else but the helper for links, once a period."""
    while True:
        time.sleep(RULES_PERIOD_S)
        for firewall in (host.rules, host.qualities.rules):
            for rules in firewall.families():
                _put_back(host, "rules", functools.partial(_put_back_rules, firewall, rules))
        if host.commands.held:
            _put_back(host, "commands", host.commands.put_back)
        if host.node.disk is not None and host.node.disk.served:
            _put_back(host, "disk", host.node.disk.put_back)
        if host.node.cpu is not None:
            _put_back(host, "cpu", host.node.cpu.put_back)
        host.vdso.watch()


def watch_links(host: Host) -> None:
    """For ever: whether the helper that shapes links lives. One that does not is replaced."""
    turn_ns = now_ns()
    while True:
        time.sleep(LINKS_PERIOD_S)
        last_ns, turn_ns = turn_ns, now_ns()
        if host.qualities.used and turn_ns - last_ns < 2 * LINKS_PERIOD_S * SECOND:  # else we were late ourselves
            _put_back(host, "links", host.qualities.put_back)


def _put_back(host: Host, what: str, put_back: Callable[[], tuple[str, int, str]]) -> None:
    """Put lost ones back, and report the loss. ``put_back``: see ``Commands.put_back``."""
    try:
        why, good_ns, still = put_back()
    except (Refused, OSError) as error:
        complain(what, error)
        return
    if why:
        moment = now_ns()
        detail = {"why": why, "put_back": not still, "why_not": still}
        host.news.noise("rules-lost", good_ns, moment, moment - good_ns, **detail)


def _put_back_rules(firewall: Firewall, rules: Rules) -> tuple[str, int, str]:
    why, good_ns = rules.check()
    if not why:
        return "", good_ns, ""
    firewall.lost = [*firewall.lost[-7:], why]
    return why, good_ns, rules.put_back()
