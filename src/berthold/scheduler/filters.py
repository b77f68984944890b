"""Which hosts are out of the question, and why.

A filter is two small functions. `passes` answers for all hosts at once, as a mask, or with
None if it has nothing against any; it decides. `refuse` is asked afterwards and about one
host: the reason for "no", in a sentence that operators can read, or None. A test compares
the two on random clouds. The list at the bottom is the whole of it, in the order in which it
is asked; the first "no" is the reason that is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from berthold.scheduler.request import AFFINITY, ANTI_AFFINITY, Request
from berthold.scheduler.supply import Column, HostView
from berthold.scheduler.view import View

# The words that operators search for. The rest of a reason follows after a colon.
ANTI_AFFINITY_VIOLATED = "Anti-affinity instance group policy was violated"
AFFINITY_VIOLATED = "Affinity instance group policy was violated"


@dataclass(frozen=True)
class Filter:
    """`cause` is the class of reasons that a tenant may be told of; it names no host."""

    name: str
    cause: str
    passes: Callable[[Request, View], Column | None]
    refuse: Callable[[Request, HostView, View], str | None]


def only(view: View, host_ids: Iterable[str]) -> Column:
    """A mask of these hosts, as far as there are such."""
    mask = np.zeros(len(view.hosts), np.bool_)
    rows = view.supply.row_of
    mask[[rows[host_id] for host_id in host_ids if host_id in rows]] = True
    return mask


# -- What the request names ---------------------------------------------------------------


def is_requested_host(request: Request, view: View) -> Column | None:
    if request.host is None:
        return None
    mask = np.zeros(len(view.hosts), np.bool_)
    row = view.supply.row_named(request.host)
    if row is not None:
        mask[row] = True
    return mask


def requested_host(request: Request, host: HostView, view: View) -> str | None:
    if request.host is None or request.host == host.name:
        return None
    return f"only host {request.host} was asked for"


def is_not_source(request: Request, view: View) -> Column | None:
    return None if request.source is None else ~only(view, [request.source])


def source_host(request: Request, host: HostView, view: View) -> str | None:
    return "the server is to leave this host" if host.id == request.source else None


def is_not_ignored(request: Request, view: View) -> Column | None:
    return ~only(view, request.ignore) if request.ignore else None


def ignored_hosts(request: Request, host: HostView, view: View) -> str | None:
    return request.ignore.get(host.id)


def is_as_hinted(request: Request, view: View) -> Column | None:
    if request.same_host is None:
        return ~only(view, request.different_host) if request.different_host else None
    return only(view, request.same_host - request.different_host)


def hinted_hosts(request: Request, host: HostView, view: View) -> str | None:
    if request.same_host is not None and host.id not in request.same_host:
        return "none of the servers that same_host names is here"
    if host.id in request.different_host:
        return "a server that different_host names is here"
    return None


# -- What the host is ---------------------------------------------------------------------


def is_ready(request: Request, view: View) -> Column | None:
    columns = view.supply.columns
    ready: Column = columns["open"] & (columns["heard_at"] >= view.heard_since)
    return ready


def host_state(request: Request, host: HostView, view: View) -> str | None:
    if host.status == "fenced":
        return "the host is fenced: it may not act until its agent registers anew"
    if host.status == "cleaning":
        return "the host is back and still clears away what it left behind"
    if host.status != "up":
        return f"the host is {host.status}"
    if host.disabled:
        return "the host was disabled by an operator"
    if not view.is_heard(host):
        return "the host's agent has not been heard of lately"
    return None


def is_in_zone(request: Request, view: View) -> Column | None:
    if request.zone is None:
        return None
    return view.supply.where("zone", request.zone.__eq__)


def zone(request: Request, host: HostView, view: View) -> str | None:
    if request.zone is None or request.zone == host.zone:
        return None
    return f"the host is in availability zone {host.zone}, wanted is {request.zone}"


def is_for_project(request: Request, view: View) -> Column | None:
    return view.supply.where("projects", lambda few: few is None or request.project_id in few)


def project(request: Request, host: HostView, view: View) -> str | None:
    if host.projects is None or request.project_id in host.projects:
        return None
    return "the host is reserved for servers of other projects"


def has_traits(request: Request, view: View) -> Column | None:
    if not request.required_traits and not request.forbidden_traits:
        return None
    return view.supply.where(
        "traits",
        lambda traits: request.required_traits <= traits and not request.forbidden_traits & traits,
    )


def traits(request: Request, host: HostView, view: View) -> str | None:
    missing = request.required_traits - host.traits
    if missing:
        return f"the host lacks {', '.join(sorted(missing))}"
    unwanted = request.forbidden_traits & host.traits
    if unwanted:
        return f"the host has {', '.join(sorted(unwanted))}, which the request forbids"
    return None


def is_in_aggregates(request: Request, view: View) -> Column | None:
    if not request.aggregates:
        return None
    return view.supply.where("aggregates", lambda said: not _unsaid(request, said))


def aggregates(request: Request, host: HostView, view: View) -> str | None:
    unsaid = _unsaid(request, host.aggregates)
    return f"no aggregate of the host says {' and '.join(unsaid)}" if unsaid else None


def _unsaid(request: Request, said: frozenset[tuple[str, str]]) -> list[str]:
    """What is wanted of a host's aggregates and none of them says."""
    return [
        f"{key}={' or '.join(sorted(values))}"
        for key, values in sorted(request.aggregates.items())
        if not any((key, value) in said for value in values)
    ]


