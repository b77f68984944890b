"""Delete, in every state of every move: a table on a page, one row for each line of each playbook.

At each line the move is left where it is, and its server is deleted. What is held then is written
in the table; afterwards nothing is: no claim, seat, guest, port, image or volume of the server's
own. Only on a host that died something stays, until it has returned and removed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from berthold.lab.judge import judge
from berthold.lab.world import World, with_settings
from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Ask, Park
from berthold.moves.runner import Runner
from everyday import EVERYDAY
from mishaps import mishaps
from stage import PLAY, PLAYS, Play, Scene, go_to, on_stage, settle

PAGE = Path(__file__).with_name("delete_at_any_time.md")
HEAD = """# Delete, at any time

The owner deletes a server just before each line of whatever it is doing. *It holds*: what is claimed
for it and runs then, on the host that it had and on the one that it is to have. *Left*: what any host, the
ledger or a neighbour has of it once the delete is done.
"""
EVERY = (*(play for play in PLAYS if play.playbook != "delete"), *(each.play for each in EVERYDAY.values()))
# One for each playbook: the plainest, which has the shortest name. Whole groups have a story of their own.
CHOSEN = {play.playbook: play for play in sorted(EVERY, key=lambda each: -len(each.name))}
MOVES = [CHOSEN[name] for name in PLAYBOOKS if name != "delete" and not name.startswith("group-")]


def holdings(scene: Scene) -> str:
    """What is claimed for the server and what runs, as the page shows it."""
    world, found = scene.world, dict[str, str]()
    for host in world.agents:
        roles = sorted(claim.role for claim in world.claims(scene.server) if claim.host_name == host)
        state = world.ground.states(host).get(scene.server)
        if roles or state:
            was_here = world.host_id(host) == world.move(scene.move)["source_id"]
            found["its host" if was_here else "new host"] = ", ".join(
                [*roles, *([f"guest {state}"] if state else [])]
            )
    return "; ".join(f"{host}: {what}" for host, what in sorted(found.items())) or "nothing"


OWN = ("claim", "seat", "volume_attachment", "volume_snapshot")


def left(world: World, server: str) -> list[str]:
    """All that there is of a server that is deleted."""
    found = [f"{table}: {row}" for table in OWN for row in world.rows(table)]
    ports = world.rows("network_port")
    found += [f"port: {row}" for row in ports if row["server_id"] or row["made_for_server"]]
    # A backup that is complete is its owner's.
    found += [
        f"image: {row['name']}"
        for row in world.rows("image")
        if row["properties"].get("image_type") == "snapshot" or row["status"] != "active"
    ]
    found += [f"guest on {host}" for host in world.agents if world.ground.states(host)]
    return found


def title(play: Play) -> str:
    return f"{play.playbook[0].upper()}{play.playbook[1:].replace('-', ' ')}"


def rows(play: Play) -> Iterator[str]:
    """One row for each line at which the server is deleted."""
    book = play.book
    for number, line in enumerate(book.lines):
        with on_stage(play.name) as scene:
            reach(scene, number, parked=isinstance(line, Park))
            yield row(scene, line.name)
    if book.no_return > 1:
        with on_stage(play.name) as scene:
            if turned(scene):
                yield row(scene, "*on its way back*")
    if asks := [n for n, line in enumerate(book.lines) if n >= book.no_return and isinstance(line, Ask)]:
        with on_stage(play.name) as scene:
            if stuck(scene, asks[0]):
                yield row(scene, f"*stuck at* {book.lines[asks[0]].name}")


def reach(scene: Scene, number: int, *, parked: bool) -> None:
    if parked:
        settle(scene)
    else:
        go_to(scene, number)


def turned(scene: Scene) -> bool:
    """Whether the move fails at its last line before the point of no return, and turns."""
    lines = scene.play.book.lines
    last = scene.play.book.no_return - 1
    go_to(scene, last)
    failing = mishaps(lines[last])
    failing.get("the agent refuses", failing["its code raises"])(scene)
    for _ in range(20):
        if scene.state() != "running":
            break
        scene.world.step(scene.move)
        for host in scene.world.agents:
            scene.world.obey(host)
    return scene.state() == "undoing"


def stuck(scene: Scene, number: int) -> bool:
    """Whether the move, whose agents refuse this line for ever, is given up until an operator comes."""
    world, runner = scene.world, scene.world.runner
    go_to(scene, number)
    world.step(scene.move)
    mishaps(scene.play.book.lines[number])["the agent refuses"](scene)
    world.runner = Runner(world.store, runner.neighbours, with_settings(tries_max=1))
    for _ in range(5):
        if scene.state() == "running":
            world.step(scene.move)
            for host in world.agents:
                world.obey(host)
    world.runner = runner
    return scene.state() == "stuck"


def row(scene: Scene, line: str) -> str:
    """Delete the server here; the row of the page."""
    world, server = scene.world, scene.server
    owner_sees, held = world.status(server), holdings(scene)
    for faults in world.faults_of.values():
        faults.forget()
    world.delete(server)
    assert world.delete(server) == world.unfinished()[-1], "asked twice it is one delete"
    world.settle()
    assert world.status(server).status == "DELETED"
    assert scene.state() in ("superseded", "undone", "done"), scene.state()
    gone = not world.claims(server)
    for host in sorted(world.silent):
        world.restart_agent(host)
    world.settle()
    assert left(world, server) == []
    assert world.problems() == []
    assert judge(world.rows("history")) == []
    (project,) = world.rows("project")
    assert (project["instances"], project["cores"], project["ram"]) == (0, 0, 0)
    shown = f"{owner_sees.status}{f', {owner_sees.task_state}' if owner_sees.task_state else ''}"
    return f"| {line} | {shown} | {held} | {'nothing' if gone else 'nothing, once it has returned'} |"


@pytest.mark.parametrize("play", [pytest.param(play.name, id=play.name) for play in MOVES])
def test_nothing_is_left(play: str, pytestconfig: pytest.Config) -> None:
    told = [f"## {title(PLAY[play])}", ""]
    told += ["| before | its owner sees | it holds | left |", "| --- | --- | --- | --- |"]
    told += rows(PLAY[play])
    part = "\n".join(told)
    if pytestconfig.getoption("--tell"):
        write(part)
    assert parts()[title(PLAY[play])] == part, "it goes otherwise than the page tells; see pytest --tell"


def write(part: str) -> None:
    """Put the part on the page, in the place of what was told of that move before."""
    kept = parts() if PAGE.exists() else {}
    kept[part.splitlines()[0].removeprefix("## ")] = part
    PAGE.write_text(HEAD + "".join(f"\n{kept[name]}\n" for name in map(title, MOVES) if name in kept))


def parts() -> dict[str, str]:
    """What the page tells of each move, by its title."""
    told = PAGE.read_text().split("\n## ")[1:]
    return {each.splitlines()[0]: f"## {each.rstrip()}" for each in told}


def test_the_page_tells_of_every_move_and_of_no_other() -> None:
    assert list(parts()) == [title(play) for play in MOVES]
