"""All hosts, as columns: what every decision of this process looks at.

A `Supply` never changes. Whoever learns something new makes the next one of it, which shares
every column that stayed the same; so requests that are decided side by side, each with the
supply that it began with, cannot disturb each other.

Hosts stand in the order of their names. What takes few different values (a zone, a set of
traits) is a column of codes, so that a request is compared with each value once and not with
each host.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Codes = Mapping[Hashable, int]

KINDS = ("zone", "traits", "projects", "aggregates")
TERMS = ("capacity", "used", "min_unit", "max_unit", "step_size")
NEVER = 0.0


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a host offers of one resource class. `used` may exceed `capacity` after a shrink."""

    capacity: int
    used: int = 0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.used)


NOTHING = Inventory(0)


@dataclass(frozen=True, slots=True)
class HostView:
    """One host. `generation` rises with whatever of it changes. `projects`: for whose servers it
    is reserved, if it is. `aggregates`: every key and value that its aggregates say."""

    id: str
    name: str
    status: str = "up"
    disabled: bool = False
    epoch: int = 1
    generation: int = 0
    zone: str = "nova"
    traits: frozenset[str] = frozenset()
    projects: frozenset[str] | None = None
    aggregates: frozenset[tuple[str, str]] = frozenset()
    capacity: Mapping[str, Inventory] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it may be given servers, if its agent is heard."""
        return self.status == "up" and not self.disabled


@dataclass(frozen=True, eq=False, repr=False)
class Supply:
    """Every host (`Supply.of`). Columns by name; of a resource class, `CLASS.term`."""

    hosts: tuple[HostView, ...] = ()
    columns: Mapping[str, Column] = field(default_factory=dict)
    kinds: Mapping[str, Codes] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    @classmethod
    def of(cls, hosts: Iterable[HostView], heard: Mapping[str, float] | None = None) -> Supply:
        """A supply of these hosts. `heard`: by host id, when its agent was heard last."""
        return cls().with_hosts(hosts, heard or {})

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """Where each host stands, by its id."""
        return {host.id: row for row, host in enumerate(self.hosts)}

    def row_named(self, name: str) -> int | None:
        """Where the host of that name stands."""
        row = bisect_left(self.hosts, name, key=attrgetter("name"))
        return row if row < len(self.hosts) and self.hosts[row].name == name else None

    def find(self, host_id: str) -> HostView | None:
        row = self.row_of.get(host_id)
        return None if row is None else self.hosts[row]

    def column(self, name: str) -> Column:
        """The column; of what no host has, that of a host which offers nothing."""
        known = self.columns.get(name)
        if known is not None:
            return known
        return np.full(len(self.hosts), getattr(NOTHING, name.rpartition(".")[2]), np.int64)

    def where(self, kind: str, will_do: Callable[[Any], bool]) -> Column:
        """Which hosts have a value of this kind that will do."""
        codes = self.kinds[kind]
        mask: Column = np.fromiter(map(will_do, codes), np.bool_, len(codes))[self.columns[kind]]
        return mask

    def free(self, resource_class: str, rows: Column, taken: int = 0) -> Column:
        """What is free on each of these rows once `taken` more are."""
        capacity, used = (self.column(f"{resource_class}.{term}")[rows] for term in ("capacity", "used"))
        free: Column = np.maximum(capacity - used - taken, 0)
        return free

    def silent(self, since: float) -> list[str]:
        """The hosts that might be given servers if their agents had been heard since then."""
        if not self.hosts:
            return []
        silent = np.flatnonzero(self.columns["open"] & (self.columns["heard_at"] < since))
        return [self.hosts[row].id for row in silent.tolist()]

    # -- The next one ---------------------------------------------------------------------

    def with_hosts(
        self, changed: Iterable[HostView], heard: Mapping[str, float], gone: Collection[str] = ()
    ) -> Supply:
        """The same with these hosts as they are now, and without those that are gone."""
        news = {host.id: host for host in changed}
        if not news and not gone:
            return self.with_heard(heard)
        kinds = {kind: _with_codes(self.kinds[kind], kind, news.values()) for kind in KINDS}
        fresh = list(news.values())
        columns = _columns(fresh, kinds)
        if gone or not news.keys() <= self.row_of.keys():
            new = self._merged(fresh, columns, kinds, {*gone, *news})
        else:
            new = self._overwritten(fresh, columns, kinds)
        return new.with_heard(heard)

    def with_heard(self, heard: Mapping[str, float]) -> Supply:
        """The same with these agents heard at these moments; a later moment stays."""
        known = [(self.row_of[host_id], at) for host_id, at in heard.items() if host_id in self.row_of]
        if not known:
            return self
        rows, moments = (np.array(each) for each in zip(*known, strict=True))
        column = self.columns["heard_at"].copy()
        column[rows] = np.maximum(column[rows], moments)
        return self._with_same_rows(self.hosts, {**self.columns, "heard_at": _sealed(column)}, self.kinds)

    def _overwritten(
        self, fresh: Sequence[HostView], news: Mapping[str, Column], kinds: Mapping[str, Codes]
    ) -> Supply:
        """For hosts that are known: only columns in which something differs are made anew."""
        rows = np.array([self.row_of[host.id] for host in fresh])
        hosts = list(self.hosts)
        for row, host in zip(rows.tolist(), fresh, strict=True):
            hosts[row] = host
        columns = dict(self.columns)
        for name in (self.columns.keys() | news.keys()) - {"heard_at"}:
            old, new = self.column(name), _column(news, name, len(fresh))
            if not np.array_equal(old[rows], new):
                columns[name] = old.copy()
                columns[name][rows] = new
                _sealed(columns[name])
        return self._with_same_rows(tuple(hosts), columns, kinds)

    def _with_same_rows(
        self, hosts: tuple[HostView, ...], columns: Mapping[str, Column], kinds: Mapping[str, Codes]
    ) -> Supply:
        """A supply in which every host stands where it stands here: that need not be found out again."""
        made = Supply(hosts, columns, kinds)
        made.__dict__["row_of"] = self.row_of
        return made

    def _merged(
        self,
        fresh: Sequence[HostView],
        news: Mapping[str, Column],
        kinds: Mapping[str, Codes],
        replaced: Collection[str],
    ) -> Supply:
        """For hosts that come or go: the rows that stay, the new ones among them."""
        stay = [row for row, host in enumerate(self.hosts) if host.id not in replaced]
        hosts = [*(self.hosts[row] for row in stay), *fresh]
        order = sorted(range(len(hosts)), key=lambda n: hosts[n].name)
        columns = {}
        for name in (self.columns.keys() | news.keys()) - {"heard_at"}:
            new = _column(news, name, len(fresh))
            old = self.column(name)[stay] if stay else new[:0]
            columns[name] = _sealed(np.concatenate([old, new])[order])
        made = Supply(tuple(hosts[n] for n in order), columns, kinds)
        heard = np.full(len(order), NEVER)
        for host_id, row in self.row_of.items():
            if host_id in made.row_of:
                heard[made.row_of[host_id]] = self.columns["heard_at"][row]
        columns["heard_at"] = _sealed(heard)
        return made

    def __repr__(self) -> str:
        return f"Supply({self.hosts!r}, {self.columns.get('heard_at', np.empty(0)).tolist()})"


def _columns(hosts: Sequence[HostView], kinds: Mapping[str, Codes]) -> dict[str, Column]:
    count = len(hosts)
    columns = {"open": np.fromiter((host.is_open for host in hosts), np.bool_, count)}
    for kind, codes in kinds.items():
        columns[kind] = np.fromiter((codes[getattr(host, kind)] for host in hosts), np.int32, count)
    for resource_class in {each for host in hosts for each in host.capacity}:
        offers = [host.capacity.get(resource_class, NOTHING) for host in hosts]
        for term in TERMS:
            columns[f"{resource_class}.{term}"] = np.fromiter(map(attrgetter(term), offers), np.int64, count)
    return columns


def _column(columns: Mapping[str, Column], name: str, count: int) -> Column:
    if name in columns:
        return columns[name]
    return np.full(count, getattr(NOTHING, name.rpartition(".")[2]), np.int64)


def _with_codes(codes: Codes, kind: str, hosts: Iterable[HostView]) -> Codes:
    """The codes, and one more for each value that was not known."""
    new = dict.fromkeys(value for host in hosts if (value := getattr(host, kind)) not in codes)
    return {**codes, **{value: len(codes) + n for n, value in enumerate(new)}} if new else codes


def _sealed(column: Column) -> Column:
    column.setflags(write=False)
    return column
