"""T1 on every route of the table: what is another project's looks like what never was.

The list of routes is the table itself. Each path with a parameter is asked by Bob with the
ids of Ann's things, and must be answered as it is for ids that nobody has. What has no
parameter lists or makes: a list shows nothing of Ann's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from berthold.api.dispatch import Route
from berthold.api.microversions import HISTORY, version
from berthold.api.routes import ROUTES
from berthold.api.server_actions import ACTIONS

UNKNOWN = "00000000-0000-4000-8000-000000000000"
# Things of the whole cloud, which nobody owns: flavors that are public, hosts, zones, aggregates.
NOBODYS = (
    *("/flavors", "/os-hypervisors", "/os-services", "/os-aggregates", "/os-availability-zone"),
    "/os-quota-class-sets",
)
# Good bodies where a body must be good to come as far as the thing.
BODIES: dict[str, Any] = {
    "/os-server-groups/{group_id}/action": {"move": None},
    "/servers/{server_id}": {"server": {"name": "mine"}},
    "/servers/{server_id}/metadata": {"metadata": {"a": "b"}},
    "/servers/{server_id}/metadata/{key}": {"meta": {"secret": "b"}},
    "/servers/{server_id}/tags": {"tags": ["mine"]},
    "/servers/{server_id}/remote-consoles": {"remote_console": {"protocol": "vnc", "type": "novnc"}},
    "/servers/{server_id}/os-interface": {"interfaceAttachment": {"port_id": "PORT"}},
    "/servers/{server_id}/os-volume_attachments": {"volumeAttachment": {"volumeId": "VOLUME"}},
    "/servers/{server_id}/os-volume_attachments/{volume_id}": {"volumeAttachment": {"volumeId": "VOLUME"}},
    "/servers/{server_id}/migrations/{migration_id}/action": {"force_complete": None},
    "/os-quota-sets/{project_id}": {"quota_set": {"instances": 1}},
}
WISHES: dict[str, Any] = {
    "os-migrateLive": {"host": None, "block_migration": "auto"},
    "resize": {"flavorRef": "100"},
    "reboot": {"type": "HARD"},
    "os-resetState": {"state": "error"},
    "rebuild": {"imageRef": UNKNOWN},
    "createImage": {"name": "mine"},
    "createBackup": {"name": "mine", "backup_type": "daily", "rotation": 1},
}


@pytest.fixture
def anns(cloud: Any) -> dict[str, str]:
    """Ann's things, by the name of the parameter that stands for each; and their words."""
    cloud.host()
    cloud.host("node2")
    network = cloud.network()
    group = cloud.group("ann")
    server = cloud.server(
        "anns-server", networks=[{"uuid": network}], metadata={"secret": "anns-word"}, hints={"group": group}
    )
    cloud.put(f"/servers/{server}/tags/anns-tag", None, "ann", "2.26")
    cloud.post("/os-keypairs", {"keypair": {"name": "anns-key"}}, "ann", "2.2")
    migration = cloud.act(server, "os-migrateLive", WISHES["os-migrateLive"])
    assert migration.status == 202
    (shown,) = cloud.get(f"/servers/{server}/migrations", "mel", "2.80").json["migrations"]
    (volume,) = cloud.get(f"/servers/{server}/os-volume_attachments", "ann").json["volumeAttachments"]
    (port,) = cloud.get(f"/servers/{server}/os-interface", "ann").json["interfaceAttachments"]
    (move,) = cloud.world.unfinished()
    (action, *_) = cloud.get(f"/servers/{server}/os-instance-actions", "ann").json["instanceActions"]
    return {
        "server_id": server,
        "group_id": group,
        "project_id": "a" * 32,
        "name": "anns-key",
        "migration_id": str(shown["id"]),
        "move_id": move,
        "volume_id": volume["volumeId"],
        "port_id": port["port_id"],
        "request_id": action["request_id"],
        "key": "secret",
        "tag": "anns-tag",
        "network": "private",
    }


def owned(route: Route) -> bool:
    return not route.path.startswith(NOBODYS)


def newest(route: Route) -> str:
    """The newest version that has the row."""
    return next(text for text in reversed(HISTORY) if version(text) in route.versions)


def filled(text: str, things: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: things[found[1]], text)


def bodies(route: Route, things: dict[str, str]) -> Iterator[Any]:
    if route.path == "/servers/{server_id}/action":
        yield from ({name: WISHES.get(name)} for name in ACTIONS)
    elif route.body is None:
        yield None
    else:
        body = json.dumps(BODIES[route.path])
        yield json.loads(body.replace("VOLUME", things["volume_id"]).replace("PORT", things["port_id"]))


def same(answer: Any, things: dict[str, str]) -> tuple[int, str]:
    """Status and words, the ids that were asked for taken out."""
    text = msgspec.json.encode(answer.json).decode()
    for thing in sorted(things.values(), key=len, reverse=True):
        if len(thing) > 3:
            text = text.replace(thing, "…")
    return answer.status, text


def test_another_project_s_things_look_as_if_they_never_were(cloud: Any, anns: dict[str, str]) -> None:
    unknown = dict.fromkeys(anns, UNKNOWN)
    unknown |= {"project_id": "f" * 32, "migration_id": "987654", "key": "secret"}
    before = cloud.world.picture()
    asked = 0
    for route in ROUTES:
        if "{" not in route.path or not owned(route):
            continue
        for who in ("bob", "rob"):
            for body, other in zip(bodies(route, anns), bodies(route, unknown), strict=True):
                real = cloud.send(route.method, "/v2.1" + filled(route.path, anns), who, newest(route), body)
                none = cloud.send(
                    route.method, "/v2.1" + filled(route.path, unknown), who, newest(route), other
                )
                assert same(real, anns) == same(none, unknown), (route.method, route.path, body, who)
                if not route.path.startswith(("/os-quota-sets", "/os-simple-tenant-usage")):
                    assert real.status in (403, 404), (route.method, route.path, body, real.json)
                asked += 1
    assert asked > 100
    assert cloud.world.picture() == before


def test_no_list_shows_anything_of_another_project(cloud: Any, anns: dict[str, str]) -> None:
    words = {
        "anns-server",
        "anns-key",
        "anns-word",
        "anns-tag",
        anns["server_id"],
        anns["group_id"],
        "a" * 32,
    }
    shown_to_ann: set[str] = set()
    for route in ROUTES:
        if route.method != "GET" or "{" in route.path:
            continue
        for who in ("bob", "rob"):
            for query in ("", "?all_tenants=1", "?all_projects=1", f"?project_id={'a' * 32}"):
                answer = cloud.get(route.path + query, who, min(newest(route), "2.74", key=version))
                text = msgspec.json.encode(answer.json).decode().replace(f"project_id={'a' * 32}", "")
                assert not [word for word in words if word in text], (route.path + query, who, text)
                if route.path in ("/servers", "/os-server-groups", "/os-migrations") and answer.status == 200:
                    (things,) = answer.json.values()
                    assert things == [], (route.path, who)
        text = str(cloud.get(route.path, "ann", min(newest(route), "2.74", key=version)).json)
        shown_to_ann |= {word for word in words if word in text}
    assert shown_to_ann == words, "the same lists show it to whom it belongs"
