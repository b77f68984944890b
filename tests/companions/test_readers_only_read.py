"""Whoever has no role but `reader` in a project looks at its images, volumes and networks, and changes
none of them: on every route that changes something, taken from the table."""

from __future__ import annotations

import re

from berthold.companions import image_api, ports_api, volume_routes
from companions_cloud import Cloud

TABLES = {"/image": image_api.ROUTES, "/volume": volume_routes.ROUTES, "/network": ports_api.ROUTES}
ROWS = [(prefix, method, path) for prefix, table in TABLES.items() for method, path, _ in table]
NEW = {
    "/image/v2/images": {"name": "i"},
    "/volume/v3/volumes": {"volume": {"size": 1}},
    "/network/v2.0/networks": {"network": {"name": "n"}},
}


def reader_of(cloud: Cloud, project: str) -> str:
    """The token of somebody who may only read in the project."""
    admin = cloud.log_in()
    user = cloud.ask("POST", "/identity/v3/users", admin, json={"user": {"name": "eve", "password": "pw"}})
    (role,) = cloud.ask("GET", "/identity/v3/roles?name=reader", admin).json()["roles"]
    (known,) = cloud.ask("GET", f"/identity/v3/projects?name={project}", admin).json()["projects"]
    path = f"/identity/v3/projects/{known['id']}/users/{user.json()['user']['id']}/roles/{role['id']}"
    assert cloud.ask("PUT", path, admin).status_code == 204
    return cloud.log_in("eve", "pw", project)


def test_a_reader_sees_what_members_made_and_may_not_touch_it(cloud: Cloud) -> None:
    ann = cloud.tenant("ann")
    eve = reader_of(cloud, "ann")
    for collection, body in NEW.items():
        made = cloud.ask("POST", collection, ann, json=body).json()
        thing = f"{collection}/{made.get('id') or next(iter(made.values()))['id']}"
        assert cloud.ask("GET", thing, eve).status_code == 200
        assert cloud.ask("POST", collection, eve, json=body).status_code == 403
        assert cloud.ask("DELETE", thing, eve).status_code == 403
        assert cloud.ask("GET", thing, ann).status_code == 200


def test_no_route_lets_a_reader_change_anything(cloud: Cloud) -> None:
    cloud.tenant("ann")
    eve = reader_of(cloud, "ann")
    for prefix, method, path in ROWS:
        if method != "GET":
            answer = cloud.ask(method, prefix + re.sub(r"\{[^}]*\}", "x", path), eve, json={})
            assert answer.status_code == 403, (method, path, answer.text)
            assert "member" in answer.text
