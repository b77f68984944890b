"""What moves rely on: calls may be repeated, racers are stopped by constraints, late calls are refused."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from berthold.clock import SeededClock
from berthold.companions import Companions, bootstrap, build, volume_changes
from berthold.companions.files import ORPHAN_AFTER_SECONDS
from berthold.companions.image import change, image_of, images_of, make
from berthold.companions.network import make_network, make_subnet
from berthold.companions.ports import make_port, plug
from berthold.companions.volume import begin
from berthold.errors import Malformed, NotFound, Unavailable, WrongState
from berthold.ledger.schema import metadata
from berthold.ledger.store import Store
from berthold.neighbours import Actor

OURS = Actor("ann", "ann", "p1", "one", frozenset({"member", "reader"}))
THEIRS = Actor("bob", "bob", "p2", "two", frozenset({"member", "reader"}))


@pytest.fixture
def four(store: Store, tmp_path: Path) -> Companions:
    return build(store, tmp_path, b"k" * 32)


def a_network(store: Store, cidr: str = "10.0.0.0/24", **fields: Any) -> str:
    def make_both(tx: Any) -> str:
        row = make_network(tx, "p1", name="n", **fields)
        make_subnet(tx, "p1", row.id, cidr)
        return str(row.id)

    return store.write_now(make_both)


def an_image(four: Companions, content: bytes) -> str:
    async def chunks() -> AsyncIterator[bytes]:
        yield content

    row = four.store.write_now(
        lambda tx: make(tx, "p1", name="i", disk_format="raw", container_format="bare")
    )
    asyncio.run(four.images.upload(OURS, row.id, chunks()))
    return str(row.id)


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


# -- Networks -----------------------------------------------------------------------------


def test_servers_plugged_at_once_never_share_an_address(store: Store) -> None:
    on = a_network(store)
    together = threading.Barrier(8)

    def one(number: int) -> list[str]:
        together.wait()
        got = [store.write_now(plug, "p1", f"s{number}-{i}", [{"uuid": on}]) for i in range(6)]
        return [port[0].addresses[0]["ip_address"] for port in got]

    with ThreadPoolExecutor(8) as pool:
        given = [ip for many in pool.map(one, range(8)) for ip in many]

    assert len(given) == len(set(given)) == 48
    # Nobody lost an address on the way: they are the lowest 48.
    assert set(given) == {f"10.0.0.{i}" for i in range(2, 50)}


def test_a_server_plugged_twice_at_once_has_one_set_of_ports(store: Store) -> None:
    on = a_network(store)
    together = threading.Barrier(4)

    def one(_: int) -> list[Any]:
        together.wait()
        return store.write_now(plug, "p1", "s1", [{"uuid": on}, {"uuid": on}])

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(one, range(4))
    assert all(ports == first for ports in others)
    assert len(first) == 2


def test_a_full_subnet_refuses_and_an_unplugged_server_makes_room(four: Companions) -> None:
    on = a_network(four.store, "10.0.0.0/29")
    for i in range(5):
        asyncio.run(four.networks.plug("p1", f"s{i}", "m", [{"uuid": on}]))
    with pytest.raises(WrongState, match="no free IPv4 address"):
        asyncio.run(four.networks.plug("p1", "late", "m", [{"uuid": on}]))

    asyncio.run(four.networks.unplug("s3"))
    (port,) = asyncio.run(four.networks.plug("p1", "late", "m", [{"uuid": on}]))
    assert port.addresses[0]["ip_address"] == "10.0.0.5"


def test_an_unplugged_server_gets_no_ports_from_a_late_call(four: Companions) -> None:
    on = a_network(four.store)
    asyncio.run(four.networks.plug("p1", "s1", "m1", [{"uuid": on}]))
    asyncio.run(four.networks.unplug("s1"))
    asyncio.run(four.networks.unplug("s1"))
    asyncio.run(four.networks.unplug("never-plugged"))
    for server in ("s1", "never-plugged"):
        with pytest.raises(WrongState):
            asyncio.run(four.networks.plug("p1", server, "m1", [{"uuid": on}]))


def test_a_lent_port_goes_to_one_server_and_comes_back_when_it_is_unplugged(four: Companions) -> None:
    on = a_network(four.store)
    port = four.store.write_now(lambda tx: make_port(tx, "p1", on, [{"ip_address": "10.0.0.77"}]))
    (lent,) = asyncio.run(four.networks.plug("p1", "s1", "m", [{"port": port}]))
    assert (lent.id, lent.addresses[0]["ip_address"]) == (port, "10.0.0.77")
    with pytest.raises(WrongState, match="in use by s1"):
        asyncio.run(four.networks.plug("p1", "s2", "m", [{"port": port}]))

    asyncio.run(four.networks.unplug("s1"))
    (lent,) = asyncio.run(four.networks.plug("p1", "s2", "m", [{"port": port}]))
    assert lent.id == port


def test_a_plug_that_fails_half_way_leaves_no_port_and_may_be_repeated(four: Companions) -> None:
    on = a_network(four.store)
    with pytest.raises(NotFound):
        asyncio.run(four.networks.plug("p1", "s1", "m", [{"uuid": on}, {"uuid": "nowhere"}]))
    (port,) = asyncio.run(four.networks.plug("p1", "s1", "m", [{"uuid": on}]))
    assert port.addresses[0]["ip_address"] == "10.0.0.2"


def test_wished_addresses_are_given_once_and_only_where_they_belong(four: Companions) -> None:
    on = a_network(four.store)
    asyncio.run(four.networks.plug("p1", "s1", "m", [{"uuid": on, "fixed_ip": "10.0.0.9"}]))
    with pytest.raises(WrongState, match=r"10\.0\.0\.9 is in use"):
        asyncio.run(four.networks.plug("p1", "s2", "m", [{"uuid": on, "fixed_ip": "10.0.0.9"}]))
    for wrong in ("10.0.1.1", "10.0.0.255", "10.0.0.0", "here", "::1"):
        with pytest.raises(Malformed):
            asyncio.run(four.networks.plug("p1", "s3", "m", [{"uuid": on, "fixed_ip": wrong}]))


def test_a_project_uses_its_own_and_shared_networks_only(four: Companions) -> None:
    own, shared = a_network(four.store), a_network(four.store, shared=True)
    assert {n.id for n in asyncio.run(four.networks.usable(OURS))} == {own, shared}
    assert {n.id for n in asyncio.run(four.networks.usable(THEIRS))} == {shared}
    with pytest.raises(NotFound):
        asyncio.run(four.networks.find(THEIRS, own))
    with pytest.raises(NotFound):
        asyncio.run(four.networks.plug("p2", "s1", "m", [{"uuid": own}]))


def test_an_ipv6_subnet_hands_out_addresses_too(four: Companions) -> None:
    on = a_network(four.store, "fd00::/64")
    (port,) = asyncio.run(four.networks.plug("p1", "s1", "m", [{"uuid": on}]))
    assert port.addresses[0]["ip_address"] == "fd00::2"
    assert port.addresses[0]["version"] == 6


# -- Volumes ------------------------------------------------------------------------------


def test_a_volume_of_a_move_is_made_once_and_not_again_after_it_was_undone(four: Companions) -> None:
    wish: dict[str, Any] = {"name": "root", "size": 1}
    first = asyncio.run(four.volumes.create("p1", "m1", **wish))
    assert asyncio.run(four.volumes.create("p1", "m1", **wish)) == first
    assert len(files(four.volumes.files.directory)) == 1

    asyncio.run(four.volumes.undo_create("p1", "m1", name="root", server_id="s1"))
    asyncio.run(four.volumes.undo_create("p1", "m2", name="root", server_id="s1"))
    assert files(four.volumes.files.directory) == []
    for move in ("m1", "m2"):
        with pytest.raises(WrongState):
            asyncio.run(four.volumes.create("p1", move, **wish))
    asyncio.run(four.volumes.delete(first.id))
    with pytest.raises(NotFound):
        asyncio.run(four.volumes.get(OURS, first.id))


def test_a_volume_from_an_image_begins_with_its_bytes_and_is_as_large_as_asked(four: Companions) -> None:
    content = bytes(3_000_000) + b"the end"
    of = an_image(four, content)
    made = asyncio.run(four.volumes.create("p1", "m", name="root", size=1, image_id=of))
    (file,) = files(four.volumes.files.directory)
    with file.open("rb") as disk:
        assert disk.read(len(content)) == content
    assert file.stat().st_size == 1 << 30
    assert file.stat().st_blocks * 512 < 1 << 20, "it is sparse"
    assert made.bootable
    asyncio.run(four.images.delete(OURS, of))
    assert asyncio.run(four.volumes.create("p1", "m", name="root", size=1, image_id=of)) == made
    with pytest.raises(NotFound):
        asyncio.run(four.volumes.create("p2", "m2", name="root", size=1, image_id=of))


def test_a_volume_that_is_made_for_a_server_is_nobody_elses_until_that_has_it(four: Companions) -> None:
    made = asyncio.run(four.volumes.create("p1", "m1", name="root", size=1))
    assert asyncio.run(four.volumes.get(OURS, made.id)).status == "creating"
    with pytest.raises(WrongState, match="is creating; it cannot be attached"):
        asyncio.run(four.volumes.attach(made.id, "s2", "m2", device="/dev/vdb"))
    asyncio.run(four.volumes.attach(made.id, "s1", "m1", device="/dev/vda"))
    again = asyncio.run(four.volumes.create("p1", "m1", name="root", size=1))
    assert (again.id, again.status) == (made.id, "in-use")


def test_the_undo_of_a_create_leaves_alone_what_another_server_has(four: Companions) -> None:
    """An operator said that the volume was available while it was being made, and a user took it."""
    made = asyncio.run(four.volumes.create("p1", "m1", name="root", size=1))
    four.store.write_now(volume_changes.reset_status, OURS, made.id, "available")
    asyncio.run(four.volumes.attach(made.id, "s2", "m2", device="/dev/vdb"))
    asyncio.run(four.volumes.undo_create("p1", "m1", name="root", server_id="s1"))
    assert asyncio.run(four.volumes.get(OURS, made.id)).server_id == "s2"
    asyncio.run(four.volumes.detach(made.id, "s2"))
    with pytest.raises(WrongState, match="for good"):
        asyncio.run(four.volumes.attach(made.id, "s1", "m1", device="/dev/vda"))
    assert asyncio.run(four.volumes.get(OURS, made.id)).status == "available"


def test_of_servers_that_race_for_a_volume_one_gets_it(four: Companions) -> None:
    made = asyncio.run(four.volumes.create("p1", "m", name="d", size=1))

    def take(number: int) -> str:
        try:
            asyncio.run(four.volumes.attach(made.id, f"s{number}", "m", device="/dev/vdb"))
        except WrongState:
            return "refused"
        return f"s{number}"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(take, range(6)))
    assert outcomes.count("refused") == 5
    assert asyncio.run(four.volumes.get(OURS, made.id)).server_id in outcomes


def test_attach_and_detach_may_be_repeated_and_a_late_attach_is_refused(four: Companions) -> None:
    made = asyncio.run(four.volumes.create("p1", "m", name="d", size=1))
    once = asyncio.run(four.volumes.attach(made.id, "s1", "m", device="/dev/vdb"))
    assert asyncio.run(four.volumes.attach(made.id, "s1", "m", device="/dev/vdb")) == once
    with pytest.raises(WrongState, match="in use"):
        asyncio.run(four.volumes.delete(made.id))
    asyncio.run(four.volumes.detach(made.id, "another"))
    assert asyncio.run(four.volumes.get(OURS, made.id)).status == "in-use"

    asyncio.run(four.volumes.detach(made.id, "s1"))
    asyncio.run(four.volumes.attach(made.id, "s1", "m", device="/dev/vdb"))
    asyncio.run(four.volumes.detach(made.id, "s1", for_good=True))
    asyncio.run(four.volumes.detach(made.id, "s1", for_good=True))
    with pytest.raises(WrongState):
        asyncio.run(four.volumes.attach(made.id, "s1", "m", device="/dev/vdb"))
    assert asyncio.run(four.volumes.get(OURS, made.id)).status == "available"


# -- Images -------------------------------------------------------------------------------


def test_an_upload_that_breaks_off_leaves_the_image_queued_and_no_file(four: Companions) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"half of it"
        raise ConnectionResetError

    row = four.store.write_now(lambda tx: make(tx, "p1", name="i"))
    with pytest.raises(ConnectionResetError):
        asyncio.run(four.images.upload(OURS, row.id, breaks()))
    assert files(four.images.files.directory) == []
    assert asyncio.run(four.images.get(OURS, row.id)).status == "queued"


def test_of_uploads_that_race_one_becomes_the_image(four: Companions) -> None:
    row = four.store.write_now(lambda tx: make(tx, "p1", name="i"))

    async def upload(content: bytes) -> bytes | None:
        async def chunks() -> AsyncIterator[bytes]:
            yield content

        try:
            await four.images.upload(OURS, row.id, chunks())
        except WrongState:
            return None
        return content

    async def race() -> list[bytes | None]:
        return await asyncio.gather(*(upload(bytes([65 + i]) * 100) for i in range(4)))

    winners = [content for content in asyncio.run(race()) if content is not None]
    (file,) = files(four.images.files.directory)
    assert winners == [file.read_bytes()]


def test_an_upload_whose_end_is_not_heard_of_keeps_the_bytes_that_its_row_names(
    four: Companions, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = four.store.write_now(lambda tx: make(tx, "p1", name="i"))
    write = four.store.write

    async def unheard(f: Any, *args: Any) -> Any:
        await write(f, *args)
        raise asyncio.CancelledError

    async def chunks() -> AsyncIterator[bytes]:
        yield b"whole"

    monkeypatch.setattr(four.store, "write", unheard)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(four.images.upload(OURS, row.id, chunks()))
    kept = four.store.read_now(image_of, OURS, row.id)
    with four.images.open(kept) as file:
        assert file.read() == b"whole"


def test_the_oldest_backups_go_and_nothing_else_does(four: Companions) -> None:
    def snap(move: str, **properties: str) -> str:
        said = {"instance_uuid": "s1", "image_type": "backup", "backup_type": "daily", **properties}
        made = four.images.snapshot("p1", move, name=move, base=None, properties=said)
        return asyncio.run(made).id

    old, protected, new = snap("m1"), snap("m2"), snap("m3")
    others = {
        snap("m4", backup_type="weekly"),
        snap("m5", instance_uuid="s2"),
        snap("m6", image_type="snapshot"),
    }
    four.store.write_now(lambda tx: change(tx, OURS, protected, protected=True))
    for _ in range(2):
        asyncio.run(four.images.rotate_backups("p1", "s1", "daily", 1))
        asyncio.run(four.images.rotate_backups("p2", "s1", "daily", 0))
        kept = {row.id for row in four.store.read_now(images_of, OURS, {})}
        assert kept == {protected, new, *others}
        assert not any(file.name.startswith(old) for file in four.images.files.directory.iterdir())


def test_a_private_image_is_for_its_project(four: Companions) -> None:
    of = an_image(four, b"x")
    with pytest.raises(NotFound):
        asyncio.run(four.images.get(THEIRS, of))
    assert four.store.read_now(images_of, THEIRS, {}) == []


def test_a_full_disk_is_said_in_words_and_leaves_nothing(
    four: Companions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    of = an_image(four, b"x")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable, match="no space"):
        an_image(four, b"y")
    with pytest.raises(Unavailable, match="no space"):
        asyncio.run(four.volumes.create("p1", "m", name="root", size=1, image_id=of))
    assert len(files(four.images.files.directory)) == 1
    assert files(four.volumes.files.directory) == []


def test_files_that_a_crash_left_are_swept_when_they_are_old(four: Companions) -> None:
    of = an_image(four, b"x")
    for name, age in (("old", 2 * ORPHAN_AFTER_SECONDS), ("young", 0.0)):
        orphan = four.images.files.path(name)
        orphan.touch()
        os.utime(orphan, (time.time() - age,) * 2)
    asyncio.run(bootstrap(four, "secret"))
    left = {path.name.split(".")[0] for path in files(four.images.files.directory)}
    assert {"young", of} <= left
    assert "old" not in left


def test_a_row_whose_file_is_missing_is_a_clear_failure(four: Companions) -> None:
    of = an_image(four, b"x")
    files(four.images.files.directory)[0].unlink()
    with pytest.raises(Unavailable, match="bytes"):
        asyncio.run(four.volumes.create("p1", "m", name="root", size=1, image_id=of))
    assert files(four.volumes.files.directory) == []


# -- The first start ----------------------------------------------------------------------


def test_the_first_start_makes_things_once(four: Companions) -> None:
    asyncio.run(bootstrap(four, "secret"))
    admin = Actor("", "", "", "", frozenset({"admin"}))
    (cirros,) = four.store.read_now(images_of, admin, {})
    assert (cirros.name, cirros.status, cirros.properties) == (
        *("cirros", "active"),
        {"berthold:placeholder": "true"},
    )
    asyncio.run(four.images.delete(admin, cirros.id))
    asyncio.run(bootstrap(four, "another"))
    assert four.store.read_now(images_of, admin, {}) == []
    assert len(asyncio.run(four.networks.usable(THEIRS))) == 1


def test_in_memory_the_calls_of_moves_never_suspend(tmp_path: Path) -> None:
    store = Store("sqlite://", clock=SeededClock(1))
    metadata.create_all(store.writer)
    four = build(store, tmp_path, b"k" * 32)
    on = a_network(store)
    made = run_at_once(four.volumes.create("p1", "m", name="root", size=1))
    run_at_once(four.volumes.attach(made.id, "s", "m", device="/dev/vda"))
    run_at_once(four.networks.plug("p1", "s", "m", [{"uuid": on}]))
    run_at_once(four.networks.bind("s", "node1"))
    run_at_once(four.networks.unplug("s"))
    run_at_once(four.volumes.detach(made.id, "s"))
    run_at_once(four.volumes.delete(made.id))
    store.close()


def run_at_once(coroutine: Any) -> Any:
    """What the coroutine returns, which it must do without waiting for anything."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def test_volumes_of_users_may_share_a_name_and_stay_apart(store: Store) -> None:
    """Only what one move makes is recognised by its name; T1: never across projects."""
    fields = {"name": "disk", "size": 1, "volume_type": "file"}
    made = [store.write_now(begin, project, None, dict(fields)) for project in ("p1", "p1", "p2")]
    assert len({row.id for row in made}) == 3
    assert [row.project_id for row in made] == ["p1", "p1", "p2"]
