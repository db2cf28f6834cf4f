"""link: the quality of the victims' links: delay, jitter, loss, a rate, and what arrives twice, in part or overtaken.

Parameters, whole numbers: ``delay_ns``, ``jitter_ns``, ``loss_percent``, ``duplicate_percent``, ``reorder_percent``
with ``reorder_ns``, ``corrupt_percent``, ``rate_kbit_per_s``; ``direction``: ``in``, ``out`` or ``both`` (default),
seen from the victims; and ``of``: the links to ``peers`` (default), to ``outside`` (peers that are no victims, as
for a zone), ``clients`` or ``all``. Of clients' links only what arrives at the victims is meant, and real hosts are
needed. Two such faults on one link add up. In simulation they
concern messages, on real hosts packets: there, TCP hides duplicates and reordering from programs, and turns loss into
delay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dethrone.harness.core.clock import MS, Ns
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.hoststate import HostState, LinkQuality, with_more
from dethrone.harness.core.interfaces import FaultTraits
from dethrone.harness.core.registry import unknown_name
from dethrone.harness.core.rng import Rng
from dethrone.nemesis.faults.afflicted import Affliction
from dethrone.nemesis.parameters import bad, integer

DIRECTIONS = ("in", "out", "both")
ENDS = ("peers", "outside", "clients", "all")
CLIENT = "client"
PERCENT = ("loss_percent", "duplicate_percent", "reorder_percent", "corrupt_percent")
TIMES = ("delay_ns", "jitter_ns", "reorder_ns")
RATE = "rate_kbit_per_s"
RATE_MIN, RATE_MAX = 16, 10_000_000
"""Of a slower link, no second is long enough to prove it; a faster one is none of this machine."""
PARAMS = (*PERCENT, *TIMES, RATE)


def _quality(params: Mapping[str, Any], src: str = "") -> LinkQuality:
    values = {name: integer("link", params, name, least=0, most=100) for name in PERCENT}
    values |= {name: integer("link", params, name, least=0) for name in (*TIMES, RATE)}
    direction = params.get("direction", "both")
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        raise unknown_name("direction of a link", str(direction), DIRECTIONS)
    ends = _ends(params)
    if ends == "clients" and direction == "out":
        raise bad("link", "direction", direction, "of the links to clients, only what arrives at the victims is meant")
    if values["reorder_percent"] and not values["reorder_ns"]:
        raise ConfigError("the fault 'link' needs reorder_ns with reorder_percent")
    if values[RATE] and not RATE_MIN <= values[RATE] <= RATE_MAX:
        raise bad("link", RATE, values[RATE], f"it is {RATE_MIN} … {RATE_MAX}")
    corrupt, rate = values.pop("corrupt_percent") or msgspec.UNSET, values.pop(RATE) or msgspec.UNSET
    quality = LinkQuality(src=src, **values, corrupt_percent=corrupt, rate_kbit_per_s=rate)
    if quality == LinkQuality(src=src):
        raise ConfigError("a link fault that changes nothing", next_step=f"give one of {', '.join(PARAMS)}")
    return quality


def _draws(rng: Rng, _hold_ns: Ns) -> Mapping[str, Any]:
    kinds = (
        {"delay_ns": rng.choice((2, 10, 40, 150)) * MS, "jitter_ns": rng.choice((0, 5, 50)) * MS},
        {"loss_percent": rng.choice((5, 20, 50, 90))},
        {"duplicate_percent": rng.choice((10, 50)), "reorder_percent": 30, "reorder_ns": rng.choice((1, 20, 200)) * MS},
    )
    return {**rng.choice(kinds), "direction": rng.choice(DIRECTIONS)}


def afflict(
    state: Mapping[str, HostState],
    victims: tuple[str, ...],
    direction: str,
    quality: LinkQuality,
    *,
    outside: bool = False,
) -> dict[str, HostState]:
    """``state`` with the quality on each link between a victim and another node, in these directions.

    ``outside``: links between two victims stay as they are.
    """
    out = dict(state)
    for src in state:
        for dst in state:
            inward, outward = dst in victims and direction != "out", src in victims and direction != "in"
            within = outside and dst in victims and src in victims
            if src != dst and (inward or outward) and not within:
                out[dst] = out[dst].plus(HostState(links=(msgspec.structs.replace(quality, src=src),)))
    return out


def _ends(params: Mapping[str, Any]) -> str:
    ends = params.get("of", "peers")
    if not isinstance(ends, str) or ends not in ENDS:
        raise unknown_name("other end of a link", str(ends), ENDS)
    return ends


def _afflict(
    state: Mapping[str, HostState], victims: tuple[str, ...], params: Mapping[str, Any]
) -> Mapping[str, HostState]:
    direction, ends, quality = params.get("direction", "both"), _ends(params), _quality(params)
    out = dict(state)
    if ends != "clients":
        out = afflict(state, victims, direction, quality, outside=ends == "outside")
    if ends in {"clients", "all"} and direction != "out":
        of_clients = HostState(links=(msgspec.structs.replace(quality, src=CLIENT),))
        out = with_more(out, dict.fromkeys(victims, of_clients))
    return out


FAULT = Affliction(
    kind="link",
    line="delay, jitter, loss, duplicates, reordering, corruption or a rate on the links of some nodes",
    params=(*PARAMS, "direction", "of"),
    judge=_quality,
    draws=_draws,
    afflict=_afflict,
    capabilities=frozenset({"links"}),
    traits=FaultTraits(harms="network", touches=frozenset({"links"})),
    few=False,
)
