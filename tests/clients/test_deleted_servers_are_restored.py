"""The real client on a cloud that keeps deleted servers for an hour, and the hosts of shelved ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_rows import ACTIVE, FLAVOR, short, state
from client_steps import FILLED, MOMENT, Refusal, Walk, step
from held_cloud import held
from running import Running, faults

SOFT_DELETED = state("SOFT_DELETED", "soft-delete", 4)
SHELVED = state("SHELVED", "shelved", 4)
OFFLOADED = state("SHELVED_OFFLOADED", "shelved_offloaded", 0, **{"OS-EXT-SRV-ATTR:host": None})

STEPS = [
    step("flavor create --vcpus 1 --ram 1024 --disk 1 --id 100 test-flavor", {**FLAVOR, "disk": 1}),
    step("server create --image cirros --flavor 100 --wait s1", ACTIVE, s1="id"),
    step("server delete s1"),
    step("server list", []),
    step("server list --status SOFT_DELETED", [short("s1", "SOFT_DELETED", Image="cirros")]),
    step("server show {s1}", SOFT_DELETED),
    step("server start {s1}", Refusal("409.*vm_state soft-delete")),
    step("server restore {s1}"),
    step("server show s1", ACTIVE),
    # A server that waits for its owner's word: the delete is the word.
    step("flavor create --vcpus 2 --ram 1024 --disk 1 --id 101 big", {"id": "101"}),
    step("server resize --flavor big --wait s1", "Complete"),
    step("server delete s1"),
    step("server show {s1}", SOFT_DELETED),
    step("server migration list --server {s1} -c Status -f value", "confirmed"),
    step("server restore {s1}"),
    step("server show s1", {**ACTIVE, "flavor": FILLED, "OS-SRV-USG:launched_at": MOMENT}),
    step("server shelve --wait s1"),
    step("server show s1", SHELVED),
    step("server shelve --offload s1"),  # the client itself lets be what is shelved
    step("server show s1", SHELVED),
    step("server unshelve --wait s1"),
    step("server shelve --offload --wait s1"),
    step("server show s1", OFFLOADED),
    step("server delete --wait s1"),  # it is on no host, so there is nothing to keep
    step("server show {s1}", Refusal("No Server found")),
]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Running]:
    cloud = Running(tmp_path, hosts=2, first=held)
    cloud.words += ["--keep-deleted", "3600", "--keep-shelved", "-1"]
    cloud.start()
    yield cloud
    assert cloud.stop() == 0
    assert faults(cloud.home.database_url, cloud.home.ground) == []


def test_the_client_restores_what_it_has_deleted(walk: Walk) -> None:
    walk.through(STEPS)
