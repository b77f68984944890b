"""Which hosts are out of the question, and why.

One small function per filter: the reason for "no", in a sentence that operators can read,
or None. The list at the bottom is the whole of it, in the order in which it is asked; the
first "no" decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from berthold.scheduler.request import AFFINITY, ANTI_AFFINITY, Request
from berthold.scheduler.view import HostView, View

# The words that operators search for. The rest of a reason follows after a colon.
ANTI_AFFINITY_VIOLATED = "Anti-affinity instance group policy was violated"
AFFINITY_VIOLATED = "Affinity instance group policy was violated"


@dataclass(frozen=True)
class Filter:
    """`cause` is the class of reasons that a tenant may be told of; it names no host."""

    name: str
    cause: str
    refuse: Callable[[Request, HostView, View], str | None]


def requested_host(request: Request, host: HostView, view: View) -> str | None:
    if request.host is None or request.host == host.name:
        return None
    return f"only host {request.host} was asked for"


def source_host(request: Request, host: HostView, view: View) -> str | None:
    return "the server is to leave this host" if host.id == request.source else None


def ignored_hosts(request: Request, host: HostView, view: View) -> str | None:
    return request.ignore.get(host.id)


def host_state(request: Request, host: HostView, view: View) -> str | None:
    if host.status == "fenced":
        return "the host is fenced: it may not act until its agent registers anew"
    if host.status == "cleaning":
        return "the host is back and still clears away what it left behind"
    if host.status != "up":
        return f"the host is {host.status}"
    if host.disabled:
        return "the host was disabled by an operator"
    if not host.heard:
        return "the host's agent has not been heard of lately"
    return None


def zone(request: Request, host: HostView, view: View) -> str | None:
    if request.zone is None or request.zone == host.zone:
        return None
    return f"the host is in availability zone {host.zone}, wanted is {request.zone}"


def traits(request: Request, host: HostView, view: View) -> str | None:
    missing = request.required_traits - host.traits
    if missing:
        return f"the host lacks {', '.join(sorted(missing))}"
    unwanted = request.forbidden_traits & host.traits
    if unwanted:
        return f"the host has {', '.join(sorted(unwanted))}, which the request forbids"
    return None


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


def group(request: Request, host: HostView, view: View) -> str | None:
    wish = request.group
    if wish is None:
        return None
    if wish.policy == AFFINITY and view.home not in (None, host.id):
        return f"{AFFINITY_VIOLATED} (G2): group {wish.name} ({wish.id}) lives on another host"
    # A member has one seat on a host however many claims it has there, so where it sits
    # already it takes nobody's.
    if wish.policy == ANTI_AFFINITY and host.members >= wish.per_host and not host.own:
        return (
            f"{ANTI_AFFINITY_VIOLATED} (G1): group {wish.name} ({wish.id}) allows {wish.per_host}"
            f" member(s) on a host and {host.members} are here"
        )
    return None


FILTERS: tuple[Filter, ...] = (
    Filter("requested host", "requested host", requested_host),
    Filter("source host", "source host", source_host),
    Filter("ignored hosts", "already refused", ignored_hosts),
    Filter("host state", "host state", host_state),
    Filter("zone", "availability zone", zone),
    Filter("traits", "traits", traits),
    Filter("capacity", "capacity", capacity),
    Filter("group", "group rule", group),
)
