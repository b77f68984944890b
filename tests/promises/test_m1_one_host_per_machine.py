"""M1: a machine is one host, whatever name its agent is started under, and however many at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from alembic import command
from sqlalchemy import text

from berthold import database
from berthold.database import upgrade
from berthold.errors import Refused
from berthold.lab import engines
from berthold.ledger import hosts, schema
from berthold.ledger.audit import audit
from berthold.ledger.store import Store, Tx
from ledger_world import add_server, claim
from races import race, writing

OFFER: dict[str, Any] = {name: {"total": total} for name, total in (("VCPU", 4), ("MEMORY_MB", 4096))}


def register(tx: Tx, name: str, key: str = "machine") -> hosts.Locked:
    return hosts.register(tx, name=name, key=key, offers=OFFER)


def keys(store: Store) -> dict[str, str]:
    columns = schema.host.c.name, schema.host.c.agent_key
    return store.read_now(lambda tx: dict(tx.execute(schema.host.select().with_only_columns(*columns)).all()))


def test_a_machine_without_servers_may_have_another_name_and_its_former_agent_is_fenced(store: Store) -> None:
    first = store.write_now(register, "old")
    store.write_now(register, "new")
    assert keys(store)["new"] == "machine" != keys(store)["old"]
    with pytest.raises(Refused, match="epoch"):
        store.write_now(hosts.lock, first.id, epoch=first.epoch)


def test_it_may_go_back_to_its_former_name(store: Store) -> None:
    first = store.write_now(register, "old")
    store.write_now(register, "new")
    again = store.write_now(register, "old")
    assert (again.id, again.epoch) == (first.id, first.epoch + 2)
    assert keys(store)["old"] == "machine" != keys(store)["new"]


def test_with_servers_it_keeps_its_name(store: Store) -> None:
    old = store.write_now(register, "old")
    store.write_now(add_server, "s")
    store.write_now(claim, "s", old.id)
    with pytest.raises(Refused, match="registered as old"):
        store.write_now(register, "new")
    assert keys(store) == {"old": "machine"}


def test_of_many_names_at_once_one_is_the_machine(store: Store) -> None:
    names = [f"name-{number}" for number in range(6)]
    results = race([writing(store, register, name) for name in names])
    assert [each for each in results if isinstance(each, Exception)] == []
    assert sorted(keys(store).values()).count("machine") == 1
    assert [each for each in store.read_now(audit) if each.promise == "M1"] == []


# As it was written at that revision.
CLAIM = """
    INSERT INTO claim (id, server_id, host_id, host_epoch, role, rule)
    VALUES ('c', 's', :host, 0, 'home', 'none')"""


def test_an_upgrade_leaves_each_machine_the_name_that_has_its_servers(bare_url: str) -> None:
    with engines.connected(bare_url) as connection:
        config = database.migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "0010")
        connection.commit()
    store = Store(bare_url)
    old = store.write_now(register, "old")
    store.write_now(add_server, "s")
    store.write_now(lambda tx: tx.execute(text(CLAIM), {"host": old.id}))
    store.write_now(partial(register, key="another"), "new")
    store.write_now(lambda tx: tx.execute(text("UPDATE host SET agent_key = 'machine'")))
    upgrade(bare_url)
    assert keys(store)["old"] == "machine" != keys(store)["new"]
    store.close()
