"""Explaining servers, groups and moves: in every state they are in, what is in the way and what would help.

What is said of now is what a move that began now would meet, since it is asked in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import whole_group
from berthold.lab.world import LARGE, World, with_settings
from berthold.ledger import hosts, reading, servers
from berthold.ledger.store import Tx
from berthold.moves import abort, begin, explain, explain_group, explain_move
from berthold.moves.explained import GroupSaid, HostSaid, Look, MoveSaid


@pytest.fixture
def world() -> Iterator[World]:
    made = World(hosts=3)
    yield made
    made.close()


def of_server(world: World, server: str) -> Look:
    """What each host would say to the server now."""

    def scene(tx: Tx) -> explain.Asked:
        return explain.scene_of_server(tx, reading.server_of(tx, server, None))

    asked = world.store.read_now(scene)
    return world.store.read_now(explain.look, asked, world.settings, world.runner.watch)


def of_group(world: World, group: str) -> tuple[GroupSaid, Look]:
    def said(tx: Tx) -> tuple[GroupSaid, explain.Asked]:
        row = reading.group(tx, group, None)
        return explain_group.said(tx, row), explain.further_member(tx, row)

    shown, asked = world.store.read_now(said)
    return shown, world.store.read_now(explain.look, asked, world.settings, world.runner.watch)


def of_move(world: World, move: str) -> tuple[MoveSaid, Look | None]:
    def said(tx: Tx) -> tuple[MoveSaid, explain.Asked | None]:
        row, server = explain_move.move_of(tx, move, None)
        return explain_move.said(tx, row, server, world.settings), explain_move.asked_again(tx, row, server)

    shown, asked = world.store.read_now(said)
    if asked is None:
        return shown, None
    return shown, world.store.read_now(explain.look, asked, world.settings, world.runner.watch)


def causes(look: Look) -> dict[str, list[str]]:
    return {host.host: [each.cause for each in host.against] for host in look.hosts}


def of_host(look: Look | tuple[HostSaid, ...], name: str) -> HostSaid:
    (host,) = [each for each in (look.hosts if isinstance(look, Look) else look) if each.host == name]
    return host


# -- Servers ------------------------------------------------------------------------------


def test_a_member_is_told_where_it_could_go_and_who_is_in_the_way(world: World) -> None:
    web = world.group("anti-affinity")
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node2")
    look = of_server(world, one)
    assert look.kind == "live-migration"
    assert causes(look) == {"node1": ["source host"], "node2": ["group rule"], "node3": []}
    (against,) = of_host(look, "node2").against
    assert against.rule == "G1"
    assert [each.id for each in against.members] == [two]
    assert against.ways[0] == "when web-2 leaves its host or is deleted"
    assert look.says() == "1 of 3 hosts would do. 1 host: group rule, 1 host: source host"


def test_what_is_said_is_what_a_move_then_meets(world: World) -> None:
    web = world.group("anti-affinity")
    one = world.boot("web-1", web, host="node1")
    world.boot("web-2", web, host="node2")
    world.store.write_now(hosts.set_disabled, world.host_id("node3"), True, "a fan is broken")
    before = of_server(world, one)
    assert before.candidates == 0
    move = world.live_migrate(one)
    world.settle()
    met = {name: text.partition(": ") for name, text in world.move(move)["failure"]["hosts"].items()}
    first = {host.host: host.against[0] for host in before.hosts}
    assert {name: (cause, reason) for name, (cause, _, reason) in met.items()} == {
        name: (each.cause, each.reason) for name, each in first.items()
    }


def test_all_reasons_against_a_host_are_told_not_only_the_first(world: World) -> None:
    web = world.group("anti-affinity")
    one = world.boot("web-1", web, host="node1")
    world.boot("web-2", web, host="node2")
    world.boot("large", host="node2", flavor={**LARGE, "vcpus": 3})
    world.store.write_now(hosts.set_disabled, world.host_id("node2"), True)
    assert causes(of_server(world, one))["node2"] == ["host state", "capacity", "group rule"]


def test_a_member_that_is_leaving_unblocks_when_its_move_ends(world: World) -> None:
    web = world.group("anti-affinity")
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node2")
    move = world.live_migrate(two)
    world.step(move)
    look = of_server(world, one)
    assert causes(look)["node2"] == causes(look)["node3"] == ["group rule"]
    assert of_host(look, "node2").against[0].ways[0] == f"when the live-migration of web-2 (move {move}) ends"
    (way, _) = of_host(look, "node3").against[0].ways
    assert way.startswith(f"when the live-migration of web-2 (move {move}) is undone")


def test_a_resize_that_waits_unblocks_at_one_end_or_the_other(world: World) -> None:
    web = world.group("anti-affinity")
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node2")
    world.resize(two)
    world.settle()
    look = of_server(world, one)
    assert "is confirmed" in of_host(look, "node2").against[0].ways[0]
    assert "is reverted" in of_host(look, "node3").against[0].ways[0]


def test_room_that_a_leaving_server_frees_is_told(world: World) -> None:
    big = {**LARGE, "vcpus": 4, "ram": 1024}
    one = world.boot("big-1", flavor=big, host="node1")
    two = world.boot("big-2", flavor=big, host="node2")
    move = world.live_migrate(two)
    world.step(move)
    (against,) = of_host(of_server(world, one), "node2").against
    assert against.rule == "C1"
    assert against.ways == (
        "when 4 VCPU more are free on it",
        f"when the live-migration of big-2 (move {move}) ends: that frees 4 VCPU",
    )


@pytest.mark.parametrize(
    ("condition", "kind"),
    [("active", "live-migration"), ("stopped", "migration"), ("suspended", "migration")],
)
def test_a_server_is_judged_as_it_could_move(world: World, condition: str, kind: str) -> None:
    one = world.boot("one")
    world.store.write_now(_set_condition, one, condition)
    assert of_server(world, one).kind == kind


def _set_condition(tx: Tx, server: str, condition: str) -> None:
    servers.change(tx, server, condition=condition)


def test_on_a_fenced_host_it_is_judged_as_an_evacuation_and_a_failed_create_as_a_create(
    world: World,
) -> None:
    one = world.boot("one", host="node1")
    world.store.write_now(hosts.fence, world.host_id("node1"))
    assert of_server(world, one).kind == "evacuation"
    large = world.boot("large", flavor={**LARGE, "vcpus": 99})
    look = of_server(world, large)
    assert look.kind == "create"
    assert set(map(tuple, causes(look).values())) == {("capacity",), ("host state", "capacity")}


def test_while_an_affinity_group_moves_nobody_is_let_in(world: World) -> None:
    pair = world.group("affinity", name="pair")
    one = world.boot("pair-1", pair, host="node1")
    move = world.live_migrate(one)
    world.step(move)
    shown, look = of_group(world, pair)
    assert shown.moving == f"for the live-migration of its one member pair-1 (move {move})"
    assert {domain.place for domain in shown.domains} == {"home", "next"}
    assert causes(look)["node1"] == ["group rule"]
    assert of_host(look, "node1").against[0].ways == (
        "when the group has arrived where it moves to, or is back",
    )
    assert look.candidates == 0
    world.settle()
    assert of_group(world, pair)[1].candidates == 1


def test_a_soft_policy_refuses_nobody_and_shows_how_many_are_there(world: World) -> None:
    soft = world.group("soft-anti-affinity")
    one = world.boot("one", soft, host="node1")
    world.boot("two", soft, host="node2")
    look = of_server(world, one)
    assert look.candidates == 2
    assert {host.host: host.members for host in look.hosts} == {"node1": 0, "node2": 1, "node3": 0}


def confirmed(world: World, server: str) -> None:
    world.resize(server)
    world.settle()
    world.confirm(server)


def enabled(world: World, server: str) -> None:
    world.store.write_now(hosts.set_disabled, world.host_id("node2"), False)


@pytest.mark.parametrize(
    ("way", "done"),
    [
        ("when web-2 leaves its host or is deleted", World.delete),
        ("when web-2 leaves its host or is deleted", lambda world, two: world.live_migrate(two, "node3")),
        ("when web-2 leaves its host or is deleted", confirmed),
        ("when it is enabled: openstack compute service set --enable node2 nova-compute", enabled),
        ("when 3 VCPU more are free on it", World.delete),
    ],
    ids=["deleted", "moved", "resized", "enabled", "freed"],
)
def test_what_is_said_to_help_helps(world: World, way: str, done: Callable[[World, str], object]) -> None:
    """A refused host would do once one way of each refusal has come true; not before."""
    web = world.group("anti-affinity") if "web-2" in way else None
    flavor = {**LARGE, "vcpus": 3} if "VCPU" in way else LARGE
    one = world.boot("web-1", web, host="node1", flavor=flavor)
    two = world.boot("web-2", web, host="node2", flavor={**flavor, "vcpus": 4} if web is None else flavor)
    if "enabled" in way:
        world.delete(two)
        world.settle()
        world.store.write_now(hosts.set_disabled, world.host_id("node2"), True)
    before = of_host(of_server(world, one), "node2")
    assert [way in against.ways for against in before.against] == [True]
    done(world, two)
    world.settle()
    assert of_host(of_server(world, one), "node2").against == ()


# -- Groups -------------------------------------------------------------------------------


def test_a_group_is_shown_seat_by_seat_with_what_is_in_flight(world: World) -> None:
    web = world.group("anti-affinity", per_host=2)
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node1")
    lost = world.boot("web-3", web, flavor={**LARGE, "vcpus": 99})
    move = world.live_migrate(two, "node2")
    world.step(move)
    shown, look = of_group(world, web)
    held = {
        (domain.host, domain.limit): [(each.id, each.role) for each in domain.holders]
        for domain in shown.domains
    }
    assert held == {
        ("node1", 2): [(one, "home"), (two, "home")],
        ("node2", 2): [(two, "target")],
    }
    assert shown.nowhere == (lost,)
    assert look.kind == "create"


def test_a_further_member_of_an_affinity_group_must_go_where_the_group_lives(world: World) -> None:
    pair = world.group("affinity", name="pair")
    world.boot("pair-1", pair, host="node1")
    _, look = of_group(world, pair)
    assert causes(look) == {"node1": [], "node2": ["group rule"], "node3": ["group rule"]}
    assert "when pair-1 is deleted" in of_host(look, "node2").against[0].ways


def test_an_empty_group_would_be_let_in_anywhere(world: World) -> None:
    shown, look = of_group(world, world.group("affinity"))
    assert (shown.domains, look.candidates) == ((), 3)


def test_a_whole_group_that_is_held_half_way_says_how_it_goes_on() -> None:
    with whole_group.sound_world() as world:
        group, servers = whole_group.half_way(world, ())
        shown, look = of_group(world, group)
        assert shown.moving.startswith("the whole group moves to another host and is held (group move ")
        assert shown.operators_moving.endswith(
            f"from node1 to node2; it goes on with: berthold group move {group} --resume,"
            f" or goes back with: berthold group move {group} --back"
        )
        assert {(domain.host, domain.place) for domain in shown.domains} == {
            ("node1", "home"),
            ("node2", "next"),
        }
        assert look.candidates == 0
        states = {server: of_server_move(world, server).says for server in servers}
        assert states[servers[1]].endswith("waits for the others of its group.")


def of_server_move(world: World, server: str) -> MoveSaid:
    """What is said of the server's unfinished move."""

    def last(tx: Tx) -> str:
        row = explain_move.last_of(tx, server)
        assert row is not None
        return str(row["id"])

    return of_move(world, world.store.read_now(last))[0]


