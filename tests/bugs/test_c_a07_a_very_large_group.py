"""C-a07: a group grows so large that the request no longer fits into its column.

The story (Launchpad nova 1738094): every request stores a copy of the group with the list of its
members. With a few thousand members the document is longer than the database takes, and from then
on nothing can be created in the group or moved.

Right: one more is created, one is moved, the group is shown. What makes it so: nothing of a group is
stored with a server or a move but its id; a decision reads how many members each host holds, by
index, and forgets it.
"""

from __future__ import annotations

import json

from sqlalchemy import insert, select, update

from berthold.ledger import reading, schema
from berthold.ledger.store import Tx
from berthold.settings import Settings
from by_hand import MakeWorld, ended, members, shown

MANY = 2_500


def born_long_ago(tx: Tx, model: str, group: str) -> None:
    """Members that are nowhere at present: shelved, say."""
    server = schema.server
    row = dict(tx.execute(select(server).where(server.c.id == model)).mappings().one())
    row.update(condition="shelved_offloaded", cores=0, ram=0)
    tx.execute(insert(server), [{**row, "id": f"old-{n}", "name": f"old-{n}"} for n in range(MANY)])
    tx.execute(
        update(schema.server_group)
        .where(schema.server_group.c.id == group)
        .values(members=schema.server_group.c.members + MANY)
    )
    tx.execute(update(schema.project).values(instances=schema.project.c.instances + MANY))


def test_one_more_is_made_one_is_moved_and_all_are_shown(make_world: MakeWorld) -> None:
    world = make_world(settings=Settings(quota_instances=-1), node1=4, node2=4, node3=4)
    group = world.group("soft-anti-affinity")
    one = world.boot("one", group)
    world.store.write_now(born_long_ago, one, group)
    two = world.boot("two", group)
    assert shown(world, two) == ("ACTIVE", None)
    assert world.home(two) != world.home(one)
    move = world.live_migrate(two)
    world.settle()
    assert ended(world, move) == "completed"
    assert world.home(two) != world.home(one)
    assert len(members(world, group)) == MANY + 2
    assert len(world.store.read_now(reading.group, group, "project")["member_ids"]) == MANY + 2
    for row in [*world.rows("move"), world.server(two)]:
        assert "old-" not in json.dumps(row, default=str), "a list of members is stored"
