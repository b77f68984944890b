"""M7: who may wait does, where others on the move may free a place: in order, for a time, not in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from berthold.errors import Refused
from berthold.lab.judge import judge
from berthold.lab.world import LARGE, World
from berthold.ledger import claims, hosts, moves
from berthold.moves import abort, placing, shelf, together
from berthold.moves.conductor import Conductor
from berthold.moves.outcome import Outcome
from by_hand import (
    Halfway,
    assert_quiet,
    ended,
    evacuate,
    events,
    lose,
    outcome,
    shown,
    step_until,
    under_way,
    why,
)

IN_A_CIRCLE = placing.IN_A_CIRCLE
NO_USE = placing.NO_USE


MakeWorld = Callable[..., World]


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    """Worlds with hosts of these sizes, whose users wait a minute for a place."""
    made: list[World] = []

    def make(**hosts: int) -> World:
        world = World(hosts=0)
        for name, vcpus in hosts.items():
            world.add_host(name, vcpus=vcpus)
        world.patience = 60.0
        made.append(world)
        return world

    yield make
    for world in made:
        assert world.problems() == []
        assert judge(world.rows("history")) == []
        world.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(node1=4, node2=4, node3=4, node4=4)


def members(world: World, *names: str) -> list[str]:
    group = world.group("anti-affinity")
    return [world.boot(name, group) for name in names]


def waits(world: World, move: str) -> bool:
    return move in {row["move_id"] for row in world.rows("queue")}


def waits_for(world: World, move: str) -> set[str]:
    """The names of the hosts for which the move stands in the queue."""
    names = {world.host_id(name): name for name in world.agents}
    return {names[row["host_id"]] for row in world.rows("queue") if row["move_id"] == move}


def home(world: World, server: str) -> str:
    found = world.home(server)
    assert found is not None
    return found


def all_but(world: World, *servers: str) -> set[str]:
    return set(world.agents) - {home(world, server) for server in servers}


# -- Who waits ----------------------------------------------------------------------------


def test_three_members_go_one_after_another_through_one_free_host(world: World) -> None:
    servers = members(world, "one", "two", "three")
    before = [home(world, server) for server in servers]
    (free,) = all_but(world, *servers)
    begun = [world.live_migrate(server) for server in servers]
    world.settle()
    assert [ended(world, move) for move in begun] == ["completed"] * 3
    assert world.home(servers[0]) == free
    assert all(world.home(server) != was for server, was in zip(servers, before, strict=True))
    assert_quiet(world)


def test_who_did_not_ask_to_wait_is_told_no_at_once(world: World) -> None:
    one, two, _ = members(world, "one", "two", "three")
    world.step(world.live_migrate(one))
    world.patience = 0.0
    refused = world.live_migrate(two)
    world.step(refused)
    assert world.move(refused)["state"] == "undoing"
    assert "wait" not in why(world, refused)
    world.settle()
    assert shown(world, two) == ("ACTIVE", None)


def test_it_waits_no_longer_than_it_said_and_leaves_no_trace(world: World) -> None:
    one, two, _ = members(world, "one", "two", "three")
    step_until(world, going := world.live_migrate(one), "send memory", obey=True)
    before = world.picture()
    move = world.live_migrate(two)
    for _ in range(59):
        world.step(move)
        assert waits(world, move)
        world.pass_time(1.0)
    world.pass_time(1.0)
    while move in world.unfinished():
        world.step(move)
    assert "It has waited 60 s for a place" in why(world, move)
    assert world.picture() == before
    assert world.rows("queue") == []
    assert events(world, move) == [
        ("berthold_wait_for_place", "Error"),
        ("conductor_live_migrate_instance", "Error"),
    ]
    assert outcome(world, move) == "Error"
    assert shown(world, two) == ("ACTIVE", None)
    world.settle()
    assert ended(world, going) == "completed"


def test_what_is_at_rest_is_not_waited_for(world: World) -> None:
    servers = members(world, "one", "two", "three", "four")
    move = world.live_migrate(servers[0])
    world.step(move)
    assert NO_USE in why(world, move)
    world.settle()
    assert shown(world, servers[0]) == ("ACTIVE", None)


def test_a_host_that_an_operator_must_repair_is_not_waited_for(world: World) -> None:
    one, two, three = members(world, "one", "two", "three")
    (free,) = all_but(world, one, two, three)
    world.store.write_now(hosts.set_disabled, world.host_id(free), True)
    step_until(world, world.delete(three), "let volumes go")
    move = world.live_migrate(one)
    world.step(move)
    assert waits(world, move)
    assert waits_for(world, move) == {home(world, three)}
    world.store.write_now(hosts.set_disabled, world.host_id(home(world, three)), True)
    world.step(move)
    assert NO_USE in why(world, move)
    world.settle()


def test_a_create_waits_for_room_that_a_delete_gives_back(make_world: MakeWorld) -> None:
    world = make_world(node1=2)
    old = world.boot("old", flavor=LARGE)
    world.delete(old)
    new = world.create("new", flavor=LARGE)
    move = under_way(world, new)
    world.step(move)
    assert waits_for(world, move) == {"node1"}
    assert shown(world, new) == ("BUILD", "scheduling")
    world.settle()
    assert shown(world, new) == ("ACTIVE", None)
    assert events(world, move)[0] == ("berthold_wait_for_place", "Success")
    assert_quiet(world)


@pytest.mark.parametrize("word", ["confirm", "revert"])
def test_a_resize_that_waits_for_its_owner_is_in_flight(world: World, word: str) -> None:
    one, two, _ = members(world, "one", "two", "three")
    world.resize(one)
    world.settle()
    move = world.live_migrate(two)
    world.step(move)
    held = {claim.role: claim.host_name for claim in world.claims(one)}
    assert waits_for(world, move) == {held["source"], held["home"]}
    getattr(world, word)(one)
    world.settle()
    assert ended(world, move) == "completed"
    assert home(world, two) == held["source" if word == "confirm" else "home"]
    assert_quiet(world)


def test_a_member_waits_while_its_affinity_group_flees(make_world: MakeWorld) -> None:
    """G2 tells it to wait; so it does, if it may, and follows the others."""
    world = make_world(node1=8)
    group = world.group("affinity")
    one, two, shelved = (world.boot(name, group) for name in ("one", "two", "three"))
    world.store.write_now(shelf.shelve, shelved, world.by())
    world.settle()
    world.add_host("node2", vcpus=8)
    lose(world, "node1")
    begun = [evacuate(world, server) for server in (one, two)]
    world.step(begun[0])
    world.patience = 60.0
    move = world.store.write_now(shelf.unshelve, shelved, world.by())
    world.step(move)
    assert waits_for(world, move) == {"node2"}
    world.settle()
    assert [world.home(server) for server in (one, two, shelved)] == ["node2"] * 3
    assert world.problems() == []


# -- Not in a circle ----------------------------------------------------------------------


def test_two_that_want_each_others_place_are_told_no_and_why(make_world: MakeWorld) -> None:
    world = make_world(node1=4, node2=4)
    one, two = members(world, "one", "two")
    before = world.picture()
    first, second = world.live_migrate(one), world.live_migrate(two)
    world.step(first)
    assert waits(world, first)
    world.step(second)
    assert not waits(world, second)
    assert IN_A_CIRCLE in why(world, second)
    world.settle()
    assert NO_USE in why(world, first)
    assert world.picture() == before
    assert world.rows("queue") == []


def test_who_waits_is_not_waited_for(world: World) -> None:
    one, two, three, _ = members(world, "one", "two", "three", "four")
    step_until(world, world.delete(one), "let volumes go")
    freed = home(world, one)
    first = world.live_migrate(two)
    world.step(first)
    assert waits_for(world, first) == {freed}
    second = world.live_migrate(three)
    world.step(second)
    assert waits_for(world, second) == {freed}, "not the home of the one that waits"
    world.settle()
    assert [ended(world, move) for move in (first, second)] == ["completed", "completed"]


def test_what_is_waited_for_may_begin_to_wait_itself_between_the_look_and_the_queue(
    make_world: MakeWorld,
) -> None:
    """Both look while neither waits yet; the one that comes to the queue second looks again."""
    world = make_world(node1=4, node2=4)
    one, two = members(world, "one", "two")
    begun = [world.live_migrate(server) for server in (one, two)]
    for turn in [Halfway(world, move).until("wait_for_place") for move in begun]:
        turn.end()
    assert len({row["move_id"] for row in world.rows("queue")}) == 1
    world.settle()


# -- First come, first served -------------------------------------------------------------


def freed_with(world: World, *wanting: str) -> tuple[str, list[str]]:
    """A member is deleted while moves of others stand in the queue, in this order; the host that it
    freed and the moves."""
    gone = next(row["id"] for row in world.rows("server") if row["name"] == "gone")
    deleted = world.delete(gone)
    step_until(world, deleted, "let volumes go")
    begun = [world.live_migrate(server) for server in wanting]
    for move in begun:
        world.step(move)
        assert waits(world, move)
    host = home(world, gone)
    while deleted in world.unfinished():
        world.step(deleted)
        for name in world.agents:
            world.obey(name)
    return host, begun


def test_who_came_first_is_served_first(world: World) -> None:
    _, two, three, _ = members(world, "one", "two", "three", "gone")
    host, (first, second) = freed_with(world, two, three)
    world.step(second)
    assert waits(world, second), "the place is free, and not its own yet"
    world.step(first)
    assert {claim.host_name for claim in world.claims(two)} == {home(world, two), host}
    world.settle()
    assert [ended(world, move) for move in (first, second)] == ["completed", "completed"]


def test_a_member_that_would_not_wait_does_not_overtake_either(world: World) -> None:
    _, two, three, _ = members(world, "one", "two", "three", "gone")
    host, (first,) = freed_with(world, two)
    world.patience = 0.0
    late = world.live_migrate(three)
    world.step(late)
    assert world.move(late)["state"] == "undoing"
    assert "others wait for it" in why(world, late)
    world.settle()
    assert ended(world, first) == "completed"
    assert home(world, two) == host


def test_the_ledger_itself_refuses_who_would_overtake(world: World) -> None:
    """A look may be old: it says that the place is free and that nobody waits."""
    _, two, three, _ = members(world, "one", "two", "three", "gone")
    host, (first,) = freed_with(world, two)
    want = claims.Want(three, world.host_id(host), {"VCPU": 1})
    with pytest.raises(Refused, match="came first and waits") as refused:
        world.store.write_now(claims.take, [want])
    assert (refused.value.rule, refused.value.wait) == ("M7", True)
    earlier = replace(want, ticket=world.move(first)["number"] - 1)
    world.store.write_now(claims.take, [earlier])
    taken = next(claim for claim in world.claims(three) if claim.role == "target")
    world.store.write_now(claims.release, taken.id)
    world.settle()
    assert ended(world, first) == "completed"


def test_room_is_for_whoever_fits_and_the_patient_keep_their_order(make_world: MakeWorld) -> None:
    """Else one large wish could keep everybody else's servers off the hosts."""
    world = make_world(node1=4)
    old = world.boot("old", flavor={**LARGE, "vcpus": 3})
    step_until(world, world.delete(old), "let volumes go")
    large = under_way(world, world.create("large", flavor={**LARGE, "vcpus": 4}))
    world.step(large)
    assert waits(world, large)
    patient = world.create("patient")
    world.step(under_way(world, patient))
    assert waits(world, under_way(world, patient)), "there is room for it, but it came later"
    world.patience = 0.0
    quick = world.create("quick")
    world.step(under_way(world, quick))
    assert world.claims(quick)
    world.settle()
    assert shown(world, quick) == ("ACTIVE", None)
    assert shown(world, patient) == ("ACTIVE", None)
    assert "It has waited" not in why(world, large)


