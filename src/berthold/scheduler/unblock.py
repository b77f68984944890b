"""What would make a host do that was refused: one small function per filter, twice.

`ways` is for operators and may name the host; `owners_ways` is for whoever owns the server: it
names no host and only the owner's own servers. Each way is a clause that goes on from "it would
do …": "when web-2 leaves its host or is deleted". All ways of one refusal are alternatives, and a host
that was refused by several filters needs one of each. A filter that nothing can satisfy has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from berthold.scheduler.candidates import Refusal
from berthold.scheduler.filters import AFFINITY_VIOLATED, ANTI_AFFINITY_VIOLATED
from berthold.scheduler.request import AFFINITY, Request
from berthold.scheduler.supply import HostView
from berthold.scheduler.view import View

# The promise that stands behind a class of cause.
RULES: Mapping[str, str] = {"capacity": "C1", "host state": "M5", "others wait for it": "M7"}
GROUP_RULES: Mapping[str, str] = {ANTI_AFFINITY_VIOLATED: "G1", AFFINITY_VIOLATED: "G2"}

ARRIVED = "when the group has arrived where it moves to, or is back"


@dataclass(frozen=True)
class Occupant:
    """A server that holds a place on a host, and what it has under way. `role`: home, target, source or
    left. `parked`: a resize that waits to be confirmed or reverted. `leaves`: what is under way takes
    it away from there."""

    id: str
    name: str
    role: str = "home"
    resources: Mapping[str, int] | None = None
    move_id: str | None = None
    move_kind: str | None = None
    parked: bool = False
    leaves: bool = False


def group_is_moving(request: Request) -> Refusal:
    """What the ledger says to a member that would join an affinity group on its way (G2). No filter does,
    since only the ledger knows who else is coming."""
    name = request.group.name if request.group else ""
    return Refusal("moving", "group rule", f"{AFFINITY_VIOLATED} (G2): group {name} is moving")


def rule_of(refusal: Refusal) -> str | None:
    """The promise that the refusal keeps, if it keeps one."""
    for words, rule in GROUP_RULES.items():
        if words in refusal.reason:
            return rule
    return RULES.get(refusal.cause)


def gone(occupant: Occupant) -> str:
    """When the occupant gives its place up. Names no host."""
    name, move = occupant.name, f"the {occupant.move_kind} of {occupant.name}"
    if occupant.role == "left":
        return f"when that host is back and has removed what it has of {name}"
    if occupant.parked and occupant.role == "source":
        return f"when {move} is confirmed (openstack server resize confirm {occupant.id})"
    if occupant.parked:
        return f"when {move} is reverted (openstack server resize revert {occupant.id})"
    if occupant.role == "target":
        return f"when {move} (move {occupant.move_id}) is undone, or {name} goes on from there"
    if occupant.role == "source" or occupant.leaves:
        return f"when {move} (move {occupant.move_id}) ends"
    return f"when {name} leaves its host or is deleted"


@dataclass(frozen=True)
class Case:
    """A host that was refused, by which request, in which view, with the group's members on it (or, of
    an affinity group, on the host where it lives) and with servers that are about to leave it."""

    request: Request
    view: View
    host: HostView
    members: Sequence[Occupant] = ()
    leaving: Sequence[Occupant] = ()


def ways(refusal: Refusal, case: Case) -> list[str]:
    """For operators: what would make the host do. Each is an alternative."""
    return WAYS[refusal.filter](case) if refusal.filter in WAYS else []


def owners_ways(refusal: Refusal, request: Request, members: Sequence[Occupant] = ()) -> list[str]:
    """For the server's owner, of a host that is not named."""
    asked = OWNERS_WAYS.get(refusal.filter)
    return asked(request, members) if asked else []


# -- For operators ------------------------------------------------------------------------


def _requested_host(case: Case) -> list[str]:
    return [f"if {case.host.name} were asked for, or no host"]


def _ignored(case: Case) -> list[str]:
    return ["if it were begun anew: this move has tried that host, a new one tries it again"]


def _host_state(case: Case) -> list[str]:
    name, host = case.host.name, case.host
    if host.status == "fenced":
        up = f"openstack compute service set --up {name} nova-compute"
        return [f"when {name} is repaired and let in again: start its agent, then {up}"]
    if host.status == "cleaning":
        return [f"when the agent of {name} has removed what it left behind"]
    if host.disabled:
        return [f"when it is enabled: openstack compute service set --enable {name} nova-compute"]
    return [f"when its agent is heard again: look at {name} and its agent"]


def _queue(case: Case) -> list[str]:
    return ["when those who came first have gone there or given up"]


def _zone(case: Case) -> list[str]:
    wanted = case.request.zone
    return [f"if zone {case.host.zone} were asked for, or none", f"if {case.host.name} were in zone {wanted}"]


def _project(case: Case) -> list[str]:
    return [f"if the aggregate of {case.host.name} admitted project {case.request.project_id}"]


