"""Every line of a member's part in a whole-group move goes wrong, on the way there and on the way back.

Above its point of no return the member ends where it was, and the group is held; an operator's
word then takes all on, or all back as they were. Below it the group arrives by itself. At no time
is a promise broken.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from berthold.lab.judge import judge
from berthold.lab.world import World
from berthold.ledger import hosts
from berthold.moves import begin, group_status, group_waiting, together
from berthold.moves.books import PLAYBOOKS
from berthold.moves.playbook import Ask, Park
from by_hand import lose, under_way
from mishaps import mishaps
from stage import PLAY, Play, Scene, go_to, on_stage, settle, wishes

HERE, THERE = "node1", "node2"
FAILS_FOR_GOOD = {"the agent refuses", "the host does nothing and is silent"}


def group_of(world: World) -> str:
    (found,) = [row["id"] for row in world.rows("server_group") if row["policy"] == "affinity"]
    return str(found)


def prepared(*, stopped: bool = False) -> Callable[[World], str]:
    """web-1 with a port and volumes, and web-2, in an affinity group on node1; web-1's id."""

    def prepare(world: World) -> str:
        group = world.group("affinity", name="together")
        server = world.boot("web-1", group, host=HERE, **wishes(world))
        world.boot("web-2", group, host=HERE)
        if stopped:
            world.store.write_now(begin.begin, "stop", server, world.by(), {})
            world.settle()
        return server

    return prepare


def other(world: World, server: str) -> str:
    (found,) = [
        row["id"]
        for row in world.rows("server")
        if row["group_id"] == group_of(world) and row["id"] != server
    ]
    return str(found)


def go(world: World, server: str | None) -> str:
    """The group is on its way; the part of `server`."""
    assert server is not None
    world.store.write_now(together.begin, group_of(world), world.by(), world.host_id(THERE))
    return under_way(world, server)


def looking(world: World, server: str | None) -> str:
    """web-1 looks for a host for all, since the other was busy when they were asked to go."""
    assert server is not None
    busy = world.store.write_now(begin.begin, "reboot", other(world, server), world.by(), {})
    world.patience = 60.0
    world.store.write_now(group_waiting.ask, group_of(world), world.by(), THERE)
    world.patience = 0.0
    while busy in world.unfinished():
        world.step(busy)
        world.obey(HERE)
    return under_way(world, server)


def until(world: World, move: str, playbook: str) -> str:
    """Let everything go on until the part is at the first line of that playbook."""
    for _ in range(200):
        if world.move(move)["playbook"] == playbook:
            return move
        for each in world.unfinished():
            world.step(each)
        for host in (HERE, THERE):
            world.obey(host)
        world.attend()
    raise AssertionError(f"never came to {playbook}")


def held_by_other(world: World, server: str | None) -> str:
    """web-1 has arrived; web-2 could not go, and all are taken back."""
    assert server is not None
    world.faults_of[THERE].plan("refuse", verb="prepare", server=other(world, server), times=9)
    move = go(world, server)
    world.settle()
    world.faults_of[THERE].forget()
    say(world, "back")
    return move


def arriving(world: World, server: str | None) -> str:
    return until(world, go(world, server), "group-arrival")


def returning(world: World, server: str | None) -> str:
    move = go(world, server)
    say(world, "back")
    return until(world, move, "group-return")


def made_anew(world: World, server: str | None) -> str:
    """web-1 could not go; its host was lost then, and fenced; the group goes on without it."""
    assert server is not None
    world.faults_of[THERE].plan("refuse", verb="prepare", server=server, times=9)
    move = go(world, server)
    world.settle()
    world.faults_of[THERE].forget()
    lose(world, HERE)
    world.store.write_now(hosts.fence, world.host_id(HERE))
    say(world, "forward")
    return move


def say(world: World, word: str) -> None:
    world.store.write_now(getattr(together, word), group_of(world), world.by())


PLAYS = (
    Play("group places", "group-places", prepared(), looking),
    Play("group live", "group-live-migration", prepared(), go),
    Play("group live, back", "group-live-migration", prepared(), held_by_other),
    Play("group cold", "group-migration", prepared(stopped=True), go),
    Play(
        "group cold, back",
        "group-migration",
        prepared(stopped=True),
        held_by_other,
        idle=frozenset({"prepare target", "copy disk"}),
    ),
    Play(
        "group evacuation",
        "group-evacuation",
        prepared(),
        made_anew,
        idle=frozenset({"stop if it was stopped"}),
    ),
    Play("group arrival", "group-arrival", prepared(), arriving),
    Play("group return", "group-return", prepared(), returning),
)
PLAY.update({play.name: play for play in PLAYS})

