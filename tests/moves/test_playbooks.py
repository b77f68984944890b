"""What a playbook may be, what users read of each of its lines, and where a move ends that met trouble."""

from __future__ import annotations

from typing import Any

import pytest

from berthold.agent.driver import Driver
from berthold.lab.world import LARGE, World, with_settings
from berthold.lab.world import now as run
from berthold.moves import create, delete, live_migrate, resize
from berthold.moves.books import PLAYBOOKS
from berthold.moves.outcome import IN_OWNERS_WORDS
from berthold.moves.playbook import NOTHING, Ask, Errand, Place, Playbook, PointOfNoReturn, Write, target
from berthold.moves.status import migration_status, status_of
from everyday import EVERYDAY
from stage import PLAYS

END = PointOfNoReturn("it is done")


def step(name: str, **more: Any) -> Ask:
    return Ask(name, Errand("check", target), **more)


# -- What a playbook may be ----------------------------------------------------------------


def test_a_playbook_has_exactly_one_point_of_no_return() -> None:
    with pytest.raises(AssertionError, match="exactly one point of no return"):
        Playbook("none", step("a", undo=NOTHING))
    with pytest.raises(AssertionError, match="exactly one point of no return"):
        Playbook("two", END, step("a"), END)


def test_every_line_above_it_has_an_undo() -> None:
    with pytest.raises(AssertionError, match="'a' comes before the point of no return and has no undo"):
        Playbook("no way back", step("a"), END)


def test_no_line_below_it_has_one() -> None:
    with pytest.raises(AssertionError, match="'a' can no longer be undone"):
        Playbook("too late", END, step("a", undo=NOTHING))
    with pytest.raises(AssertionError, match="'a' can no longer be undone"):
        Playbook("too late", END, Place("a"))
    with pytest.raises(AssertionError, match="'a' can no longer be undone"):
        Playbook("too late", END, Write("a", lambda tx, scene: None, undo=NOTHING))


@pytest.mark.parametrize("module", [create, delete, live_migrate, resize])
def test_the_drawing_at_the_head_of_a_move_shows_its_lines(module: Any) -> None:
    drawn = " ".join((module.__doc__ or "").split())
    for book in vars(module).values():
        if isinstance(book, Playbook):
            for line in book.lines:
                if line.name != "wait for confirm or revert":
                    assert line.name in drawn, f"{book.name}: {line.name}"


def test_every_playbook_is_played_with_every_mishap_at_every_line() -> None:
    """By `test_every_line.py`, `test_every_everyday_line.py` and `test_every_line_of_a_group_move.py`."""
    played = {play.playbook for play in [*PLAYS, *(each.play for each in EVERYDAY.values())]}
    assert played == {name for name in PLAYBOOKS if not name.startswith("group-")}


def test_what_a_move_waits_for_is_its_last_line() -> None:
    for book in PLAYBOOKS.values():
        names = [line.name for line in book.lines]
        assert len(set(names)) == len(names), book.name


# -- What users see ------------------------------------------------------------------------

LIVE = ["MIGRATING/migrating"]
RESIZE = ["RESIZE/resize_prep", "RESIZE/resize_migrating", "RESIZE/resize_migrated", "RESIZE/resize_finish"]
SEEN = {
    "create": ["BUILD/scheduling", "BUILD/networking", "BUILD/block_device_mapping", "BUILD/spawning"],
    "delete": ["ACTIVE/deleting"],
    "live-migration": LIVE,
    "resize": [*RESIZE, "VERIFY_RESIZE/None"],
    "confirm-resize": ["VERIFY_RESIZE/None"],
    "revert-resize": ["REVERT_RESIZE/resize_reverting"],
}
MIGRATION = {
    "live-migration": ["accepted", "preparing", "running", "post-migrating"],
    "resize": ["queued", "pre-migrating", "migrating", "post-migrating", "finished"],
    "confirm-resize": ["confirming"],
    "revert-resize": ["reverting"],
}


def at(book: str, line: int, state: str = "running") -> dict[str, Any]:
    parked = book == "resize" and line == len(PLAYBOOKS[book].lines) - 1
    state = "waiting" if parked else state
    return {"playbook": book, "state": state, "line": line, "facts": {}, "failure": {}}


@pytest.mark.parametrize("book", SEEN)
def test_each_line_is_seen_in_novas_words(book: str) -> None:
    server = {"condition": "building" if book == "create" else "active"}
    shown = [status_of(server, at(book, line)) for line in range(len(PLAYBOOKS[book].lines))]
    assert list(dict.fromkeys(f"{each.status}/{each.task_state}" for each in shown)) == SEEN[book]
    progress = [each.progress for each in shown if each.status != "VERIFY_RESIZE"]
    assert progress == sorted(progress)


