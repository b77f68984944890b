"""The story of an affinity group that moves as a whole, and of half of it that could not; its page is
written as the others are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from berthold.ledger import hosts
from berthold.moves import begin, together
from by_hand import evacuate, lose
from telling import Story, story


def asks(it: Story, group: str, host: str) -> Callable[[], object]:
    """`berthold group move db --to HOST`."""
    return lambda: it.world.store.write_now(together.begin, group, it.world.by(), it.world.host_id(host))


def says(it: Story, group: str, word: Callable[..., str]) -> Callable[[], object]:
    return lambda: it.world.store.write_now(word, group, it.world.by())


def test_a_whole_group_moves(pytestconfig: pytest.Config) -> None:
    tell = bool(pytestconfig.getoption("--tell"))
    with story("A whole group moves", "a_whole_group_moves.md", tell=tell, hosts=4) as it:
        group = it.world.group("affinity", name="db")
        for name in ("db-1", "db-2", "db-3"):
            it.boots(name, group, host="node1")
        it.world.store.write_now(begin.begin, "stop", it.servers["db-3"], it.world.by(), {})
        it.world.settle()
        together_goes(it, group)
        half_is_resumed(it, group)
        half_is_taken_back(it, group)
        the_old_host_is_lost(it, group)


def together_goes(it: Story, group: str) -> None:
    it.says(
        """Three members of an affinity group live on node1; db-3 is shut off. No member may leave alone:
        the group would be in two places. So an operator moves all of it."""
    )
    it.asks("operator: live-migrate db-1", lambda: it.world.live_migrate(it.servers["db-1"]))
    it.goes()
    it.asks("operator: move group db to node2", asks(it, group, "node2"))
    it.says("With that every member holds its place on node2, and nobody may join until all have arrived.")
    it.shows()
    it.goes()
    it.says(
        """Whoever has arrived waits for the others, and keeps what it holds on node1. Only when the last is
        there it is given up."""
    )
    it.shows()


def half_is_resumed(it: Story, group: str) -> None:
    next_day(it, "Half of it fails, and is resumed")
    full = it.world.faults_of["node3"]
    full.plan("refuse", verb="prepare", server=it.servers["db-2"], times=9, reason="the disk is full")
    it.asks("operator: move group db to node3", asks(it, group, "node3"))
    it.goes()
    it.says("db-2 is what it was, where it was. The others have arrived and wait; all hold both hosts.")
    it.shows()
    it.asks("owner: make db-4 in the group", lambda: it.world.create("db-4", group))
    it.asks("owner: reboot db-1", lambda: reboot(it, "db-1"))
    it.happens("operator: the disk of node3 is mended", full.forget)
    it.asks("operator: group move db --resume", says(it, group, together.forward))
    it.goes()
    it.shows()


def next_day(it: Story, title: str) -> None:
    it.world.pass_time(86400.0)
    it.part(title)


def reboot(it: Story, name: str) -> None:
    it.world.store.write_now(begin.begin, "reboot", it.servers[name], it.world.by(), {})


def half_is_taken_back(it: Story, group: str) -> None:
    next_day(it, "Half of it fails, and is taken back")
    broken = it.world.faults_of["node4"]
    broken.plan("refuse", verb="prepare", server=it.servers["db-1"], times=9, reason="no such network")
    it.asks("operator: move group db to node4", asks(it, group, "node4"))
    it.goes()
    it.shows()
    it.says("Nobody can mend node4 today. Their places on node3 are held still, so back is always possible.")
    it.asks("operator: group move db --back", says(it, group, together.back))
    it.asks("another operator: group move db --resume", says(it, group, together.forward))
    it.goes()
    it.says("db-2 was sent back alive; the disk of db-3 had never left.")
    it.shows()
    broken.forget()


def the_old_host_is_lost(it: Story, group: str) -> None:
    next_day(it, "The old host is lost half-way")
    full = it.world.faults_of["node1"]
    full.plan("refuse", verb="prepare", server=it.servers["db-1"], times=9, reason="the disk is full")
    it.asks("operator: move group db to node1", asks(it, group, "node1"))
    it.goes()
    full.forget()
    it.happens("node3 fails", lambda: lose(it.world, "node3"))
    it.happens("operator: node3 is forced down", lambda: force_down(it, "node3"))
    it.shows()
    it.asks("operator: evacuate db-1", lambda: evacuate(it.world, it.servers["db-1"]))
    it.says("An evacuation might choose any host. The group move knows the one that db-1 belongs to.")
    it.asks("operator: group move db --resume", says(it, group, together.forward))
    it.goes()
    it.shows()
    it.happens("node3 is back", lambda: it.world.restart_agent("node3"))
    it.goes()
    it.agents_obey()
    it.says("What they left on node3 is held until it has said that it is gone.")
    it.shows()


def force_down(it: Story, host: str) -> None:
    it.world.store.write_now(hosts.fence, it.world.host_id(host))
