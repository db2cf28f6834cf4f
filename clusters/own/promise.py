"""What a described system promises and shows: its description as a ``Promise``, and what that leaves unjudged.

Guarantees: nothing is assumed. A property of liveness that the description does not bound is not promised; one of
safety that its channels cannot show is not observable; the report shows each reason. Pure. Out of scope: judging.
"""

from __future__ import annotations

from collections.abc import Mapping

from dethrone.clusters.own.spec import Description
from dethrone.clusters.own.words import fill
from dethrone.harness.core import registry
from dethrone.harness.core.clock import SECOND, Ns
from dethrone.harness.core.duration import parse_duration
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.promise import NotPromised, Promise, noise_limit_ns

ASSERTIONS = ("always", "sometimes", "unreachable")
"""Lines that each have a checker of their name."""


def observable(description: Description) -> tuple[str, ...]:
    """See ``dethrone.harness.core.plan.Plan.observable``. What the nodes print themselves counts as witnessed."""
    probe, told = description.probe, told_events(description)
    out = ["traced", "witness"] if told else []
    out += ["observed", *(["atomic"] if probe.atomic else [])]
    out += ["voted_for"] if probe.voted_for is not None else []
    out += ["log_end"] if probe.log_term is not None and probe.log_index is not None else []
    out += ["commit"] if probe.commit is not None else []
    out += ["ops"] if description.ops else []
    out += ["found"] if "recovered" in told else []
    out += [name for name in ASSERTIONS if name in told]
    return tuple(out)


def told_events(description: Description) -> frozenset[str]:
    """The trace lines that the nodes print, by the format's names."""
    return frozenset(description.trace.events if description.trace is not None else ())


def promise_of(description: Description, knobs: Mapping[str, str], *, profile: str) -> Promise:
    """The promise with these knobs; those of the description, where they are not given."""
    said = description.promise
    election = parse_duration(said.election_timeout)
    leader_within = _ns(said.leader_within)
    bound = leader_within if leader_within is not None else max(10 * SECOND, 5 * election)
    return Promise(
        system=description.system.name,
        profile=profile,
        source=said.source or "the description of the system",
        election_timeout_ns=election,
        noise_max_ns=_ns(said.stall_max) or noise_limit_ns(election),
        heartbeat_ns=parse_duration(said.heartbeat),
        leader_bound_ns=bound,
        later_gap_ns=bound,
        step_down_ns=_ns(said.step_down_within),
        converge_ns=_ns(said.converge_within),
        tiers=said.tiers if leader_within is not None else (),
        exempt=exempt(description, knobs),
        tolerates=dict.fromkeys(said.tolerates),
        safe_under=dict.fromkeys((*said.tolerates, *said.safe_under)),
        leader_bound_to_term=said.leader_bound_to_term,
        linearizable_reads=said.linearizable_reads,
        pre_vote=said.pre_vote,
        exits_ok=description.log.exits_ok,
        sometimes=description.trace.sometimes if description.trace is not None else (),
    )


def exempt(description: Description, knobs: Mapping[str, str]) -> dict[str, NotPromised]:
    """Property → why it is not judged."""
    return {**_unbounded(description, knobs), **_unseen(description)}


def is_durable(description: Description, knobs: Mapping[str, str]) -> bool:
    """Whether acknowledged writes are promised to survive. ConfigError: the knob that says so is neither true nor
    false."""
    said = description.promise.durable
    if isinstance(said, bool):
        return said
    word = fill(said, {**description.knobs, **knobs})
    if word not in ("true", "false"):
        raise ConfigError(
            f"durable = {said!r} is {word!r}",
            where=f"{description.path}: [promise] durable",
            next_step="write true or false, or a knob in braces whose value is one of them",
        )
    return word == "true"


def _unbounded(description: Description, knobs: Mapping[str, str]) -> dict[str, NotPromised]:
    said, told = description.promise, told_events(description)
    out = {}
    for name, bound, key in (
        ("leader-when-owed", said.leader_within, "leader_within"),
        ("step-down-without-quorum", said.step_down_within, "step_down_within"),
        ("convergence-after-heal", said.converge_within, "converge_within"),
    ):
        if bound is None:
            out[name] = NotPromised(f"the description gives no {key}")
    if not is_durable(description, knobs):
        out["acknowledged-survives"] = NotPromised("the description says that acknowledged writes may be lost")
    if not said.pre_vote:
        out["leader-stability"] = NotPromised("the description promises no pre-vote")
    elif told and not {"pre_vote_started", "pre_vote_won"} <= told:
        why = "the trace has no pre-vote rounds (pre_vote_started, pre_vote_won)"
        out["leader-stability"] = NotPromised(why, "not observable")
    return out


def _unseen(description: Description) -> dict[str, NotPromised]:
    probe, told, said = description.probe, told_events(description), description.promise
    out: dict[str, str] = {}
    if "vote_granted" not in told:
        out["one-vote-per-term"] = "no vote_granted lines"
    counted = bool(description.trace and description.trace.voters)
    by_votes = said.leader_bound_to_term and ("vote_granted" in told or probe.voted_for is not None)
    if not counted and not by_votes:
        out["leader-has-majority"] = "the elected lines do not name the voters"
    if not counted:
        out["members-only"] = "the elected lines do not name the voters"
    if missing := _no_completeness(description):
        out["leader-completeness"] = missing
    if "appended" not in told:
        out["log-matching"] = "no appended lines"
    if "committed" not in told and probe.commit is None:
        out["commit-never-regresses"] = "neither committed lines nor a probed commit index"
    if "recovered" not in told:
        out["vote-is-durable"] = "no recovered lines"
    if not names_leader(description):
        out["leader-when-owed"] = out["convergence-after-heal"] = "the probe does not report whom a node follows"
    if "elected" not in told and not said.leader_bound_to_term:
        out["one-leader-per-term"] = "no elected lines, and the probe's leader is not bound to its term"
    return {name: NotPromised(why, "not observable") for name, why in out.items()}


def _no_completeness(description: Description) -> str:
    """Why new leaders' logs cannot be compared with what was committed; "" : they can."""
    probe, told = description.probe, told_events(description)
    if "appended" in told:
        if not told & {"committed", "acknowledged"} and not description.ops:
            return "appended lines, but neither committed nor acknowledged lines, nor operations"
        return "" if "elected" in told else "appended lines, but no elected lines"
    if probe.log_index is None or probe.log_term is None:
        return "neither appended lines nor a probed log end"
    lacking = ["commit in [probe]"] if probe.commit is None else []
    lacking += [] if description.promise.leader_bound_to_term else ["leader_bound_to_term = true in [promise]"]
    if lacking:
        return f"a probed log end, but not {' and '.join(lacking)}; or print appended, elected and committed lines"
    return ""


def check_faults(description: Description) -> None:
    """Raise ConfigError for an unknown fault."""
    kinds = registry.known(registry.FAULTS)
    said = description.promise
    for key, named in (("tolerates", said.tolerates), ("safe_under", said.safe_under)):
        for fault in named:
            if fault.partition(":")[0] not in kinds:
                error = registry.unknown_name("fault", fault, kinds)
                raise ConfigError(error.what, where=f"{description.path}: [promise] {key}", next_step=error.next_step)


def names_leader(description: Description) -> bool:
    """Whether a status answer names the leader that the node follows."""
    probe = description.probe
    patterns = [*probe.became.values(), probe.pattern or ""]
    return probe.leader is not None or any("(?P<leader>" in pattern for pattern in patterns)


def _ns(text: str | None) -> Ns | None:
    return None if text is None else parse_duration(text)
