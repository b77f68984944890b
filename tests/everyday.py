"""The everyday moves with a situation to try each in: power, volumes, shelf, rescue, evacuation.

As in `stage`, each is a play: a server is prepared, and the move begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from berthold.lab.furniture import add_image, add_port, add_volume
from berthold.lab.outages import evacuate, lose
from berthold.lab.world import World
from berthold.moves import begin, left, reclaim, shelf
from stage import PLAY, Play, booted, wishes

NOTHING_MORE: Mapping[str, Any] = {}


def wish(kind: str, wanted: Mapping[str, Any] = NOTHING_MORE) -> Callable[[World, str | None], str]:
    """Begin that move of the server."""

    def start(world: World, server: str | None) -> str:
        assert server is not None
        return world.store.write_now(begin.begin, kind, server, world.by(), wanted)

    return start


def after(*kinds: str, image: bool = False) -> Callable[[World], str]:
    """A server that has had these moves. `image`: made from one, not from a volume."""

    def prepare(world: World) -> str:
        if image:
            group = world.rows("server_group")[0]["id"]
            server = world.boot("web-1", group, image_id=add_image(world), **wishes(world))
        else:
            server = booted(world)
        add_volume(world, "extra")
        add_port(world, world.rows("network")[0]["id"], "extra")
        for kind in kinds:
            STARTS.get(kind, wish(kind))(world, server)
            world.settle()
        return server

    return prepare


def extra(world: World) -> str:
    return next(str(row["id"]) for row in world.rows("volume") if row["name"] == "extra")


def attach(world: World, server: str | None) -> str:
    assert server is not None
    world.store.write_now(begin.attach_volume, server, world.by(), extra(world))
    return world.unfinished()[0]


def detach(world: World, server: str | None) -> str:
    assert server is not None
    world.store.write_now(begin.detach_volume, server, world.by(), extra(world))
    return world.unfinished()[0]


def extra_port(world: World) -> str:
    return next(str(row["id"]) for row in world.rows("network_port") if row["name"] == "extra")


def attach_port(world: World, server: str | None) -> str:
    assert server is not None
    wish = {"port": extra_port(world), "tag": "backup"}
    return world.store.write_now(begin.attach_interface, server, world.by(), wish)


def attach_network(world: World, server: str | None) -> str:
    assert server is not None
    wish = {"uuid": world.rows("network")[0]["id"], "fixed_ip": "10.0.0.77"}
    return world.store.write_now(begin.attach_interface, server, world.by(), wish)


def detach_last_port(world: World, server: str | None) -> str:
    assert server is not None
    last = world.server(server)["ports"][-1]["id"]
    return world.store.write_now(begin.detach_interface, server, world.by(), last)


def soft_delete(world: World, server: str | None) -> str:
    assert server is not None
    world.store.write_now(reclaim.soft_delete, server, world.by())
    return world.unfinished()[0]


def on_shelf(f: Callable[..., str], **more: Any) -> Callable[[World, str | None], str]:
    """Begin that move of `moves/shelf.py`."""

    def start(world: World, server: str | None) -> str:
        assert server is not None
        return world.store.write_now(f, server, world.by(), **more)

    return start


STARTS: Mapping[str, Callable[[World, str | None], str]] = {
    "attach": attach,
    "detach": detach,
    "attach-port": attach_port,
    "attach-network": attach_network,
    "detach-last-port": detach_last_port,
    "shelve": on_shelf(shelf.shelve, offload=False),
    "shelve-and-offload": on_shelf(shelf.shelve),
    "shelve-offload": on_shelf(shelf.offload),
    "unshelve": on_shelf(shelf.unshelve),
    "snapshot": wish("snapshot", {"name": "snap"}),
    "backup": wish("backup", {"name": "backup", "backup": {"type": "daily", "rotation": 1}}),
}


@dataclass(frozen=True)
class Everyday:
    """A play, the server's status at its good end, and how many volumes and ports it has then."""

    play: Play
    status: str
    volumes: int = 2
    ports: int = 1
    elsewhere: bool = False  # whether a second host may do what the first one failed


def orphaned(*kinds: str) -> Callable[[World], str]:
    """A server that has had these moves, and whose host has died since."""

    def prepare(world: World) -> str:
        server = after(*kinds)(world)
        lose(world, world.home(server) or "")
        return server

    return prepare


def evacuated(world: World, server: str | None) -> str:
    assert server is not None
    return evacuate(world, server)


def evacuated_to_be_stopped(world: World, server: str | None) -> str:
    """As it is asked for since 2.95."""
    assert server is not None
    since = world.clock.now() - world.settings.silent_after_s
    return world.store.write_now(
        left.evacuate_and_fence, server, world.by(), silent_since=since, stopped=True
    )[0]


def resized(world: World) -> str:
    """A server that waits for its owner's word."""
    server = after()(world)
    world.resize(server)
    world.settle()
    return server


def _evacuation(name: str, *before: str, status: str) -> Everyday:
    return Everyday(Play(name, "evacuation", orphaned(*before), evacuated), status)


def _shelf(name: str, playbook: str, begin: str, *before: str, status: str) -> Everyday:
    play = Play(name, playbook, after(*before, image=True), STARTS[begin])
    return Everyday(play, status, elsewhere=playbook == "unshelve")