@pytest.mark.parametrize("book", MIGRATION)
def test_a_migration_has_novas_statuses(book: str) -> None:
    shown = [migration_status(at(book, line)) for line in range(len(PLAYBOOKS[book].lines))]
    assert list(dict.fromkeys(shown)) == MIGRATION[book]


@pytest.mark.parametrize(
    ("state", "shown"), [("undone", "error"), ("superseded", "cancelled"), ("stuck", "error")]
)
def test_a_migration_that_did_not_arrive_says_so(state: str, shown: str) -> None:
    assert migration_status(at("live-migration", 2, state)) == shown


def test_whatever_a_move_asks_of_a_host_has_words_for_owners() -> None:
    """Else the line that the host cannot do would fail a second time, in telling why."""
    verbs = {name for name in vars(Driver) if not name.startswith("_")}
    assert set(IN_OWNERS_WORDS) == verbs - {"hello", "guests", "progress", "console"}


EVENTS = {
    "create": ["conductor_build_instances", "compute__do_build_and_run_instance"],
    "delete": ["compute_terminate_instance"],
    "live-migration": [
        "conductor_live_migrate_instance",
        "compute_check_can_live_migrate_destination",
        "compute_pre_live_migration",
        "compute_live_migration",
        "compute_post_live_migration_at_destination",
    ],
    "resize": [
        "conductor_migrate_server",
        "compute_prep_resize",
        "compute_resize_instance",
        "compute_finish_resize",
    ],
    "confirm-resize": ["compute_confirm_resize"],
    "revert-resize": ["compute_revert_resize", "compute_finish_revert_resize"],
    "evacuation": ["rebuild_server", "compute_rebuild_instance"],
    "shelve": ["compute_shelve_instance"],
    "shelve-and-offload": ["compute_shelve_instance", "compute_shelve_offload_instance"],
    "shelve-offload": ["compute_shelve_offload_instance"],
    "unshelve": ["schedule_instances", "compute_unshelve_instance"],
    "unshelve-at-home": ["compute_start_instance"],
    "hard-reboot": ["compute_reboot_instance"],
    "soft-delete": ["compute_soft_delete_instance"],
    "confirm-and-soft-delete": ["compute_confirm_resize", "compute_soft_delete_instance"],
    "snapshot": ["compute_snapshot_instance"],
    "snapshot-of-volumes": ["compute_snapshot_instance"],
    "backup": ["compute_backup_instance"],
    "attach-volume": ["compute_attach_volume"],
    "detach-volume": ["compute_detach_volume"],
    "attach-volume-offloaded": ["compute_attach_volume"],
    "detach-volume-offloaded": ["compute_detach_volume"],
    "attach-interface": ["compute_attach_interface"],
    "detach-interface": ["compute_detach_interface"],
    # Of a whole group each member tells what it does, and nobody schedules it.
    "group-places": [],
    "group-arrival": [],
    "group-return": [],
}
EVENTS |= {kind: [f"compute_{kind}_instance"] for kind in ("stop", "start", "reboot", "pause", "unpause")}
EVENTS |= {kind: [f"compute_{kind}_instance"] for kind in ("suspend", "resume", "rescue", "unrescue")}
EVENTS |= {kind: [f"compute_{kind}_instance"] for kind in ("rebuild", "restore")}
EVENTS |= {
    f"group-{kind}": EVENTS[alone][1:]
    for kind, alone in (
        ("live-migration", "live-migration"),
        ("migration", "resize"),
        ("evacuation", "evacuation"),
    )
}


def test_every_playbook_has_the_events_that_operators_know() -> None:
    told = {
        name: [event for line in book.lines if (event := getattr(line, "event", None))]
        for name, book in PLAYBOOKS.items()
    }
    assert told == EVENTS


def events(world: World) -> list[tuple[str, str]]:
    """(event, result) in the order in which they were written."""
    rows = sorted(world.rows("event"), key=lambda row: row["number"])
    return [(row["event"], row["result"]) for row in rows]


def test_a_move_writes_the_events_that_operators_know() -> None:
    world = World(hosts=3)
    a, b = world.boot("a"), world.boot("b")
    told = [(event, "Success") for event in EVENTS["create"]]
    assert sorted(events(world)) == sorted(told * 2)
    for begin, book in (
        (lambda: world.live_migrate(a), "live-migration"),
        (lambda: world.resize(a), "resize"),
        (lambda: world.confirm(a), "confirm-resize"),
        (lambda: world.migrate(b), "resize"),
        (lambda: world.revert(b), "revert-resize"),
        (lambda: world.delete(a), "delete"),
    ):
        before = len(world.rows("event"))
        begin()
        world.settle()
        assert events(world)[before:] == [(event, "Success") for event in EVENTS[book]]
    assert all(row["message"] is None for row in world.rows("action"))
    world.close()


