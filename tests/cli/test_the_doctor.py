"""`berthold doctor`: each thing that can be wrong with a set-up is found, and what to do is said."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import text, update

from berthold import database
from berthold.cli.doctor import libraries
from berthold.lab.engines import PostgreSQL
from berthold.lab.world import World
from berthold.ledger import hosts, overview, schema
from berthold.ledger.store import Store, Tx
from berthold.moves import together
from berthold.moves.auditor import DUTY
from berthold.records import duties
from commands import Berthold

# What every healthy set-up shows, in this order.
CHECKS = [
    "python",
    "libraries",
    "directory",
    "disk",
    "database",
    "settings",
    "clock",
    "promises",
    "compliance",
    "hosts",
    "moves",
]


def words(text: str) -> list[tuple[str, str]]:
    """(ok | note | WRONG, check) of each finding."""
    lines = [line.split() for line in text.splitlines() if line.startswith(("ok", "note", "WRONG"))]
    return [(line[0], line[1]) for line in lines]


def test_a_healthy_cloud_has_a_line_for_each_check_and_nothing_to_do(
    berthold: Berthold, data: Path, world: World
) -> None:
    world.boot("web-1")
    ran = berthold("doctor", "--data", data)
    assert words(ran.text) == [("ok", check) for check in CHECKS]
    assert ran.text.endswith("Nothing must be done.\n")
    assert ran.status == 0


def test_it_makes_and_changes_nothing(berthold: Berthold, tmp_path: Path, data: Path) -> None:
    ran = berthold("doctor", "--data", tmp_path / "typo")
    assert ran.status == 1
    assert "is not there" in ran.line("WRONG", "database")
    assert not (tmp_path / "typo").exists()
    data.chmod(0o755)
    berthold("doctor", "--data", data)
    assert data.stat().st_mode & 0o777 == 0o755


def test_what_others_may_read_is_named_with_the_command_that_ends_it(
    berthold: Berthold, data: Path, world: World
) -> None:
    data.chmod(0o750)
    (data / "token.key").chmod(0o644)
    ran = berthold("doctor", "--data", data)
    assert ran.line("WRONG", f"others may use {data} (750)")
    assert ran.line("WRONG", "token.key (644)")
    assert ran.line(f"-> chmod 700 {data}")
    assert ran.line(f"-> chmod 600 {data / 'token.key'}")
    assert ran.text.endswith("2 things must be done.\n")
    assert ran.status == 1


def test_a_full_disk(berthold: Berthold, data: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**29))
    ran = berthold("doctor", "--data", data)
    assert "0.5 GiB are free" in ran.line("WRONG", "disk")


def test_a_library_that_is_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["sqlalchemy>=99.1", "psycopg[binary]>=3.3", "nobody-makes-this>=1", 'ruff>=99; extra == "test"']
    monkeypatch.setattr(metadata, "requires", lambda _: needs)
    (found,) = libraries()
    assert found.word == "WRONG"
    assert f"sqlalchemy is {metadata.version('sqlalchemy')}, 99.1 is needed" in found.says
    assert "nobody-makes-this is not installed" in found.says
    assert "psycopg" not in found.says
    assert "ruff" not in found.says


# -- The database -------------------------------------------------------------------------


def test_a_database_that_is_not_current(berthold: Berthold, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    store = Store(url)
    store.read_now(overview.settings)
    store.close()
    ran = berthold("doctor", "--data", tmp_path, "--database", url)
    assert "not those of this version" in ran.line("WRONG", "database")
    assert ran.line(f"-> bring them up to it: berthold db upgrade --database {url}")
    assert ("ok", "promises") not in words(ran.text)


@pytest.mark.parametrize("url", ["nonsense", "postgresql+psycopg://nobody:hush@127.0.0.1:1/none"])
def test_a_database_that_cannot_be_reached(berthold: Berthold, tmp_path: Path, url: str) -> None:
    ran = berthold("doctor", "--data", tmp_path, "--database", url)
    assert ran.line("WRONG", "database")
    assert "hush" not in ran.text
    assert ran.status == 1


def test_a_file_that_is_no_database(berthold: Berthold, data: Path) -> None:
    (data / "berthold.db").write_text("remember the milk " * 100)
    ran = berthold("doctor", "--data", data)
    assert "file is not a database" in ran.line("WRONG", "database")
    assert ran.status == 1


def test_a_postgresql_that_forgets_at_a_crash_is_found(
    berthold: Berthold, tmp_path: Path, postgresql: PostgreSQL
) -> None:
    """The tests' own server is such a one: its fsync is off."""
    url = postgresql.create_bare()
    database.upgrade(url)
    ran = berthold("doctor", "--data", tmp_path, "--database", url)
    postgresql.drop(url)
    assert ran.line("WRONG", "settings", "fsync is off: a crash may lose what was acknowledged")
    assert ran.line("-> ALTER SYSTEM SET fsync = 'on'")
    assert {("ok", "database"), ("ok", "clock"), ("ok", "promises"), ("note", "hosts")} < set(words(ran.text))


