"""C-d01: DELETE right after create is answered with 409.

The story (Launchpad nova 1836754): until a host was found a server had a record of another kind,
and a DELETE that came while the one became the other met an inner conflict.

Right: 204 at every instant, and nothing is left. What makes it so: a server is one row from its
first moment, and delete takes the place of whatever is under way in one transaction (M3).
"""

from __future__ import annotations

from typing import Any


def test_204_at_every_line_of_a_create(cloud: Any) -> None:
    cloud.host()
    for steps in range(30):
        server = cloud.server(f"s{steps}", settle=False)
        (create,) = cloud.world.unfinished()
        for _ in range(steps):
            if create in cloud.world.unfinished():
                cloud.world.step(create)
                cloud.world.obey("node1")
        over = create not in cloud.world.unfinished()
        assert cloud.delete(f"/servers/{server}", "ann").status == 204
        assert cloud.delete(f"/servers/{server}", "ann").status == 204
        cloud.world.settle()
        assert cloud.get(f"/servers/{server}", "ann").status == 404
        assert cloud.world.rows("claim") == []
        if over:
            return
    raise AssertionError("the create never ended, so not every line of it was tried")