def test_who_leaves_the_queue_lets_the_next_go_at_once(world: World) -> None:
    _, two, three, _ = members(world, "one", "two", "three", "gone")
    host, (first, second) = freed_with(world, two, three)
    world.step(second)
    assert waits(world, second)
    told: list[str] = []
    world.store.bus.hear(told.extend)
    world.delete(two)
    assert f"host:{world.host_id(host)}" in told
    assert not waits(world, first)
    world.step(second)
    assert {claim.host_name for claim in world.claims(three)} == {home(world, three), host}
    world.settle()
    assert ended(world, second) == "completed"


# -- What may happen to who waits ---------------------------------------------------------


def waiting_one(world: World) -> tuple[str, str]:
    """A member whose live migration waits for a delete that nobody goes on with; server and move."""
    _, two, _, gone = members(world, "one", "two", "three", "gone")
    step_until(world, world.delete(gone), "let volumes go")
    move = world.live_migrate(two)
    world.step(move)
    assert waits(world, move)
    return two, move


def test_its_conductor_dies_and_another_one_goes_on(world: World) -> None:
    _, move = waiting_one(world)
    since = world.move(move)["facts"]["waits"]["since"]
    world.kill_conductor()
    world.step(move)
    assert waits(world, move)
    assert world.move(move)["facts"]["waits"]["since"] == since
    world.settle()
    assert ended(world, move) == "completed"


