"""C-b04: a resize or cold migration away from a host that cannot take part.

The stories (Launchpad nova 1856925 and 1938326): the request was accepted, the server stayed in its task for
ever, and the place on the destination stayed taken.

Right: 202 from a host that is only disabled; 409 from one that is forced down or silent, and
nothing is claimed anywhere. What makes it so: the API looks at the home's state in the transaction
that would begin the move.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("action", ["resize", "migrate"])
@pytest.mark.parametrize("state", ["disabled", "forced down", "silent", "disabled and silent"])
def test_only_a_host_that_answers_can_be_left(cloud: Any, fault: Any, action: str, state: str) -> None:
    home = cloud.host("node1")
    cloud.flavor("101", vcpus=2)
    server = cloud.server()
    cloud.host("node2")
    if "disabled" in state:
        cloud.put(f"/os-services/{home}", {"status": "disabled"}, version="2.53")
    if "forced" in state:
        cloud.put(f"/os-services/{home}", {"forced_down": True}, version="2.53")
    if "silent" in state:
        cloud.world.silent.add("node1")
        cloud.world.pass_time(60)
    before = cloud.world.picture()
    answer = cloud.act(server, action, {"flavorRef": "101"} if action == "resize" else None)
    if state == "disabled":
        assert answer.status == 202
    else:
        assert "Service is unavailable" in fault(answer, 409)
        assert cloud.world.picture() == before
        assert cloud.shown(server)["status"] == "ACTIVE"
    cloud.world.silent.clear()
