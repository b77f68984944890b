"""C-d12: filters that nothing can pass.

The stories (Launchpad nova 1579706, 1796008, 1796009 and 1835925): an unknown status listed everything, a
period that ends before it begins was a 500, unknown filters were obeyed or ignored by chance.

Right: empty or 400, by the version's own rule. What prevents it: every parameter is known to its
row of the table, with the versions that have it.
"""

from __future__ import annotations

from typing import Any


def test_nothing_or_400_and_never_everything(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    assert cloud.get("/servers?status=banana", "ann", "2.1").json == {"servers": []}
    assert cloud.get("/servers?status=banana", "ann", "2.37").json == {"servers": []}
    fault(cloud.get("/servers?status=banana", "ann", "2.38"), 400)
    backwards = "changes-since=2030-01-02T00:00:00Z&changes-before=2030-01-01T00:00:00Z"
    for path in ("/os-migrations", f"/servers/{server}/os-instance-actions"):
        fault(cloud.get(f"{path}?{backwards}", version="2.66"), 400)
        fault(cloud.get(f"{path}?banana=1", version="2.66"), 400)
    fault(cloud.get(f"/servers?{backwards}", "ann", "2.66"), 400)
    assert cloud.get("/servers?banana=1", "ann", "2.74").status == 200
    fault(cloud.get("/servers?banana=1", "ann", "2.75"), 400)
