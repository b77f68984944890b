"""Every playbook with a situation to try it in, and what may happen to each of its lines.

A `Play` is a playbook in a furnished world: a server of an anti-affinity group with a port and
two volumes (one lent, one made for it) on one of two hosts. `MISHAPS` are what may go wrong
at a line, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from berthold.agent.faults import Died, Kind
from berthold.errors import Unavailable, WrongState
from berthold.lab.furniture import KeptFiles, add_network, add_volume
from berthold.lab.world import LARGE, World, with_settings
from berthold.lab.world import now as run
from berthold.ledger import hosts, servers
from berthold.ledger.store import Tx
from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Ask, Call, Line, Place, Playbook, Write

TURNS = "berthold.moves.turns"


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


@cache
def _world(name: str, hosts: int) -> tuple[World, tuple[Any, ...], KeptFiles, str | None]:
    world = World(hosts=hosts, settings=with_settings(retry_first_s=0.1, retry_last_s=1.0))
    add_network(world)
    add_volume(world)
    world.group("anti-affinity")
    server = PLAY[name].prepare(world)
    return world, world.photograph(), KeptFiles(world), server


@contextmanager
def on_stage(name: str) -> Iterator[Scene]:
    """The play, begun: no line of it done."""
    world, photograph, files, server = _world(name, 1 if name == "create" else 2)
    world.restore(photograph)
    files.bring_back()
    neighbours, write = world.runner.neighbours, world.store.write
    status = world.status(server).status if server else None
    before = world.picture()
    move = PLAY[name].start(world, server)
    server = world.move(move)["server_id"]
    yield Scene(world, PLAY[name], server, move, before, status)
    world.runner.neighbours = neighbours
    if world.store.write != write:
        del world.store.write
    world.restore(photograph)


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


# -- Mishaps ------------------------------------------------------------------------------


class Killed(BaseException):
    """The conductor's process died here."""


