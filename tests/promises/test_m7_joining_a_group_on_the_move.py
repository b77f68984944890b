"""M7, G2: a new member of an affinity group that is on its way waits for it, if it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from berthold.errors import Refused
from berthold.lab.world import World
from berthold.ledger import claims, servers
from berthold.ledger.store import Store, Tx
from berthold.moves import shelf
from by_hand import assert_quiet, ended, evacuate, lose, outcome, shown, step_until, under_way, why
from ledger_world import FLAVOR, PROJECT, add_group, add_hosts, add_server, claim, violations
from whole_group import back, forward, half_way, homes, move_group, sound_world, state, three


@pytest.fixture
def world() -> Iterator[World]:
    with sound_world() as world:
        yield world


def join(world: World, group: str, seconds: float = 600.0) -> tuple[str, str]:
    """Somebody wants another member, which may wait so long; server and move, after its first look."""
    world.patience = seconds
    server = world.create("late", group)
    world.patience = 0.0
    move = under_way(world, server)
    world.step(move)
    return server, move


def waits_for(world: World, move: str) -> set[str]:
    names = {world.host_id(name): name for name in world.agents}
    return {names[row["host_id"]] for row in world.rows("queue") if row["move_id"] == move}


@pytest.mark.parametrize(("word", "lives_on"), [(forward, "node2"), (back, "node1")])
def test_it_follows_the_group_wherever_that_ends(
    world: World, word: Callable[[World, str], None], lives_on: str
) -> None:
    group, servers = half_way(world)
    late, move = join(world, group)
    assert waits_for(world, move) == {"node1", "node2"}
    assert shown(world, late) == ("BUILD", "scheduling")
    word(world, group)
    world.settle()
    assert homes(world, [*servers, late]) == {lives_on}
    assert shown(world, late) == ("ACTIVE", None)
    assert_quiet(world)


def test_a_member_that_comes_off_the_shelf_does_so_too(world: World) -> None:
    group, servers = three(world)
    world.store.write_now(shelf.shelve, servers[2], world.by())
    world.settle()
    move_group(world, group, "node2")
    world.patience = 60.0
    move = world.store.write_now(shelf.unshelve, servers[2], world.by())
    world.step(move)
    assert waits_for(world, move) == {"node1", "node2"}
    world.settle()
    assert homes(world, servers) == {"node2"}


def test_it_waits_no_longer_than_it_said_and_the_group_is_held_up_by_nothing(world: World) -> None:
    group, servers = half_way(world)
    late, move = join(world, group, seconds=5.0)
    for _ in range(7):
        world.pass_time(1.0)
        if move in world.unfinished():
            world.step(move)
    world.settle()
    assert "It has waited 5 s for a place" in why(world, move)
    assert outcome(world, move) == "Error"
    assert shown(world, late)[0] == "ERROR"
    forward(world, group)
    world.settle()
    assert state(world) == ("done", "node2")
    assert homes(world, servers) == {"node2"}
    world.delete(late)
    world.settle()
    assert_quiet(world)


def test_it_may_be_deleted_while_it_waits(world: World) -> None:
    group, servers = half_way(world)
    late, _ = join(world, group)
    world.delete(late)
    assert world.rows("queue") == []
    forward(world, group)
    world.settle()
    assert homes(world, servers) == {"node2"}
    assert_quiet(world)


def test_its_group_may_be_deleted_while_it_waits(world: World) -> None:
    group, _ = half_way(world)
    late, _ = join(world, group)
    world.delete_group(group)
    world.settle()
    assert shown(world, late) == ("ACTIVE", None)
    assert_quiet(world)


def test_all_others_may_be_deleted_while_it_waits(world: World) -> None:
    group, servers = half_way(world)
    late, _ = join(world, group)
    for server in servers:
        world.delete(server)
    world.settle()
    assert shown(world, late) == ("ACTIVE", None)


def test_those_that_join_are_served_in_the_order_in_which_they_came(world: World) -> None:
    group, _ = half_way(world)
    (_, first), (_, second) = join(world, group), join(world, group)
    forward(world, group)
    while {row["state"] for row in world.rows("group_move")} != {"done"}:
        for move in world.unfinished():
            if move not in (first, second):
                world.step(move)
        for host in ("node1", "node2"):
            world.obey(host)
        world.attend()
    world.step(second)
    assert waits_for(world, second), "the group is there, and another came first"
    world.step(first)
    world.step(second)
    assert not waits_for(world, second)
    world.settle()


def test_it_joins_members_that_are_evacuated(world: World) -> None:
    group, servers = three(world)
    lose(world, "node1")
    begun = [evacuate(world, server) for server in servers]
    world.step(begun[0])
    late, move = join(world, group)
    assert len(waits_for(world, move)) == 1
    world.settle()
    assert len(homes(world, [*servers, late])) == 1
    assert world.home(late) != "node1"


def test_a_lone_member_that_had_to_look_again_finds_that_it_is_not_alone_any_more(world: World) -> None:
    """Then it stays where it is; whoever joined it comes to it."""
    group = world.group("affinity")
    only = world.boot("db-1", group, host="node1")
    moving = world.live_migrate(only)
    step_until(world, moving, "prepare target")
    late, _ = join(world, group)
    for host in ("node2", "node3"):
        world.faults_of[host].plan("refuse", verb="prepare", server=only)
    world.settle()
    assert ended(world, moving) == "error"
    assert homes(world, [only, late]) == {"node1"}
    assert_quiet(world)


# -- The ledger alone, on both engines ----------------------------------------------------


def cloud(tx: Tx) -> None:
    """A group of one at home on h0, on its way to h1."""
    add_hosts(tx, 2)
    add_group(tx, "db", "affinity")
    add_server(tx, "m0", "db")
    claim(tx, "m0", "h0")
    claim(tx, "m0", "h1", "target", move_id="on its way")


def patient(tx: Tx) -> str:
    return servers.create(
        tx, project_id=PROJECT, group_id="db", flavor=FLAVOR, may_wait=True, user_id="u", name="late"
    )


def late_claim(tx: Tx, server: str, host: str) -> None:
    claims.take(tx, [claims.Want(server, host, {"VCPU": 1})])


def test_only_who_may_wait_joins_and_it_gets_no_claim_before_the_group_has_arrived(store: Store) -> None:
    store.write_now(cloud)
    with pytest.raises(Refused, match="moving") as refusal:
        store.write_now(add_server, "hasty", "db")
    assert refusal.value.wait
    late = store.write_now(patient)
    for host in ("h0", "h1"):
        with pytest.raises(Refused, match="moving"):
            store.write_now(late_claim, late, host)
    assert violations(store, "C1", "G1", "G2", "Q1") == []
    store.write_now(claims.switch_home, "m0")
    left = next(c.id for c in store.read_now(claims.of_server, "m0") if c.role == "source")
    store.write_now(claims.release, left)
    with pytest.raises(Refused, match="does not live"):
        store.write_now(late_claim, late, "h0")
    store.write_now(late_claim, late, "h1")
    assert violations(store, "C1", "G1", "G2", "Q1") == []
