"""Who races in the scenarios: coroutines that ask for something and see it through.

Each is a user, the conductor that takes the user's move, and the agents that it asks, one
after another; what runs at the same time is several of them. They work on a world in memory
under the explorer and on a world on PostgreSQL in threads of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from berthold.agent.protocol import Ask, Fenced
from berthold.errors import Failure, Refused, Stale
from berthold.lab.explore import forget
from berthold.lab.world import PROJECT, SMALL, USER, World, lease_one, turn
from berthold.lab.world import now as run
from berthold.ledger import claims, groups, moves, seats
from berthold.ledger.store import Tx
from berthold.moves import begin
from berthold.moves.status import line_of

Racer = Callable[[World], Coroutine[Any, Any, Any]]


def moving(kind: str, server: str, upto: str | None = None, **wish: Any) -> Racer:
    """Ask for a move of the server and carry it out (to where line `upto` begins); its final state."""

    async def race(world: World) -> str:
        by = begin.By(USER, PROJECT, f"req-{kind}-{server}")
        try:
            move_id = await world.store.write(begin.begin, kind, server, by, wish)
        except Failure as no:
            return type(no).__name__
        return await carry_out(world, move_id, upto)

    return race


def beginning(kind: str, server: str) -> Racer:
    """Ask for a move of the server, with which nobody goes on."""

    async def race(world: World) -> str:
        by = begin.By(USER, PROJECT, f"req-{kind}-{server}")
        try:
            await world.store.write(begin.begin, kind, server, by, {})
        except Failure as no:
            return type(no).__name__
        return "begun"

    return race


def asking(f: Callable[..., str], server: str, upto: str | None = None, **more: Any) -> Racer:
    """The same for a move with a beginning of its own: `f(tx, server, by, **more)` begins it."""

    async def race(world: World) -> str:
        by = begin.By(USER, PROJECT, f"req-{f.__name__}-{server}")
        try:
            move_id = await world.store.write(f, server, by, **more)
        except Failure as no:
            return type(no).__name__
        return await carry_out(world, move_id, upto)

    return race


def creating(
    name: str, group: str | None, flavor: Mapping[str, Any] = SMALL, patience: float = 0.0, **wishes: Any
) -> Racer:
    """Ask for a new server, which may wait so long for a place, and carry its create out; its final state,
    or "running" while it waits."""

    async def race(world: World) -> str:
        by = begin.By(USER, PROJECT, f"req-create-{name}", wait_s=patience)
        wish = begin.NewServer(PROJECT, USER, name, flavor, group_id=group, **wishes)
        try:
            server = (await world.store.write(begin.create_servers, by, [wish]))[0]
        except Failure as no:
            return type(no).__name__
        standing = await world.store.read(moves.unfinished, server)
        assert standing is not None
        return await carry_out(world, standing["id"])

    return race


def continuing(word: str, server: str) -> Racer:
    """Confirm or revert what waits, and carry that out; its final state."""

    async def race(world: World) -> str:
        by = begin.By(USER, PROJECT, f"req-{word}-{server}")
        f = begin.confirm if word == "confirm" else begin.revert
        try:
            await world.store.write(f, server, by)
        except Failure as no:
            return type(no).__name__
        standing = await world.store.read(moves.unfinished, server)
        if standing is None or standing["kind"] == "delete":
            return "superseded"
        return await carry_out(world, standing["id"])

    return race


def claiming(server: str) -> Racer:
    """Look where the group's members are, then claim the first host without one; its name."""

    async def race(world: World) -> str:
        taken = await world.store.read(_taken, server)
        for name in world.agents:
            want = claims.Want(server, world.host_id(name), {"VCPU": 1}, role="home")
            if want.host_id not in taken:
                with suppress(Refused):
                    await world.store.write(claims.take, [want])
                    return name
        return "refused"

    return race


def _taken(tx: Tx, server: str) -> dict[str, int]:
    member = seats.member_of(tx, server)
    return seats.holders(tx, member.group)


def deleting_group(group: str) -> Racer:
    async def race(world: World) -> str:
        await world.store.write(groups.delete_group, group)
        return "deleted"

    return race


def returning(host: str) -> Racer:
    """The host's agent is back: it registers, and does the first thing that is asked of it then."""

    async def race(world: World) -> str:
        await world.agents[host].join()
        return await turn("an agent", partial(obey, world, None, host))

    return race


async def carry_out(world: World, move_id: str, upto: str | None = None) -> str:
    """Be the move's conductor and its agents until it ends, or reaches line `upto`; its state then."""
    try:
        lease = await world.store.write(lease_one, move_id, "a racer")
        while True:
            await forget()
            outcome = await world.runner.step(lease)
            if outcome.over:
                return outcome.state
            if upto and await world.store.read(_line, move_id) == upto:
                return f"at {upto}"
            if outcome.wait_s:
                await turn("an agent", partial(obey, world, move_id))
    except Stale:
        return "superseded"


def _line(tx: Tx, move_id: str) -> str:
    move = moves.find(tx, move_id)
    assert move is not None
    return line_of(move).name


def obey(world: World, move_id: str | None, host: str | None = None) -> str:
    """One agent (or that of this host) does what the move (or whoever) asks of it next, and answers."""
    switching, world.store.switching = world.store.switching, False
    try:
        for name in [host] if host else list(world.agents):
            with suppress(Fenced):  # a host that is taken for dead, or one that must register anew
                for ask in world.asks(name):
                    if move_id is None or ask.move == move_id:
                        return _answer(world, name, ask)
        return "nothing to do"
    finally:
        world.store.switching = switching


def _answer(world: World, name: str, ask: Ask) -> str:
    agent = world.agents[name]
    answer = run(agent.do(ask))
    run(world.door.answer(answer))
    agent.journal.heard(ask.id)
    return f"{name} {ask.verb}: {'done' if answer.ok else answer.reason}"


def stepping(move_id: str, steps: int = 1) -> Racer:
    """The move's conductor, which holds its lease already, takes so many steps; how the last left it."""

    async def race(world: World) -> str:
        try:
            for _ in range(steps):
                outcome = await world.runner.step(world.leases[move_id])
        except Stale:
            return "superseded"
        return outcome.state

    return race
