"""The real `openstack` client, in process, against the companions on a loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from berthold.companions import bootstrap, build
from berthold.companions.app import companions_app
from berthold.ledger.store import Store

shell = pytest.importorskip("openstackclient.shell")

Client = Callable[..., Any]


@pytest.fixture
def address(sqlite_url: str, tmp_path: Path) -> Iterator[str]:
    store = Store(sqlite_url)
    four = build(store, tmp_path / "cloud", b"k" * 32)
    asyncio.run(bootstrap(four, "secret"))
    listener = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=companions_app(four))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()
    store.close()


@pytest.fixture
def openstack(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Client:
    """Run a command; its parsed JSON, or its text when it has none."""
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*words: str, user: str = "admin", project: str = "admin", password: str = "secret") -> Any:
        login = [
            *("--os-auth-url", f"{address}/identity/v3", "--os-username", user, "--os-password", password),
            *("--os-project-name", project, "--os-user-domain-name", "Default"),
            *("--os-project-domain-name", "Default"),
        ]
        out, err = io.StringIO(), io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("ignore")  # of the client and its libraries
            code = shell.main([*login, *words])
        assert code == 0, f"openstack {' '.join(words)}: {err.getvalue()}"
        text = out.getvalue()
        return json.loads(text) if text.startswith(("{", "[")) else text

    return run


def test_an_image_is_made_listed_shown_saved_and_becomes_a_volume_that_is_copied(
    openstack: Client, tmp_path: Path
) -> None:
    content = os.urandom(70_000) + bytes(70_000)
    (tmp_path / "disk.img").write_bytes(content)

    made = openstack(
        *("image", "create", "-f", "json", "--file", "disk.img", "--disk-format", "raw"),
        *("--container-format", "bare", "--property", "hw_disk_bus=virtio", "ours"),
    )
    listed = openstack("image", "list", "-f", "json")
    shown = openstack("image", "show", "-f", "json", "ours")
    openstack("image", "save", "--file", "saved.img", "ours")
    openstack("image", "set", "--property", "os_distro=none", "--name", "mine", "ours")

    assert {image["Name"]: image["Status"] for image in listed} == {"cirros": "active", "ours": "active"}
    assert shown["id"] == made["id"]
    assert shown["size"] == len(content)
    assert (tmp_path / "saved.img").read_bytes() == content
    assert openstack("image", "show", "-f", "json", "mine")["properties"]["os_distro"] == "none"

    first = openstack("volume", "create", "-f", "json", "--image", "mine", "--size", "1", "vol1")
    second = openstack("volume", "create", "-f", "json", "--source", "vol1", "--size", "1", "vol2")
    volumes = openstack("volume", "list", "-f", "json")
    assert {v["Name"]: v["Status"] for v in volumes} == {"vol1": "available", "vol2": "available"}
    assert openstack("volume", "show", "-f", "json", "vol2")["bootable"] is True
    for row in (first, second):
        (file,) = (tmp_path / "cloud" / "volumes").glob(f"{row['id']}.*")
        with file.open("rb") as disk:
            assert disk.read(len(content)) == content
        assert file.stat().st_size == 1 << 30

    openstack("volume", "set", "--name", "renamed", "vol2")
    openstack("volume", "delete", "vol1", "renamed")
    openstack("image", "delete", "mine")
    assert openstack("volume", "list", "-f", "json") == []
    assert list((tmp_path / "cloud" / "volumes").iterdir()) == []


def test_networks_projects_users_and_roles_are_kept_by_an_administrator(openstack: Client) -> None:
    assert [row["Name"] for row in openstack("network", "list", "-f", "json")] == ["private"]
    assert openstack("token", "issue", "-f", "json")["project_id"]
    assert len(openstack("catalog", "list", "-f", "json")) == 5

    openstack("project", "create", "-f", "json", "other")
    openstack("user", "create", "-f", "json", "--project", "other", "--password", "words", "ann")
    openstack("role", "add", "--user", "ann", "--project", "other", "member")
    assert {row["Name"] for row in openstack("project", "list", "-f", "json")} == {"admin", "other"}
    assert {row["Name"] for row in openstack("user", "list", "-f", "json")} == {"admin", "ann"}
    assert {row["Name"] for row in openstack("role", "list", "-f", "json")} == {
        *("admin", "manager", "member", "reader")
    }

    assignments = openstack("role", "assignment", "list", "--names", "-f", "json")
    assert {(row["Role"], row["User"], row["Project"]) for row in assignments} == {
        ("admin", "admin@Default", "admin@Default"),
        ("member", "ann@Default", "other@Default"),
    }

    ann = {"user": "ann", "project": "other", "password": "words"}
    assert openstack("network", "list", "-f", "json", **ann)[0]["Name"] == "private"
    openstack("network", "create", "-f", "json", "mine", **ann)
    openstack(
        "subnet", "create", "-f", "json", "--network", "mine", "--subnet-range", "10.9.0.0/24", "s", **ann
    )
    port = openstack("port", "create", "-f", "json", "--network", "mine", "p", **ann)
    assert port["fixed_ips"][0]["ip_address"] == "10.9.0.2"
    openstack("port", "delete", "p", **ann)
    openstack("network", "delete", "mine", **ann)
    assert openstack("security", "group", "list", "-f", "json", **ann)[0]["Name"] == "default"
    openstack("user", "set", "--disable", "ann")
    openstack("user", "delete", "ann")
    openstack("project", "delete", "other")