def _hints(case: Case) -> list[str]:
    if case.request.same_host is not None and case.host.id not in case.request.same_host:
        return ["when a server that same_host names lives there"]
    return ["when the servers that different_host names have left it"]


def _traits(case: Case) -> list[str]:
    request, had = case.request, case.host.traits
    if missing := sorted(request.required_traits - had):
        return [
            f"if {case.host.name} had {', '.join(missing)}",
            "with a flavor and an image that do not require that",
        ]
    unwanted = ", ".join(sorted(request.forbidden_traits & had))
    return [f"with a flavor and an image that do not forbid {unwanted}"]


def _aggregates(case: Case) -> list[str]:
    named = ", ".join(sorted(case.request.aggregates))
    return [f"if an aggregate of {case.host.name} said so", f"with a flavor that does not ask for {named}"]


def _capacity(case: Case) -> list[str]:
    short: dict[str, int] = {}
    for resource_class, wanted in case.request.resources.items():
        offer = case.host.capacity.get(resource_class)
        if offer is None or offer.capacity < wanted:
            most = offer.capacity if offer else 0
            return [f"with a flavor of at most {most} {resource_class}: that is all it has"]
        if not offer.min_unit <= wanted <= offer.max_unit or wanted % offer.step_size:
            steps = f" in steps of {offer.step_size}" if offer.step_size > 1 else ""
            bounds = f"{offer.min_unit} to {offer.max_unit}{steps}"
            return [f"with a flavor of {bounds} {resource_class}"]
        if wanted > offer.free:
            short[resource_class] = wanted - (offer.capacity - offer.used)
    freed = " and ".join(f"{amount} {name}" for name, amount in short.items())
    found = [f"when {freed} more {'is' if sum(short.values()) == 1 else 'are'} free on it"]
    for each in case.leaving:
        frees = {name: (each.resources or {}).get(name, 0) for name in short}
        if any(frees.values()):
            given = " and ".join(f"{amount} {name}" for name, amount in frees.items() if amount)
            found.append(f"{gone(each)}: that frees {given}")
    return found


def _group(case: Case) -> list[str]:
    wish = case.request.group
    assert wish is not None, "a group's refusal without a group"
    if wish.policy == AFFINITY:
        move = f"berthold group move {wish.id} --to {case.host.name}"
        return [f"when the whole group has moved there: {move}", *_without(case.members)]
    found = [gone(each) for each in case.members]
    return [*found, f"in a group whose max_server_per_host is above {wish.per_host}"]


def _moving(case: Case) -> list[str]:
    return [ARRIVED]


def _without(members: Sequence[Occupant]) -> list[str]:
    """An affinity group without members lives nowhere."""
    *others, last = dict.fromkeys(each.name for each in members) or [""]
    if not others:
        return [f"when {last} is deleted"] if members else []
    return [f"when {', '.join(others)} and {last} are deleted"]


# By the filter's name. What is not here (the source host, which a move is to leave) cannot be had.
WAYS: Mapping[str, Callable[[Case], list[str]]] = {
    "requested host": _requested_host,
    "ignored hosts": _ignored,
    "host state": _host_state,
    "zone": _zone,
    "project": _project,
    "hints": _hints,
    "traits": _traits,
    "aggregates": _aggregates,
    "capacity": _capacity,
    "group": _group,
    "queue": _queue,
    "moving": _moving,
}


# -- For owners ---------------------------------------------------------------------------


def _owners_traits(request: Request, members: Sequence[Occupant]) -> list[str]:
    named = ", ".join(sorted(request.required_traits | request.forbidden_traits))
    return [f"with a flavor and an image that do not name {named}"]


def _owners_group(request: Request, members: Sequence[Occupant]) -> list[str]:
    wish = request.group
    assert wish is not None, "a group's refusal without a group"
    if wish.policy == AFFINITY:
        return ["when the whole group has moved there", *_without(members)]
    found = [gone(each) for each in members]
    return [*dict.fromkeys(found), f"in a group whose max_server_per_host is above {wish.per_host}"]


OWNERS_WAYS: Mapping[str, Callable[[Request, Sequence[Occupant]], list[str]]] = {
    "requested host": lambda request, members: ["if no host were asked for"],
    "ignored hosts": lambda request, members: ["if it were asked for anew"],
    "host state": lambda request, members: ["when operators have repaired or enabled such hosts"],
    "zone": lambda request, members: [f"if another zone than {request.zone} were asked for, or none"],
    "hints": lambda request, members: ["with other servers in same_host and different_host, or none"],
    "traits": _owners_traits,
    "aggregates": lambda request, members: ["with a flavor that asks for other hosts"],
    "capacity": lambda request, members: ["when servers there are gone", "with a smaller flavor"],
    "group": _owners_group,
    "queue": lambda request, members: ["when those who came first have gone there or given up"],
    "moving": lambda request, members: [ARRIVED],
}
