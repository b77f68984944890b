"""The bug report's test plan in short: the real client, in this process, against `berthold up`.

`make demo` shows the same at length, with clients that are processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_client import Said
from running import Running, faults

Client = Callable[[str], Any]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    cloud = Running(tmp_path, hosts=3)
    cloud.start()
    yield cloud
    assert cloud.stop() == 0
    assert faults(cloud.home.database_url, cloud.home.ground) == []


@pytest.fixture
def told(openstack: Callable[[str], Said]) -> Client:
    """Run a command that must succeed; its parsed JSON if it has any, else its text."""

    def run(words: str) -> Any:
        said = openstack(words)
        assert said.code == 0, f"openstack {words}: {said.err}"
        return said.document if words.endswith("-f json") else said.out

    return run


def members(cloud: Running, told: Client, *names: str) -> None:
    """ACTIVE members of one anti-affinity group that boot from volumes of the image."""
    told("flavor create --vcpu 1 --ram 1024 --disk 0 --id 100 test-flavor")
    told("flavor create --vcpu 2 --ram 2048 --disk 0 --id 101 larger")
    group = told("server group create anti-aff --policy anti-affinity -f json")["id"]
    told("volume create --image cirros --size 1 vol1")
    for number, name in enumerate(names, 1):
        if number > 1:
            told(f"volume create --source vol1 --size 1 vol{number}")
        told(f"server create --network private --volume vol{number} --flavor 100 --hint group={group} {name}")
    assert {s["status"] for s in cloud.api.at_rest().values()} == {"ACTIVE"}


def homes(cloud: Running) -> dict[str, str]:
    return {name: server["OS-EXT-SRV-ATTR:host"] for name, server in cloud.api.at_rest().items()}


def test_a_member_without_a_lawful_host_stays_and_an_operator_finds_out_why(
    cloud: Running, told: Client
) -> None:
    shown = told("--os-compute-api-version 2.87 hypervisor show node1 -c cpu_info -f json")
    assert shown["cpu_info"]["arch"] == "x86_64"
    members(cloud, told, "ins1", "ins2", "ins3")
    listed = told("server list --long -f json")
    assert sorted(server["Host"] for server in listed) == ["node1", "node2", "node3"]
    before = homes(cloud)
    server = cloud.api.servers()["ins1"]["id"]

    for command, event in (
        ("server migrate ins1 --live-migration", "conductor_live_migrate_instance"),
        ("server migrate ins1", "conductor_migrate_server"),
        ("server resize --flavor 101 ins1", "conductor_migrate_server"),
    ):
        told(command)
        assert cloud.api.at_rest()["ins1"]["status"] == "ACTIVE"
        assert homes(cloud) == before
        action = told("server event list ins1 --long -f json")[0]
        assert action["Message"] == "Error"
        shown = told(f"server event show ins1 {action['Request ID']} -f json")
        (found,) = [each for each in shown["events"] if each["event"] == event]
        assert found["result"] == "Error"
        assert found["details"].startswith("No valid host was found")
        for word in ("G1", "anti-aff", "node1", "node2", "node3"):
            assert word in found["traceback"]
        assert len(lines_about(cloud, server, since=action["Start Time"])) == 1
    told("server delete --wait ins1 ins2 ins3")
    told("server group delete anti-aff")
    told("volume delete vol1 vol2 vol3")
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
    cloud: Running, told: Client
) -> None:
    members(cloud, told, "ins1", "ins2")
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
    told("server migrate --wait ins1")
    told("server resize confirm ins1")
    while cloud.api.servers()["ins1"]["status"] != "ACTIVE":
        pass
    moved = homes(cloud)
    assert moved["ins1"] not in (after["ins1"], after["ins2"])
    told("server resize --flavor 101 --wait ins2")
    assert cloud.api.servers()["ins2"]["status"] == "VERIFY_RESIZE"
    told("server resize revert ins2")
    assert homes(cloud) == moved
    assert {s["status"] for s in cloud.api.servers().values()} == {"ACTIVE"}


def _client() -> str:
    return str(Path(sys.executable).with_name("openstack"))
