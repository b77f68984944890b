"""Volumes and interfaces of one server are asked for several at a time, and come one after another.

Where a request waits for its turn, the test is told (`meanwhile`), so nothing rests on how long that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from berthold.lab.world import with_settings
from berthold.ledger import schema
from berthold.ledger.bus import Subscription
from berthold.moves import begin, in_turn
from by_hand import under_way

Meanwhile = Callable[..., None]


@pytest.fixture
def cloud(cloud: Any) -> Any:
    """One host; requests wait for their turn for as long as they usually do."""
    cloud.app = cloud.over_http(settings=with_settings())
    cloud.host()
    return cloud


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """`meanwhile(f, g)`: f happens while a request waits, and g the next time that one waits."""

    def plan(*happens: Callable[[], object]) -> None:
        left = list(happens)

        async def wait(self: Subscription, seconds: float) -> bool:
            assert seconds <= in_turn.LOOK_S
            left.pop(0)()
            return True

        monkeypatch.setattr(Subscription, "wait", wait)

    return plan


def attach(cloud: Any, server: str, volume: str) -> Any:
    wish = {"volumeAttachment": {"volumeId": volume}}
    return cloud.post(f"/servers/{server}/os-volume_attachments", wish, "ann", "2.96")


def volumes_of(cloud: Any, server: str) -> list[str]:
    listed = cloud.get(f"/servers/{server}/os-volume_attachments", "ann").json["volumeAttachments"]
    return [each["volumeId"] for each in listed][1:]


def test_the_second_volume_waits_for_the_first(cloud: Any, meanwhile: Meanwhile) -> None:
    server, one, two = cloud.server(), cloud.volume(), cloud.volume()
    assert attach(cloud, server, one).status == 200
    meanwhile(cloud.world.settle)
    second = attach(cloud, server, two)
    assert (second.status, second.json["volumeAttachment"]["device"]) == (200, "/dev/vdc")
    cloud.world.settle()
    assert volumes_of(cloud, server) == [one, two]
    assert cloud.world.problems() == []


def test_what_waits_is_told_when_the_move_has_ended(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = cloud.server()
    told: list[str] = []
    monkeypatch.setattr(cloud.store.bus, "_hearers", [told.extend])
    attach(cloud, server, cloud.volume())
    move = under_way(cloud.world, server)
    while cloud.world.unfinished():
        assert f"server:{server}" not in told
        cloud.world.step(move)
        cloud.world.obey("node1")
    assert f"server:{server}" in told


def test_volumes_and_interfaces_wait_for_each_other_to_come_and_go(cloud: Any, meanwhile: Meanwhile) -> None:
    network, volume = cloud.network(), cloud.volume()
    server = cloud.server(networks=[{"uuid": network}])
    path = f"/servers/{server}"
    (port,) = cloud.get(f"{path}/os-interface", "ann").json["interfaceAttachments"]
    attach(cloud, server, volume)
    for method, where, wish in (
        ("POST", "os-interface", {"interfaceAttachment": {"net_id": network}}),
        ("DELETE", f"os-volume_attachments/{volume}", None),
        ("DELETE", f"os-interface/{port['port_id']}", None),
        ("POST", "os-volume_attachments", {"volumeAttachment": {"volumeId": volume}}),
    ):
        if where == "os-volume_attachments":
            cloud.world.settle()  # its volume is not available while it is being given back
        meanwhile(cloud.world.settle)
        answer = cloud.send(method, f"/v2.1{path}/{where}", "ann", "2.96", wish)
        assert answer.status in (200, 202), answer.json
    cloud.world.settle()
    assert volumes_of(cloud, server) == [volume]
    assert len(cloud.get(f"{path}/os-interface", "ann").json["interfaceAttachments"]) == 1


def test_a_turn_that_does_not_come_in_time_is_a_conflict(
    cloud: Any, fault: Any, meanwhile: Meanwhile
) -> None:
    server, volume = cloud.server(), cloud.volume()
    attach(cloud, server, cloud.volume())
    before, moves = cloud.world.picture(), cloud.world.moves()
    meanwhile(lambda: cloud.clock.advance(29.0), lambda: cloud.clock.advance(1.0))
    refused = fault(attach(cloud, server, volume), 409)
    assert refused == (
        f"Cannot 'attach_volume' instance {server} while it is in vm_state active and its attach-volume is"
        " under way"
    )
    assert (cloud.world.picture(), cloud.world.moves()) == (before, moves)
    assert len(cloud.world.rows("action")) == 2, "create and the first attach"


def test_a_cloud_may_refuse_at_once(cloud: Any, fault: Any, meanwhile: Meanwhile) -> None:
    cloud.app = cloud.over_http(settings=with_settings(turn_s=0.0))
    server = cloud.server()
    attach(cloud, server, cloud.volume())
    meanwhile()
    fault(attach(cloud, server, cloud.volume()), 409)


def test_other_moves_refuse_and_are_refused_at_once(cloud: Any, fault: Any, meanwhile: Meanwhile) -> None:
    server, volume = cloud.server(), cloud.volume()
    meanwhile()
    attach(cloud, server, cloud.volume())
    for action, wish in (("os-stop", None), ("os-migrateLive", {"host": None, "block_migration": "auto"})):
        assert "its attach-volume is under way" in fault(cloud.act(server, action, wish), 409)
    cloud.world.settle()
    assert cloud.act(server, "os-stop", None, "ann").status == 202
    assert "while it is in task_state powering-off" in fault(attach(cloud, server, volume), 409)
    cloud.world.settle()
    cloud.act(server, "os-start", None, "ann")
    fault(cloud.delete(f"/servers/{server}/os-volume_attachments/{volume}", "ann"), 404)


def test_what_was_taken_meanwhile_is_refused(cloud: Any, fault: Any, meanwhile: Meanwhile) -> None:
    server, other, volume = cloud.server(), cloud.server("other"), cloud.volume()
    attach(cloud, server, cloud.volume())

    def taken() -> None:
        by = begin.By("ann-id", "a" * 32, "req-other")
        cloud.store.write_now(begin.attach_volume, other, by, volume)
        cloud.world.settle()

    meanwhile(taken)
    assert "Currently in 'in-use'" in fault(attach(cloud, server, volume), 400)
    assert volumes_of(cloud, other) == [volume]


def test_the_server_was_deleted_meanwhile(cloud: Any, fault: Any, meanwhile: Meanwhile) -> None:
    server, volume = cloud.server(), cloud.volume()
    attach(cloud, server, cloud.volume())

    def deleted() -> None:
        cloud.store.write_now(begin.begin, "delete", server, begin.By("ann-id", "a" * 32, "req-2"), {})

    meanwhile(deleted)
    assert "task_state deleting" in fault(attach(cloud, server, volume), 409)
    cloud.world.settle()
    assert cloud.world.problems() == []


def test_what_is_stuck_is_not_waited_for(cloud: Any, fault: Any, meanwhile: Meanwhile) -> None:
    server, volume = cloud.server(), cloud.volume()
    attach(cloud, server, cloud.volume())
    stuck = update(schema.move).where(schema.move.c.id == under_way(cloud.world, server))
    tried = {"was": "running", "before": {}, "message": "tried a hundred times"}
    cloud.store.write_now(lambda tx: tx.execute(stuck.values(state="stuck", failure=tried)))
    meanwhile()
    assert "Cannot 'attach_volume'" in fault(attach(cloud, server, volume), 409)
