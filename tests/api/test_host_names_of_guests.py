"""What a guest may be called: one name from 2.90 on, with its domain from 2.94 on."""

from __future__ import annotations

from typing import Any

import pytest

ONE = ["a", "ab", "web-1", "A9", "0", "x" * 63]
WHOLE = ["a.b.c", "web-1.example.com", ".".join(["x" * 60] * 4)]
NONE = ["-", "_", ".", "a_b", "-a", "a-", "a..b", ".a", "a.", "x" * 64, "a." + "x" * 64]


def answers(cloud: Any, name: str, version: str) -> set[int]:
    """The statuses of a create, a change and a rebuild with it."""
    wish = {"name": "s", "flavorRef": "100", "imageRef": cloud.image(), "networks": "none"}
    server = cloud.post("/servers", {"server": wish}, "ann", version).json["server"]["id"]
    cloud.world.settle()
    created = cloud.post("/servers", {"server": {**wish, "hostname": name}}, "ann", version)
    changed = cloud.put(f"/servers/{server}", {"server": {"hostname": name}}, "ann", version)
    rebuild = {"imageRef": wish["imageRef"], "hostname": name}
    rebuilt = cloud.act(server, "rebuild", rebuild, "ann", version)
    return {0 if answer.status < 300 else answer.status for answer in (created, changed, rebuilt)}


@pytest.mark.parametrize(
    ("version", "names", "status"),
    [
        ("2.90", ONE, 0),
        ("2.93", WHOLE, 400),
        ("2.94", [*ONE, *WHOLE], 0),
        ("2.90", NONE, 400),
        ("2.96", NONE, 400),
    ],
)
def test_a_host_name_is_one(cloud: Any, version: str, names: list[str], status: int) -> None:
    cloud.host(vcpus=64, memory_mb=65536)
    cloud.flavor(disk=1, ram=64)
    for name in names:
        assert answers(cloud, name, version) == {status}, name
