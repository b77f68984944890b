"""C-e06: an admin's call swaps a server's volume, and its record keeps the old one.

The story (Launchpad nova 2112187): the call is meant for the storage service, which makes it at the end of
moving a volume's data. An admin who makes it directly leaves server and storage with different ideas of
which disk is which; the next live migration then attaches another tenant's.

Right: refused, and guest and record agree at all times. What makes it so: this cloud's storage moves no
data, so nobody's swap is accepted; the guest that a move makes is the server's record.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("who", ["admin", "ann", "mel"])
def test_nobody_swaps_and_the_next_move_takes_the_right_disk(cloud: Any, fault: Any, who: str) -> None:
    cloud.host("node1")
    cloud.host("node2")
    server = cloud.server()
    (attached,) = cloud.world.server(server)["volumes"]
    other = cloud.volume()
    body = {"volumeAttachment": {"volumeId": other}}
    path = f"/servers/{server}/os-volume_attachments/{attached['volume_id']}"
    fault(cloud.put(path, body, who, "2.85"), 409 if who == "admin" else 403)
    cloud.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    cloud.world.settle()
    home = cloud.world.home(server)
    place = cloud.world.ground.place(home, server)
    assert [each["volume_id"] for each in place.guest.volumes] == [attached["volume_id"]]
    assert cloud.world.server(server)["volumes"] == [attached]
    (still_free,) = [row for row in cloud.world.rows("volume") if row["id"] == other]
    assert still_free["status"] == "available"
