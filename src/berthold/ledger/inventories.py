"""What hosts offer, and the counters that keep C1.

Placement's model: a provider has an inventory per resource class with total, reserved,
smallest and largest request, step and allocation ratio; what may be claimed is
`floor((total - reserved) * allocation_ratio)`. A claim raises `used` by a guarded update;
the CHECK `c1_capacity` judges even whoever forgets the guard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import BigInteger, bindparam, case, delete, select, update

from berthold.errors import Refused
from berthold.ledger import history, schema
from berthold.ledger.prepared import Prepared
from berthold.ledger.store import Tx, announce, greatest, insert

inventory = schema.inventory
provider = schema.provider
c = inventory.c
wanted = bindparam("amount", type_=BigInteger)
one_class = (c.provider_id == bindparam("host"), c["class"] == bindparam("of"))

# C1's guard: what is taken fits, in size and step.
USE = Prepared(
    update(inventory)
    .where(
        *one_class,
        c.used + wanted <= c.capacity,
        c.min_unit <= wanted,
        c.max_unit >= wanted,
        wanted % c.step_size == 0,
    )
    .values(used=c.used + wanted)
)
GIVE_BACK = Prepared(
    update(inventory)
    .where(*one_class)
    .values(
        used=c.used - wanted,
        ceiling=case((c.used - wanted > c.capacity, c.used - wanted), else_=c.capacity),
    )
)
RAISE_GENERATION = Prepared(
    update(provider).where(provider.c.id == bindparam("host")).values(generation=provider.c.generation + 1)
)
FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def make_provider(tx: Tx, provider_id: str, name: str) -> None:
    """A new root provider."""
    tx.execute(schema.provider.insert().values(id=provider_id, name=name, root_id=provider_id))


def remove_provider(tx: Tx, provider_id: str) -> None:
    """A root provider is gone, with all that it offered. The caller has made sure that nothing is claimed."""
    history.record(tx, "offered", host_id=provider_id, amounts={})
    raise_generation(tx, provider_id)
    for table in (schema.provider_trait, inventory):
        tx.execute(delete(table).where(table.c.provider_id == provider_id))
    tx.execute(delete(provider).where(provider.c.id == provider_id))


def set_inventory(tx: Tx, host_id: str, offers: Mapping[str, Mapping[str, float]]) -> None:
    """What the host offers from now on. The caller holds the host's lock.

    An inventory may shrink below its use: then it grants nothing until enough is released.
    A class that is no longer offered shrinks to nothing, or goes if nothing is claimed of it.
    """
    standing = {row["class"]: row for row in of_host(tx, host_id)}
    for name in sorted(set(standing) | set(offers)):
        if name not in offers:
            _withdraw(tx, host_id, name, standing[name]["used"])
            continue
        values = _with_defaults(offers[name])
        # CHECKs judge the row to insert too, even where it turns out to be an update.
        values["ceiling"] = values["capacity"]
        statement = insert(tx, inventory).values({"provider_id": host_id, "class": name, "used": 0, **values})
        values["ceiling"] = greatest(tx, values["capacity"], inventory.c.used)
        tx.execute(statement.on_conflict_do_update(index_elements=["provider_id", "class"], set_=values))
    capacities = {row["class"]: row["capacity"] for row in of_host(tx, host_id)}
    if capacities != {name: row["capacity"] for name, row in standing.items()}:
        history.record(tx, "offered", host_id=host_id, amounts=capacities)
    raise_generation(tx, host_id)


def of_host(tx: Tx, host_id: str) -> list[Mapping[str, Any]]:
    """The inventories of a host, by class."""
    rows = tx.execute(
        select(inventory).where(inventory.c.provider_id == host_id).order_by(inventory.c["class"])
    )
    return [dict(row) for row in rows.mappings()]


def set_traits(tx: Tx, host_id: str, traits: Iterable[str]) -> None:
    """The host's traits from now on. The caller holds the host's lock."""
    table = schema.provider_trait
    wanted = set(traits)
    standing = set(tx.execute(select(table.c.trait).where(table.c.provider_id == host_id)).scalars())
    if gone := standing - wanted:
        tx.execute(delete(table).where(table.c.provider_id == host_id, table.c.trait.in_(sorted(gone))))
    for trait in sorted(wanted - standing):
        tx.execute(table.insert().values(provider_id=host_id, trait=trait))
    if wanted != standing:
        raise_generation(tx, host_id)


def raise_generation(tx: Tx, host_id: str) -> None:
    """Something has changed that a scheduler sees of the host. The caller holds the host's lock, so
    that of two looks at a host the one at the higher generation is the later one."""
    RAISE_GENERATION.change(tx, {"host": host_id})
    announce(tx, f"host:{host_id}")


def use(tx: Tx, host_id: str, wants: Mapping[str, int]) -> None:
    """Take `wants` from the host, under its lock. Raises `Refused` C1 for what it has not got."""
    for name, amount in sorted(wants.items()):
        if USE.change(tx, {"host": host_id, "of": name, "amount": amount}) != 1:
            raise Refused("C1", _why_not(tx, host_id, name, amount))


def give_back(tx: Tx, host_id: str, amounts: Mapping[str, int]) -> None:
    """Return what a claim held, under the host's lock."""
    for name, amount in sorted(amounts.items()):
        GIVE_BACK.change(tx, {"host": host_id, "of": name, "amount": amount})


def capacity_of(offer: Mapping[str, float]) -> int:
    """How much of an inventory may be claimed (Placement's formula)."""
    return math.floor((offer["total"] - offer["reserved"]) * offer["allocation_ratio"])


def _with_defaults(offer: Mapping[str, float]) -> dict[str, Any]:
    total = offer["total"]
    full = {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": max(total, 1),
        "step_size": 1,
        "allocation_ratio": 1.0,
        **{name: offer[name] for name in FIELDS if name in offer},
    }
    return {**full, "capacity": capacity_of(full)}


def _withdraw(tx: Tx, host_id: str, name: str, used: int) -> None:
    mine = (inventory.c.provider_id == host_id, inventory.c["class"] == name)
    if used:
        tx.execute(
            update(inventory).where(*mine).values(total=0, reserved=0, capacity=0, ceiling=inventory.c.used)
        )
    else:
        tx.execute(delete(inventory).where(*mine))


def _why_not(tx: Tx, host_id: str, name: str, amount: int) -> str:
    row = tx.execute(select(inventory).where(c.provider_id == host_id, c["class"] == name)).mappings().first()
    if row is None:
        return f"the host offers no {name}"
    free = row["capacity"] - row["used"]
    if amount > free:
        return f"{amount} {name} wanted, {max(free, 0)} of {row['capacity']} free"
    return (
        f"{amount} {name} wanted; one request may take {row['min_unit']} to {row['max_unit']}"
        f" in steps of {row['step_size']}"
    )