def test_it_holds_no_lease_while_it_waits(world: World) -> None:
    """However many wait, conductors have room for those who are waited for."""
    _, move = waiting_one(world)
    row = world.move(move)
    assert row["owner"] is None
    assert row["until"] > world.clock.now()
    world.store.write_now(moves.call, move)
    assert world.move(move)["until"] == 0


def test_its_conductor_takes_it_again_as_soon_as_there_is_news(world: World) -> None:
    """The clock of this world stands still: it is never time to look again."""
    move = world.live_migrate(world.boot("one"))
    conductor = Conductor(world.store, world.companions.neighbours, world.settings, "this")
    steps: list[str] = []

    async def step(lease: moves.Lease, *_: object, **__: object) -> Outcome:
        steps.append(lease.move_id)
        await world.store.write(moves.give_back, lease, 300.0)
        news = ("host:one",) if len(steps) == 1 else ()
        return Outcome("running", wait_s=300.0, later=True, news=news)

    async def run() -> None:
        conductor.runner.step = step  # type: ignore[method-assign]
        working = asyncio.create_task(conductor.run())
        async with asyncio.timeout(60):
            while len(steps) < 2:
                if steps:
                    world.store.bus.tell(["host:one"])
                await asyncio.sleep(0)
        conductor.stop()
        await working

    asyncio.run(run())
    assert steps == [move, move]
    world.settle()


