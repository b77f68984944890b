"""C-d02: a list of groups asks the database once for each of them.

The story (Launchpad nova 2122109): the members of each group were counted by a query of their own, and
an operator's list of a thousand groups took minutes.

Right: the number of statements depends on nothing that is listed. What makes it so: members are
read for all groups of a page at once.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


def statements_of_a_list(cloud: Any) -> tuple[int, int]:
    """How many groups were listed, and with how many statements."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        listed = cloud.get("/os-server-groups?limit=1000", "ann").json["server_groups"]
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return len(listed), len([text for text in asked if text.startswith("SELECT")])


def test_a_hundred_groups_cost_what_one_costs(cloud: Any) -> None:
    cloud.group()
    one, few = statements_of_a_list(cloud)
    for _ in range(99):
        group = cloud.group()
    for name in ("a", "b"):
        cloud.server(name, settle=False, hints={"group": group})
    many, same = statements_of_a_list(cloud)
    assert (one, many) == (1, 100)
    assert same == few
    cloud.world.settle()
