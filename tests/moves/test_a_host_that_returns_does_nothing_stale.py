"""M5: a fenced host is not waited for; what it was asked before, it does not do when it returns either.

Found by a storm: a migration's source lost its power before it had begun to stop the guest. The
migration turned back and asked it to start the guest again; then the host was fenced, so nobody
waited for that, and the server was evacuated. When the host returned it did as it was asked, and
the guest ran twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berthold.lab.world import World, with_settings
from berthold.ledger import hosts
from by_hand import evacuate, lose, step_until


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=3, settings=with_settings(retry_first_s=0.1, retry_last_s=0.2))
    yield made
    made.close()


def test_an_undo_that_a_fenced_host_was_asked_for_dies_with_its_epoch(world: World) -> None:
    one = world.boot("one", host="node1")
    move = world.migrate(one)
    step_until(world, move, "stop guest")
    lose(world, "node1")
    while world.move(move)["state"] == "running":  # until it has given up on node1
        world.step(move)
        world.pass_time(1.0)
    assert [ask["verb"] for ask in world.rows("ask") if ask["state"] == "open"] == ["start"]
    world.store.write_now(hosts.fence, world.host_id("node1"))
    world.settle()
    assert world.move(move)["state"] == "undone"
    evacuate(world, one)
    world.settle()
    world.restart_agent("node1")
    world.settle()
    assert world.problems() == []
    assert world.ground.runners(one) == [world.home(one)]
