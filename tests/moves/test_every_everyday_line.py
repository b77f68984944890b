"""Every line of the everyday playbooks goes wrong: power, volumes and interfaces, on a server that stays
at home.

Before the point of no return the server, its guest, volumes and ports end as they were; after it
the move ends as it was meant to. What the guest is and what the server says of it agree.
"""

from __future__ import annotations

import pytest

from berthold.lab.judge import judge
from berthold.moves.playbook import Ask
from berthold.moves.power import GUEST_AT_REST
from by_hand import host_status
from everyday import EVERYDAY
from mishaps import mishaps
from stage import Scene, go_to, on_stage, settle

FAILS_FOR_GOOD = (
    "its code raises",
    "the agent refuses",
    "the host does nothing and is silent",
    "the neighbour refuses",
)

LINES = [
    pytest.param(name, number, mishap, id=f"{name}-{line.name}-{mishap}")
    for name, each in EVERYDAY.items()
    for number, line in enumerate(each.play.book.lines)
    for mishap in mishaps(line)
]
BACK = [
    pytest.param(name, number, mishap, id=f"{name}-back at {line.name}-{mishap}")
    for name, each in EVERYDAY.items()
    for number, line in enumerate(each.play.book.lines[: each.play.book.no_return])
    for mishap in mishaps(line)
]


def _asked(scene: Scene) -> bool:
    return any(ask["move_id"] == scene.move for ask in scene.world.rows("ask"))


def reach(scene: Scene, line: int) -> None:
    """Step until the line is the next to do; if it is the first, what it asks is asked."""
    go_to(scene, line)
    if isinstance(scene.play.book.lines[line], Ask) and not _asked(scene):
        scene.world.step(scene.move)


def turn_back_to(scene: Scene, line: int) -> None:
    """The move has failed at its last line before the point of no return; the line is the next to undo."""
    last = scene.play.book.no_return - 1
    reach(scene, last)
    fails = "the agent refuses" if isinstance(scene.play.book.lines[last], Ask) else "its code raises"
    mishaps(scene.play.book.lines[last])[fails](scene)
    go_to(scene, line, "undoing")


@pytest.mark.parametrize(("play", "line", "mishap"), LINES)
def test_an_everyday_line_goes_wrong(play: str, line: int, mishap: str) -> None:
    with on_stage(play, reach, line) as scene:
        mishaps(scene.play.book.lines[line])[mishap](scene)
        settle(scene)
        sound(scene)
        if line >= scene.play.book.no_return:
            assert arrived(scene)
        else:
            assert arrived(scene) or undone(scene)
            if mishap in FAILS_FOR_GOOD and not EVERYDAY[play].elsewhere:
                assert undone(scene)


@pytest.mark.parametrize(("play", "line", "mishap"), BACK)
def test_an_everyday_line_goes_wrong_on_the_way_back(play: str, line: int, mishap: str) -> None:
    with on_stage(play, turn_back_to, line) as scene:
        mishaps(scene.play.book.lines[line])[mishap](scene)
        settle(scene)
        sound(scene)
        assert undone(scene) or (EVERYDAY[play].elsewhere and arrived(scene))


def sound(scene: Scene) -> None:
    """No promise is broken, nobody is stuck, and server, guest and volume service agree."""
    world, server = scene.world, scene.world.server(scene.server)
    assert world.problems() == []
    assert judge(world.rows("history")) == []
    assert scene.settled, world.move(scene.move)
    noted = sorted(volume["volume_id"] for volume in server["volumes"])
    if server["condition"] == "shelved_offloaded":
        assert world.claims(scene.server) == []
        assert not any(world.ground.states(name) for name in world.agents)
    else:
        agree(scene, noted)
    images = [row["id"] for row in world.rows("image") if row["name"] == "web-1-shelved"]
    on_shelf_as = server["details"].get("shelved_image_id")
    assert images == ([on_shelf_as] if on_shelf_as else [])
    assert sorted(row["volume_id"] for row in world.rows("volume_attachment")) == noted
    ports = sorted(port["id"] for port in server["ports"])
    assert sorted(row["id"] for row in world.rows("network_port") if row["server_id"]) == ports
    in_use = sorted(row["id"] for row in world.rows("volume") if row["status"] == "in-use")
    assert in_use == noted


def agree(scene: Scene, volumes: list[str]) -> None:
    """The guest is what the server is said to be."""
    world = scene.world
    home = world.home(scene.server)
    assert home is not None
    guest = world.ground.place(home, scene.server)
    assert guest is not None
    if host_status(world, home) != "fenced":  # or else nobody can ask for it
        assert guest.state == GUEST_AT_REST[world.server(scene.server)["condition"]]
    assert sorted(volume["volume_id"] for volume in guest.guest.volumes) == volumes
    assert guest.guest.ports == world.server(scene.server)["ports"]


def undone(scene: Scene) -> bool:
    """The move left no trace."""
    if scene.state() != "undone":
        return False
    status = scene.world.status(scene.server)
    assert (status.status, status.task_state) == (scene.status, None)
    assert scene.world.picture() == scene.before
    return True


def arrived(scene: Scene) -> bool:
    """The move ended as it was meant to."""
    if scene.state() != "done":
        return False
    status = scene.world.status(scene.server)
    wanted = EVERYDAY[scene.play.name]
    assert (status.status, status.task_state) == (wanted.status, None)
    has = scene.world.server(scene.server)
    assert (len(has["volumes"]), len(has["ports"])) == (wanted.volumes, wanted.ports)
    return True
