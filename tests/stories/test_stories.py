"""Stories, each with its page beside this file: what is asked, done and refused, and how the cloud looks.

A test says who does what and when; all else on its page is what the cloud then did. After every
line of it all promises are asked. `pytest tests/stories --tell` writes the pages anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from berthold.lab.furniture import add_image
from berthold.lab.outages import evacuate, lose
from berthold.ledger import hosts
from berthold.moves import begin, shelf
from telling import PAGES, Story, story


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--tell"))


def lift(it: Story, host: str) -> None:
    """The operator's `--up`."""
    it.world.store.write_now(hosts.unfence, it.world.host_id(host))


def unshelve(it: Story, server: str) -> Callable[[], object]:
    return lambda: it.world.store.write_now(shelf.unshelve, server, it.world.by())


def free(it: Story, host: str, *, disabled: bool) -> None:
    it.world.store.write_now(hosts.set_disabled, it.world.host_id(host), disabled)


def test_evacuate_then_the_source_returns(tell: bool) -> None:
    with story("Evacuate, then the source returns", "evacuate_and_return.md", tell=tell) as it:
        world = it.world
        web = world.group("anti-affinity")
        one = it.boots("web-1", web, host="node1")
        it.boots("web-2", web, host="node2")
        it.says("Two members of an anti-affinity group, and a third host that is free.")
        it.shows()

        it.part("It returns too early")
        it.happens("node1 fails", lambda: lose(world, "node1"))
        it.asks("operator: evacuate web-1", lambda: evacuate(world, one))
        it.goes(until="rebuild on target")
        it.says(
            """The host is fenced, and a place on node3 is claimed; nothing runs there yet. Now node1 is back.
            What it has of web-1 may be the only copy: it is neither started nor removed."""
        )
        it.happens("node1's agent registers", lambda: world.restart_agent("node1"))
        it.agents_obey(but="node3")
        it.shows()
        it.asks("operator: force node1 up", lambda: lift(it, "node1"))
        it.says("The rebuild goes on. Once web-1 runs on node3, what node1 has of it is old, and goes.")
        it.goes()
        it.shows()
        it.asks("operator: force node1 up", lambda: lift(it, "node1"))

        it.part("It returns too late")
        it.happens("node3 fails", lambda: lose(world, "node3"))
        it.asks("operator: evacuate web-1", lambda: evacuate(world, one))
        it.goes()
        it.says(
            "Evacuated. Its old host keeps room and seat for it until it has said that the guest is gone."
        )
        it.shows()
        it.asks("operator: force node3 up", lambda: lift(it, "node3"))
        it.happens("node3's agent registers", lambda: world.restart_agent("node3"))
        it.says("It is back, takes nothing, and clears away first; then it is a host like any other.")
        it.shows()
        it.goes()
        it.shows()
        assert world.ground.runners(one) == ["node1"]


def test_resize_and_revert_while_others_wait_for_the_seat(tell: bool) -> None:
    with story("Resize, and revert while others wait for the seat", "revert_and_wait.md", tell=tell) as it:
        world = it.world
        web = world.group("anti-affinity")
        one = it.boots("web-1", web, host="node1")
        two = it.boots("web-2", web, host="node2")
        it.says("Two members of an anti-affinity group, and one host that is free. web-1 is resized.")
        it.asks("owner: resize web-1", lambda: world.resize(one))
        it.goes()
        it.says(
            """Until its owner has decided, web-1 holds both hosts: it may stay on node3 or return to node1,
            and neither can be refused it."""
        )
        it.shows()

        it.part("Who does not wait is told why")
        it.asks("owner: migrate web-2", lambda: world.migrate(two))
        it.goes("web-2")

        it.part("Who waits gets what comes free")
        patient = replace(world.by(), wait_s=600.0)
        it.asks(
            "owner: migrate web-2, waiting up to 600 s",
            lambda: world.store.write_now(begin.begin, "migration", two, patient, {"host": None}),
        )
        it.goes("web-2")
        it.shows()
        it.asks("owner: revert web-1", lambda: world.revert(one))
        it.goes("web-1")
        it.says("web-1 is back on node1, which was its own all the time, and node3 is free.")
        it.goes()
        it.shows()
        it.asks("owner: confirm web-2", lambda: world.confirm(two))
        it.goes()
        it.shows()


def test_three_come_off_the_shelf_on_two_hosts(tell: bool) -> None:
    with story("Three come off the shelf on two hosts", "unshelve_three_on_two.md", tell=tell) as it:
        world = it.world
        web = world.group("anti-affinity")
        image = add_image(world)
        names = {f"web-{n}": f"node{n}" for n in (1, 2, 3)}
        servers = [it.boots(name, web, host=host, image_id=image) for name, host in names.items()]
        for server in servers:
            world.store.write_now(shelf.shelve, server, world.by())
        world.settle()
        it.says("Three members of an anti-affinity group are on the shelf, and node3 is out of service.")
        it.happens("operator: disable node3", lambda: free(it, "node3", disabled=True))
        it.shows()

        it.part("All at once")
        for name, server in zip(names, servers, strict=True):
            it.asks(f"owner: unshelve {name}", unshelve(it, server))
        it.goes()
        it.says(
            """Two run, each on a host of its own. The third is on the shelf as before, image and all, and
            says why. On Nova 34.0.0 the same ended with members on one host ten times of ten."""
        )
        it.shows()

        it.part("A host is put into service")
        it.happens("operator: enable node3", lambda: free(it, "node3", disabled=False))
        it.asks("owner: unshelve web-3", unshelve(it, servers[2]))
        it.goes()
        it.shows()
        assert not [row for row in world.rows("image") if row["name"].endswith("-shelved")]


def test_two_hosts_are_down_at_once(tell: bool) -> None:
    with story("Two hosts are down at once", "two_hosts_down.md", tell=tell, hosts=4) as it:
        world = it.world
        web = world.group("anti-affinity")
        one, two, _ = (it.boots(f"web-{n}", web, host=f"node{n}") for n in (1, 2, 3))
        it.says("Three members of an anti-affinity group on three hosts, and a fourth that is free.")
        it.happens("node1 fails", lambda: lose(world, "node1"))
        it.happens("node2 fails", lambda: lose(world, "node2"))
        it.asks("operator: evacuate web-1", lambda: evacuate(world, one))
        it.asks("operator: evacuate web-2", lambda: evacuate(world, two))
        it.goes()
        it.says(
            """There is one lawful host, and one of them gets it. The other is what it was, at home on its
            dead host, and not in error: nothing of it was touched."""
        )
        it.shows()

        it.part("One of them returns")
        it.happens("node1's agent registers", lambda: world.restart_agent("node1"))
        it.agents_obey()
        it.says("node1 has cleared away what it left behind, and its seat is free.")
        it.shows()
        it.asks("operator: evacuate web-2", lambda: evacuate(world, two))
        it.goes()
        it.shows()
        it.happens("node2's agent registers", lambda: world.restart_agent("node2"))
        it.agents_obey()
        it.shows()


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"\]\((\w+\.md)\)", (PAGES / "README.md").read_text()))
    assert listed == {path.name for path in PAGES.glob("*.md")} - {"README.md"}