# -- Moves --------------------------------------------------------------------------------


def test_a_move_that_found_no_host_tells_what_it_met_and_what_would_be_now(world: World) -> None:
    web = world.group("anti-affinity")
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node2")
    world.boot("web-3", web, host="node3")
    move = world.live_migrate(one)
    world.settle()
    said, now = of_move(world, move)
    assert said.says.startswith("The live-migration of web-1 failed and was undone: No valid host was found.")
    (against,) = of_host(said.refused, "node2").against
    assert (against.rule, [each.id for each in against.members]) == ("G1", [two])
    assert of_host(said.refused, "node1").against[0].cause == "source host"
    world.delete(two)
    world.settle()
    said, now = of_move(world, move)
    assert [host.host for host in said.refused] == ["node1", "node2", "node3"]
    assert [each.name for each in of_host(said.refused, "node2").against[0].members] == ["web-2"], "then"
    assert now is not None
    assert causes(now)["node2"] == []


def test_a_host_that_took_it_and_then_failed_is_told_with_its_reason(world: World) -> None:
    world.faults_of["node1"].plan("refuse", verb="spawn", reason="qemu: no memory")
    one = world.create("one")
    for name in ("node2", "node3"):
        world.store.write_now(hosts.set_disabled, world.host_id(name), True)
    (move,) = world.unfinished()
    world.settle()
    said, now = of_move(world, move)
    (against,) = of_host(said.refused, "node1").against
    assert against.reason == "it took the server, then: qemu: no memory"
    assert of_host(said.refused, "node2").against[0].rule == "M5"
    assert now is not None
    assert causes(now)["node1"] == [], "a new move tries it again"
    assert of_server(world, one).kind == "create"


