"""The story of those who wait for a place instead of failing (M7); its page is written as the others are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from berthold.moves import begin
from telling import Story, story


def patient_live_migration(it: Story, server: str) -> Callable[[], object]:
    """What `Berthold-Wait: 600` asks for."""
    by = replace(it.world.by(), wait_s=600.0)
    return lambda: it.world.store.write_now(begin.begin, "live-migration", server, by, {"host": None})


def test_three_go_one_after_another_through_one_free_host(pytestconfig: pytest.Config) -> None:
    tell = bool(pytestconfig.getoption("--tell"))
    with story("Three go through one free host", "waiting_for_a_place.md", tell=tell, hosts=4) as it:
        world = it.world
        web = world.group("anti-affinity")
        servers = {f"web-{n}": it.boots(f"web-{n}", web, host=f"node{n}") for n in (1, 2, 3)}
        it.says(
            """Three members of an anti-affinity group, and one host that is free. Each is to go somewhere
            else, and may wait for that: where the first one leaves, the next can go."""
        )
        for name, server in servers.items():
            it.asks(f"owner: live-migrate {name}, waiting up to 600 s", patient_live_migration(it, server))
        it.goes()
        it.says("Nobody was told no, and each went when there was a place for it, in the order of asking.")
        it.shows()

        it.part("Nobody waits in a circle")
        it.boots("web-4", web, host="node3")
        it.says("Now every host has its member, and two want to leave: each would go where the other is.")
        for name in ("web-1", "web-2"):
            it.asks(
                f"owner: live-migrate {name}, waiting up to 600 s", patient_live_migration(it, servers[name])
            )
        it.goes()
        it.says(
            """The first could wait while the second went on. The second could only have waited for the first,
            which waits itself: it is told so, and with that there is nothing left to wait for."""
        )
        it.shows()
