"""C-a21: a group's policy is accepted, and this installation does not enforce it.

The stories (Launchpad nova 1302238 and 1408326): anti-affinity is one of the scheduler's filters, and an
operator leaves it out of the list. Groups are made as before, and their rule is ignored without a word;
or the server is stuck while it is scheduled.

Right: refused for that reason, or never half-configured. What makes it so: there is no setting for the
hard policies. They are columns and constraints of the ledger, so that a scheduler without the filter
(here the list itself is cut) only proposes hosts that are then refused; a policy that the ledger does
not know cannot be stored.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy.exc import IntegrityError

from berthold.scheduler import candidates
from berthold.scheduler.filters import FILTERS
from berthold.settings import Settings
from by_hand import MakeWorld, project, shown


def test_without_its_filter_the_rule_holds_and_its_reason_is_told(make_world: MakeWorld) -> None:
    world = make_world(node1=64, node2=4)
    group = world.group("anti-affinity")
    with patch.object(candidates, "FILTERS", tuple(each for each in FILTERS if each.name != "group")):
        servers = [world.boot(name, group) for name in ("one", "two", "three")]
    assert sorted(world.home(server) or "none" for server in servers) == ["node1", "node2", "none"]
    (lost,) = (server for server in servers if world.home(server) is None)
    assert shown(world, lost) == ("ERROR", None)
    assert "2 hosts: group rule" in world.server(lost)["fault"]["message"]
    assert world.claims(lost) == []
    world.delete(lost)
    world.settle()
    assert project(world)["instances"] == 2


def test_no_setting_speaks_of_hard_policies() -> None:
    settings = [each.name for each in fields(Settings) if not each.name.startswith("quota_")]
    assert [name for name in settings if re.search("affinity|group|rule", name)] == []


def test_a_policy_that_nobody_knows_is_not_stored(make_world: MakeWorld, cloud: Any, fault: Any) -> None:
    world = make_world(node1=4)
    with pytest.raises(IntegrityError, match="server_group_known_policy"):
        world.group("legacy")
    body = {"server_group": {"name": "web", "policy": "legacy"}}
    fault(cloud.post("/os-server-groups", body, "ann", "2.64"), 400)
    assert cloud.get("/os-server-groups", "ann").json == {"server_groups": []}