def test_clocks_that_differ(
    berthold: Berthold, data: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "skew", lambda _: -3.2)
    ran = berthold("doctor", "--data", data)
    assert "3.2 s behind this machine's" in ran.line("WRONG", "clock")


def test_a_broken_promise(berthold: Berthold, data: Path, world: World) -> None:
    world.boot("web-1", host="node1")
    world.store.write_now(lambda tx: tx.execute(update(schema.claim).values(vcpus=0)) and None)
    ran = berthold("doctor", "--data", data)
    assert "C1 is broken" in ran.text
    assert ran.status == 1
    world.store.write_now(lambda tx: tx.execute(update(schema.inventory).values(used=0)) and None)


def test_a_host_that_holds_more_than_it_may(berthold: Berthold, data: Path, world: World) -> None:
    world.boot("web-1", host="node1")
    less = {"total": 0, "capacity": 0, "ceiling": 1}
    cpus = update(schema.inventory).where(
        schema.inventory.c.provider_id == world.host_id("node1"), schema.inventory.c["class"] == "VCPU"
    )
    world.store.write_now(lambda tx: tx.execute(cpus.values(**less)) and None)
    ran = berthold("doctor", "--data", data)
    assert ran.line("WRONG", "compliance", "(C1) host node1 holds 1 VCPU, 1 VCPU above its capacity of 0")
    assert ran.line("-> let node1 offer 1 VCPU more again")
    assert ran.status == 1


def test_an_auditor_that_looks_no_more(berthold: Berthold, data: Path, world: World) -> None:
    def looked(tx: Tx, ago: float) -> None:
        turn = duties.take(tx, DUTY, "c1", 0.0)
        assert turn is not None
        assert duties.done(tx, DUTY, turn)
        tx.execute(text("UPDATE duty SET done_at = done_at - :ago, until = 0"), {"ago": ago})

    world.store.write_now(looked, 10.0)
    assert "the auditor looks" in berthold("doctor", "--data", data).line("ok", "compliance")
    world.store.write_now(looked, 600.0)
    late = berthold("doctor", "--data", data)
    assert late.line("note", "compliance", "the auditor has not looked for 10m")
    assert late.status == 0


# -- Hosts and moves ----------------------------------------------------------------------


def test_a_silent_host(berthold: Berthold, data: Path, world: World) -> None:
    world.boot("web-1", host="node1")
    unheard(world, "node1", 200)
    ran = berthold("doctor", "--data", data)
    assert "node1 has not been heard for 3m" in ran.line("WRONG", "hosts")
    assert ran.line("if it is dead: openstack compute service set --down node1 nova-compute")
    assert ran.line("WRONG", "hosts", "and 1 server lives there")
    assert ran.line("openstack server list --all-projects --host node1")
    assert ran.line("then, for each: openstack server evacuate SERVER")