def _next_turn(world: World, instead: Callable[[], None]) -> None:
    """Let the conductor's next transaction on the move not happen; `instead` happens."""
    write = world.store.write

    async def written(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if f.__module__ == TURNS:
            world.store.write = write  # type: ignore[method-assign]
            instead()
        return await write(f, *args, **kwargs)

    world.store.write = written  # type: ignore[method-assign]


def _die() -> None:
    raise Killed


def _break() -> None:
    raise RuntimeError("planned: this line's own code is wrong")


def killed_before(scene: Scene) -> None:
    scene.world.kill_conductor()


def killed_between(scene: Scene) -> None:
    """It did the line's work outside of the ledger and died before it wrote that down."""
    _obey_all(scene.world)
    _next_turn(scene.world, _die)
    for _ in range(5):
        try:
            scene.world.step(scene.move)
        except Killed:
            break
        _obey_all(scene.world)
    scene.world.kill_conductor()


def killed_after(scene: Scene) -> None:
    _obey_all(scene.world)
    scene.world.step(scene.move)
    scene.world.kill_conductor()


def asked_twice(scene: Scene) -> None:
    """Every open ask is delivered twice and answered twice."""
    world = scene.world
    for name, agent in world.agents.items():
        for ask in world.asks(name) if name not in world.silent else ():
            answers = [run(agent.do(ask)), run(agent.do(ask))]
            for answer in answers:
                run(world.door.answer(answer))


def agents(kind: Kind, times: int = 1) -> Callable[[Scene], None]:
    """Whichever agent is asked next for this server misbehaves."""

    def do(scene: Scene) -> None:
        for faults in scene.world.faults_of.values():
            faults.plan(kind, server=scene.server, times=times)
        settle_a_little(scene)

    return do


def settle_a_little(scene: Scene) -> None:
    try:
        _obey_all(scene.world)
    except Died:
        revive(scene.world)
    for faults in scene.world.faults_of.values():
        faults.forget()


def refused(scene: Scene) -> None:
    """The asked hosts refuse until they are asked something else."""
    verbs = {ask["verb"] for ask in scene.world.rows("ask") if ask["state"] == "open"}
    for faults in scene.world.faults_of.values():
        for verb in verbs:
            faults.plan("refuse", verb=verb, times=3)


def silent(scene: Scene) -> None:
    """Nobody who is asked answers until the move has given up on it, or for a while."""
    world = scene.world
    asked = {ask["host_id"] for ask in world.rows("ask") if ask["state"] == "open"}
    world.silent |= {name for name in world.agents if world.host_id(name) in asked}
    _until_they_are_heard_again(scene, 80.0)


def answer_lost(scene: Scene) -> None:
    """The hosts do what they are asked; then nobody hears of them for a while."""
    world = scene.world
    for name, agent in world.agents.items():
        for ask in world.asks(name) if name not in world.silent else ():
            run(agent.do(ask))
            world.silent.add(name)
    _until_they_are_heard_again(scene, 20.0)


def _until_they_are_heard_again(scene: Scene, seconds: float) -> None:
    """The others go on while so much time passes."""
    world = scene.world
    for _ in range(int(seconds / 2.0)):
        world.step(scene.move) if not scene.settled else None
        _obey_all(world)
        world.pass_time(2.0)
    world.silent.clear()
    world.hear()


def breaks(scene: Scene) -> None:
    """The line's own code raises, once."""
    _next_turn(scene.world, _break)


def neighbours(error: Exception, *, done: bool) -> Callable[[Scene], None]:
    """The next call to a neighbour raises, after it was `done` or before."""

    def do(scene: Scene) -> None:
        runner = scene.world.runner
        sound = runner.neighbours
        struck: list[str] = []

        class Moody:
            def __init__(self, one: Any) -> None:
                self.one = one

            def __getattr__(self, name: str) -> Any:
                call = getattr(self.one, name)

                async def called(*args: Any, **kwargs: Any) -> Any:
                    made = await call(*args, **kwargs) if done or struck else None
                    if not struck:
                        struck.append(name)
                        raise error
                    return made

                return called

        runner.neighbours = replace(
            sound,
            images=Moody(sound.images),
            volumes=Moody(sound.volumes),
            networks=Moody(sound.networks),
        )

    return do


def nowhere(scene: Scene) -> None:
    """No host takes anything."""

    def disable(tx: Tx) -> None:
        for name in scene.world.agents:
            hosts.set_disabled(tx, scene.world.host_id(name), True)

    scene.world.store.write_now(disable)


ANY: Mapping[str, Callable[[Scene], None]] = {
    "its code raises": breaks,
    "the conductor is killed before it": killed_before,
    "the conductor is killed between doing and writing it": killed_between,
    "the conductor is killed after it": killed_after,
}
OF_KIND: Mapping[type[Line], Mapping[str, Callable[[Scene], None]]] = {
    Write: {},
    Place: {"no host is free": nowhere},
    Ask: {
        "the agent refuses": refused,
        "the ask comes twice, so does the answer": asked_twice,
        "the agent dies before it does it": agents("die before"),
        "the agent dies when it has done it": agents("die after"),
        "the host does nothing and is silent": silent,
        "the answer is lost": answer_lost,
    },
    Call: {
        "the neighbour does not answer": neighbours(Unavailable("planned"), done=False),
        "the neighbour does it and does not answer": neighbours(Unavailable("planned"), done=True),
        "the neighbour refuses": neighbours(WrongState("planned"), done=False),
        "the neighbour breaks": neighbours(RuntimeError("planned"), done=False),
        "the neighbour does it and breaks": neighbours(RuntimeError("planned"), done=True),
    },
}


def mishaps(line: Line) -> Mapping[str, Callable[[Scene], None]]:
    return {**OF_KIND[type(line)], **ANY}


def _obey_all(world: World) -> None:
    for name in world.agents:
        world.obey(name)


__all__ = ["PLAY", "PLAYS", "Scene", "go_to", "mishaps", "on_stage", "settle"]
