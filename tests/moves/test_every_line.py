"""Every line of every playbook fails, is repeated, loses its conductor, its agent or its answer.

Before the point of no return the move ends as if it had never begun, or goes on elsewhere;
after it the move ends at its destination. Nobody ends in ERROR but a create that found no
place, and at no time is a promise broken.
"""

from __future__ import annotations

import pytest

from berthold.lab.judge import judge
from berthold.moves.playbook import Park
from mishaps import mishaps
from stage import PLAY, PLAYS, Play, Scene, go_to, on_stage, settle

LINES = [
    pytest.param(play.name, number, mishap, id=f"{play.name}-{line.name}-{mishap}")
    for play in PLAYS
    for number, line in enumerate(play.book.lines)
    if not isinstance(line, Park)
    for mishap in mishaps(line)
]


def fails_for_good(scene: Scene, line: int) -> set[str]:
    """The mishaps from which there is no way but back."""
    if scene.play.book.lines[line].name in scene.play.idle:
        return set()
    final = {"no host is free", "the agent refuses", "the host does nothing and is silent"}
    # Where the guest was sent already, what the agents say of it outweighs any error of ours.
    return final if getattr(scene.play.book.lines[line], "decides", False) else {*final, "its code raises"}


@pytest.mark.parametrize(("play", "line", "mishap"), LINES)
def test_a_line_goes_wrong(play: str, line: int, mishap: str) -> None:
    with on_stage(play, go_to, line) as scene:
        mishaps(scene.play.book.lines[line])[mishap](scene)
        settle(scene)
        sound(scene)
        if line >= scene.play.book.no_return:
            assert arrived(scene)
        else:
            assert arrived(scene) or undone(scene)
            if mishap in fails_for_good(scene, line):
                assert undone(scene)


def turning_point(play: Play) -> int:
    """The last line above the point of no return that asks somebody: where a move may have to turn."""
    above = enumerate(play.book.lines[: play.book.no_return])
    return max(number for number, line in above if line.name not in play.idle)


def turn_back_to(scene: Scene, line: int) -> None:
    """The move has failed at its turning point, and the line is the next to undo."""
    turn = turning_point(scene.play)
    go_to(scene, turn)
    mishaps(scene.play.book.lines[turn])["the agent refuses"](scene)
    go_to(scene, line, "undoing")


BACK = [
    pytest.param(play.name, number, mishap, id=f"{play.name}-back at {line.name}-{mishap}")
    for play in PLAYS
    if play.book.no_return and play.name != "resize"  # its way back is the migration's
    for number, line in enumerate(play.book.lines[: turning_point(play) + 1])
    for mishap in mishaps(line)
    if mishap != "no host is free"
]


@pytest.mark.parametrize(("play", "line", "mishap"), BACK)
def test_a_line_goes_wrong_on_the_way_back(play: str, line: int, mishap: str) -> None:
    with on_stage(play, turn_back_to, line) as scene:
        mishaps(scene.play.book.lines[line])[mishap](scene)
        settle(scene)
        sound(scene)
        assert undone(scene)


def sound(scene: Scene) -> None:
    """No promise is broken now or was ever; nobody is stuck."""
    assert scene.world.problems() == []
    assert judge(scene.world.rows("history")) == []
    assert scene.settled, scene.world.move(scene.move)


def undone(scene: Scene) -> bool:
    """The move left no trace. A create leaves a server in error, which holds nothing."""
    if scene.state() != "undone":
        return False
    assert scene.line() < scene.play.book.no_return
    status = scene.world.status(scene.server)
    if PLAY[scene.play.name].playbook == "create":
        assert status.status == "ERROR"
        after = scene.world.picture()
        for what in after:
            if what not in ("server", "project", "server_group"):
                assert after[what] == scene.before[what], what
        assert scene.world.server(scene.server)["fault"]["message"]
        return True
    assert (status.status, status.task_state) == (scene.status, None)
    assert scene.world.picture() == scene.before
    return True


def arrived(scene: Scene) -> bool:
    """The move ended as it was meant to."""
    world, server = scene.world, scene.server
    if scene.state() not in ("done", "waiting"):
        return False
    shown = world.status(server)
    if scene.play.playbook == "delete":
        assert shown.status == "DELETED"
        left = [world.rows(name) for name in ("claim", "seat", "network_port", "volume_attachment")]
        assert left == [[], [], [], []]
        assert not any(world.ground.states(name) for name in world.agents)
        assert [row["status"] for row in world.rows("volume") if row["move_id"]] == ["deleted"]
        return True
    target = world.move(scene.move)["target_id" if scene.play.playbook != "revert-resize" else "source_id"]
    home = world.home(server)
    assert home is not None
    assert world.host_id(home) == target
    assert {row["host"] for row in world.rows("network_port")} == {home}
    assert shown.status == ("VERIFY_RESIZE" if scene.state() == "waiting" else _at_rest(scene))
    runs = [home] if world.server(server)["condition"] == "active" else []
    assert world.ground.runners(server) == runs
    held = {claim.role for claim in world.claims(server)}
    assert held == ({"home", "source"} if scene.state() == "waiting" else {"home"})
    if scene.state() == "done":
        assert [name for name in world.agents if world.ground.states(name)] == [home]
    return True


def _at_rest(scene: Scene) -> str:
    return "SHUTOFF" if "stopped" in scene.play.name else "ACTIVE"
