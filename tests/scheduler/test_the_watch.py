"""The watch: a picture that follows what changes is the same as one that is read whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from berthold.clock import SeededClock
from berthold.database import metadata
from berthold.errors import Refused, WrongState
from berthold.ledger import claims, hosts, schema, view
from berthold.ledger.notify import Notifier
from berthold.ledger.store import Store, Tx
from berthold.moves.watch import SWEEP_S, Watch
from berthold.records import aggregates
from berthold.scheduler.supply import TERMS, Supply
from ledger_world import add_server
from races import race

SILENT_S = 10.0
OFFER = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192, "reserved": 512}}
NAMES = ["a", "b", "c", "d"]


def register(tx: Tx, name: str, vcpus: int = 8, traits: tuple[str, ...] = ("T1",)) -> str:
    offers = {**OFFER, "VCPU": {"total": vcpus}} if vcpus else {"MEMORY_MB": {"total": 64}}
    return hosts.register(tx, name=name, key=name, offers=offers, traits=traits).id


def by_name(f: Callable[[Tx, str], None]) -> Callable[[Tx, str], None]:
    """The same for a host by its name, if there is one."""

    def act(tx: Tx, name: str) -> None:
        host = schema.host
        known = tx.execute(select(host.c.id).where(host.c.name == name)).scalar()
        if known is not None:
            f(tx, known)

    return act


def take(tx: Tx, host_id: str) -> None:
    claims.take(tx, [claims.Want(add_server(tx, f"s{id(tx)}{host_id}"), host_id, {"VCPU": 1})])


def release(tx: Tx, host_id: str) -> None:
    for row in tx.execute(schema.claim.select().where(schema.claim.c.host_id == host_id)):
        claims.release(tx, row.id)


def into_aggregate(tx: Tx, name: str) -> None:
    key = aggregates.create(tx, f"{name}s", f"zone {name}")["id"]
    aggregates.set_metadata(
        tx, key, {"filter_tenant_id1": "p-1, p-2", "filter_tenant_id2": "p-3", "ssd": name}
    )
    aggregates.add_host(tx, key, name)


DO: dict[str, Callable[[Tx, str], object]] = {
    "register": register,
    "shrink": lambda tx, name: register(tx, name, 2, ("T2",)),
    "offer no CPU": lambda tx, name: register(tx, name, 0, ()),
    "take": by_name(take),
    "release": by_name(release),
    "disable": by_name(lambda tx, host: hosts.set_disabled(tx, host, True)),
    "enable": by_name(lambda tx, host: hosts.set_disabled(tx, host, False)),
    "fence": by_name(hosts.fence),
    "unfence": by_name(hosts.unfence),
    "beat": by_name(lambda tx, host: hosts.heard(tx, [host])),
    "aggregate": into_aggregate,
}


def content(supply: Supply, since: float) -> tuple[object, ...]:
    """What decisions see of it: rows, every column by what it means, who is silent."""
    offered = {resource_class for host in supply.hosts for resource_class in host.capacity}
    # A column may be there or not where all that it says is what a host has that offers nothing.
    amounts = {
        name: supply.column(name).tolist()
        for name in ("open", *(f"{each}.{term}" for each in sorted(offered) for term in TERMS))
        if supply.hosts
    }
    kinds = {
        kind: [list(codes)[code] for code in supply.columns[kind].tolist()]
        for kind, codes in supply.kinds.items()
        if supply.hosts
    }
    return supply.hosts, amounts, kinds, supply.silent(since), dict(supply.row_of)


@pytest.fixture
def memory() -> Iterator[Callable[[], Store]]:
    made: list[Store] = []

    def make() -> Store:
        store = Store("sqlite://", clock=SeededClock())
        metadata.create_all(store.writer)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


def looked(store: Store, watch: Watch) -> Supply:
    return store.read_now(watch.look)


def whole(store: Store) -> Supply:
    """As somebody sees it who has not looked before."""
    return looked(store, Watch(store, SILENT_S))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    deeds=st.lists(
        st.tuples(st.sampled_from(sorted(DO)), st.sampled_from(NAMES), st.sampled_from([0, 0, 1, 6])),
        max_size=25,
    ),
    looks=st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_after_any_deeds_the_picture_is_as_if_it_were_read_whole(
    memory: Callable[[], Store], deeds: list[tuple[str, str, int]], looks: list[bool]
) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    for (deed, name, seconds), look in zip(deeds, looks, strict=False):
        with suppress(Refused, WrongState):
            store.write_now(DO[deed], name)
        store.clock.advance(seconds)  # type: ignore[attr-defined]
        if look:
            since = watch.heard_since
            assert content(looked(store, watch), since)[0] == content(whole(store), since)[0]
    store.clock.advance(1.0)  # type: ignore[attr-defined]
    since = watch.heard_since
    assert content(looked(store, watch), since) == content(whole(store), since)


def test_a_supply_that_somebody_holds_never_changes(memory: Callable[[], Store]) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    host = store.write_now(register, "a")
    held = looked(store, watch)
    before = repr(held), {name: column.tolist() for name, column in held.columns.items()}
    store.write_now(take, host)
    store.write_now(register, "b")
    assert len(looked(store, watch).hosts) == 2
    assert (repr(held), {name: column.tolist() for name, column in held.columns.items()}) == before
    with pytest.raises(ValueError, match="read-only"):
        held.columns["VCPU.used"][0] = 0


def test_only_the_columns_in_which_something_changed_are_made_anew(memory: Callable[[], Store]) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    host = store.write_now(register, "a")
    before = looked(store, watch)
    store.write_now(take, host)
    after = looked(store, watch)
    changed = {name for name in after.columns if after.columns[name] is not before.columns[name]}
    assert changed <= {"VCPU.used", "heard_at"}
    assert after.columns["VCPU.used"].tolist() == [1]


def test_what_nobody_announced_is_found_before_anybody_is_told_that_no_host_will_do(
    memory: Callable[[], Store],
) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    host = store.write_now(register, "a")
    store.write_now(hosts.set_disabled, host, True)
    assert not looked(store, watch).columns["open"].any()
    with deaf(store):
        store.write_now(hosts.set_disabled, host, False)
    assert not looked(store, watch).columns["open"].any()
    assert store.read_now(watch.confirm).columns["open"].all()
    assert looked(store, watch).columns["open"].all()


def test_a_lost_wake_up_costs_seconds(memory: Callable[[], Store]) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    host = store.write_now(register, "a")
    looked(store, watch)
    with deaf(store):
        store.write_now(hosts.set_disabled, host, True)
        store.write_now(register, "b")
        store.write_now(into_aggregate, "a")
    assert looked(store, watch).columns["open"].tolist() == [True]
    store.read_now(watch.sweep)  # what `run` does every SWEEP_S
    seen = looked(store, watch)
    assert (seen.columns["open"].tolist(), seen.hosts[0].zone) == ([False, True], "zone a")


def test_a_decision_that_finds_the_picture_old_does_the_work_itself(memory: Callable[[], Store]) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    host = store.write_now(register, "a")
    looked(store, watch)
    with deaf(store):
        store.write_now(hosts.set_disabled, host, True)
    store.clock.advance(2 * SWEEP_S + 1)  # type: ignore[attr-defined]
    assert looked(store, watch).columns["open"].tolist() == [False]


def test_a_read_that_fails_loses_no_news(
    memory: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = memory()
    watch = Watch(store, SILENT_S)
    host = store.write_now(register, "a")
    looked(store, watch)
    store.write_now(hosts.set_disabled, host, True)
    with monkeypatch.context() as broken:
        broken.setattr(view, "hosts", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            looked(store, watch)
    assert looked(store, watch).columns["open"].tolist() == [False]


def test_other_processes_are_heard(postgresql_url: str) -> None:
    here, there = Store(postgresql_url), Store(postgresql_url)
    notifiers = [Notifier(postgresql_url, store.bus) for store in (here, there)]
    for notifier in notifiers:
        notifier.start()
    try:
        assert all(notifier.listening.wait(10) for notifier in notifiers)
        watch = Watch(here, SILENT_S)
        host = there.write_now(register, "a")
        looked(here, watch)
        heard = told(here, f"host:{host}")
        there.write_now(hosts.set_disabled, host, True)
        assert heard.wait(10)
        assert looked(here, watch).columns["open"].tolist() == [False]
    finally:
        for notifier in notifiers:
            notifier.stop()
        here.close()
        there.close()


def test_looks_and_changes_from_many_threads_end_in_the_true_picture(store: Store) -> None:
    watch = Watch(store, SILENT_S)
    ids = [store.write_now(register, f"h{n}", 64) for n in range(4)]

    def deed(number: int) -> Callable[[], object]:
        if number % 2:
            return lambda: [looked(store, watch) for _ in range(6)]
        host = ids[number // 2 % 4]
        return lambda: [store.write_now(hosts.set_disabled, host, each % 2 == 0) for each in range(3)]

    assert all(isinstance(each, list) for each in race([deed(number) for number in range(8)]))
    store.read_now(watch.sweep)
    assert looked(store, watch).hosts == whole(store).hosts


@contextmanager
def deaf(store: Store) -> Iterator[None]:
    """Within, nobody hears what is announced."""
    hearers, store.bus._hearers = store.bus._hearers, []
    try:
        yield
    finally:
        store.bus._hearers = hearers


def told(store: Store, topic: str) -> threading.Event:
    """Set once the topic is heard."""
    heard = threading.Event()
    store.bus.hear(lambda topics: heard.set() if topic in topics else None)
    return heard
