"""Every playbook with a situation to try it in.

A `Play` is a playbook in a furnished world: a server of an anti-affinity group with a port and
two volumes (one lent, one made for it) on one of two hosts. What may happen to each of its lines
is in `mishaps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from berthold.agent.faults import Died
from berthold.lab.furniture import KeptFiles, add_network, add_volume
from berthold.lab.world import LARGE, World, with_settings
from berthold.lab.world import now as run
from berthold.ledger import servers
from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Playbook


@dataclass(frozen=True)
class Play:
    """`prepare` makes the server (None: the play itself does), `start` begins the move; its id.
    `idle` names the lines at which this play asks nobody."""

    name: str
    playbook: str
    prepare: Callable[[World], str | None]
    start: Callable[[World, str | None], str]
    idle: frozenset[str] = frozenset()

    @property
    def book(self) -> Playbook:
        return PLAYBOOKS[self.playbook]


def wishes(world: World) -> dict[str, Any]:
    return {
        "networks": [{"uuid": world.rows("network")[0]["id"]}],
        "volumes": [
            {"volume_id": world.rows("volume")[0]["id"], "boot_index": 0},
            {"size": 1, "boot_index": 1, "delete_on_termination": True},
        ],
    }


def booted(world: World) -> str:
    return world.boot("web-1", world.rows("server_group")[0]["id"], **wishes(world))


def stopped(world: World) -> str:
    """A server that its owner has shut off."""
    server = booted(world)
    run(world.agents[world.home(server) or ""].driver.stop(server))
    world.store.write_now(lambda tx: servers.change(tx, server, condition="stopped"))
    return server


def resized(prepare: Callable[[World], str]) -> Callable[[World], str]:
    def do(world: World) -> str:
        server = prepare(world)
        world.resize(server)
        world.settle()
        return server

    return do


def _create(world: World, _: str | None) -> str:
    group = world.rows("server_group")[0]["id"]
    world.create("web-1", group, **wishes(world))
    return world.unfinished()[0]


def _started(begin: Callable[[World, str], object]) -> Callable[[World, str | None], str]:
    def do(world: World, server: str | None) -> str:
        assert server is not None
        begin(world, server)
        return world.unfinished()[0]

    return do


PLAYS = (
    Play("create", "create", lambda world: None, _create),
    Play("live-migration", "live-migration", booted, _started(World.live_migrate)),
    Play("migration", "resize", booted, _started(World.migrate)),
    Play(
        "migration of a stopped server",
        "resize",
        stopped,
        _started(World.migrate),
        idle=frozenset({"start on target"}),
    ),
    Play("resize", "resize", booted, _started(lambda world, server: world.resize(server, LARGE))),
    Play("confirm", "confirm-resize", resized(booted), _started(World.confirm)),
    Play("revert", "revert-resize", resized(booted), _started(World.revert)),
    Play("revert of a stopped server", "revert-resize", resized(stopped), _started(World.revert)),
    Play("delete", "delete", booted, _started(World.delete)),
    Play("delete in VERIFY_RESIZE", "delete", resized(booted), _started(World.delete)),
)
PLAY = {play.name: play for play in PLAYS}


@dataclass
class Scene:
    """A play that is about to begin: the world, its server, and how everything looked before."""

    world: World
    play: Play
    server: str
    move: str
    before: Mapping[str, Any]
    status: str | None

    def line(self) -> int:
        return int(self.world.move(self.move)["line"])

    def state(self) -> str:
        return str(self.world.move(self.move)["state"])

    @property
    def settled(self) -> bool:
        return self.move not in self.world.unfinished()


class Kept:
    """A world as it is now, to come back to."""

    def __init__(self, world: World) -> None:
        self._world, self._photograph, self._files = world, world.photograph(), KeptFiles(world)

    def bring_back(self) -> None:
        self._world.restore(self._photograph)
        self._files.bring_back()

    def forget(self) -> None:
        """Nobody comes back to it."""
        self._files.forget()


Walk = Callable[..., None]


@cache
def _begun(name: str) -> tuple[Scene, Kept]:
    """The play's beginning, which is the same each time."""
    world = World(
        hosts=1 if name == "create" else 2, settings=with_settings(retry_first_s=0.1, retry_last_s=1.0)
    )
    add_network(world)
    add_volume(world)
    world.group("anti-affinity")
    server = PLAY[name].prepare(world)
    status, before = world.status(server).status if server else None, world.picture()
    move = PLAY[name].start(world, server)
    scene = Scene(world, PLAY[name], world.move(move)["server_id"], move, before, status)
    return scene, Kept(world)


# Where the last walk has ended. Those who begin there come one after another.
_WALKED: dict[tuple[Any, ...], Kept] = {}


def _walked(name: str, walk: Walk, *words: Any) -> Kept:
    """Where that walk through the play ends, which is the same each time."""
    way = (name, walk, *words)
    if way not in _WALKED:
        scene, begun = _begun(name)
        begun.bring_back()
        walk(scene, *words)
        while _WALKED:
            _WALKED.popitem()[1].forget()
        _WALKED[way] = Kept(scene.world)
    return _WALKED[way]


@contextmanager
def on_stage(name: str, walk: Walk | None = None, *words: Any) -> Iterator[Scene]:
    """The play, begun: no line of it done; or as `walk(scene, *words)` leaves it."""
    scene, begun = _begun(name)
    kept = _walked(name, walk, *words) if walk else begun
    kept.bring_back()
    world, neighbours = scene.world, scene.world.runner.neighbours
    try:
        yield scene
    finally:
        world.runner.neighbours = neighbours
        vars(world.store).pop("write", None)


def go_to(scene: Scene, line: int, state: str = "running") -> None:
    """Step until the line is the next to do (or to undo)."""
    for _ in range(200):
        if (scene.line(), scene.state()) == (line, state):
            return
        scene.world.step(scene.move)
        if (scene.line(), scene.state()) == (line, state):
            return
        for name in scene.world.agents:
            scene.world.obey(name)
    raise AssertionError(f"never came to line {line} {state}")


def settle(scene: Scene) -> None:
    """Let everything end that can; agents that die come back."""
    for _ in range(20):
        try:
            scene.world.settle()
        except Died:
            revive(scene.world)
        else:
            return
    raise AssertionError("agents die without end")


def revive(world: World) -> None:
    for name in world.agents:
        world.restart_agent(name)