def test_it_can_be_aborted(world: World) -> None:
    server, move = waiting_one(world)
    assert ended(world, move) == "queued"
    world.store.write_now(abort.abort, server, world.move(move)["number"], world.by())
    world.step(move)
    assert not waits(world, move)
    world.settle()
    assert ended(world, move) == "cancelled"
    assert shown(world, server) == ("ACTIVE", None)


def test_it_can_be_deleted(world: World) -> None:
    server, _ = waiting_one(world)
    world.delete(server)
    assert world.rows("queue") == []
    world.settle()
    assert shown(world, server) == ("DELETED", None)
    assert_quiet(world)


def test_its_group_may_be_deleted(world: World) -> None:
    server, move = waiting_one(world)
    world.delete_group(world.server(server)["group_id"])
    world.settle()
    assert ended(world, move) == "completed"


@pytest.mark.parametrize("held", [False, True])
def test_room_that_a_whole_group_gives_up_is_waited_for(make_world: MakeWorld, held: bool) -> None:
    world = make_world(node1=2, node2=2)
    group = world.group("affinity", name="db")
    servers = [world.boot(name, group, host="node1") for name in ("db-1", "db-2")]
    if held:
        world.faults_of["node2"].plan("refuse", verb="prepare", server=servers[0])
    world.store.write_now(together.begin, group, world.by(), world.host_id("node2"))
    if held:
        for _ in range(20):
            for move in world.unfinished():
                world.step(move)
            world.obey("node2") or world.obey("node1")
    late = world.create("late", host="node1")
    move = under_way(world, late)
    world.step(move)
    assert waits_for(world, move) == {"node1"}
    if held:
        world.store.write_now(together.forward, group, world.by())
    world.settle()
    assert home(world, late) == "node1"
    assert {home(world, server) for server in servers} == {"node2"}


@pytest.mark.parametrize("kind", ["live-migration", "resize"])
def test_who_waits_on_a_host_that_is_lost_can_be_evacuated(world: World, kind: str) -> None:
    one, two, _ = members(world, "one", "two", "three")
    world.resize(one)
    world.settle()
    move = world.live_migrate(two) if kind == "live-migration" else world.resize(two)
    world.step(move)
    assert waits(world, move)
    lost = home(world, two)
    lose(world, lost)
    world.store.write_now(hosts.fence, world.host_id(lost))
    while move in world.unfinished():
        world.step(move)
    assert world.move(move)["state"] == "undone"
    evacuation = evacuate(world, two)
    world.confirm(one)
    world.settle()
    assert ended(world, evacuation) == "done"
    assert home(world, two) != lost
