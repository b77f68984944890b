"""C-e10 and C-e12: rights that stick to a request, and rules that are not loaded yet.

The stories (Launchpad nova 1386932 and 2161699): a create worked with a copy of the request that had an
admin's rights, and the copy was the request; the first requests after a start were judged by
rules of which the operator's file was still missing.

Right: a member stays a member before, during and after, also beside an admin; the first of many
requests at once is judged by the operator's file. What makes it so: nothing ever raises rights,
an `Actor` cannot be changed, and rules are loaded before there is an application.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from berthold.api.policy import Policy
from compute import ACTORS


def at_once(cloud: Any, who: list[str], path: str) -> list[int]:
    async def ask() -> list[int]:
        transport = httpx.ASGITransport(cloud.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
            asked = (client.get(f"/v2.1{path}", headers={"X-Auth-Token": each}) for each in who)
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    return asyncio.run(ask())


def test_a_member_stays_a_member(cloud: Any, fault: Any) -> None:
    cloud.host()
    cloud.server()
    before = ACTORS["ann"]
    fault(cloud.get("/os-hypervisors", "ann"), 403)
    assert ACTORS["ann"] == before
    assert at_once(cloud, ["admin", "ann"] * 10, "/os-services") == [200, 403] * 10


def test_the_first_requests_are_judged_by_the_operators_file(cloud: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"os_compute_api:servers:index": "!"\n')
    cloud.app = cloud.over_http(policy=Policy(file))
    assert at_once(cloud, ["ann"] * 50, "/servers") == [403] * 50
