"""The bug report's test plan in short: the real client, in this process, against `berthold up`.

`make demo` shows the same at length, with clients that are processes of their own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from running import Running, faults

shell = pytest.importorskip("openstackclient.shell")

Client = Callable[[str], Any]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    cloud = Running(tmp_path, hosts=3)
    cloud.start()
    yield cloud
    assert cloud.stop() == 0
    assert faults(cloud.home.database_url, cloud.home.ground) == []


@pytest.fixture
def openstack(cloud: Running, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Run a command; its parsed JSON if it has any, else its text."""
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.home.clouds_yaml))
    monkeypatch.setenv("OS_CLOUD", "berthold")

    def run(words: str) -> Any:
        out, err = io.StringIO(), io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            warnings.simplefilter("ignore")  # of the client and its libraries
            code = shell.main(shlex.split(words))
        assert code == 0, f"openstack {words}: {err.getvalue()}"
        text = out.getvalue()
        return json.loads(text) if text.startswith(("{", "[")) else text

    return run


def members(cloud: Running, openstack: Client, *names: str) -> None:
    """ACTIVE members of one anti-affinity group that boot from volumes of the image."""
    openstack("flavor create --vcpu 1 --ram 1024 --disk 0 --id 100 test-flavor")
    openstack("flavor create --vcpu 2 --ram 2048 --disk 0 --id 101 larger")
    group = openstack("server group create anti-aff --policy anti-affinity -f json")["id"]
    openstack("volume create --image cirros --size 1 vol1")
    for number, name in enumerate(names, 1):
        if number > 1:
            openstack(f"volume create --source vol1 --size 1 vol{number}")
        openstack(
            f"server create --network private --volume vol{number} --flavor 100 --hint group={group} {name}"
        )
    assert {s["status"] for s in cloud.api.at_rest().values()} == {"ACTIVE"}


def homes(cloud: Running) -> dict[str, str]:
    return {name: server["OS-EXT-SRV-ATTR:host"] for name, server in cloud.api.at_rest().items()}


def test_a_member_without_a_lawful_host_stays_and_an_operator_finds_out_why(
    cloud: Running, openstack: Client
) -> None:
    shown = openstack("--os-compute-api-version 2.87 hypervisor show node1 -c cpu_info -f json")
    assert shown["cpu_info"]["arch"] == "x86_64"
    members(cloud, openstack, "ins1", "ins2", "ins3")
    listed = openstack("server list --long -f json")
    assert sorted(server["Host"] for server in listed) == ["node1", "node2", "node3"]
    before = homes(cloud)
    server = cloud.api.servers()["ins1"]["id"]

    for command, event in (
        ("server migrate ins1 --live-migration", "conductor_live_migrate_instance"),
        ("server migrate ins1", "conductor_migrate_server"),
        ("server resize --flavor 101 ins1", "conductor_migrate_server"),
    ):
        openstack(command)
        assert cloud.api.at_rest()["ins1"]["status"] == "ACTIVE"
        assert homes(cloud) == before
        action = openstack("server event list ins1 --long -f json")[0]
        assert action["Message"] == "Error"
        shown = openstack(f"server event show ins1 {action['Request ID']} -f json")
        (found,) = [each for each in shown["events"] if each["event"] == event]
        assert found["result"] == "Error"
        assert found["details"].startswith("No valid host was found")
        for word in ("G1", "anti-aff", "node1", "node2", "node3"):
            assert word in found["traceback"]
        assert len(lines_about(cloud, server, since=action["Start Time"])) == 1
    openstack("server delete --wait ins1 ins2 ins3")
    openstack("server group delete anti-aff")
    openstack("volume delete vol1 vol2 vol3")
    audit = subprocess.run(
        [sys.executable, "-m", "berthold", "db", "audit", "--data", str(cloud.home.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\n0 claims" in audit.stdout


def lines_about(cloud: Running, server: str, since: str) -> list[str]:
    """What `grep '<server>.*Anti-affinity…'` finds from the request to 5 s after it."""
    begun = datetime.fromisoformat(f"{since}+00:00").timestamp()
    words = "Anti-affinity instance group policy was violated"
    return [
        line
        for line in cloud.home.log.read_text().splitlines()
        if server in line
        and words in line.partition(server)[2]
        and 0 <= datetime.fromisoformat(line.split()[0]).timestamp() - begun <= 5
    ]


def test_of_two_members_that_move_at_once_one_gets_the_free_host_and_the_other_follows(
    cloud: Running, openstack: Client
) -> None:
    members(cloud, openstack, "ins1", "ins2")
    before = homes(cloud)
    both = [
        subprocess.Popen([_client(), "server", "migrate", name, "--live-migration"])
        for name in ("ins1", "ins2")
    ]
    assert [client.wait(60) for client in both] == [0, 0]
    after = homes(cloud)
    assert len(set(after.values())) == 2
    assert after != before

    # 4/7: cold, confirmed; larger, reverted. What was left is free at once.
    openstack("server migrate --wait ins1")
    openstack("server resize confirm ins1")
    while cloud.api.servers()["ins1"]["status"] != "ACTIVE":
        pass
    moved = homes(cloud)
    assert moved["ins1"] not in (after["ins1"], after["ins2"])
    openstack("server resize --flavor 101 --wait ins2")
    assert cloud.api.servers()["ins2"]["status"] == "VERIFY_RESIZE"
    openstack("server resize revert ins2")
    assert homes(cloud) == moved
    assert {s["status"] for s in cloud.api.servers().values()} == {"ACTIVE"}


def _client() -> str:
    return str(Path(sys.executable).with_name("openstack"))
