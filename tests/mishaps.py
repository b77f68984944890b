"""What may go wrong at each line of a playbook: `mishaps(line)`, by what they are called.

`ANY` may happen at every line; the others at lines of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from berthold.agent.faults import Died, Kind
from berthold.errors import Unavailable, WrongState
from berthold.lab.world import World
from berthold.lab.world import now as run
from berthold.ledger import hosts
from berthold.ledger.store import Tx
from berthold.moves.playbook import Ask, Call, Line, Place, Write
from stage import Scene, revive

TURNS = "berthold.moves.turns"


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
