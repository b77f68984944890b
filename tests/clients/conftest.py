"""`openstack`: the client at the `cloud` that the test's module has, a new one for each test."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from running import Running

if TYPE_CHECKING:
    from openstack_client import Said


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