# -- Another host --------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "prepare"])
def test_a_live_migration_tries_the_next_host_when_one_fails_it(verb: str) -> None:
    """C-c12."""
    world = World(hosts=3)
    a = world.boot("a")
    others = {name for name in world.agents if name != world.home(a)}
    for name in others:
        world.faults_of[name].plan("refuse", verb=verb)
    first = world.live_migrate(a)
    world.faults_of[min(others)].forget()
    world.settle()
    assert world.move(first)["state"] == "done"
    assert world.home(a) == min(others)
    assert len(world.claims(a)) == 1
    assert world.problems() == []
    world.close()


def test_a_create_tries_the_next_host_when_one_fails_it() -> None:
    """C-c06."""
    world = World(hosts=2)
    world.faults_of["node1"].plan("refuse", verb="spawn")
    a = world.boot("a")
    world.settle()
    assert (world.home(a), world.status(a).status) == ("node2", "ACTIVE")
    assert [claim.host_name for claim in world.claims(a)] == ["node2"]
    assert world.problems() == []
    world.close()


def test_no_more_hosts_are_tried_than_the_operator_allows() -> None:
    world = World(hosts=5, settings=with_settings(hosts_tried_max=3))
    for faults in world.faults_of.values():
        faults.plan("refuse", verb="spawn", times=9)
    a = world.boot("a")
    assert world.status(a).status == "ERROR"
    assert len([ask for ask in world.rows("ask") if ask["verb"] == "spawn"]) == 3
    assert world.rows("claim") == []
    assert world.problems() == []
    world.close()


def test_a_named_host_is_never_exchanged_for_another() -> None:
    """M8."""
    world = World(hosts=3)
    group = world.group("anti-affinity")
    a, b = world.boot("a", group), world.boot("b", group)
    taken, free = world.home(b), next(n for n in world.agents if n not in (world.home(a), world.home(b)))
    before = world.home(a)
    refused = world.live_migrate(a, host=taken)
    world.settle()
    assert (world.move(refused)["state"], world.home(a)) == ("undone", before)
    world.faults_of[free].plan("refuse", verb="check")
    failed = world.live_migrate(a, host=free)
    world.settle()
    assert (world.move(failed)["state"], world.home(a)) == ("undone", before)
    assert world.status(a).status == "ACTIVE"
    assert world.problems() == []
    world.close()


# -- Stuck ---------------------------------------------------------------------------------


def test_what_must_succeed_and_does_not_calls_an_operator_at_its_true_home() -> None:
    world = World(hosts=2, settings=with_settings(tries_max=4))
    a = world.boot("a")
    source = world.home(a)
    assert source is not None
    world.faults_of[source].plan("refuse", verb="discard", times=99)
    move = world.live_migrate(a)
    world.settle()
    assert world.move(move)["state"] == "stuck"
    assert world.home(a) not in (None, source)
    assert world.status(a).status == "ERROR"
    assert {claim.role for claim in world.claims(a)} == {"home", "source"}
    assert migration_status(world.move(move)) == "error"
    assert world.problems() == []
    world.close()


def test_a_lost_answer_on_the_line_that_decides_is_decided_by_the_agents() -> None:
    for done, state in ((True, "done"), (False, "undone")):
        world = World(hosts=2)
        a = world.boot("a")
        source = world.home(a)
        assert source is not None
        move = world.live_migrate(a)
        while not any(ask["verb"] == "send" for ask in world.rows("ask")):
            world.step(move)
            for name in world.agents:
                if not [ask for ask in world.asks(name) if ask.verb == "send"]:
                    world.obey(name)
        if done:
            ask = world.asks(source)[0]
            run(world.agents[source].do(ask))
        world.silent.add(source)
        for _ in range(8):
            world.step(move)
            world.pass_time(2.0)
        world.silent.clear()
        world.hear()
        world.settle()
        assert world.move(move)["state"] == state
        assert (world.home(a) != source) == done
        assert world.status(a).status == "ACTIVE"
        assert world.problems() == []
        world.close()


def test_the_same_seed_gives_the_same_history() -> None:
    def told(seed: int) -> list[dict[str, Any]]:
        world = World(hosts=4, seed=seed)
        group = world.group("anti-affinity")
        servers = [world.boot(name, group) for name in "abc"]
        for server in servers:
            world.live_migrate(server)
        world.settle()
        world.resize(servers[0], LARGE)
        world.settle()
        rows = sorted((dict(row) for row in world.rows("history")), key=lambda row: row["number"])
        world.close()
        return rows

    assert told(7) == told(7)
    assert told(7) != told(8)
