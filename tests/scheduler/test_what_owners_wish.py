"""Hints and traits, from what an owner says to where the server is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from berthold.lab.world import PROJECT, SMALL, USER, World
from berthold.ledger import hosts, inventories, quotas
from berthold.ledger.store import Tx
from berthold.moves import begin
from berthold.moves.wishes import aggregates_named, servers_named, traits_named
from berthold.records import aggregates


@pytest.fixture
def world() -> Iterator[World]:
    """node3 is preferred by whoever has no wish."""
    world = World(hosts=2)
    world.add_host("node3", vcpus=64, memory_mb=64 * 1024)
    yield world
    assert world.problems() == []
    world.close()


def message(world: World, server: str) -> str:
    return str(world.server(server)["fault"]["message"])


def test_the_same_host_as_another_server(world: World) -> None:
    one = world.boot("one", host="node1")
    assert world.home(world.boot("two", hints={"same_host": [one]})) == "node1"
    assert world.home(world.boot("three", hints={"same_host": one})) == "node1"
    assert world.home(world.boot("four")) == "node3"


def test_any_of_several_hosts_will_do_if_another_is_full(world: World) -> None:
    one, two = world.boot("one", host="node1"), world.boot("two", host="node2")
    for number in range(3):
        world.boot(f"filler-{number}", host="node1")
    assert world.home(world.boot("three", hints={"same_host": [one, two]})) == "node2"


def test_a_different_host_from_other_servers_also_when_it_moves(world: World) -> None:
    one, two = world.boot("one", host="node3"), world.boot("two", host="node1")
    three = world.boot("three", hints={"different_host": [one, two]})
    assert world.home(three) == "node2"
    move = world.live_migrate(three)
    world.settle()
    assert world.home(three) == "node2"
    assert world.move(move)["failure"]["message"] == (
        "No valid host was found. 2 hosts: scheduler hint, 1 host: source host"
    )


def test_a_server_that_is_on_its_way_counts_where_it_goes(world: World) -> None:
    one = world.boot("one", host="node1")
    world.step(world.live_migrate(one, "node3"))
    assert world.home(world.boot("two", hints={"different_host": [one]})) == "node2"
    world.settle()


def test_another_projects_servers_and_servers_that_are_not_look_alike(world: World) -> None:
    world.store.write_now(quotas.ensure_project, "others", world.settings)
    wish = begin.NewServer("others", USER, "theirs", SMALL, host="node3")
    by = begin.By(USER, "others", "req-1")
    (theirs,) = world.store.write_now(begin.create_servers, by, [wish])
    world.settle()
    for number, named in enumerate([theirs, "00000000-0000-0000-0000-000000000000"]):
        near = world.boot(f"near-{number}", hints={"same_host": [named]})
        assert message(world, near) == "No valid host was found. 3 hosts: scheduler hint"
        assert world.home(world.boot(f"far-{number}", hints={"different_host": [named]})) == "node3"
    assert PROJECT != "others"


def give(world: World, host: str, *traits: str) -> None:
    def write(tx: Tx) -> None:
        hosts.lock(tx, world.host_id(host))
        inventories.set_traits(tx, world.host_id(host), traits)

    world.store.write_now(write)


def flavor(**traits: str) -> dict[str, Any]:
    return {**SMALL, "extra_specs": {f"trait:{name}": value for name, value in traits.items()}}


def test_flavors_and_images_name_traits(world: World) -> None:
    give(world, "node1", "HW_CPU_X86_AVX2", "CUSTOM_OLD")
    give(world, "node2", "HW_CPU_X86_AVX2")
    avx2 = flavor(HW_CPU_X86_AVX2="required")
    image = {"image_traits": {"CUSTOM_OLD": "forbidden"}}
    assert world.home(world.boot("one", flavor=avx2)) in ("node1", "node2")
    assert world.home(world.boot("two", flavor=avx2, details=image)) == "node2"
    assert world.home(world.boot("three", flavor=flavor(HW_CPU_X86_AVX2="forbidden"))) == "node3"
    nowhere = world.boot("four", flavor=flavor(CUSTOM_NONE="required"))
    assert message(world, nowhere) == "No valid host was found. 3 hosts: traits"


def test_what_the_image_wished_holds_for_later_moves_too(world: World) -> None:
    give(world, "node1", "CUSTOM_A")
    give(world, "node2", "CUSTOM_A")
    one = world.boot("one", host="node1", details={"image_traits": {"CUSTOM_A": "required"}})
    world.live_migrate(one)
    world.settle()
    assert world.home(one) == "node2"


def test_words_that_are_no_wishes_say_nothing() -> None:
    assert servers_named({"query": "[]"}, "same_host") == frozenset()
    assert traits_named({"hw:cpu_policy": "shared", "trait:CUSTOM_A": "maybe"}, {}) == (
        frozenset(),
        frozenset(),
    )


def say(world: World, host: str, **words: str) -> None:
    """An aggregate of the host that says this."""

    def write(tx: Tx) -> None:
        key = aggregates.create(tx, f"of-{host}-{len(words)}", None)["id"]
        aggregates.set_metadata(tx, key, words)
        aggregates.add_host(tx, key, host)

    world.store.write_now(write)


def test_a_flavor_asks_for_what_aggregates_say_also_when_the_server_moves(world: World) -> None:
    say(world, "node1", ssd="true", rack="a")
    say(world, "node2", ssd="true")
    asks = {**SMALL, "extra_specs": {"aggregate_instance_extra_specs:ssd": "true", "hw:numa_nodes": "1"}}
    server = world.boot("one", flavor=asks)
    first = world.home(server)
    assert first in ("node1", "node2")
    world.live_migrate(server)
    world.settle()
    assert {first, world.home(server)} == {"node1", "node2"}


def test_one_of_several_words_will_do_and_none_is_no_host(world: World) -> None:
    say(world, "node2", rack="b")
    key = "aggregate_instance_extra_specs:rack"
    assert world.home(world.boot("one", flavor={**SMALL, "extra_specs": {key: "<or> a <or> b"}})) == "node2"
    none = world.boot("two", flavor={**SMALL, "extra_specs": {key: "c"}})
    assert message(world, none) == "No valid host was found. 3 hosts: aggregates"


@pytest.mark.parametrize(
    ("text", "values"),
    [("a", {"a"}), ("<or> a <or> b c", {"a", "b c"}), ("a <or> b", {"a <or> b"}), ("", {""})],
)
def test_how_a_flavor_asks(text: str, values: set[str]) -> None:
    specs = {"aggregate_instance_extra_specs:k": text, "trait:T": "required", "k": "x"}
    assert aggregates_named(specs) == {"k": frozenset(values)}
