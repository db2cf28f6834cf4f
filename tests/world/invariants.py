"""What must hold in every world of a protocol, whatever happens, judged from what nodes really sent and stored.

The numbers are those of the specifications: INV-1 one leader a term, INV-2 one vote a term and node, INV-3 terms never
fall, INV-4 a new leader has every committed entry, INV-5 what is committed stays and is the same everywhere, INV-12 a
majority elects. Each violation is a sentence in ``world.problems`` that begins with its number.
"""

from __future__ import annotations


class Leaders:
    """INV-1 and INV-3, which need nothing of the protocol."""

    def __init__(self, world):
        self.world = world
        self.leaders: dict[tuple[str, int], tuple[str, list[str]]] = {}
        self.terms: dict[tuple[str, str], int] = {}

    def problem(self, sentence):
        self.world.problems.append(sentence)

    def started(self, box):
        """A node is about to start."""

    def witnessed(self, box, event):
        """The shell saw this of a node."""
        group = event.data.get("group", self.world.group)
        if event.name == "elected" and event.term > 0:
            self.elected(box, group, event)

    def handled(self, box):
        """A node has handled an event."""
        for group, term in self.world.shown(box):
            self.reached(box, group, term, "shows")

    def elected(self, box, group, event):
        """A node leads."""
        leader, voters = self.leaders.setdefault((group, event.term), (box.name, event.data.get("voters")))
        if leader != box.name:
            self.problem(f"INV-1: {leader} and {box.name} lead term {event.term}")
        elif voters and not event.data["voters"]:
            self.problem(f"INV-1: {box.name} leads term {event.term} a second time")

    def reached(self, box, group, term, how):
        """A node was in that term, 0 if it said of none."""
        before = self.terms.get((group, box.name), 0)
        if 0 < term < before:
            self.problem(f"INV-3: {box.name} {how} term {term} after {before}")
        self.terms[group, box.name] = max(term, before)

    def checked(self):
        """Judge what is only looked at now and then."""


class Replication(Leaders):
    """All of them, for protocols that replicate logs by majorities."""

    def __init__(self, world):
        super().__init__(world)
        self.votes: dict[tuple[str, str, int], str] = {}
        self.committed: dict[tuple[str, int], tuple[int, object]] = {}
        """(group, index) → the entry."""
        self.committed_in: dict[tuple[str, int], int] = {}
        self.seen: dict[tuple[str, str], int] = {}

    def started(self, box):
        for group, _ in self.world.parts(box):
            self.seen[group, box.name] = 0

    def witnessed(self, box, event):
        super().witnessed(box, event)
        world = self.world
        group = event.data.get("group", self.world.group)
        if event.name == "vote":
            before = self.votes.setdefault((group, box.name, event.term), event.data["candidate"])
            if before != event.data["candidate"]:
                self.problem(f"INV-2: {box.name} voted twice in term {event.term}")
        if event.name in world.proving:
            self.reached(box, group, event.term, event.name)

    def elected(self, box, group, event):
        super().elected(box, group, event)
        world = self.world
        node = dict(world.parts(box))[group]
        voters = world.voters(node)
        if len(set(event.data["voters"]) & set(voters)) * 2 <= len(voters):
            self.problem(f"INV-12: {box.name} leads term {event.term} with {event.data['voters']} of {voters}")
        end = world.end(node)
        for (where, index), entry in self.committed.items():
            if where != group or self.committed_in[where, index] >= event.term:
                continue
            if index > end or world.entry(node, index) != entry:
                self.problem(f"INV-4: {box.name} leads term {event.term} without entry {index}, {entry}")
                return

    def handled(self, box):
        super().handled(box)
        world = self.world
        for group, node in world.parts(box):
            before, commit = self.seen[group, box.name], world.commit(node)
            if commit == before:
                continue
            end = world.end(node)
            if commit < before:
                self.problem(f"INV-5: commit of {box.name} goes back to {commit}")
            if commit > end:
                self.problem(f"INV-5: commit of {box.name} is {commit}, its log ends at {end}")
            for index in range(before + 1, min(commit, end) + 1):
                entry = world.entry(node, index)
                known = self.committed.setdefault((group, index), entry)
                if known != entry:
                    self.problem(f"INV-5: entry {index} is {entry} at {box.name}, {known} elsewhere")
                self.committed_in.setdefault((group, index), world.term(node))
            self.seen[group, box.name] = commit

    def checked(self):
        if not self.logs_match():
            self.problem("INV-5: logs do not match")

    def logs_match(self):
        """Equal (index, term) means an equal prefix, over all live nodes."""
        world = self.world
        parts = [world.parts(box) for box in world.boxes.values() if box.alive]
        for groups in zip(*parts, strict=True):
            logs = [[world.entry(node, index) for index in range(1, world.end(node) + 1)] for _, node in groups]
            for i, one in enumerate(logs):
                for other in logs[i + 1 :]:
                    same = [index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a[0] == b[0]]
                    if same and one[: same[-1] + 1] != other[: same[-1] + 1]:
                        return False
        return True
