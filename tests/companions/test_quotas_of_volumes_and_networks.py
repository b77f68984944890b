"""Q1 for volumes and networks: never more than a project may have, and counted to the last one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, Row, select, text
from sqlalchemy.exc import IntegrityError

from berthold.companions import Companions, build, network, ports, quotas, volume, volume_changes
from berthold.companions.quotas import NO_LIMIT, OverQuota, Usage
from berthold.companions.schema import companion_quota
from berthold.database import migrations, upgrade
from berthold.errors import Malformed, Refused
from berthold.ledger.store import Store, Tx, engine_for
from berthold.neighbours import Actor
from berthold.settings import Settings
from companions_cloud import Cloud
from races import processes, race, writing

OURS = Actor("ann", "ann", "p1", "one", frozenset({"member", "reader"}))


@pytest.fixture
def four(store: Store, tmp_path: Path) -> Companions:
    return build(store, tmp_path, b"k" * 32)


def limit(store: Store, project: str = "p1", **limits: int) -> None:
    store.write_now(quotas.set_limits, project, limits)


def used(store: Store, *resources: str) -> list[int]:
    usage = store.read_now(quotas.of, "p1", resources)
    return [usage[each].used for each in resources]


def sound(store: Store) -> bool:
    """Nothing is counted that is not there, and nothing is there uncounted."""
    return store.read_now(quotas.miscounted) == []


def begin(tx: Tx, size: int, move: str | None = None) -> str:
    row = volume.begin(tx, "p1", move, {"name": "disk", "size": size})
    return str(row.id)


def a_network(tx: Tx, shared: bool = False) -> str:
    made = network.make_network(tx, "p1", name="n", shared=shared)
    network.make_subnet(tx, "p1", made.id, "10.0.0.0/24")
    return str(made.id)


def refusals(results: list[object], resource: str) -> int:
    """How many were refused, all of them for this resource."""
    refused = [each for each in results if isinstance(each, Exception)]
    assert all(isinstance(each, OverQuota) and each.resource == resource for each in refused), refused
    return len(refused)


# -- Racing -------------------------------------------------------------------------------


def test_racing_volumes_get_exactly_what_the_project_may_have(database_url: str) -> None:
    with processes(database_url) as stores:
        limit(stores[0], gigabytes=13, volumes=10)
        results = race([writing(stores[n % 4], begin, 2) for n in range(16)])
        assert refusals(results, "gigabytes") == 10, "13 GiB are six volumes of two"
        assert used(stores[0], "volumes", "gigabytes") == [6, 12]
        assert sound(stores[0])


def test_what_one_move_asks_for_many_times_at_once_is_paid_once(database_url: str) -> None:
    with processes(database_url) as stores:
        results = race([writing(stores[n % 4], begin, 3, "m") for n in range(8)])
        assert len(set(results)) == 1
        assert used(stores[0], "volumes", "gigabytes") == [1, 3]


def test_a_snapshot_that_one_move_asks_for_many_times_at_once_is_one(
    database_url: str, tmp_path: Path
) -> None:
    with processes(database_url) as stores:
        clouds = [build(store, tmp_path, b"k" * 32) for store in stores]
        made = filled(clouds[0], 1)
        results = race(
            [lambda four=four: asyncio.run(four.volumes.snapshot(made.id, "m", name="s")) for four in clouds]  # type: ignore[misc]
        )
        assert set(results) == {results[0]}
        assert used(stores[0], "volumes", "snapshots", "gigabytes") == [1, 1, 2]
        assert sound(stores[0])
        assert len(list(clouds[0].volumes.snapshots.files.directory.iterdir())) == 1


def test_racing_plugs_get_exactly_as_many_ports_as_the_project_may_have(database_url: str) -> None:
    with processes(database_url) as stores:
        on = stores[0].write_now(a_network)
        limit(stores[0], port=7)
        wishes = [{"uuid": on}, {"uuid": on}]
        results = race([writing(stores[n % 4], ports.plug, "p1", f"s{n}", wishes) for n in range(12)])
        assert refusals(results, "port") == 9, "seven ports are three servers with two"
        assert used(stores[0], "port") == [6]
        assert sound(stores[0])
        race([writing(stores[n % 4], ports.unplug, f"s{n}") for n in range(12)])
        assert used(stores[0], "port") == [0]
        assert sound(stores[0])


def test_racing_networks_and_subnets_get_exactly_what_the_project_may_have(database_url: str) -> None:
    with processes(database_url) as stores:
        limit(stores[0], network=5, subnet=3)
        results = race([writing(stores[n % 4], a_network) for n in range(9)])
        assert refusals(results, "subnet") == 6
        assert used(stores[0], "network", "subnet") == [3, 3]
        made = [each for each in results if isinstance(each, str)]
        race([writing(stores[n % 4], network.drop_network, made[n % 3]) for n in range(6)])
        assert used(stores[0], "network", "subnet") == [0, 0]
        assert sound(stores[0])


def life(store: Store, on: str, number: int) -> str:
    """Volumes and ports that come, grow and go, while limits go up and down."""
    outcome = ""
    for turn in range(4):
        server = f"s{number}-{turn}"
        try:
            disk = store.write_now(begin, 2, f"m{server}")
            store.write_now(volume.complete, disk, "file", {})
            store.write_now(volume.attach, disk, server, "/dev/vdb", "rw", f"m{server}")
            store.write_now(volume.detach, disk, server, False)
            store.write_now(ports.plug, "p1", server, [{"uuid": on}])
            store.write_now(volume_changes.write_size, OURS, disk, 3)
            outcome += "+"
        except Refused:
            outcome += "-"
        limit(store, gigabytes=6 + turn, port=2 + turn, volumes=3 + number % 2)
        store.write_now(ports.unplug, server)
        store.write_now(volume.undo_begin, "p1", f"m{server}", "disk", server)
    return outcome


def test_lives_on_eight_threads_leave_nothing_counted(database_url: str) -> None:
    with processes(database_url) as stores:
        on = stores[0].write_now(a_network)
        limit(stores[0], gigabytes=7, port=3)
        results = race([lambda n=n: life(stores[n % 4], on, n) for n in range(8)])  # type: ignore[misc]
        assert all(isinstance(each, str) for each in results), results
        assert used(stores[0], "volumes", "gigabytes", "port") == [0, 0, 0]
        assert sound(stores[0])


def test_of_growths_that_race_the_project_pays_for_what_came_of_them(database_url: str) -> None:
    with processes(database_url) as stores:
        disk = stores[0].write_now(begin, 1)
        stores[0].write_now(volume.complete, disk, "file", {})
        limit(stores[0], gigabytes=4)
        results = race(
            [writing(stores[n % 4], volume_changes.write_size, OURS, disk, n) for n in (2, 3, 4, 5, 6)]
        )
        for each in results:
            assert each is None or isinstance(each, Malformed | OverQuota), each
        row = stores[0].read_now(volume.volume_row, disk)
        assert used(stores[0], "gigabytes") == [row.size]
        assert 2 <= row.size <= 4


# -- The constraint -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE companion_quota SET used = used + 2 WHERE resource = 'volumes'",
        "UPDATE companion_quota SET used = -1 WHERE resource = 'volumes'",
        "INSERT INTO companion_quota (project_id, resource, used, ceiling, maximum)"
        " VALUES ('p1', 'port', 6, 5, 5)",
    ],
)
def test_not_even_by_hand_is_more_counted_than_may_be(store: Store, statement: str) -> None:
    limit(store, volumes=2)
    store.write_now(begin, 1)
    with pytest.raises(IntegrityError):
        store.write_now(lambda tx: tx.execute(text(statement)))
    assert used(store, "volumes") == [1]


def test_a_wrong_count_is_found(store: Store) -> None:
    store.write_now(begin, 2)
    assert sound(store)
    more = "UPDATE companion_quota SET used = used + 1 WHERE resource = 'gigabytes'"
    store.write_now(lambda tx: tx.execute(text(more)))
    assert store.read_now(quotas.miscounted) == [("p1", "gigabytes", 3, 2)]
    (violation,) = store.read_now(quotas.audit)
    assert (violation.promise, violation.says) == (
        "Q1",
        "project p1 counts 3 gigabytes as used, it has 2",
    )
    store.write_now(lambda tx: tx.execute(text("DELETE FROM companion_quota")))
    assert store.read_now(quotas.miscounted) == [("p1", "gigabytes", 0, 2), ("p1", "volumes", 0, 1)]


# -- Limits -------------------------------------------------------------------------------


def test_a_limit_below_the_use_takes_nothing_and_stops_growth(store: Store) -> None:
    mine = [store.write_now(begin, 1) for _ in range(3)]
    limit(store, volumes=1)
    for disk in mine:
        with pytest.raises(OverQuota, match=r"Maximum number of volumes allowed \(1\) exceeded"):
            store.write_now(begin, 1)
        store.write_now(volume.drop, disk)
    assert used(store, "volumes", "gigabytes") == [0, 0]
    store.write_now(begin, 1)
    with pytest.raises(OverQuota):
        store.write_now(begin, 1)


def test_without_a_limit_there_is_none_and_the_default_comes_back(store: Store) -> None:
    limit(store, gigabytes=-1)
    store.write_now(begin, 65536)
    store.write_now(begin, 65536)
    assert store.read_now(quotas.of, "p1", ["gigabytes"]) == {"gigabytes": Usage(2 * 65536, -1)}
    store.write_now(quotas.reset_limits, "p1", ["gigabytes"])
    assert store.read_now(quotas.of, "p1", ["gigabytes"])["gigabytes"].limit == 100_000
    with pytest.raises(OverQuota, match="Requested 1G, quota is 100000G and 131072G has been consumed"):
        store.write_now(begin, 1)


@pytest.mark.parametrize(
    ("resource", "most"),
    [
        ("volumes", 1000),
        ("snapshots", 1000),
        ("gigabytes", 100_000),
        ("network", 100),
        ("subnet", 100),
        ("port", 5000),
    ],
)
def test_a_project_for_which_nobody_has_set_a_limit_has_the_default(
    store: Store, resource: str, most: int
) -> None:
    assert store.read_now(quotas.of, "new", [resource]) == {resource: Usage(0, most)}
    store.write_now(lambda tx: quotas.charge(tx, "new", **{resource: most}))
    with pytest.raises(OverQuota):
        store.write_now(lambda tx: quotas.charge(tx, "new", **{resource: 1}))
    assert store.read_now(quotas.of, "new", [resource]) == {resource: Usage(most, most)}


def test_what_is_limited_by_default_and_what_is_not_is_said(cloud: Cloud) -> None:
    volumes, networks = paths(project_of(cloud, ann := cloud.tenant("ann")))
    of_volumes = {"volumes": 1000, "snapshots": 1000, "gigabytes": 100_000, "per_volume_gigabytes": -1}
    of_volumes |= {"backups": -1, "backup_gigabytes": -1, "groups": -1}
    of_networks = {"network": 100, "subnet": 100, "port": 5000, "floatingip": -1, "rbac_policy": -1}
    of_networks |= {"router": -1, "security_group": -1, "security_group_rule": -1, "subnetpool": -1}
    for path in (volumes, f"{volumes}/defaults"):
        said = cloud.ask("GET", path, ann).json()["quota_set"]
        assert {name: said[name] for name in said if name != "id"} == of_volumes
    for path in (networks, f"{networks}/default"):
        said = cloud.ask("GET", path, ann).json()["quota"]
        assert {name: said[name] for name in said if name != "project_id"} == of_networks


def test_the_defaults_are_settings_for_whoever_makes_something(tmp_path: Path) -> None:
    few = Settings(
        quota_volumes=2,
        quota_snapshots=0,
        quota_gigabytes=3,
        quota_per_volume_gigabytes=2,
        quota_network=1,
        quota_subnet=1,
        quota_port=2,
    )
    cloud = Cloud(tmp_path, settings=few)
    ann, admin = cloud.tenant("ann"), cloud.log_in()
    project = project_of(cloud, ann)
    volumes, networks = paths(project)
    of_volumes = {"volumes": 2, "snapshots": 0, "gigabytes": 3, "per_volume_gigabytes": 2, "backups": -1}
    of_networks = {"network": 1, "subnet": 1, "port": 2, "router": -1}
    for path, noun, most in (
        (volumes, "quota_set", of_volumes),
        (f"{volumes}/defaults", "quota_set", of_volumes),
        (networks, "quota", of_networks),
        (f"{networks}/default", "quota", of_networks),
    ):
        assert cloud.ask("GET", path, ann).json()[noun].items() >= most.items()

    def made(path: str, noun: str, **wish: Any) -> tuple[int, Any]:
        answer = cloud.ask("POST", path, ann, json={noun: wish})
        return answer.status_code, answer.json()

    assert made("/volume/v3/volumes", "volume", size=3)[0] == 413
    disks = [made("/volume/v3/volumes", "volume", size=size) for size in (1, 1, 1)]
    assert [status for status, _ in disks] == [202, 202, 413]
    first = disks[0][1]["volume"]["id"]
    assert made("/volume/v3/snapshots", "snapshot", volume_id=first)[0] == 413
    with pytest.raises(OverQuota, match="Maximum number of volumes allowed"):
        asyncio.run(cloud.four.volumes.create(project, "m", name="root", size=1))

    status, answer = made("/network/v2.0/networks", "network", name="n")
    on = answer["network"]["id"]
    assert (status, made("/network/v2.0/networks", "network", name="m")[0]) == (201, 409)
    subnets = [
        made("/network/v2.0/subnets", "subnet", network_id=on, cidr=cidr, ip_version=4)[0]
        for cidr in ("10.0.0.0/24", "10.0.1.0/24")
    ]
    assert subnets == [201, 409]
    assert made("/network/v2.0/ports", "port", network_id=on)[0] == 201
    with pytest.raises(OverQuota, match="'port'"):
        asyncio.run(cloud.four.networks.plug(project, "s", "m", [{"uuid": on}, {"uuid": on}]))

    assert cloud.ask("PUT", networks, admin, json={"quota": {"port": 9}}).status_code == 200
    assert cloud.ask("DELETE", networks, admin).status_code == 204
    assert cloud.ask("GET", networks, ann).json()["quota"]["port"] == 2
    assert sound(cloud.store)
    cloud.store.close()


def test_a_default_that_is_no_limit_stops_the_start() -> None:
    with pytest.raises(AssertionError, match="quota_port"):
        Settings(quota_port=-2)


def filled(four: Companions, size: int) -> Row[Any]:
    """A volume that a user made."""
    begun = four.store.write_now(volume.begin, "p1", None, {"name": "disk", "size": size})
    asyncio.run(four.volumes.fill(begun))
    return four.store.read_now(volume.volume_row, begun.id)


def test_one_volume_may_be_as_large_as_the_project_lets_it(four: Companions) -> None:
    store = four.store
    limit(store, per_volume_gigabytes=2)
    made = filled(four, 2)
    with pytest.raises(OverQuota, match="3G is larger than maximum allowed limit 2G"):
        asyncio.run(four.volumes.create("p1", "m", name="more", size=3))
    with pytest.raises(OverQuota, match="larger than maximum allowed limit 2G"):
        asyncio.run(volume_changes.extend(four.volumes, OURS, made.id, 3))
    assert used(store, "volumes", "gigabytes") == [1, 2]


def test_a_refused_growth_leaves_the_volume_and_its_copies_as_they_were(four: Companions) -> None:
    store = four.store
    made = filled(four, 1)
    limit(store, gigabytes=5)
    # As after a refusal that came when the file had grown already.
    four.volumes.files.grow(made.file, 9 * volume.GIB)
    with pytest.raises(OverQuota):
        store.write_now(volume_changes.write_size, OURS, made.id, 9)
    assert store.read_now(volume.volume_row, made.id).size == 1
    copy = store.write_now(volume.begin, "p1", None, {"name": "copy", "size": 1, "source_id": made.id})
    asyncio.run(four.volumes.fill(copy))
    copied = store.read_now(volume.volume_row, copy.id)
    assert four.volumes.path(copied).stat().st_size == 1 << 30


def test_undone_and_repeated_calls_give_back_what_was_taken_and_no_more(four: Companions) -> None:
    on = four.store.write_now(a_network)
    wish: dict[str, Any] = {"name": "root", "size": 2}
    for _ in range(2):
        asyncio.run(four.volumes.create("p1", "m1", **wish))
        asyncio.run(four.networks.plug("p1", "s1", "m1", [{"uuid": on}]))
    assert used(four.store, "volumes", "gigabytes", "port") == [1, 2, 1]
    for _ in range(2):
        asyncio.run(four.volumes.undo_create("p1", "m1", name="root", server_id="s1"))
        asyncio.run(four.volumes.undo_create("p1", "never", name="root", server_id="s1"))
        asyncio.run(four.networks.unplug("s1"))
        asyncio.run(four.networks.unplug("never"))
    assert used(four.store, "volumes", "gigabytes", "port") == [0, 0, 0]
    assert sound(four.store)


def test_a_lent_port_stays_counted_with_its_owner(four: Companions) -> None:
    on = four.store.write_now(a_network)
    port = four.store.write_now(lambda tx: ports.make_port(tx, "p1", on))
    limit(four.store, port=1)
    asyncio.run(four.networks.plug("p1", "s1", "m", [{"port": port}]))
    asyncio.run(four.networks.unplug("s1"))
    assert used(four.store, "port") == [1]
    with pytest.raises(OverQuota, match=r"Quota exceeded for resources: \['port'\]"):
        asyncio.run(four.networks.plug("p1", "s2", "m", [{"uuid": on}]))
    assert used(four.store, "port") == [1]


def test_a_port_on_a_shared_network_counts_with_its_own_project(store: Store) -> None:
    on = store.write_now(a_network, True)
    limit(store, port=0)
    store.write_now(ports.plug, "p2", "s1", [{"uuid": on}])
    assert store.read_now(quotas.of, "p2", ["port"])["port"].used == 1
    assert used(store, "port") == [0]


# -- What was there before ----------------------------------------------------------------


def test_an_upgrade_counts_what_is_there(bare_url: str) -> None:
    before = (
        "INSERT INTO volume (id, project_id, status, size, file, created_at, updated_at) VALUES"
        " ('v1', 'p1', 'available', 2, 'f', 0, 0), ('v2', 'p1', 'in-use', 3, 'g', 0, 0),"
        " ('v3', 'p1', 'deleted', 9, NULL, 0, 0), ('v4', 'p2', 'error', 200000, NULL, 0, 0)",
        "INSERT INTO network (id, project_id, created_at, updated_at) VALUES ('n', 'p1', 0, 0)",
        "INSERT INTO network_port (id, network_id, project_id, mac_address, created_at, updated_at) VALUES"
        " ('t1', 'n', 'p1', 'a', 0, 0), ('t2', 'n', 'p2', 'b', 0, 0)",
    )
    to_revision(bare_url, "0005", before)
    upgrade(bare_url)
    store = Store(bare_url)
    assert sound(store)
    assert store.read_now(quotas.of, "p1", ["volumes", "gigabytes", "port"]) == {
        "volumes": Usage(2, 1000),
        "gigabytes": Usage(5, 100_000),
        "port": Usage(1, 5000),
    }
    assert store.read_now(quotas.of, "p2", ["gigabytes"]) == {"gigabytes": Usage(200_000, 100_000)}
    store.close()


def to_revision(url: str, revision: str, statements: tuple[str, ...]) -> None:
    engine = engine_for(url)

    def run(connection: Connection) -> None:
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for statement in statements:
            connection.execute(text(statement))

    with engine.begin() as connection:
        run(connection)
    engine.dispose()


# -- Over HTTP ----------------------------------------------------------------------------


def project_of(cloud: Cloud, token: str) -> str:
    return asyncio.run(cloud.four.identity.who(token)).project_id


def test_limits_of_volumes_are_an_administrators_and_too_many_are_413(cloud: Cloud) -> None:
    ann, admin = cloud.tenant("ann"), cloud.log_in()
    path = f"/volume/v3/os-quota-sets/{project_of(cloud, ann)}"
    assert cloud.ask("GET", path, ann).json()["quota_set"]["volumes"] == 1000
    assert cloud.ask("PUT", path, ann, json={"quota_set": {"volumes": 9}}).status_code == 403
    assert cloud.ask("DELETE", path, ann).status_code == 403
    changed = cloud.ask("PUT", path, admin, json={"quota_set": {"volumes": 1, "gigabytes": 3}})
    assert (changed.status_code, changed.json()["quota_set"]["gigabytes"]) == (200, 3)

    body = {"volume": {"size": 2, "name": "v"}}
    assert cloud.ask("POST", "/volume/v3/volumes", ann, json=body).status_code == 202
    refused = cloud.ask("POST", "/volume/v3/volumes", ann, json=body)
    assert (refused.status_code, refused.headers["retry-after"]) == (413, "0")
    assert "exceeds allowed gigabytes quota" in refused.json()["overLimit"]["message"]
    assert len(cloud.ask("GET", "/volume/v3/volumes", ann).json()["volumes"]) == 1

    usage = cloud.ask("GET", f"{path}?usage=True", ann).json()["quota_set"]
    assert usage["gigabytes"] == {"limit": 3, "in_use": 2, "reserved": 0, "allocated": 0}
    absolute = cloud.ask("GET", "/volume/v3/limits", ann).json()["limits"]["absolute"]
    assert (absolute["maxTotalVolumes"], absolute["totalVolumesUsed"]) == (1, 1)
    assert (absolute["maxTotalVolumeGigabytes"], absolute["totalGigabytesUsed"]) == (3, 2)
    assert cloud.ask("GET", f"{path}/defaults", ann).json()["quota_set"]["volumes"] == 1000
    assert cloud.ask("DELETE", path, admin).status_code == 200
    assert cloud.ask("GET", path, ann).json()["quota_set"]["gigabytes"] == 100_000


def test_limits_of_networks_are_an_administrators_and_too_many_are_409(cloud: Cloud) -> None:
    ann, admin = cloud.tenant("ann"), cloud.log_in()
    path = f"/network/v2.0/quotas/{project_of(cloud, ann)}"
    assert cloud.ask("PUT", path, ann, json={"quota": {"network": 9}}).status_code == 403
    assert cloud.ask("DELETE", path, ann).status_code == 403
    changed = cloud.ask("PUT", path, admin, json={"quota": {"network": 1, "port": 0}})
    assert (changed.status_code, changed.json()["quota"]["network"]) == (200, 1)

    made = cloud.ask("POST", "/network/v2.0/networks", ann, json={"network": {"name": "n"}}).json()["network"]
    for noun, body, used in (
        ("network", {"network": {"name": "m"}}, "1 of 1"),
        ("port", {"port": {"network_id": made["id"]}}, "0 of 0"),
    ):
        refused = cloud.ask("POST", f"/network/v2.0/{noun}s", ann, json=body)
        assert refused.status_code == 409
        said = f"Quota exceeded for resources: ['{noun}']: {used} are in use, and 1 more asked for."
        assert refused.json()["NeutronError"] == {"type": "OverQuota", "message": said, "detail": ""}
    for end in ("/details", "/details.json"):
        assert cloud.ask("GET", path + end, ann).json()["quota"]["network"] == {
            **{"limit": 1, "used": 1, "reserved": 0}
        }
    below = {"quota": {"network": 0, "check_limit": True}}
    assert cloud.ask("PUT", path, admin, json=below).status_code == 400
    assert cloud.ask("DELETE", f"/network/v2.0/networks/{made['id']}", ann).status_code == 204
    assert cloud.ask("PUT", path, admin, json=below).status_code == 200
    assert cloud.ask("DELETE", path, admin).status_code == 204
    assert cloud.ask("GET", path, ann).json()["quota"]["network"] == 100
    assert cloud.ask("GET", f"{path}/default", ann).json()["quota"]["port"] == 5000


def paths(project: str) -> tuple[str, str]:
    return f"/volume/v3/os-quota-sets/{project}", f"/network/v2.0/quotas/{project}"


def test_what_is_no_limit_is_refused(cloud: Cloud) -> None:
    admin = cloud.log_in()
    volumes, networks = paths(project_of(cloud, admin))
    wrongs: list[Any] = [-2, 2**31, True, "7", 1.5, None, [], {}]
    for wrong in wrongs:
        body = {"quota_set": {"volumes": wrong}}
        assert cloud.ask("PUT", volumes, admin, json=body).status_code == 400, wrong
        body = {"quota": {"port": wrong}}
        assert cloud.ask("PUT", networks, admin, json=body).status_code == 400, wrong
    for path, body in (
        (volumes, {"quota_set": {"turnips": 1}}),
        (networks, {"quota": {"turnips": 1}}),
    ):
        refused = cloud.ask("PUT", path, admin, json=body)
        assert refused.status_code == 400
        assert "turnips" in refused.text


def test_a_project_that_there_is_not_has_no_quota(cloud: Cloud) -> None:
    admin, bob = cloud.log_in(), cloud.tenant("bob")
    for nobody in ("d" * 32, "anything"):
        volumes, networks = paths(nobody)
        for asked in (
            *(cloud.ask("GET", path, admin) for path in (volumes, f"{volumes}/defaults", networks)),
            *(cloud.ask("GET", networks + end, admin) for end in ("/default", "/details", "/details.json")),
            cloud.ask("PUT", volumes, admin, json={"quota_set": {"volumes": 5}}),
            cloud.ask("PUT", networks, admin, json={"quota": {"port": 5}}),
        ):
            assert asked.status_code == 400
            assert f"there is no project {nobody}" in asked.text
        # What is left of one that was removed.
        assert cloud.ask("DELETE", volumes, admin).status_code == 200
        assert cloud.ask("DELETE", networks, admin).status_code == 204
        # T1: who may not ask for others is told the same of every other project.
        for method, path in (("GET", volumes), ("GET", networks), ("PUT", volumes), ("PUT", networks)):
            assert cloud.ask(method, path, bob, json={}).status_code == 403
        assert cloud.ask("GET", f"{volumes}/defaults", bob).status_code == 200
    stored = cloud.store.read_now(lambda tx: tx.execute(select(companion_quota.c.project_id)).scalars().all())
    assert not {"d" * 32, "anything"} & set(stored)


def test_nobody_sees_the_quota_of_another_project(cloud: Cloud) -> None:
    ann, bob = cloud.tenant("ann"), cloud.tenant("bob")
    project = project_of(cloud, ann)
    for path in (
        f"/volume/v3/os-quota-sets/{project}",
        f"/network/v2.0/quotas/{project}",
        f"/network/v2.0/quotas/{project}/details",
        f"/network/v2.0/quotas/{project}/default",
    ):
        assert cloud.ask("GET", path, bob).status_code == 403


def test_no_limit_is_a_number_beyond_reach(store: Store) -> None:
    limit(store, port=-1)
    kept = "SELECT maximum FROM companion_quota WHERE resource = 'port'"
    assert store.read_now(lambda tx: tx.execute(text(kept)).scalar_one()) == NO_LIMIT
