"""C-e01: a resize into a flavor that the project was never given.

The stories (Launchpad nova 2151256 and 1194093, CVE-2013-2256): access was checked where flavors are shown,
and not where one is named in another request.

Right: 400 for resize and create, 404 for show, in the words of a flavor that never was. What makes
it so: every look at a flavor passes the project along, and there is no other look.
"""

from __future__ import annotations

from typing import Any


def test_no_difference_to_an_unknown_id(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    cloud.flavor("secret", vcpus=2, **{"os-flavor-access:is_public": False})
    cloud.post("/flavors/secret/action", {"addTenantAccess": {"tenant": "b" * 32}})
    told = {}
    for flavor in ("secret", "nobody"):
        wish = {"server": {"name": "x", "flavorRef": flavor, "imageRef": cloud.image(), "networks": "none"}}
        answers = [
            fault(cloud.act(server, "resize", {"flavorRef": flavor}, "ann"), 400),
            fault(cloud.post("/servers", wish, "ann", "2.96"), 400),
            fault(cloud.get(f"/flavors/{flavor}", "ann"), 404),
        ]
        told[flavor] = [words.replace(flavor, "…") for words in answers]
    assert told["secret"] == told["nobody"]
    assert cloud.get("/flavors/secret", "bob").status == 200
    assert cloud.shown(server)["status"] == "ACTIVE"
    assert cloud.world.server(server)["flavor"]["id"] == "100"