LINES = [
    pytest.param(play.name, number, mishap, id=f"{play.name}-{line.name}-{mishap}")
    for play in PLAYS
    for number, line in enumerate(play.book.lines)
    if not isinstance(line, Park)
    for mishap in mishaps(line)
]
TURNS = {"group live": 3, "group live, back": 3, "group cold": 2, "group evacuation": 1}
BACK = [
    pytest.param(name, number, mishap, id=f"{name}-back at {PLAY[name].book.lines[number].name}-{mishap}")
    for name, turn in TURNS.items()
    for number in range(1, turn + 1)
    for mishap in mishaps(PLAY[name].book.lines[number])
]


def reach(scene: Scene, line: int) -> None:
    """Step until the line is the next to do, and what it asks is asked."""
    go_to(scene, line)
    asked = any(ask["move_id"] == scene.move and ask["state"] == "open" for ask in scene.world.rows("ask"))
    asks = scene.play.book.lines[line]
    if isinstance(asks, Ask) and asks.name not in scene.play.idle and not asked:
        scene.world.step(scene.move)


def turn_back_to(scene: Scene, line: int) -> None:
    """The part has failed where it turns, and the line is the next to undo."""
    turn = TURNS[scene.play.name]
    reach(scene, turn)
    mishaps(scene.play.book.lines[turn])["the agent refuses"](scene)
    go_to(scene, line, "undoing")


def test_no_part_of_a_group_move_is_left_out() -> None:
    assert {play.playbook for play in PLAYS} == {name for name in PLAYBOOKS if name.startswith("group-")}


@pytest.mark.parametrize(("play", "line", "mishap"), LINES)
def test_a_line_goes_wrong(play: str, line: int, mishap: str) -> None:
    with on_stage(play, reach, line) as scene:
        mishaps(scene.play.book.lines[line])[mishap](scene)
        settle(scene)
        sound(scene)
        above, idle = line < scene.play.book.no_return, scene.play.book.lines[line].name in scene.play.idle
        if above and mishap in FAILS_FOR_GOOD and not idle:
            assert status(scene) == "held"
        ended = status(scene) if status(scene) in ("returned", "refused") else "done"
        finish(scene, "back" if ended == "returned" else "forward")
        assert status(scene) == ended


@pytest.mark.parametrize(("play", "line", "mishap"), BACK)
def test_a_line_goes_wrong_on_the_way_back_and_all_are_taken_back(play: str, line: int, mishap: str) -> None:
    with on_stage(play, turn_back_to, line) as scene:
        mishaps(scene.play.book.lines[line])[mishap](scene)
        settle(scene)
        sound(scene)
        assert status(scene) == "held"
        if play == "group evacuation":  # where it came from is lost
            finish(scene, "forward")
            assert status(scene) == "done"
            return
        finish(scene, "back")
        assert status(scene) == "returned"
        assert scene.world.picture() == scene.before


DELETED = [
    pytest.param(play.name, number, id=f"{play.name}-{line.name}")
    for play in PLAYS
    for number, line in enumerate(play.book.lines)
    if not isinstance(line, Park)
]


@pytest.mark.parametrize(("play", "line"), DELETED)
def test_a_member_is_deleted_at_any_line_and_the_rest_is_the_group(play: str, line: int) -> None:
    with on_stage(play, reach, line) as scene:
        world, left = scene.world, other(scene.world, scene.server)
        world.delete(scene.server)
        settle(scene)
        if status(scene) == "held":
            say(world, "back" if "back" in play else "forward")
            settle(scene)
        assert world.problems() == []
        assert judge(world.rows("history")) == []
        assert status(scene) in ("done", "returned")
        assert world.status(scene.server).status == "DELETED"
        assert {claim.role for claim in world.claims(left)} <= {"home", "left"}
        assert world.ground.runners(left) == [world.home(left)]
        world.restart_agent(HERE)  # it may have been lost
        settle(scene)
        assert not any(scene.server in world.ground.states(name) for name in world.agents)
        assert world.claims(scene.server) == []


def finish(scene: Scene, word: str) -> None:
    """An operator has repaired what kept the group, and says the word."""
    world = scene.world
    for faults in world.faults_of.values():
        faults.forget()
    if status(scene) == "held":
        say(world, word)
        settle(scene)
    sound(scene)
    (home,) = {world.home(server) for server in (scene.server, other(world, scene.server))}
    assert home is not None
    assert {row["host"] for row in world.rows("network_port")} == {home}
    runs = [home] if world.server(scene.server)["condition"] == "active" else []
    assert world.ground.runners(scene.server) == runs
    assert {claim.role for claim in world.claims(scene.server)} <= {"home", "left"}
    assert world.status(scene.server).task_state is None


def status(scene: Scene) -> str:
    seen = scene.world.store.read_now(group_status.look, group_of(scene.world))
    return str(seen["status"])


def sound(scene: Scene) -> None:
    """No promise is broken now or was ever; nobody is stuck."""
    assert scene.world.problems() == []
    assert judge(scene.world.rows("history")) == []
    assert scene.settled, scene.world.move(scene.move)
