"""C-a05: an old microversion or a force flag skips the scheduler.

The story (python-openstackclient commit 305798971; Launchpad nova 1712008): in old API versions
a named host means "do not ask the scheduler", and later ones have a flag for it. All rules live in
the scheduler, so nothing is checked at all: neither the group's policy nor the room.

Right: force may skip preferences, never rules or capacity (M8). What prevents it: the scheduler
only advises. Here it is taken away altogether, and the ledger still refuses.
"""

from __future__ import annotations

from typing import Any

import pytest

from berthold.lab.world import LARGE
from berthold.ledger import hosts
from berthold.scheduler import candidates, filters
from by_hand import MakeWorld, ended, lose, preferred, shown, why


@pytest.fixture
def _no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler proposes the host that was named, or any other, lawful or not."""
    wishes = tuple(each for each in filters.FILTERS if each.name in ("requested host", "source host"))
    assert len(wishes) == 2
    monkeypatch.setattr(candidates, "FILTERS", wishes)


@pytest.mark.parametrize("named", ["node2", None])
@pytest.mark.parametrize("kind", ["live_migrate", "migrate"])
@pytest.mark.usefixtures("_no_rules")
def test_the_group_rule_holds_without_a_scheduler(
    make_world: MakeWorld, kind: str, named: str | None
) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("anti-affinity")
    one = world.boot("one", group, host="node1")
    two = world.boot("two", group, host="node2")
    move = getattr(world, kind)(one, host=named)
    assert preferred(world, move) == ["node2"], "it would propose anything"
    world.settle()
    assert (world.home(one), world.home(two)) == ("node1", "node2")
    assert shown(world, one) == ("ACTIVE", None)
    assert ended(world, move) == "error"
    assert "1 host: group rule (Anti-affinity instance group policy was violated)" in why(world, move)


@pytest.mark.usefixtures("_no_rules")
def test_so_does_an_affinity_groups(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    group = world.group("affinity")
    one = world.boot("one", group, host="node1")
    two = world.boot("two", group, host="node1")
    move = world.live_migrate(one, "node2")
    world.settle()
    assert (world.home(one), world.home(two)) == ("node1", "node1")
    assert ended(world, move) == "error"
    assert "Affinity instance group policy was violated" in why(world, move)


@pytest.mark.parametrize("rule", ["capacity", "host state"])
@pytest.mark.usefixtures("_no_rules")
def test_so_do_room_and_the_state_of_hosts(make_world: MakeWorld, rule: str) -> None:
    world = make_world(node1=1)
    if rule == "host state":
        world.store.write_now(hosts.set_disabled, world.host_id("node1"), True)
    one = world.boot("one", host="node1", flavor=LARGE)
    assert shown(world, one) == ("ERROR", None)
    assert world.claims(one) == []
    assert f"1 host: {rule}" in world.server(one)["fault"]["message"]


FORCED = [
    ("os-migrateLive", "2.25", {"block_migration": "auto"}),
    ("os-migrateLive", "2.30", {"block_migration": "auto", "force": True}),
    ("evacuate", "2.29", {"force": True}),
]


@pytest.mark.parametrize(("action", "version", "wish"), FORCED, ids=[f"{f[0]} {f[1]}" for f in FORCED])
def test_neither_force_nor_an_old_version_is_a_way_round(
    cloud: Any, action: str, version: str, wish: dict[str, Any]
) -> None:
    """As it was reported: a host that is named so goes past the scheduler."""
    cloud.host("node1")
    group = cloud.group()
    one = cloud.server("m1", hints={"group": group})
    cloud.host("node2")
    two = cloud.server("m2", hints={"group": group})
    if action == "evacuate":
        lose(cloud.world, "node1")
    said = cloud.act(one, action, {"host": "node2", **wish}, version=version)
    assert said.status in (200, 202)
    cloud.world.settle()
    assert (cloud.world.home(one), cloud.world.home(two)) == ("node1", "node2")
    assert (cloud.shown(one)["status"], cloud.shown(one)["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    (migration,) = cloud.get("/os-migrations").json["migrations"]
    assert migration["status"] == "error"