def has_room(request: Request, view: View) -> Column | None:
    mask = np.ones(len(view.hosts), np.bool_)
    for resource_class, wanted in request.resources.items():
        if wanted == 0:
            continue
        capacity, used, least, most, step = (
            view.supply.column(f"{resource_class}.{term}")
            for term in ("capacity", "used", "min_unit", "max_unit", "step_size")
        )
        mask &= (capacity - used >= wanted) & (least <= wanted) & (most >= wanted) & (wanted % step == 0)
    return mask


def capacity(request: Request, host: HostView, view: View) -> str | None:
    for resource_class, wanted in request.resources.items():
        if wanted == 0:
            continue
        offer = host.capacity.get(resource_class)
        if offer is None:
            return f"the host offers no {resource_class}, wanted {wanted}"
        if wanted > offer.free:
            return f"not enough {resource_class}: wanted {wanted}, free {offer.free} of {offer.capacity}"
        if not offer.min_unit <= wanted <= offer.max_unit:
            return (
                f"{resource_class} is given in amounts of {offer.min_unit} to {offer.max_unit},"
                f" wanted {wanted}, free {offer.free}"
            )
        if wanted % offer.step_size:
            return (
                f"{resource_class} is given in steps of {offer.step_size}, wanted {wanted}, free {offer.free}"
            )
    return None


# -- What the group's rule says -----------------------------------------------------------


def obeys_group(request: Request, view: View) -> Column | None:
    wish = request.group
    if wish is None:
        return None
    if wish.policy == AFFINITY and view.home is not None:
        return only(view, [view.home])
    if wish.policy == ANTI_AFFINITY:
        full = (host_id for host_id, members in view.members.items() if members >= wish.per_host)
        return ~only(view, (host_id for host_id in full if host_id not in view.own))
    return None


def group(request: Request, host: HostView, view: View) -> str | None:
    wish = request.group
    if wish is None:
        return None
    if wish.policy == AFFINITY and view.home not in (None, host.id):
        return f"{AFFINITY_VIOLATED} (G2): group {wish.name} ({wish.id}) lives on another host"
    # A member has one seat on a host however many claims it has there, so where it sits
    # already it takes nobody's.
    members = view.members.get(host.id, 0)
    if wish.policy == ANTI_AFFINITY and members >= wish.per_host and host.id not in view.own:
        return (
            f"{ANTI_AFFINITY_VIOLATED} (G1): group {wish.name} ({wish.id}) allows {wish.per_host}"
            f" member(s) on a host and {members} are here"
        )
    return None


# -- Who came first -----------------------------------------------------------------------


def is_not_waited_for(request: Request, view: View) -> Column | None:
    return ~only(view, request.queued) if request.queued else None


def queue(request: Request, host: HostView, view: View) -> str | None:
    return "another server came first and waits for it" if host.id in request.queued else None


FILTERS: tuple[Filter, ...] = (
    Filter("requested host", "requested host", is_requested_host, requested_host),
    Filter("source host", "source host", is_not_source, source_host),
    Filter("ignored hosts", "already refused", is_not_ignored, ignored_hosts),
    Filter("host state", "host state", is_ready, host_state),
    Filter("zone", "availability zone", is_in_zone, zone),
    Filter("project", "reserved host", is_for_project, project),
    Filter("hints", "scheduler hint", is_as_hinted, hinted_hosts),
    Filter("traits", "traits", has_traits, traits),
    Filter("aggregates", "aggregates", is_in_aggregates, aggregates),
    Filter("capacity", "capacity", has_room, capacity),
    Filter("group", "group rule", obeys_group, group),
    Filter("queue", "others wait for it", is_not_waited_for, queue),
)
