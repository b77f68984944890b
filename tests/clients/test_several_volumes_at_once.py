"""A script gives one server several volumes and interfaces, command after command, and waits for none.

Each takes its host longer than the client needs to ask for the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from client_steps import FILLED, UUID, Refusal, step
from running import Running

if TYPE_CHECKING:
    from client_steps import Walk

BEFORE = [
    step("flavor create --vcpus 1 --ram 1024 --disk 1 --id 100 small", {"name": "small"}),
    *(step(f"volume create --size 1 v{number}", {"name": f"v{number}"}) for number in (1, 2, 3)),
    step("server create --image cirros --flavor small --network private s", {"name": "s"}),
]
AT_ONCE = [
    step("server add volume s v1", {"Volume ID": UUID, "Device": "/dev/vdb"}),
    step("server add volume s v2", {"Volume ID": UUID, "Device": "/dev/vdc"}),
    step("server add network s private"),
    step("server add volume s v3", {"Volume ID": UUID, "Device": "/dev/vdd"}),
    step("server remove volume s v2"),
    step("server stop s", Refusal("409.*its detach-volume is under way")),
    step("server remove volume s v1"),
]
AFTER = [
    step("server show s", {"status": "ACTIVE", "volumes_attached": FILLED}),
    step("server volume list s -c Device -f value", "/dev/vdd"),
    step("volume list --status in-use -c Name -f value", "v3"),
    step("port list --server s -c Status -f value", "ACTIVE\nACTIVE"),
    step("server shelve s"),
    step("server show s", {"status": "SHELVED_OFFLOADED"}),
    step("server add volume s v1", {"Device": "/dev/vdb"}),
    step("server add volume s v2", {"Device": "/dev/vdc"}),
    step("server remove volume s v1"),
    step("server unshelve s"),
    step("server show s", {"status": "ACTIVE"}),
    step("server volume list s --sort-column Device -c Device -f value", "/dev/vdc\n/dev/vdd"),
    step("server delete s"),
]


def test_a_script_that_waits_for_nothing(walk: Walk, cloud: Running) -> None:
    walk.through(BEFORE)
    slow = cloud.home.path / "slow"
    slow.touch()
    walk.through(AT_ONCE, resting=False)
    walk.rest()
    slow.unlink()
    walk.through(AFTER)
