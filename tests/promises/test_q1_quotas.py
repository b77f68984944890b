"""Q1: what a project uses never exceeds its limit, racing or not, and equals what exists."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from berthold.errors import NotFound, Refused
from berthold.lab.world import LARGE, PROJECT, SMALL, World
from berthold.ledger import groups, quotas, schema, servers
from berthold.ledger.store import Store, Tx
from berthold.settings import Settings
from ledger_world import violations
from races import processes, race, writing

FLAVOR = {"vcpus": 2, "ram": 1024}


def project(tx: Tx, /, **limits: int) -> None:
    quotas.ensure_project(tx, PROJECT, Settings())
    quotas.set_limits(tx, PROJECT, **limits)


def create(tx: Tx, group: str | None = None) -> str:
    return servers.create(tx, project_id=PROJECT, group_id=group, flavor=FLAVOR, user_id="u", name="s")


def create_group(tx: Tx) -> str:
    return groups.create(
        tx, project_id=PROJECT, user_id="u", name="web", policy="soft-anti-affinity", rules={}
    )


def used(store: Store, *names: str) -> list[int]:
    usage = store.read_now(quotas.of, PROJECT)
    return [usage[name].used for name in names]


def group_of(tx: Tx, group: str) -> tuple[int, int]:
    c = schema.server_group.c
    row = tx.execute(select(c.members, c.members_max).where(c.id == group)).one()
    return row.members, row.members_max


def sound(store: Store) -> bool:
    return [each for each in violations(store) if each.promise == "Q1"] == []


# -- Limits -------------------------------------------------------------------------------


def test_a_new_project_has_the_default_limits_and_no_limit_is_shown_as_minus_one(store: Store) -> None:
    assert store.read_now(quotas.of, PROJECT) == {}
    store.write_now(project, ram=-1, instances=7)
    usage = store.read_now(quotas.of, PROJECT)
    assert usage["instances"] == quotas.Usage(0, 7)
    assert usage["ram"] == quotas.Usage(0, -1)
    assert usage["cores"] == quotas.Usage(0, Settings().quota_cores)
    assert usage["server_group_members"] == quotas.Usage(0, Settings().quota_server_group_members)


def test_a_limit_below_the_use_takes_nothing_and_stops_growth(store: Store) -> None:
    store.write_now(project, instances=3)
    mine = [store.write_now(create) for _ in range(3)]
    store.write_now(quotas.set_limits, PROJECT, instances=1)
    assert used(store, "instances") == [3]
    for server in mine[:2]:
        with pytest.raises(Refused, match="Requested 1, but already used"):
            store.write_now(create)
        store.write_now(servers.bury, server)
    with pytest.raises(Refused, match="Requested 1, but already used 1 of 1 instances"):
        store.write_now(create)
    store.write_now(servers.bury, mine[2])
    store.write_now(create)
    assert sound(store)


def test_a_members_limit_below_the_members_follows_them_down(store: Store) -> None:
    store.write_now(project, server_group_members=4)
    group = store.write_now(create_group)
    members = [store.write_now(create, group) for _ in range(4)]
    store.write_now(quotas.set_limits, PROJECT, server_group_members=2)
    assert store.read_now(group_of, group) == (4, 4)
    for left in (3, 2):
        with pytest.raises(Refused, match="too many servers in group"):
            store.write_now(create, group)
        store.write_now(servers.bury, members.pop())
        assert store.read_now(group_of, group) == (left, left)
    with pytest.raises(Refused):
        store.write_now(create, group)
    store.write_now(servers.bury, members.pop())
    assert store.read_now(group_of, group) == (1, 2)
    store.write_now(create, group)
    store.write_now(quotas.set_limits, PROJECT, server_group_members=-1)
    for _ in range(3):
        store.write_now(create, group)
    assert sound(store)


def test_a_new_group_has_the_limit_of_its_project(store: Store) -> None:
    store.write_now(project, server_group_members=5)
    assert store.read_now(group_of, store.write_now(create_group)) == (0, 5)


# -- Races --------------------------------------------------------------------------------


def test_racing_creates_get_exactly_what_the_project_may_have(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(project, instances=10, cores=13, ram=-1)
        results = race([writing(stores[n % 4], create) for n in range(16)])
        refused = [each for each in results if not isinstance(each, str)]
        assert len(refused) == 10, "13 cores are six servers of two"
        assert all(isinstance(each, Refused) and each.rule == "Q1" for each in refused), refused
        assert used(stores[0], "instances", "cores", "ram") == [6, 12, 6 * 1024]
        assert sound(stores[0])


def life(store: Store, group: str) -> str:
    """A server in a group that comes and goes, while limits go up and down."""
    outcome = ""
    for number in range(4):
        try:
            server = store.write_now(create, group if number % 2 else None)
        except (Refused, NotFound):
            outcome += "-"
            continue
        outcome += "+"
        store.write_now(servers.recharge, server, 1, 512)
        limits = {"instances": 3 + number, "server_group_members": 2 + number}
        store.write_now(quotas.set_limits, PROJECT, **limits)
        store.write_now(servers.bury, server)
    return outcome


def test_sixteen_lives_on_eight_threads_leave_nothing_behind(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(project, instances=4, server_group_members=3)
        group = stores[0].write_now(create_group)
        for _ in range(2):
            results = race([lambda n=n: life(stores[n % 4], group) for n in range(8)])  # type: ignore[misc]
            assert all(isinstance(each, str) for each in results), results
            assert sound(stores[0])
        assert used(stores[0], "instances", "cores", "ram", "server_groups") == [0, 0, 0, 1]
        assert stores[0].read_now(group_of, group)[0] == 0


def test_groups_made_while_the_members_limit_changes_have_the_last_limit(database_url: str) -> None:
    with processes(database_url) as stores:
        stores[0].write_now(project, server_group_members=9)
        calls = [writing(stores[n % 4], create_group) for n in range(7)]
        results = race(
            [*calls, lambda: stores[3].write_now(quotas.set_limits, PROJECT, server_group_members=5)]
        )
        made = [each for each in results if isinstance(each, str)]
        assert len(made) == 7
        assert {stores[0].read_now(group_of, each) for each in made} == {(0, 5)}


# -- What moves pay -----------------------------------------------------------------------


def bill(world: World) -> tuple[int, int]:
    usage = world.store.read_now(quotas.of, PROJECT)
    return usage["cores"].used, usage["ram"].used


SMALL_BILL = SMALL["vcpus"], SMALL["ram"]
LARGE_BILL = LARGE["vcpus"], LARGE["ram"]


@pytest.mark.parametrize(
    ("before", "after", "end", "paid"),
    [
        (SMALL, LARGE, "confirm", LARGE_BILL),
        (SMALL, LARGE, "revert", SMALL_BILL),
        (SMALL, LARGE, "fail", SMALL_BILL),
        (SMALL, LARGE, "delete", (0, 0)),
        (LARGE, SMALL, "confirm", SMALL_BILL),
        (LARGE, SMALL, "revert", LARGE_BILL),
        (LARGE, SMALL, "fail", LARGE_BILL),
        (LARGE, SMALL, "delete", (0, 0)),
    ],
)
def test_a_resize_pays_the_larger_flavor_until_it_is_settled(
    before: dict[str, object], after: dict[str, object], end: str, paid: tuple[int, int]
) -> None:
    world = World(hosts=2)
    server = world.boot("a", flavor=before)
    if end == "fail":
        for faults in world.faults_of.values():
            faults.plan("refuse", verb="prepare", times=9)
    world.resize(server, after)
    assert bill(world) == LARGE_BILL
    world.settle()
    if end != "fail":
        assert world.status(server).status == "VERIFY_RESIZE"
        assert bill(world) == LARGE_BILL
        {"confirm": world.confirm, "revert": world.revert, "delete": world.delete}[end](server)
        world.settle()
    assert bill(world) == paid
    assert world.problems() == []
    world.close()


def test_a_resize_over_the_limit_changes_nothing() -> None:
    world = World(hosts=2)
    server = world.boot("a")
    world.store.write_now(quotas.set_limits, PROJECT, cores=1)
    before = world.picture()
    with pytest.raises(Refused, match="Quota exceeded for cores: Requested 1, but already used 1 of 1"):
        world.resize(server)
    assert world.picture() == before
    assert world.moves()[-1]["state"] == "done"
    world.close()


def test_a_resize_settles_even_if_the_limit_was_lowered_meanwhile() -> None:
    world = World(hosts=2)
    server = world.boot("a")
    world.resize(server)
    world.settle()
    world.store.write_now(quotas.set_limits, PROJECT, cores=1, ram=1)
    world.confirm(server)
    world.settle()
    assert world.status(server).status == "ACTIVE"
    assert bill(world) == LARGE_BILL
    assert world.problems() == []
    world.close()
