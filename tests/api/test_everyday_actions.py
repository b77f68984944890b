"""Power, locks, states and consoles over the API."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest


@pytest.mark.parametrize(
    ("action", "wish", "task", "status"),
    [
        ("os-stop", None, "powering-off", "SHUTOFF"),
        ("reboot", {"type": "SOFT"}, "rebooting", "ACTIVE"),
        ("reboot", {"type": "hard"}, "rebooting_hard", "ACTIVE"),
        ("pause", None, "pausing", "PAUSED"),
    ],
)
def test_power_changes_are_begun_with_202_and_seen_at_once(
    cloud: Any, fault: Any, action: str, wish: Any, task: str, status: str
) -> None:
    cloud.host()
    server = cloud.server()
    fault(cloud.act(server, action, wish, "rita"), 403)
    assert cloud.act(server, action, wish, "ann").status == 202
    assert cloud.shown(server)["OS-EXT-STS:task_state"] == task
    assert "while it is in task_state" in fault(cloud.act(server, action, wish, "ann"), 409)
    cloud.world.settle()
    assert cloud.shown(server)["status"] == status


def test_a_stopped_server_starts_and_a_paused_one_goes_on(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    for away, back in (("os-stop", "os-start"), ("pause", "unpause")):
        fault(cloud.act(server, back, None, "ann"), 409)
        assert cloud.act(server, away, None, "ann").status == 202
        cloud.world.settle()
        assert cloud.act(server, back, None, "ann").status == 202
        cloud.world.settle()
        assert cloud.shown(server)["status"] == "ACTIVE"
    names = [a["action"] for a in cloud.get(f"/servers/{server}/os-instance-actions").json["instanceActions"]]
    assert names == ["unpause", "pause", "start", "stop", "create"]


def test_bodies_of_actions_are_checked(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    for action, wish in [
        ("reboot", None),
        ("reboot", {}),
        ("reboot", {"type": "GENTLE"}),
        ("os-stop", {"x": 1}),
        ("os-resetState", {"state": "deleted"}),
        ("os-getConsoleOutput", {"length": "x"}),
        ("os-getConsoleOutput", {"length": -2}),
    ]:
        fault(cloud.act(server, action, wish), 400)
    assert "changePassword" in fault(cloud.act(server, "changePassword"), 400)
    fault(cloud.act(server, "lock", {"locked_reason": "x"}, version="2.72"), 400)


def test_a_locked_server_obeys_admins_only(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    assert cloud.act(server, "lock", {"locked_reason": "mine"}, "ann", "2.73").status == 202
    shown = cloud.shown(server, "ann")
    assert (shown["locked"], shown["locked_reason"]) == (True, "mine")
    volume = {"volumeAttachment": {"volumeId": cloud.volume()}}
    refused = [
        cloud.act(server, "os-stop", None, "ann"),
        cloud.act(server, "reboot", {"type": "HARD"}, "ann"),
        cloud.act(server, "forceDelete", None, "ann"),
        cloud.delete(f"/servers/{server}", "ann"),
        cloud.post(f"/servers/{server}/metadata", {"metadata": {"a": "b"}}, "ann"),
        cloud.put(f"/servers/{server}/tags/x", None, "ann", "2.26"),
        cloud.post(f"/servers/{server}/os-volume_attachments", volume, "ann"),
    ]
    for answer in refused:
        assert fault(answer, 409) == f"Instance {server} is locked"
    assert cloud.act(server, "unlock", None, "ann").status == 202
    assert cloud.act(server, "lock").status == 202
    assert "unlock_override" in fault(cloud.act(server, "unlock", None, "ann"), 403)
    assert cloud.act(server, "os-stop").status == 202
    cloud.world.settle()
    assert cloud.shown(server)["status"] == "SHUTOFF"
    assert cloud.act(server, "unlock").status == 202
    assert cloud.shown(server)["locked"] is False


def test_an_admin_may_say_what_a_server_is(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    fault(cloud.act(server, "os-resetState", {"state": "error"}, "mel"), 403)
    assert cloud.act(server, "os-resetState", {"state": "error"}).status == 202
    assert cloud.shown(server)["status"] == "ERROR"
    assert cloud.act(server, "os-resetState", {"state": "active"}).status == 202
    assert cloud.shown(server)["status"] == "ACTIVE"


def test_force_delete_is_delete(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    assert cloud.act(server, "forceDelete", None, "ann").status == 202
    cloud.world.settle()
    fault(cloud.get(f"/servers/{server}", "ann"), 404)


def with_hosts_at_work(cloud: Any, method: str, path: str, who: str, version: str, json: Any) -> Any:
    """One request that waits for what a host answers."""

    async def ask() -> httpx.Response:
        hosts = asyncio.create_task(cloud.obeying())
        try:
            transport = httpx.ASGITransport(cloud.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as client:
                headers = {"X-Auth-Token": who, "OpenStack-API-Version": f"compute {version}"}
                return await client.request(method, f"/v2.1{path}", headers=headers, json=json)
        finally:
            hosts.cancel()

    return asyncio.run(ask())


def test_what_a_guest_writes_to_its_console_is_read(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    path = f"/servers/{server}/action"
    whole = with_hosts_at_work(cloud, "POST", path, "ann", "2.96", {"os-getConsoleOutput": {}})
    assert whole.status_code == 200
    output = whole.json()["output"]
    assert len(output.splitlines()) > 2
    for length, lines in (("2", 2), (-1, len(output.splitlines()))):
        body = {"os-getConsoleOutput": {"length": length}}
        some = with_hosts_at_work(cloud, "POST", path, "ann", "2.1", body)
        assert len(some.json()["output"].splitlines()) == lines
    fault(cloud.act(server, "os-getConsoleOutput", {}, "rita"), 403)
    fault(cloud.act(server, "os-getConsoleOutput", {}, "bob"), 404)
    waiting = cloud.server("waiting", settle=False)
    fault(cloud.act(waiting, "os-getConsoleOutput", {}, "ann"), 409)


def test_there_is_no_console_in_a_browser_and_the_answer_says_so(cloud: Any, fault: Any) -> None:
    cloud.host()
    server = cloud.server()
    path = f"/servers/{server}/remote-consoles"
    wish = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    assert "Unavailable console type novnc" in fault(cloud.post(path, wish, "ann", "2.6"), 400)
    fault(cloud.post(path, {"remote_console": {"protocol": "x", "type": "novnc"}}, "ann", "2.6"), 400)
    fault(cloud.post(path, wish, "rita", "2.6"), 403)
    fault(cloud.post(path, wish, "ann", "2.5"), 404)
    assert "os-getVNCConsole" in fault(cloud.act(server, "os-getVNCConsole", {"type": "novnc"}), 400)


@pytest.mark.parametrize("action", ["resize", "migrate", "os-migrateLive"])
def test_a_server_leaves_a_host_that_is_disabled_and_not_one_that_is_down(
    cloud: Any, fault: Any, action: str
) -> None:
    cloud.host("node1")
    cloud.flavor("101", vcpus=2)
    server = cloud.server()
    service = cloud.get("/os-services", version="2.53").json["services"][0]["id"]
    cloud.host("node2")
    wish = {
        "resize": {"flavorRef": "101"},
        "migrate": None,
        "os-migrateLive": {"host": None, "block_migration": "auto"},
    }[action]
    down = {"forced_down": True}
    assert cloud.put(f"/os-services/{service}", down, version="2.53").json["service"]["state"] == "down"
    assert "its host is down" in fault(cloud.act(server, action, wish), 409)
    assert cloud.put(f"/os-services/{service}", {"forced_down": False}, version="2.53").status == 200
    cloud.world.silent.add("node1")
    cloud.world.pass_time(60)
    fault(cloud.act(server, action, wish), 409)
    cloud.world.silent.clear()
    cloud.world.restart_agent("node1")
    assert cloud.put(f"/os-services/{service}", {"status": "disabled"}, version="2.53").status == 200
    assert cloud.act(server, action, wish).status == 202
