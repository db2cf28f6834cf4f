"""Random worlds: what was acknowledged survives in every log."""

import pytest

from dethrone.clusters.targets.client_api import Append, Ok
from dethrone.harness.core.rng import Rng
from tests.clusters.dledger.spec import World
from tests.world.chaos import drawn, play


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_writes_survive(seed):
    world = World("ABC", seed=seed, profile="dledger-mended")
    rng = Rng(seed).stream("writes")
    sent = {}
    for value in range(40):
        for box in [one for one in world.boxes.values() if one.leads]:
            sent[world.request(box.name, Append("w", f"{box.name}{value}"))] = f"{box.name}{value}"
        play(world, drawn(World, rng, "ABC", count=3))
        if value % 8 == 0:
            world.mend()
            world.run(20_000, until=world.led)
    world.mend()
    assert world.run(60_000, until=world.converged)
    log = world.boxes["A"].node.log.entries
    acked = {number: answer for number in sent if isinstance(answer := world.replies.get(number), Ok)}
    assert acked
    for number, answer in acked.items():
        entry = log[answer.index - 1]
        assert (entry.term + 1, entry.command) == (answer.term, Append("w", sent[number]))
    assert world.problems == []