def test_a_move_on_its_way_tells_its_line_and_whose_answer_it_waits_for(world: World) -> None:
    one = world.boot("one", host="node1")
    move = world.live_migrate(one, "node2")
    said, now = of_move(world, move)
    assert said.says == "The live-migration of one is at 'claim target': it looks for a host."
    assert now is not None
    assert now.candidates == 1, "it asks for one host"
    world.step(move)
    said, _ = of_move(world, move)
    assert said.says == f"The live-migration of one is at '{said.line}': it waits for a host's answer."
    assert "node2 was asked to" in said.operators_say
    assert said.operators_ways == ()
    assert "node2" not in said.says


def test_a_silent_host_and_a_move_that_nobody_works_on_are_told(world: World) -> None:
    one = world.boot("one", host="node1")
    move = world.live_migrate(one, "node2")
    world.step(move)
    world.silent.add("node2")
    world.pass_time(30.0)
    said, _ = of_move(world, move)
    assert "look at node2 and its agent, which is not heard" in said.operators_ways
    world.step(move)
    said, _ = of_move(world, move)
    (against,) = of_host(said.refused, "node2").against
    assert against.cause == "no answer", "a host that is not heard said nothing"
    assert against.reason.startswith("its agent has been silent for")
    world.delete(one)
    superseded, now = of_move(world, move)
    assert "was given up" in superseded.says
    assert now is not None, "the server is still there"
    world.silent.clear()
    world.settle()
    assert of_move(world, move)[1] is None