def unheard(world: World, host: str, seconds: float) -> None:
    beat = update(schema.heartbeat).where(schema.heartbeat.c.host_id == world.host_id(host))
    world.store.write_now(lambda tx: tx.execute(beat.values(heard_at=world.clock.now() - seconds)) and None)


def test_a_cloud_that_does_not_run_is_one_finding(berthold: Berthold, data: Path, world: World) -> None:
    for host in ("node1", "node2"):
        unheard(world, host, 500)
    ran = berthold("doctor", "--data", data)
    assert "none of 2 hosts is heard" in ran.line("hosts")


def test_a_fenced_host_matters_while_servers_live_there(berthold: Berthold, data: Path, world: World) -> None:
    world.store.write_now(hosts.fence, world.host_id("node2"))
    ran = berthold("doctor", "--data", data)
    assert "node2 is fenced and empty" in ran.line("note", "hosts")
    assert ran.status == 0
    world.boot("web-1", host="node1")
    world.store.write_now(hosts.fence, world.host_id("node1"))
    ran = berthold("doctor", "--data", data)
    assert "node1 is fenced and 1 server lives there" in ran.line("WRONG", "hosts")


def test_a_host_that_cleans(berthold: Berthold, data: Path, world: World) -> None:
    clean = update(schema.host).where(schema.host.c.name == "node1").values(status="cleaning")
    world.store.write_now(lambda tx: tx.execute(clean) and None)
    assert berthold("doctor", "--data", data).line("note", "node1 takes nothing before it has removed")
    unheard(world, "node1", 100)
    assert berthold("doctor", "--data", data).line("WRONG", "node1 takes nothing", "has not been heard")


def test_a_disabled_host_is_a_note(berthold: Berthold, data: Path, world: World) -> None:
    world.store.write_now(_disable, "node1")
    assert berthold("doctor", "--data", data).line("note", "node1 is disabled: new memory")


def _disable(tx: Tx, name: str) -> None:
    disabled = {"disabled": True, "disabled_reason": "new memory"}
    tx.execute(update(schema.host).where(schema.host.c.name == name).values(**disabled))


def test_a_whole_group_that_is_held(berthold: Berthold, data: Path, world: World) -> None:
    group = world.group("affinity")
    server = world.boot("db-1", group, host="node1")
    world.faults_of["node2"].plan("refuse", verb="prepare", server=server, reason="the disk is full")
    world.store.write_now(together.begin, group, world.by(), world.host_id("node2"))
    assert "groups" not in berthold("doctor", "--data", data).text
    world.settle()
    held = berthold("doctor", "--data", data)
    said = "db-1: node2 could not prepare: the disk is full"
    assert held.line("WRONG", "groups", f"held between node1 and node2: {said}")
    assert held.line(f"berthold group move {group} --resume")


def test_moves_that_are_stuck_or_left_alone(berthold: Berthold, data: Path, world: World) -> None:
    server, other = world.boot("web-1", host="node1"), world.boot("web-2", host="node2")
    world.faults_of["node1"].plan("refuse", verb="discard", times=99, reason="the disk does not let go")
    stuck = world.delete(server)
    world.settle()
    world.live_migrate(other)
    fresh = berthold("doctor", "--data", data)
    assert fresh.line("WRONG", "moves", "the delete of web-1 is stuck at", "the disk does not let go")
    assert fresh.line(f"-> repair that, then: berthold move resume {stuck}")
    assert "nobody works on" not in fresh.text, "one that has just begun may wait for its conductor"
    world.store.write_now(
        lambda tx: tx.execute(text("UPDATE move SET updated_at = updated_at - 60")) and None
    )
    late = berthold("doctor", "--data", data)
    assert "nobody works on 1 of 2 unfinished moves, for up to" in late.line("WRONG", "nobody")
