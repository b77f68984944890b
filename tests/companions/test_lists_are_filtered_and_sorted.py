"""Lists of images, volumes, snapshots, networks and ports: each filter that clients send counts, and so does
each order."""

from __future__ import annotations

from typing import Any

from companions_cloud import Cloud

VOLUMES, SNAPSHOTS = "/volume/v3/volumes", "/volume/v3/snapshots"
IMAGES, NETWORKS, PORTS = "/image/v2/images", "/network/v2.0/networks", "/network/v2.0/ports"
LATER, EARLIER = "2100-01-01T00:00:00Z", "2001-01-01T00:00:00Z"


def names(cloud: Cloud, path: str, token: str, **params: Any) -> list[str]:
    answer = cloud.ask("GET", path, token, params=params)
    assert answer.status_code == 200, answer.text
    rows = answer.json()[path.removesuffix("/detail").rpartition("/")[2]]
    return [row["name"] for row in rows]


def volumes(cloud: Cloud) -> str:
    """Three volumes of a tenant and a snapshot of the first; its token."""
    ann = cloud.tenant("ann")
    for name, size in (("b", 2), ("a", 10), ("c", 1)):
        body = {"volume": {"name": name, "size": size, "metadata": {"of": name}}}
        made = cloud.ask("POST", VOLUMES, ann, json=body)
        assert made.status_code == 202, made.text
        if name == "b":
            wish = {"name": "s", "volume_id": made.json()["volume"]["id"], "metadata": {"of": "b"}}
            assert cloud.ask("POST", SNAPSHOTS, ann, json={"snapshot": wish}).status_code == 202
    return ann


VOLUMES_FOUND: list[tuple[dict[str, Any], list[str]]] = [
    ({"sort": "name:asc"}, ["a", "b", "c"]),
    ({"sort": "size:desc"}, ["a", "b", "c"]),
    ({"sort": "status,name:desc"}, ["c", "b", "a"]),
    ({"sort_key": "size", "sort_dir": "asc"}, ["c", "b", "a"]),
    ({"sort_key": "name", "sort_dir": "asc", "limit": 2}, ["a", "b"]),
    ({"sort_key": "name", "sort_dir": "asc", "offset": 1}, ["b", "c"]),
    ({"metadata": "{'of': 'a'}"}, ["a"]),
    ({"metadata": '{"of": "z"}'}, []),
    ({"size": "10"}, ["a"]),
    ({"created_at": f"gt:{LATER}"}, []),
    ({"created_at": f"lt:{LATER}", "name": "c"}, ["c"]),
    ({"user_id": "nobody"}, []),
    ({"availability_zone": "elsewhere"}, []),
]


def test_volumes(cloud: Cloud) -> None:
    ann = volumes(cloud)
    for params, found in VOLUMES_FOUND:
        assert names(cloud, VOLUMES, ann, **params) == found, params
        assert names(cloud, f"{VOLUMES}/detail", ann, **params) == found, params


def test_snapshots(cloud: Cloud) -> None:
    ann = volumes(cloud)
    assert names(cloud, SNAPSHOTS, ann, sort="name:asc") == ["s"]
    assert names(cloud, SNAPSHOTS, ann, metadata="{'of': 'b'}") == ["s"]
    assert names(cloud, SNAPSHOTS, ann, metadata="{'of': 'a'}") == []
    assert names(cloud, SNAPSHOTS, ann, id="nobody") == []


def test_images(cloud: Cloud) -> None:
    ann = cloud.tenant("ann")
    for name, size in (("x", 9), ("y", 10)):
        body = {"name": name, "disk_format": "raw", "container_format": "bare", "distro": name}
        image = cloud.ask("POST", IMAGES, ann, json=body).json()["id"]
        binary = {"Content-Type": "application/octet-stream"}
        uploaded = cloud.ask("PUT", f"{IMAGES}/{image}/file", ann, content=b"." * size, headers=binary)
        assert uploaded.status_code == 204
    mine = {"visibility": "shared"}
    assert names(cloud, IMAGES, ann, sort="size:asc", **mine) == ["x", "y"]
    assert names(cloud, IMAGES, ann, sort_key="size", **mine) == ["y", "x"]
    assert names(cloud, IMAGES, ann, size_min=10, **mine) == ["y"]
    assert names(cloud, IMAGES, ann, size_max=9, **mine) == ["x"]
    assert names(cloud, IMAGES, ann, distro="x") == ["x"]
    assert names(cloud, IMAGES, ann, created_at=f"gte:{LATER}") == []
    assert set(names(cloud, IMAGES, ann, updated_at=f"gt:{EARLIER}", **mine)) == {"x", "y"}


def test_networks_and_ports(cloud: Cloud) -> None:
    ann = cloud.tenant("ann")
    made = [
        cloud.ask("POST", NETWORKS, ann, json={"network": {"name": name}}).json()["network"]["id"]
        for name in ("n2", "n3", "n1")
    ]
    assert names(cloud, NETWORKS, ann, shared=False, sort_key="name") == ["n1", "n2", "n3"]
    assert names(cloud, NETWORKS, ann, shared=False, sort_key="name", sort_dir="desc") == ["n3", "n2", "n1"]
    subnet = {"subnet": {"network_id": made[0], "cidr": "10.9.0.0/24", "ip_version": 4}}
    sub = cloud.ask("POST", "/network/v2.0/subnets", ann, json=subnet).json()["subnet"]["id"]
    for name, ip in (("p1", "10.9.0.11"), ("p2", "10.9.0.12")):
        wish = {"name": name, "network_id": made[0], "fixed_ips": [{"ip_address": ip}]}
        assert cloud.ask("POST", PORTS, ann, json={"port": wish}).status_code == 201
    assert names(cloud, PORTS, ann, fixed_ips="ip_address=10.9.0.12") == ["p2"]
    both = ["ip_address=10.9.0.11", "ip_address=10.9.0.12", f"subnet_id={sub}"]
    assert names(cloud, PORTS, ann, fixed_ips=both, sort_key="name") == ["p1", "p2"]
    assert names(cloud, PORTS, ann, fixed_ips="ip_address=10.9.0.99") == []
    assert names(cloud, PORTS, ann, fixed_ips="subnet_id=nobody") == []


def test_an_order_or_a_filter_that_cannot_be_is_refused(cloud: Cloud) -> None:
    ann = volumes(cloud)
    cloud.ask("POST", NETWORKS, ann, json={"network": {"name": "n"}})
    for path in (VOLUMES, SNAPSHOTS, IMAGES, NETWORKS):
        wrong: list[dict[str, str]] = [{"sort_key": "banana"}, {"sort_key": "name", "sort_dir": "up"}]
        if path != NETWORKS:
            wrong += [{"sort": "banana"}, {"sort": "name:up"}, {"created_at": "gt:yesterday"}]
        if path in (VOLUMES, SNAPSHOTS):
            wrong += [{"metadata": "7"}, {"metadata": "{"}]
        for params in wrong:
            assert cloud.ask("GET", path, ann, params=params).status_code == 400, (path, params)
