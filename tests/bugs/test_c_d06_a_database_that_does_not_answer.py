"""C-d06: what cannot be looked up is said not to exist.

The story (cluster-api-provider-openstack 2085): while the cloud's database was away, servers were answered
as 404 or lists as empty; a controller concluded that its machines were gone and built new ones.

Right: 503, for one server and for lists. What makes it so: a database that is not there is a
failure of its own kind (`Unavailable`), which nothing turns into an empty answer.
"""

from __future__ import annotations

from typing import Any

from berthold.ledger.store import Store


def test_503_and_neither_404_nor_an_empty_list(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server("m1")
    away = Store("postgresql+psycopg://nobody@127.0.0.1:1/nothing?connect_timeout=1", clock=cloud.clock)
    try:
        cloud.app = cloud.over_http(store=away)
        for path in (f"/servers/{server}", "/servers?name=m1", "/servers/detail", "/os-server-groups"):
            assert "does not answer" in fault(cloud.get(path, "ann"), 503), path
        fault(cloud.delete(f"/servers/{server}", "ann"), 503)
    finally:
        away.close()
    cloud.app = cloud.made_app
    assert cloud.shown(server, "ann")["status"] == "ACTIVE"