def _interface(name: str, playbook: str, begin: str, *before: str, status: str, ports: int) -> Everyday:
    return Everyday(Play(name, playbook, after(*before), STARTS[begin]), status, ports=ports)


def _play(
    name: str,
    playbook: str,
    *before: str,
    status: str,
    volumes: int = 2,
    start: Callable[..., str] | None = None,
) -> Everyday:
    return Everyday(Play(name, playbook, after(*before), start or wish(playbook)), status, volumes)


EVERYDAY = {
    each.play.name: each
    for each in (
        _play("stop", "stop", status="SHUTOFF"),
        _play("start", "start", "stop", status="ACTIVE"),
        _play("reboot", "reboot", status="ACTIVE"),
        _play("hard reboot", "hard-reboot", status="ACTIVE"),
        _play("hard reboot when stopped", "hard-reboot", "stop", status="ACTIVE"),
        _play("hard reboot when paused", "hard-reboot", "pause", status="ACTIVE"),
        _play("pause", "pause", status="PAUSED"),
        _play("unpause", "unpause", "pause", status="ACTIVE"),
        _play("attach", "attach-volume", status="ACTIVE", volumes=3, start=attach),
        _play("attach when stopped", "attach-volume", "stop", status="SHUTOFF", volumes=3, start=attach),
        _play("detach", "detach-volume", "attach", status="ACTIVE", start=detach),
        _play("detach when paused", "detach-volume", "attach", "pause", status="PAUSED", start=detach),
        _play("attach when shelved", "attach-volume", "shelve", status="SHELVED", volumes=3, start=attach),
        _play("detach when shelved", "detach-volume", "attach", "shelve", status="SHELVED", start=detach),
        _play(
            "attach when offloaded",
            "attach-volume-offloaded",
            "shelve-and-offload",
            status="SHELVED_OFFLOADED",
            volumes=3,
            start=attach,
        ),
        _play(
            "detach when offloaded",
            "detach-volume-offloaded",
            "attach",
            "shelve-and-offload",
            status="SHELVED_OFFLOADED",
            start=detach,
        ),
        _interface("attach a port", "attach-interface", "attach-port", status="ACTIVE", ports=2),
        _interface(
            "attach to a network when stopped",
            "attach-interface",
            "attach-network",
            "stop",
            status="SHUTOFF",
            ports=2,
        ),
        _interface(
            "detach a port", "detach-interface", "detach-last-port", "attach-port", status="ACTIVE", ports=1
        ),
        _interface(
            "detach from a network when paused",
            "detach-interface",
            "detach-last-port",
            "attach-network",
            "pause",
            status="PAUSED",
            ports=1,
        ),
        _interface("detach the only port", "detach-interface", "detach-last-port", status="ACTIVE", ports=0),
        _play("suspend", "suspend", status="SUSPENDED"),
        _play("resume", "resume", "suspend", status="ACTIVE"),
        _play("soft delete", "soft-delete", status="SOFT_DELETED"),
        Everyday(
            Play("soft delete while waiting", "confirm-and-soft-delete", resized, soft_delete), "SOFT_DELETED"
        ),
        _play("restore", "restore", "soft-delete", status="ACTIVE"),
        _play("rebuild", "rebuild", status="ACTIVE", start=wish("rebuild", {"image_id": "other"})),
        _play(
            "rebuild when stopped",
            "rebuild",
            "stop",
            status="SHUTOFF",
            start=wish("rebuild", {"image_id": "other", "name": "renamed"}),
        ),
        _play("rescue", "rescue", status="RESCUE", start=wish("rescue", {"image_id": "rescue-disk"})),
        _play("rescue when stopped", "rescue", "stop", status="RESCUE"),
        _play("unrescue", "unrescue", "rescue", status="ACTIVE"),
        _shelf("snapshot", "snapshot", "snapshot", status="ACTIVE"),
        _play(
            "snapshot of volumes",
            "snapshot-of-volumes",
            "attach",
            status="ACTIVE",
            volumes=3,
            start=STARTS["snapshot"],
        ),
        _shelf("backup", "backup", "backup", status="ACTIVE"),
        _shelf("backup over another", "backup", "backup", "backup", status="ACTIVE"),
        _shelf("snapshot when suspended", "snapshot", "snapshot", "suspend", status="SUSPENDED"),
        _evacuation("evacuate when suspended", "suspend", status="ACTIVE"),
        _shelf("shelve", "shelve", "shelve", status="SHELVED"),
        _shelf("shelve when paused", "shelve", "shelve", "pause", status="SHELVED"),
        _shelf("shelve and offload", "shelve-and-offload", "shelve-and-offload", status="SHELVED_OFFLOADED"),
        _shelf("offload", "shelve-offload", "shelve-offload", "shelve", status="SHELVED_OFFLOADED"),
        _shelf("unshelve", "unshelve", "unshelve", "shelve-and-offload", status="ACTIVE"),
        _shelf("unshelve at home", "unshelve-at-home", "unshelve", "shelve", status="ACTIVE"),
        _evacuation("evacuate", status="ACTIVE"),
        _evacuation("evacuate when stopped", "stop", status="SHUTOFF"),
        Everyday(
            Play("evacuate to be stopped", "evacuation", orphaned(), evacuated_to_be_stopped), "SHUTOFF"
        ),
    )
}
PLAY.update({name: each.play for name, each in EVERYDAY.items()})
