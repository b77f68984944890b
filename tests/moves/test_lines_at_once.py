"""Lines that follow and ask nobody share the transaction of the line before (`moves/onward.py`).

What is true afterwards is what it would be line by line, row for row; and when such a transaction
fails, the line in it that is to blame fails alone, at its own place in the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from berthold.database import metadata
from berthold.lab.judge import judge
from berthold.lab.world import now
from berthold.moves.playbook import Call, Line, Write
from everyday import EVERYDAY
from stage import PLAY, PLAYS, Scene, on_stage

EVERY = [*PLAYS, *(each.play for each in EVERYDAY.values())]
NAMES = [play.name for play in EVERY]


@contextmanager
def counted(scene: Scene) -> Iterator[list[str]]:
    """The names of the conductor's transactions that write."""
    names: list[str] = []
    write = scene.world.store.write

    async def counting(f: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(f.__name__)
        return await write(f, *args, **kwargs)

    scene.world.store.write = counting  # type: ignore[method-assign]
    yield names
    scene.world.store.write = write  # type: ignore[method-assign]


def carry_out(scene: Scene, *, at_once: bool) -> list[str]:
    """Be the conductor, as `Conductor` is, until the move ends; its transactions."""
    world = scene.world
    standing, world.runner.at_once = world.runner.at_once, at_once
    seen, told = None, False
    try:
        with counted(scene) as names:
            for _ in range(300):
                if scene.settled:
                    return names
                outcome = now(world.runner.step(world.lease(scene.move), seen, answered=told))
                seen, told = outcome.scene, False
                if outcome.later:
                    world.pass_time(1.0)
                elif outcome.wait_s:
                    told = sum(world.obey(name) for name in world.agents) > 0
        raise AssertionError(f"this never ends: {world.move(scene.move)}")
    finally:
        world.runner.at_once = standing


def everything(scene: Scene) -> Mapping[str, list[Mapping[str, Any]]]:
    return {table.name: scene.world.rows(table.name) for table in metadata.sorted_tables}


@pytest.mark.parametrize("play", NAMES)
def test_it_writes_what_the_lines_write_one_after_another(play: str) -> None:
    with on_stage(play) as scene:
        one_by_one = carry_out(scene, at_once=False)
        after = everything(scene)
    with on_stage(play) as scene:
        at_once = carry_out(scene, at_once=True)
        assert everything(scene) == after
    assert len(at_once) <= len(one_by_one)


def test_a_create_and_a_live_migration_take_so_many_transactions() -> None:
    """What `make bench` counts: whoever adds one sees it here."""
    took = {}
    for play in ("create", "live-migration"):
        with on_stage(play) as scene:
            took[play] = carry_out(scene, at_once=True)
    assert took["create"].count("answered") == 1
    assert "write_line" not in took["create"] + took["live-migration"]
    assert took["live-migration"].count("answered") == 4


FOLLOWERS = [
    pytest.param(play.name, number, id=f"{play.name}-{line.name}")
    for play in EVERY
    for number, line in enumerate(play.book.lines)
    if number and (isinstance(line, Write) or (isinstance(line, Call) and line.needless))
]


@contextmanager
def failing(line: Line, times: int) -> Iterator[list[str]]:
    """The line's own code raises so many times."""
    name = "do" if isinstance(line, Write) else "needless"
    sound = getattr(line, name)
    failed: list[str] = []

    def moody(*args: Any) -> Any:
        if len(failed) < times:
            failed.append(line.name)
            raise RuntimeError("planned: this line's own code is wrong")
        return sound(*args)

    object.__setattr__(line, name, moody)
    yield failed
    object.__setattr__(line, name, sound)


@pytest.mark.parametrize(("play", "number"), FOLLOWERS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_line_that_fails_with_others_fails_alone(play: str, number: int, times: int) -> None:
    line = PLAY[play].book.lines[number]
    with on_stage(play) as scene, failing(line, times) as failed:
        carry_out(scene, at_once=True)
        assert failed
        world = scene.world
        assert world.problems() == []
        assert judge(world.rows("history")) == []
        if number >= scene.play.book.no_return or isinstance(line, Call):
            assert scene.state() in ("done", "waiting")
        else:
            assert scene.state() in ("done", "waiting", "undone")
