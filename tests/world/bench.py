"""One bare core on a bench: a test prepares its disk, gives it one event, and looks at every effect.

Guarantees: the same seed gives the same draws; disk batches are done at once, in order, and what that leads to stands
behind the effects of the event, unless the core is ``slow``: then a test ends each batch itself. Out of scope:
barriers, peers and time that passes by itself (`tests.world.world`).
"""

from __future__ import annotations

from dethrone.harness.core.clock import MS, Clocks
from dethrone.harness.core.machine import Disk as Batch
from dethrone.harness.core.machine import DiskDone, Fired, Message, Request, SetTimer
from dethrone.harness.core.rng import Rng
from tests.world.disk import Disk


def words(settings):
    """Knobs as the command line has them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()}


class Bench:
    """Node ``node`` of ``members``. A protocol gives ``target`` and ``profile``, and ways to a role."""

    target = None
    profile = None
    members = "ABC"
    began_ms = 10_000
    epoch = 0
    """What the wall clock shows at the moment 0, in ns."""

    def __init__(
        self,
        image=None,
        *,
        node="A",
        members=None,
        profile=None,
        variant=None,
        seed=7,
        slow=False,
        slow_start=False,
        **knobs,
    ):
        """``slow_start``: even the batches of the start wait for the test."""
        self.name, self.members = node, tuple(members or self.members)
        self.knobs = self.target.knobs(words(knobs), profile=profile or self.profile)
        self.core = self.target.core(node=node, members=self.members, knobs=self.knobs, variant=variant)
        self.now = self.began_ms * MS
        self.wall = self.epoch
        self.rng = Rng(seed)
        self.slow = slow_start
        self.batches = []
        """Those that are not done."""
        self.timers = {}
        """Timer → when it rings, in the bench's time."""
        self.disk = Disk()
        self.disk.store({path: content for path, content in (image or {}).items() if isinstance(content, bytes)})
        self.requests = 0
        self.out = []
        """All effects so far."""
        out = []
        self.core.boot(dict(image or {}), self.clocks(), self.rng, out)
        self.booted = self._finish(out)
        self.slow = slow or slow_start

    @property
    def node(self):
        return self.core.node

    def clocks(self):
        return Clocks(self.now, self.now + self.wall)

    def status(self):
        return self.core.status(self.clocks())

    # --- events ---------------------------------------------------------------------------------------------------

    def give(self, event, *, after_ms=0):
        """Handle one event; the effects, with those of the disk's answers behind them."""
        self.now += after_ms * MS
        out = []
        self.core.handle(event, self.clocks(), self.rng, out)
        return self._finish(out)

    def hear(self, src, body, *, after_ms=0):
        """A peer's message."""
        return self.give(Message(src, body), after_ms=after_ms)

    def fire(self, timer, *, after_ms=0):
        """A timer rings."""
        return self.give(Fired(timer), after_ms=after_ms)

    def ask(self, body, *, after_ms=0):
        """A client's request."""
        self.requests += 1
        return self.give(Request(self.requests, body), after_ms=after_ms)

    def run(self, ms):
        """Let time pass; timers ring."""
        end = self.now + ms * MS
        while self.timers:
            name, at = min(self.timers.items(), key=lambda item: item[1])
            if at > end:
                break
            self.now = max(self.now, at)
            del self.timers[name]
            self.fire(name)
        self.now = end

    def sync(self, error=None):
        """All batches are carried out, or fail."""
        while self.batches:
            self.done(error)

    def done(self, error=None):
        """The oldest batch is done."""
        batch = self.batches.pop(0)
        if error is None:
            self._carry_out(batch)
        return self.give(DiskDone(batch.token, error))

    def again(self, **how):
        """The same node after SIGKILL: a new process on the same disk."""
        return type(self)(self.disk.image(), node=self.name, members=self.members, **how)

    def _note_timers(self, out):
        for effect in out:
            if isinstance(effect, SetTimer):
                self.timers.pop(effect.name, None)
                if effect.at is not None:
                    self.timers[effect.name] = effect.at - (self.wall if effect.clock == "wall" else 0)

    def _carry_out(self, batch):
        for op in batch.ops:
            self.disk.carry_out(op)

    def _finish(self, out):
        everything = list(out)
        new = [effect for effect in out if isinstance(effect, Batch)]
        self.batches += new
        self.out += out
        self._note_timers(out)
        while new and not self.slow:
            batch = new.pop(0)
            self.batches.remove(batch)
            self._carry_out(batch)
            more = []
            self.core.handle(DiskDone(batch.token), self.clocks(), self.rng, more)
            found = [effect for effect in more if isinstance(effect, Batch)]
            self.batches += found
            self.out += more
            self._note_timers(more)
            new += found
            everything += more
        return everything


class LastEvent(Bench):
    """The same; ``out`` holds the effects of the last event, without what disks answer behind it."""

    def give(self, event, *, after_ms=0):
        self.out = []
        return super().give(event, after_ms=after_ms)
