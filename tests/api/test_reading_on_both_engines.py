"""The read side asks the same of SQLite and PostgreSQL: filters, orders, pages, and no NUL."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from berthold.errors import Malformed, NotFound
from berthold.ledger import claims, groups, hosts, moves, quotas, reading, servers
from berthold.ledger.reading import MigrationsWanted, Row, ServersWanted
from berthold.ledger.store import Store, Tx
from berthold.moves import explain, explain_group, explain_move
from berthold.moves.watch import Watch
from berthold.records import aggregates, flavors, keypairs, timeline
from berthold.settings import Settings

FLAVOR = {"id": "100", "name": "small", "vcpus": 1, "ram": 512, "disk": 0, "extra_specs": {}}
OFFERS = {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 65536}}


def furnish(tx: Tx) -> dict[str, str]:
    """Two hosts; a, b and c of one group and project, d of another; a and b live on n1 and n2."""
    ids = {name: hosts.register(tx, name=name, key=name, offers=OFFERS).id for name in ("n1", "n2")}
    for project in ("p", "q"):
        quotas.ensure_project(tx, project, Settings())
    ids["group"] = groups.create(
        tx, project_id="p", user_id="u", name="g", policy="anti-affinity", rules={}, members_max=10
    )
    for name, project in (("a", "p"), ("b", "p"), ("c", "p"), ("d", "q")):
        ids[name] = servers.create(
            tx,
            project_id=project,
            group_id=ids["group"] if project == "p" else None,
            flavor=FLAVOR,
            name=f"web_{name}%",
            user_id="u",
        )
    for name, host in (("a", "n1"), ("b", "n2")):
        claims.take(tx, [claims.Want(ids[name], ids[host], {"VCPU": 1, "MEMORY_MB": 512}, role="home")])
        servers.change(tx, ids[name], condition="active")
    ids["move"] = moves.begin(
        tx,
        server_id=ids["a"],
        kind="live-migration",
        playbook="live-migration",
        wish={"host": None},
        request_id="req-1",
        user_id="u",
        project_id="p",
        source_id=ids["n1"],
    )
    return ids


def names(rows: list[Row]) -> list[str]:
    return [row["name"][4] for row in rows]


def test_servers_come_with_home_and_move_in_one_statement(store: Store) -> None:
    ids = store.write_now(furnish)
    statements: list[str] = []

    @event.listens_for(store.reader, "before_cursor_execute")
    def count(conn: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    rows = store.read_now(reading.servers, ServersWanted("p"), sort=[("display_name", False)], limit=10)
    assert len([each for each in statements if "FROM server" in each]) == 1
    assert names(rows) == ["a", "b", "c"]
    assert [row["host"] and row["host"]["name"] for row in rows] == ["n1", "n2", None]
    assert [row["move"] and row["move"]["id"] for row in rows] == [ids["move"], None, None]
    one = store.read_now(reading.server_of, ids["a"], "p")
    assert (one["host"]["id"], one["flavor"], one["rule"]) == (ids["n1"], FLAVOR, "anti-affinity")


def test_every_sort_key_makes_pages_without_gap_or_overlap(store: Store) -> None:
    store.write_now(furnish)
    for key in reading.SORT_KEYS:
        for down in (True, False):
            seen: list[str] = []
            marker = None
            while page := store.read_now(
                reading.servers, ServersWanted(), sort=[(key, down)], limit=1, marker=marker
            ):
                marker = page[-1]["id"]
                seen += names(page)
            assert sorted(seen) == ["a", "b", "c", "d"], (key, down)


def test_servers_are_filtered_in_sql(store: Store) -> None:
    ids = store.write_now(furnish)

    def found(**wanted: object) -> list[str]:
        return sorted(names(store.read_now(reading.servers, ServersWanted(**wanted), limit=10)))  # type: ignore[arg-type]

    assert found() == ["a", "b", "c", "d"]
    assert found(project_id="q") == ["d"]
    assert found(host="n2") == ["b"]
    assert found(flavor_id="100", project_id="p") == ["a", "b", "c"]
    assert found(flavor_id="101") == []
    assert found(name_like=r"WEB\_a\%") == ["a"]
    assert found(name_like="%b%") == ["a", "b", "c", "d"]
    assert found(name_like=r"%\_b%") == ["b"]
    assert found(equal={"id": ids["c"]}) == ["c"]
    assert found(deleted=True) == []
    assert found(changed_since=0.0, deleted=None) == ["a", "b", "c", "d"]
    assert found(judge=lambda row: row["move"] is not None) == ["a"]


def test_what_is_another_project_s_is_not_found(store: Store) -> None:
    ids = store.write_now(furnish)
    with pytest.raises(NotFound, match=f"Instance {ids['a']} could not be found"):
        store.read_now(reading.server_of, ids["a"], "q")
    with pytest.raises(NotFound, match=f"Instance group {ids['group']} could not be found"):
        store.read_now(reading.group, ids["group"], "q")
    with pytest.raises(Malformed, match="marker"):
        store.read_now(reading.servers, ServersWanted("q"), limit=1, marker=ids["a"])
    assert store.read_now(reading.group, ids["group"], "p")["member_ids"] == [ids["a"], ids["b"], ids["c"]]
    assert store.read_now(reading.groups, project_id="q", limit=10) == []
    assert store.read_now(reading.migrations, MigrationsWanted(server_project_id="q"), limit=10) == []


def test_migrations_and_hosts_tell_who_is_where(store: Store) -> None:
    ids = store.write_now(furnish)
    (row,) = store.read_now(reading.migrations, MigrationsWanted(host="n1", unfinished=True), limit=10)
    assert (row["source"]["name"], row["target"], row["id"]) == ("n1", None, ids["move"])
    assert store.read_now(reading.migrations, MigrationsWanted(host="n2"), limit=10) == []
    judged = MigrationsWanted(judge=lambda each: each["kind"] == "resize")
    assert store.read_now(reading.migrations, judged, limit=10) == []
    with pytest.raises(Malformed):
        store.read_now(reading.migrations, MigrationsWanted(), limit=1, marker="nobody")
    first, second = store.read_now(reading.hosts)
    assert (first["name"], first["guests"], first["inventory"]["VCPU"]["used"]) == ("n1", 1, 1)
    assert second["heard_at"] is not None
    on = store.read_now(reading.servers_on, [ids["n1"]])
    assert [each["id"] for each in on[ids["n1"]]] == [ids["a"]]
    assert store.read_now(reading.project, "p") is not None
    assert store.read_now(timeline.actions, ids["a"], limit=5, changed_since=0.0) == []


def test_records_keep_their_names_apart(store: Store) -> None:
    made = store.write_now(flavors.create, name="f", vcpus=1, ram=1, disk=0, rxtx_factor="1.0")
    store.write_now(flavors.add_specs, made["id"], {"a": "1"})
    (listed,) = store.read_now(flavors.page, project_id="p", is_public=True, limit=5)
    assert listed["extra_specs"] == {"a": "1"}
    for key in flavors.SORT_KEYS:
        page = store.read_now(flavors.page, project_id=None, is_public=None, limit=5, sort=(key, True))
        assert [each["id"] for each in page] == [made["id"]]
        after = store.read_now(
            flavors.page, project_id=None, is_public=None, limit=5, sort=(key, True), marker=made["id"]
        )
        assert after == []
    key_of = {"type": "ssh", "public_key": "k", "fingerprint": "f"}
    store.write_now(keypairs.create, user_id="u", name="k", **key_of)
    assert [each["name"] for each in store.read_now(keypairs.page, "u", limit=5)] == ["k"]
    aggregate = store.write_now(aggregates.create, "a", "london")
    store.write_now(aggregates.add_host, str(aggregate["number"]), "n1")
    assert store.read_now(aggregates.zones) == {"n1": "london"}
    assert store.read_now(aggregates.get, aggregate["id"])["hosts"] == ["n1"]
    with pytest.raises(NotFound):
        store.read_now(aggregates.get, "nobody")


def test_explanations_say_the_same(store: Store) -> None:
    ids = store.write_now(furnish)
    watch = Watch(store, 1e9)

    def asked(tx: Tx) -> explain.Asked:
        return explain.scene_of_server(tx, reading.server_of(tx, ids["a"], "p"))

    look = store.read_now(explain.look, store.read_now(asked), Settings(), watch)
    told = {host.host: [each.filter for each in host.against] for host in look.hosts}
    assert told == {"n1": ["source host"], "n2": ["group"]}
    (against,) = look.hosts[1].against
    assert [each.id for each in against.members] == [ids["b"]]
    group = store.read_now(reading.group, ids["group"], "p")
    said = store.read_now(explain_group.said, group)
    assert [(domain.host, [each.id for each in domain.holders]) for domain in said.domains] == [
        ("n1", [ids["a"]]),
        ("n2", [ids["b"]]),
    ]
    assert said.nowhere == (ids["c"],)
    row, server = store.read_now(explain_move.move_of, ids["move"], "p")
    assert "it looks for a host" in store.read_now(explain_move.said, row, server, Settings()).says
    with pytest.raises(NotFound):
        store.read_now(explain_move.move_of, ids["move"], "q")
