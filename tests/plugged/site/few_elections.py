"""few-elections: no more than one leader is ever elected. A toy: one file, and the whole of a checker."""

from __future__ import annotations

from dethrone.checkers.base import Base, finding
from dethrone.checkers.facts import elections
from dethrone.harness.core.history import History
from dethrone.harness.core.plan import Plan
from dethrone.harness.core.promise import Promise
from dethrone.harness.core.verdict import Verdict


class FewElections(Base):
    """See the module."""

    name = "few-elections"
    kind = "safety"
    channels = ("traced",)

    def examine(self, history: History, promise: Promise, plan: Plan) -> Verdict:
        """The verdict."""
        won = list({fact.term: fact for fact in elections(history)}.values())
        return self.conclude(
            history,
            findings=[
                finding(history, promise, f"{fact.node} was elected, too", [fact.event.seq], nodes=[fact.node])
                for fact in won[1:]
            ],
            judged=len(won),
            nothing="no election was seen",
            evidence={"nodes": len(plan.nodes)},
        )


CHECKER = FewElections()
