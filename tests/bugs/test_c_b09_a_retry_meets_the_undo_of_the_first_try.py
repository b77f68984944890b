"""C-b09: the retry of a resize races with undoing the first try.

The story (Launchpad nova 1741125): a resize is refused by its first destination and tried again
on the next. The first destination's clean-up, which comes late, deletes "the" reservation of the
move, which by then is that of the second. The server ends on a host where nothing is claimed.

Right: what is undone is one's own, and the end is VERIFY_RESIZE on the second host with a claim
on the source and one on the target. What makes it so: a host keeps its claim until it has said
that nothing is left there, and only then does the next try begin (M1); so there is at most one
try at a time, and an answer that comes late, or twice, is recorded and changes nothing (M5).
"""

from __future__ import annotations

from berthold.lab.world import World, now
from by_hand import MakeWorld, ended, events, guest, holds, preferred, shown, step_until, told, used


def first_try_fails(make_world: MakeWorld) -> tuple[World, str, str]:
    """A resize whose first destination, node2, has said no; the conductor has not looked yet."""
    world = make_world(node1=4, node2=16, node3=4)
    one = world.boot("one", host="node1")
    world.faults_of["node2"].plan("refuse", verb="prepare", reason="no space left on device")
    resize = world.resize(one)
    assert preferred(world, resize) == ["node2", "node3"]
    step_until(world, resize, "prepare target")
    return world, one, resize


def test_the_next_host_is_tried_only_when_the_first_is_clean(make_world: MakeWorld) -> None:
    world, one, resize = first_try_fails(make_world)
    world.obey("node2")
    for _ in range(5):  # the conductor looks again and again; node2 has not cleaned up
        world.step(resize)
    assert [ask.verb for ask in world.asks("node2")] == ["discard"]
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    assert shown(world, one)[0] == "RESIZE"

    world.obey("node2")
    world.step(resize)
    world.step(resize)
    assert holds(world, one) == {"node1": "home"}
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    assert holds(world, one) == {"node1": "source", "node3": "home"}
    assert [used(world, host) for host in ("node1", "node2", "node3")] == [1, 0, 2]
    assert ended(world, resize) == "finished"
    assert [event for event in events(world, resize) if event[0] == "compute_prep_resize"] == [
        ("compute_prep_resize", "Error"),
        ("compute_prep_resize", "Success"),
    ]
    assert told(world, resize) == ["a host could not make room for the server"]


def test_a_late_word_from_the_first_host_changes_nothing(make_world: MakeWorld) -> None:
    world, one, resize = first_try_fails(make_world)
    agent = world.agents["node2"]
    (prepare,) = world.asks("node2")
    no = now(agent.do(prepare))
    now(world.door.answer(no))
    while not (asked := world.asks("node2")):
        world.step(resize)
    gone = now(agent.do(asked[0]))
    now(world.door.answer(gone))
    step_until(world, resize, "copy disk", obey=True)
    assert holds(world, one) == {"node1": "home", "node3": "target"}

    before = world.picture()
    for answer in (no, gone, gone):
        now(world.door.answer(answer))
    assert now(agent.do(asked[0])) == gone, "the ask is done once and its answer repeated"
    world.step(resize)
    assert world.picture() == before
    world.settle()
    assert holds(world, one) == {"node1": "source", "node3": "home"}
    assert guest(world, "node3", one) == ("running", 2)


def test_the_first_host_may_die_while_it_cleans_up(make_world: MakeWorld) -> None:
    """Then the resize waits: whether something is left there, nobody else can say."""
    world, one, resize = first_try_fails(make_world)
    world.obey("node2")
    world.step(resize)
    world.silent.add("node2")
    world.pass_time(300.0)
    world.settle()
    assert holds(world, one) == {"node1": "home", "node2": "target"}
    assert guest(world, "node1", one) == ("running", 1)

    world.restart_agent("node2")
    world.settle()
    assert shown(world, one) == ("VERIFY_RESIZE", None)
    assert holds(world, one) == {"node1": "source", "node3": "home"}