@pytest.mark.parametrize(("end", "word"), [("confirm", "done"), ("revert", "done")])
def test_a_resize_waits_for_its_owner(world: World, end: str, word: str) -> None:
    one = world.boot("one")
    move = world.resize(one)
    world.settle()
    said, now = of_move(world, move)
    assert now is None, "it has its host"
    assert of_server(world, one).after == move, "nothing else begins before"
    assert said.says == "The resize of one waits to be confirmed or reverted."
    assert said.ways == (
        f"openstack server resize confirm {one}",
        f"openstack server resize revert {one}",
    )
    getattr(world, end)(one)
    world.settle()
    assert of_move(world, move)[0].says == f"The resize of one is {word}."


def test_a_stuck_move_says_how_it_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one = world.boot("one", host="node1")
    monkeypatch.setattr(world.runner, "settings", with_settings(tries_max=2))
    world.faults_of["node1"].plan("refuse", verb="discard", times=99, reason="the disk does not let go")
    move = world.delete(one)
    world.settle()
    said, _ = of_move(world, move)
    assert said.says.startswith("The delete of one is stuck at")
    assert "the disk does not let go" not in said.says
    assert "node1 could not discard: the disk does not let go" in said.operators_say
    assert said.operators_ways == (f"repair that, then: berthold move resume {move}",)


def test_every_move_of_every_kind_can_be_explained_at_every_line(world: World) -> None:
    """Whatever is under way, nothing about it fails to be said."""
    web = world.group("anti-affinity")
    world.create("web-1", web)
    begin = (World.live_migrate, World.migrate, World.resize, World.delete)
    (server,) = {row["id"] for row in world.rows("server")}
    explained = 0
    for each in (None, *begin):
        if each is not None:
            each(world, server)
        while world.unfinished():
            (move,) = world.unfinished()
            said, _ = of_move(world, move)
            assert said.document(by_host=True)["says"]
            of_group(world, web)
            explained += 1
            world.step(move)
            for name in world.agents:
                world.obey(name)
        if each in (World.migrate, World.resize):
            world.confirm(server)
            world.settle()
    assert explained > 20


def test_a_move_that_waits_for_a_place_says_for_what(world: World) -> None:
    web = world.group("anti-affinity")
    one, two = world.boot("web-1", web, host="node1"), world.boot("web-2", web, host="node2")
    world.boot("web-3", web, host="node3")
    world.resize(two)
    world.add_host("node4")
    world.settle()
    move = world.store.write_now(
        begin.begin, "live-migration", one, world.by(), {"host": None, "wait_s": 60.0}
    )
    world.step(move)
    said, now = of_move(world, move)
    assert said.says.startswith("The live-migration of web-1: Waits for a place until others on the move")
    assert "web-2" in of_host(said.refused, "node2").against[0].reason
    assert now is not None
    assert now.candidates == 0


def test_the_host_that_was_silent_is_blamed_and_no_other(world: World) -> None:
    """Memory was to be sent, and the source fell silent; both were asked then who runs the guest."""
    one = world.boot("one", host="node1")
    move = world.live_migrate(one, "node2")
    while world.move(move)["state"] == "running" and of_move(world, move)[0].line != "send memory":
        if world.step(move).wait_s:
            world.hear()
            world.obey("node2")
    world.silent.add("node1")
    for _ in range(40):
        world.pass_time(1.0)
        world.step(move)
    world.silent.clear()
    world.settle()
    said, _ = of_move(world, move)
    assert world.move(move)["state"] == "undone"
    assert list(world.move(move)["failure"]["hosts"]) == ["node1"]
    assert [host.host for host in said.refused] == ["node1"], "node2 had done all that it was asked"
    assert "its agent has been silent" in of_host(said.refused, "node1").against[0].reason


def test_a_move_that_was_aborted_blames_no_host(world: World) -> None:
    one = world.boot("one", host="node1")
    move = world.live_migrate(one, "node2")
    while of_move(world, move)[0].line != "send memory":
        if world.step(move).wait_s:
            world.obey("node2")
    world.store.write_now(abort.abort, one, world.move(move)["number"], world.by())
    world.settle()
    assert world.move(move)["state"] == "undone"
    assert of_move(world, move)[0].refused == ()
