"""A world in which no message arrives by itself: a test hands over one after another, so every order can be written."""

from __future__ import annotations

from dethrone.clusters.targets.client_api import Propose as Want
from dethrone.clusters.targets.paxos.messages import Accepted, Prepare, Promise, Propose
from tests.clusters.paxos.spec import World


class Script(World):
    """Proposals are for instance 1. Nobody waits for reachability."""

    def __init__(self, names="ABC", **more):
        super().__init__(names, sync=(0, 0), **more)
        self.hold = lambda *_: True
        self.used: set[int] = set()

    def want(self, name, value):
        """A client asks; the PREPAREs are ready to be handed over."""
        self.boxes[name].node.heard.update(dict.fromkeys(self.names, self.now))
        number = self.request(name, Want(1, value))
        self.run(1)
        return number

    def give(self, src, dst, kind, number=None):
        """Hand over the oldest such message that was not; whether there is one."""
        for index, (a, b, body) in enumerate(self.held_messages):
            fits = (a, b, type(body)) == (src, dst, kind) and number in (None, body.id)
            if fits and index not in self.used:
                self.used.add(index)
                self.deliver(a, b, body)
                self.run(1)
                return True
        return False

    def prepare(self, proposer, *acceptors):
        """Phase 1 with these acceptors."""
        number = self.number(proposer)
        for name in acceptors:
            self.give(proposer, name, Prepare, number)
            self.give(name, proposer, Promise, number)

    def accept(self, proposer, *acceptors, told=()):
        """Phase 2 with these acceptors; ``told``: who hears of their acceptances."""
        number = self.number(proposer)
        for name in acceptors:
            self.give(proposer, name, Propose, number)
            for learner in told:
                self.give(name, learner, Accepted)

    def number(self, proposer):
        """The number under way there; None: none is."""
        attempt = self.boxes[proposer].node.instance(1).attempt
        return None if attempt is None else attempt.id

    def broken(self):
        return [problem for problem in self.problems if problem.startswith("agreement")]
