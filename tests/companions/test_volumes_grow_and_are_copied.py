"""What is done to a volume beside making it: growing, words, states, snapshots; and a store that fails."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from berthold.companions import quotas, volume
from companions_cloud import Cloud

CONTENT = bytes(70_000) + b"the end"


class Disks:
    """A project's volumes over HTTP."""

    def __init__(self, cloud: Cloud, name: str = "ann") -> None:
        self.cloud = cloud
        self.token = cloud.tenant(name)
        self.admin = cloud.log_in()

    def ask(self, method: str, path: str, token: str | None = None, **options: Any) -> httpx.Response:
        return self.cloud.ask(method, f"/volume/v3{path}", token or self.token, **options)

    def make(self, **wish: Any) -> dict[str, Any]:
        response = self.ask("POST", "/volumes", json={"volume": {"size": 1, "name": "v", **wish}})
        assert response.status_code == 202, response.text
        made: dict[str, Any] = response.json()["volume"]
        return made

    def show(self, made: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = self.ask("GET", f"/volumes/{made['id']}").json()["volume"]
        return shown

    def act(
        self, made: dict[str, Any], name: str, wish: Any = None, token: str | None = None
    ) -> httpx.Response:
        return self.ask("POST", f"/volumes/{made['id']}/action", token, json={name: wish})

    def image(self, content: bytes = CONTENT) -> str:
        wish = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        made = self.cloud.ask("POST", "/image/v2/images", self.token, json=wish).json()
        path = f"/image/v2/images/{made['id']}/file"
        assert self.cloud.ask("PUT", path, self.token, content=content).status_code == 204
        return str(made["id"])

    def files(self, kind: str = "volumes") -> list[Path]:
        volumes = self.cloud.four.volumes
        where = {"volumes": volumes.files, "snapshots": volumes.snapshots.files}
        where["images"] = self.cloud.four.images.files
        return sorted(where[kind].directory.iterdir())

    def used(self) -> list[int]:
        names = ("volumes", "gigabytes", "snapshots")
        project = asyncio.run(self.cloud.four.identity.who(self.token)).project_id
        usage = self.cloud.store.read_now(quotas.of, project, names)
        assert self.cloud.store.read_now(quotas.miscounted) == []
        return [usage[name].used for name in names]


@pytest.fixture
def disks(cloud: Cloud) -> Disks:
    return Disks(cloud)


def attach(disks: Disks, made: dict[str, Any]) -> None:
    asyncio.run(disks.cloud.four.volumes.attach(made["id"], "s1", "m1", device="/dev/vdb"))


# -- Growing ------------------------------------------------------------------------------


def test_an_available_volume_grows_and_keeps_its_bytes(disks: Disks) -> None:
    made = disks.make(imageRef=disks.image())
    assert disks.act(made, "os-extend", {"new_size": 3}).status_code == 202
    assert disks.show(made)["size"] == 3
    (file,) = disks.files()
    assert file.stat().st_size == 3 << 30
    with file.open("rb") as disk:
        assert disk.read(len(CONTENT)) == CONTENT
    assert disks.used() == [1, 3, 0]


def test_what_cannot_grow_says_why(disks: Disks) -> None:
    made = disks.make(size=2)
    for size, words in ((2, "greater than current size"), (1, "greater than current"), (65537, "at most")):
        refused = disks.act(made, "os-extend", {"new_size": size})
        assert refused.status_code == 400
        assert words in refused.json()["badRequest"]["message"]
    wrong: Any
    for wrong in ({}, None, {"new_size": 0}, {"new_size": "3"}, {"new_size": True}, []):
        assert disks.act(made, "os-extend", wrong).status_code == 400, wrong
    attach(disks, made)
    refused = disks.act(made, "os-extend", {"new_size": 3})
    assert refused.status_code == 400
    assert "detach it first" in refused.text
    assert (disks.show(made)["size"], disks.used()) == (2, [1, 2, 0])


def test_a_volume_whose_file_is_gone_does_not_grow(disks: Disks) -> None:
    made = disks.make()
    disks.files()[0].unlink()
    refused = disks.act(made, "os-extend", {"new_size": 3})
    assert refused.status_code == 503
    assert (disks.show(made)["size"], disks.used()) == (1, [1, 1, 0])


# -- States and words ---------------------------------------------------------------------


def test_a_state_is_reset_by_an_administrator_and_only_to_one_that_is_true(disks: Disks) -> None:
    made = disks.make()
    assert disks.act(made, "os-reset_status", {"status": "error"}).status_code == 403
    for status in ("error", "available"):
        assert disks.act(made, "os-reset_status", {"status": status}, disks.admin).status_code == 202
        assert disks.show(made)["status"] == status
    for wrong in ({"status": "in-use"}, {"status": "sleeping"}, {"attach_status": "detached"}, {}):
        assert disks.act(made, "os-reset_status", wrong, disks.admin).status_code == 400, wrong
    attach(disks, made)
    assert disks.act(made, "os-reset_status", {"status": "available"}, disks.admin).status_code == 400
    assert disks.act(made, "os-reset_status", {"status": "error"}, disks.admin).status_code == 202
    # Still attached, whatever is said of it.
    assert disks.ask("DELETE", f"/volumes/{made['id']}").status_code == 400
    assert disks.act(made, "os-force_delete", None, disks.admin).status_code == 400
    assert disks.act(made, "os-reset_status", {"status": "in-use"}, disks.admin).status_code == 202
    asyncio.run(disks.cloud.four.volumes.detach(made["id"], "s1"))
    assert disks.show(made)["status"] == "available"


def test_a_volume_that_was_never_filled_is_removed_by_force_and_nothing_else(disks: Disks) -> None:
    project = asyncio.run(disks.cloud.four.identity.who(disks.token)).project_id
    row = disks.cloud.store.write_now(volume.begin, project, None, {"name": "half", "size": 2})
    half = {"id": row.id}
    assert disks.act(half, "os-reset_status", {"status": "available"}, disks.admin).status_code == 400
    assert disks.act(half, "os-force_delete").status_code == 403
    assert disks.act(half, "os-force_delete", None, disks.admin).status_code == 202
    assert disks.used() == [0, 0, 0]


def test_bootable_name_and_metadata_are_the_owners_to_change(disks: Disks) -> None:
    made = disks.make(metadata={"a": "1"})
    path = f"/volumes/{made['id']}/metadata"
    assert disks.act(made, "os-set_bootable", {"bootable": True}).status_code == 200
    assert disks.ask("POST", path, json={"metadata": {"b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert disks.ask("PUT", f"{path}/c", json={"meta": {"c": "3"}}).json() == {"meta": {"c": "3"}}
    assert disks.ask("GET", f"{path}/c").json() == {"meta": {"c": "3"}}
    assert disks.ask("DELETE", f"{path}/a").status_code == 200
    assert disks.ask("DELETE", f"{path}/a").status_code == 404
    assert disks.ask("GET", f"{path}/a").status_code == 404
    assert disks.ask("PUT", f"{path}/c", json={"meta": {"d": "3"}}).status_code == 400
    changed = {"volume": {"name": "w", "description": "words"}}
    assert disks.ask("PUT", f"/volumes/{made['id']}", json=changed).status_code == 200
    shown = disks.show(made)
    assert (shown["name"], shown["description"], shown["bootable"]) == ("w", "words", "true")
    assert shown["metadata"] == {"b": "2", "c": "3"}
    assert disks.ask("PUT", path, json={"metadata": {}}).json() == {"metadata": {}}
    many = {"metadata": {str(number): "" for number in range(129)}}
    assert disks.ask("POST", path, json=many).status_code == 400
    assert disks.ask("GET", path).json() == {"metadata": {}}


def test_nothing_has_more_metadata_than_anything_may_have(disks: Disks) -> None:
    most = {f"k{n}": "v" for n in range(128)}
    made = disks.make(metadata=most)
    wish = {"volume_id": made["id"], "metadata": most}
    taken = disks.ask("POST", "/snapshots", json={"snapshot": wish}).json()["snapshot"]
    before = disks.used()
    for method, path, body in (
        ("POST", "/volumes", {"volume": {"size": 1, "metadata": {**most, "k": "v"}}}),
        ("POST", "/snapshots", {"snapshot": {**wish, "metadata": {**most, "k": "v"}}}),
        ("PUT", f"/volumes/{made['id']}", {"volume": {"metadata": {**most, "k": "v"}}}),
        *(
            (method, f"/{thing}/metadata", {"metadata": pairs})
            for thing in (f"volumes/{made['id']}", f"snapshots/{taken['id']}")
            for method, pairs in (("POST", {"k": "v"}), ("PUT", {**most, "k": "v"}))
        ),
        ("PUT", f"/volumes/{made['id']}/metadata/k", {"meta": {"k": "v"}}),
    ):
        refused = disks.ask(method, path, json=body)
        assert (refused.status_code, "128" in refused.text) == (400, True), (method, path)
    assert disks.used() == before
    assert disks.show(made)["metadata"] == most


def test_an_action_that_is_none_says_which_there_are(disks: Disks) -> None:
    made = disks.make()
    body: Any
    for body in ({"os-retype": {"new_type": "x"}}, {}, {"os-extend": {}, "os-force_delete": None}, []):
        refused = disks.ask("POST", f"/volumes/{made['id']}/action", json=body)
        assert refused.status_code == 400, body
    assert "os-extend" in disks.act(made, "os-retype").text


def test_others_can_do_nothing_to_a_volume_or_a_snapshot(disks: Disks, cloud: Cloud) -> None:
    made = disks.make()
    taken = disks.ask("POST", "/snapshots", json={"snapshot": {"volume_id": made["id"]}}).json()["snapshot"]
    bob = cloud.tenant("bob")
    for method, path, body in (
        ("POST", f"/volumes/{made['id']}/action", {"os-extend": {"new_size": 2}}),
        ("POST", f"/volumes/{made['id']}/action", {"os-force_delete": None}),
        ("GET", f"/volumes/{made['id']}/metadata", None),
        ("POST", f"/volumes/{made['id']}/metadata", {"metadata": {"a": "b"}}),
        ("DELETE", f"/volumes/{made['id']}/metadata/a", None),
        ("POST", "/snapshots", {"snapshot": {"volume_id": made["id"]}}),
        ("GET", f"/snapshots/{taken['id']}", None),
        ("PUT", f"/snapshots/{taken['id']}", {"snapshot": {"name": "mine"}}),
        ("DELETE", f"/snapshots/{taken['id']}", None),
        ("POST", "/volumes", {"volume": {"size": 1, "snapshot_id": taken["id"]}}),
    ):
        answered = disks.ask(method, path, bob, json=body)
        refused = 403 if "os-force_delete" in (body or {}) else 404
        assert answered.status_code in (404, refused), (method, path, answered.text)
    assert disks.ask("GET", "/snapshots", bob).json() == {"snapshots": []}
    assert disks.used() == [1, 2, 1]


# -- Snapshots ----------------------------------------------------------------------------


def test_a_snapshot_becomes_a_volume_with_the_bytes_of_then(disks: Disks) -> None:
    made = disks.make(imageRef=disks.image())
    wish = {"snapshot": {"volume_id": made["id"], "name": "before", "metadata": {"a": "b"}}}
    response = disks.ask("POST", "/snapshots", json=wish)
    assert response.status_code == 202
    taken = response.json()["snapshot"]
    assert (taken["status"], taken["size"], taken["volume_id"]) == ("available", 1, made["id"])
    assert disks.used() == [1, 2, 1]
    with disks.files()[0].open("r+b") as disk:
        disk.write(b"changed")

    again = disks.make(snapshot_id=taken["id"], size=2)
    assert (again["snapshot_id"], again["bootable"], again["size"]) == (taken["id"], "true", 2)
    (file,) = [each for each in disks.files() if each.name.startswith(again["id"])]
    with file.open("rb") as disk:
        assert disk.read(len(CONTENT)) == CONTENT
    assert file.stat().st_size == 2 << 30

    for query in ("name=before", f"volume_id={made['id']}", "status=available", "limit=1"):
        for where in ("/snapshots", "/snapshots/detail"):
            found = disks.ask("GET", f"{where}?{query}").json()["snapshots"]
            assert [row["id"] for row in found] == [taken["id"]], query
    assert disks.ask("GET", "/snapshots?name=after").json() == {"snapshots": []}
    renamed = disks.ask("PUT", f"/snapshots/{taken['id']}", json={"snapshot": {"name": "then"}})
    assert renamed.json()["snapshot"]["name"] == "then"
    pairs, path = {"metadata": {"c": "d"}}, f"/snapshots/{taken['id']}/metadata"
    assert disks.ask("POST", path, json=pairs).json() == {"metadata": {"a": "b", "c": "d"}}
    assert disks.ask("PUT", path, json=pairs).json() == pairs
    assert disks.ask("GET", path).json() == pairs
    assert disks.ask("GET", f"/snapshots/{taken['id']}").json()["snapshot"]["metadata"] == {"c": "d"}


def test_an_owner_deletes_snapshots_before_their_volume_and_a_move_need_not(disks: Disks) -> None:
    made = disks.make()
    taken = disks.ask("POST", "/snapshots", json={"snapshot": {"volume_id": made["id"]}}).json()["snapshot"]
    for refused in (
        disks.ask("DELETE", f"/volumes/{made['id']}"),
        disks.act(made, "os-force_delete", None, disks.admin),
    ):
        assert refused.status_code == 400
        assert taken["id"] in refused.text
    asyncio.run(disks.cloud.four.volumes.delete(made["id"]))
    assert disks.make(snapshot_id=taken["id"], size=None)["size"] == 1
    assert disks.ask("DELETE", f"/snapshots/{taken['id']}").status_code == 202
    assert disks.ask("DELETE", f"/snapshots/{taken['id']}").status_code == 404
    assert (disks.used(), disks.files("snapshots")) == ([1, 1, 0], [])


def test_snapshots_are_counted_and_one_too_many_leaves_nothing(disks: Disks) -> None:
    made = disks.make()
    project = asyncio.run(disks.cloud.four.identity.who(disks.token)).project_id
    wish = {"snapshot": {"volume_id": made["id"]}}
    for limits in ({"snapshots": 0, "gigabytes": 9}, {"snapshots": 9, "gigabytes": 1}):
        assert (
            disks.ask("PUT", f"/os-quota-sets/{project}", disks.admin, json={"quota_set": limits}).status_code
            == 200
        )
        assert disks.ask("POST", "/snapshots", json=wish).status_code == 413
    assert (disks.used(), disks.files("snapshots")) == ([1, 1, 0], [])


def test_a_volume_is_a_copy_of_one_thing_that_is_there_and_fits(disks: Disks) -> None:
    large, small = disks.make(size=2), disks.make()
    taken = disks.ask("POST", "/snapshots", json={"snapshot": {"volume_id": large["id"]}}).json()["snapshot"]
    for wish, status in (
        ({"snapshot_id": taken["id"], "source_volid": small["id"]}, 400),
        ({"snapshot_id": taken["id"], "size": 1}, 400),
        ({"snapshot_id": "nothing"}, 404),
    ):
        refused = disks.ask("POST", "/volumes", json={"volume": {"size": 2, **wish}})
        assert refused.status_code == status, refused.text
    assert disks.used() == [2, 5, 1]


# -- A store that fails -------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", fsync)


def test_an_upload_that_fills_the_disk_is_413_and_leaves_the_image_queued(
    disks: Disks, request: pytest.FixtureRequest
) -> None:
    before = disks.files("images")
    made = disks.cloud.ask("POST", "/image/v2/images", disks.token, json={"name": "i"}).json()
    request.getfixturevalue("full")
    path = f"/image/v2/images/{made['id']}"
    refused = disks.cloud.ask("PUT", f"{path}/file", disks.token, content=CONTENT)
    assert refused.status_code == 413
    assert "no space is left" in refused.json()["message"]
    assert disks.cloud.ask("GET", path, disks.token).json()["status"] == "queued"
    assert disks.files("images") == before


def test_a_full_disk_makes_and_grows_nothing_and_costs_no_quota(
    disks: Disks, request: pytest.FixtureRequest
) -> None:
    made = disks.make()
    request.getfixturevalue("full")
    for path, body in (
        ("/volumes", {"volume": {"size": 1}}),
        ("/volumes", {"volume": {"size": 1, "source_volid": made["id"]}}),
        ("/snapshots", {"snapshot": {"volume_id": made["id"]}}),
    ):
        refused = disks.ask("POST", path, json=body)
        assert refused.status_code == 503
        assert "no space is left" in refused.json()["serviceUnavailable"]["message"]
    assert disks.act(made, "os-extend", {"new_size": 2}).status_code == 503
    assert (disks.show(made)["size"], disks.used()) == (1, [1, 1, 0])
    assert (len(disks.files()), disks.files("snapshots")) == (1, [])
    assert len(disks.ask("GET", "/volumes").json()["volumes"]) == 1


def test_a_copy_of_what_is_missing_makes_nothing(disks: Disks) -> None:
    image = disks.image()
    made = disks.make()
    taken = disks.ask("POST", "/snapshots", json={"snapshot": {"volume_id": made["id"]}}).json()["snapshot"]
    for kind in ("volumes", "snapshots", "images"):
        for file in disks.files(kind):
            file.unlink()
    for path, body in (
        ("/volumes", {"volume": {"size": 1, "imageRef": image}}),
        ("/volumes", {"volume": {"size": 1, "source_volid": made["id"]}}),
        ("/volumes", {"volume": {"size": 1, "snapshot_id": taken["id"]}}),
        ("/snapshots", {"snapshot": {"volume_id": made["id"]}}),
    ):
        refused = disks.ask("POST", path, json=body)
        assert refused.status_code == 503
        assert "bytes to copy from are gone" in refused.text
    download = disks.cloud.ask("GET", f"/image/v2/images/{image}/file", disks.token)
    assert download.status_code == 503
    assert (disks.used(), disks.files()) == ([1, 2, 1], [])
