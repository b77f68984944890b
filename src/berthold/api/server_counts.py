"""How many servers one request makes: all of its `max_count`, or as many as the quota has room for if
these are its `min_count` at least; else none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berthold.api.call import Call
from berthold.api.limits import usage_of
from berthold.api.problems import named_in_the_body
from berthold.errors import Refused
from berthold.ledger import reading
from berthold.ledger.store import Tx
from berthold.moves.begin import NewServer

Begin = Callable[[Tx, Call, NewServer, int], list[str]]


async def as_many_as_allowed(call: Call, model: NewServer, least: int, most: int, begin: Begin) -> list[str]:
    """The ids of what was begun. Raises `Refused` Q1, which counts what was asked for as a whole."""
    while True:
        try:
            return await call.store.write(begin, call, model, most)
        except Refused as refused:
            if refused.rule != "Q1":
                raise
            usage = await _usage(call, model)
            if most == least:
                raise Refused("Q1", _too_much(usage, least) or refused.message) from refused
            # Another request may be quicker than this look, so one less is tried each time at least.
            most = max(least, min(most - 1, *(free // each for each, _, free in usage.values() if each)))


async def _usage(call: Call, model: NewServer) -> Mapping[str, tuple[int, int, int]]:
    """By quota: what each server takes of it, what is used, and what is free."""
    known = await usage_of(call, model.project_id)
    each = {"instances": 1, "cores": model.flavor["vcpus"], "ram": model.flavor["ram"]}
    usage = {
        what: (n, known[what], known[f"{what}_max"] - known[what])
        for what, n in each.items()
        if known[f"{what}_max"] >= 0
    }
    if model.group_id is not None:
        with named_in_the_body():
            group = await call.store.read(reading.group, model.group_id, model.project_id)
        usage["members"] = (1, group["members"], group["members_max"] - group["members"])
    return usage


def _too_much(usage: Mapping[str, tuple[int, int, int]], many: int) -> str:
    """What so many servers would take and may not; empty if that is members of their group only."""
    over = [what for what, (each, _, free) in usage.items() if each * many > free and what != "members"]
    if not over:
        return ""
    asked = ", ".join(str(usage[what][0] * many) for what in over)
    used = ", ".join(str(usage[what][1]) for what in over)
    limits = ", ".join(str(usage[what][1] + usage[what][2]) for what in over)
    names = ", ".join(over)
    return f"Quota exceeded for {names}: Requested {asked}, but already used {used} of {limits} {names}"
