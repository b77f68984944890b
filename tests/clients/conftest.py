"""`openstack`: the client at `cloud`, which each test has for itself.

`cloud` has five hosts that take no time, unless a module has its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from held_cloud import held
from running import Running, faults

if TYPE_CHECKING:
    from client_steps import Walk
    from openstack_client import Said


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    """Judged at its end, as all clouds are."""
    cloud = Running(tmp_path, hosts=5, first=held)
    cloud.start()
    yield cloud
    assert cloud.stop() == 0
    assert faults(cloud.home.database_url, cloud.home.ground) == []


@pytest.fixture
def openstack(cloud: Running, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Said]:
    """Run a command; what it said."""
    import openstack_client  # here, because it skips what cannot have it

    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.home.clouds_yaml))
    monkeypatch.setenv("OS_CLOUD", "berthold")
    openstack_client.look_often(monkeypatch)
    return openstack_client.say


@pytest.fixture
def by_token(
    openstack: Callable[[str], Said], cloud: Running, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Said]:
    """The same, without the password of clouds.yaml: to check one is slow, and that on purpose."""
    monkeypatch.delenv("OS_CLOUD")
    monkeypatch.setenv("OS_AUTH_TYPE", "v3token")
    monkeypatch.setenv("OS_TOKEN", cloud.api.token)
    monkeypatch.setenv("OS_AUTH_URL", f"{cloud.api.address}/identity/v3")
    monkeypatch.setenv("OS_PROJECT_NAME", "admin")
    monkeypatch.setenv("OS_PROJECT_DOMAIN_ID", "default")
    return openstack


@pytest.fixture
def walk(cloud: Running, by_token: Callable[[str], Said]) -> Walk:
    """Runs tables of commands against the cloud."""
    from client_steps import Walk

    return Walk(cloud, by_token)
