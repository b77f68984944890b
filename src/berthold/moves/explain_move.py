"""What a move is doing, why it waits or why it failed, and what was found of each host at the time.

What a move met is in its own row: the last failure with a reason for every host, the hosts that
took it and then failed, and, of one that waits for a place, what is in the way on each. It says
what was; `explain.look` says what would be now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from berthold.errors import NotFound
from berthold.ledger import moves, overview, reading, schema
from berthold.ledger.store import Tx
from berthold.moves import explain
from berthold.moves.books import PLAYBOOKS
from berthold.moves.explained import Against, HostSaid, MoveSaid
from berthold.moves.outcome import ANOTHER_FAILED
from berthold.moves.playbook import Ask, Call, Line, Park, Place
from berthold.scheduler.filters import FILTERS
from berthold.scheduler.unblock import Occupant
from berthold.settings import Settings

Row = Mapping[str, Any]
Said = tuple[str, tuple[str, ...], str, tuple[str, ...]]

RULE = re.compile(r"\((C1|G1|G2|G3|M5|M7)\)")
# What a class of cause keeps, where the reason does not say it.
RULES = {"capacity": "C1", "host state": "M5", "others wait for it": "M7"}
CAUSES = {filter.cause for filter in FILTERS} | {"already refused"}
# What a move notes of a host that said nothing itself.
UNSAID = {
    "no answer": re.compile("no answer within|its agent has been silent"),
    "host state": re.compile("fenced$"),
}
# Longer than any lease: nobody has worked on it, and nobody will by himself.
ABANDONED_S = 10.0


def move_of(tx: Tx, move_id: str, project_id: str | None) -> tuple[Row, reading.Row]:
    """The move and its server, which may be deleted. Raises `NotFound`, in the same words for a move of
    another project as for one that never was (T1)."""
    row = moves.find(tx, move_id)
    try:
        if row is not None:
            return row, reading.server_of(tx, row["server_id"], project_id, deleted=True)
    except NotFound:
        pass
    raise NotFound(f"Move {move_id} could not be found.")


def last_of(tx: Tx, server_id: str) -> Row | None:
    """The server's unfinished move, else the last one that chose a host or was walked back."""
    if standing := moves.unfinished(tx, server_id):
        return standing
    m = schema.move.c
    rows = select(schema.move).where(m.server_id == server_id).order_by(m.number.desc()).limit(10)
    for row in tx.execute(rows).mappings():
        if row["state"] == "undone" or explain.place_of(PLAYBOOKS[row["playbook"]]):
            return dict(row)
    return None


def said(tx: Tx, row: Row, server: reading.Row, settings: Settings) -> MoveSaid:
    """What there is to say of the move."""
    book = PLAYBOOKS[row["playbook"]]
    line = book.lines[min(row["line"], len(book.lines) - 1)]
    says, ways, operators_say, operators_ways = _state(tx, row, line, server, settings)
    return MoveSaid(
        row, server, line.name, len(book.lines), says, ways, operators_say, operators_ways, refused(tx, row)
    )


def asked_again(tx: Tx, row: Row, server: reading.Row) -> explain.Asked | None:
    """The same move as if it began now; None for one that has its host or needs none, or whose server is
    gone."""
    place = explain.place_of(PLAYBOOKS[explain.BEGINS.get(row["kind"], row["playbook"])])
    if place is None or server["deleted_at"] is not None:
        return None
    if row["state"] in schema.UNFINISHED:
        asked = explain.scene_of_server(tx, server)
        return asked if asked.after is None else None
    if row["state"] == "done" or (server["host"] is None) != (row["source_id"] is None):
        return None  # it is somewhere else by now than where that move began
    return explain.as_if(tx, server, row["kind"], row["wish"])


# -- What it does -------------------------------------------------------------------------


def _state(tx: Tx, row: Row, line: Line, server: reading.Row, settings: Settings) -> Said:
    """What to say, and what would help: for everybody, then for operators."""
    failure, name, kind = row["failure"], server["name"], row["kind"]
    match row["state"]:
        case "done":
            return f"The {kind} of {name} is done.", (), "", ()
        case "superseded":
            return f"The {kind} of {name} was given up: something else took its place.", (), "", ()
        case "undone" if failure.get("aborted"):
            return f"The {kind} of {name} was aborted, and undone.", (), "", ()
        case "undone":
            says = f"The {kind} of {name} failed and was undone: "
            return f"{says}{failure.get('message', '')}", (), f"{says}{_to_operators(failure)}", ()
        case "stuck":
            says = f"The {kind} of {name} is stuck at '{line.name}': "
            ways = (f"openstack server delete {server['id']}",)
            resume = f"repair that, then: berthold move resume {row['id']}"
            return f"{says}{failure.get('message', '')}", ways, f"{says}{_to_operators(failure)}", (resume,)
        case "waiting" if row.get("group_move_id"):
            return f"The {kind} of {name} waits for the others of its group.", (), "", ()
        case "waiting":
            words = tuple(f"openstack server resize {word} {server['id']}" for word in ("confirm", "revert"))
            return f"The {kind} of {name} waits to be confirmed or reverted.", words, "", ()
    return _running(tx, row, line, name, settings)


def _running(tx: Tx, row: Row, line: Line, name: str, settings: Settings) -> Said:
    waits = row["facts"].get("waits")
    if waits:
        return f"The {row['kind']} of {name}: {waits['message']}", (), "", ()
    way = told = f"is at '{line.name}'"
    if row["state"] == "undoing":
        back = f"is being undone and is back at '{line.name}', since "
        way, told = f"{back}{row['failure'].get('message', '')}", f"{back}{_to_operators(row['failure'])}"
    tried = f" (try {row['attempt'] + 1})" if row["attempt"] else ""
    says, operators_say = (
        f"The {row['kind']} of {name} {each}{tried}: {_doing(line)}." for each in (way, told)
    )
    asks = overview.open_asks(tx, row["id"]) if isinstance(line, Ask) else []
    asked = "".join(f" {each['name']} was asked to {each['verb']}." for each in asks)
    return says, (), f"{operators_say}{asked}", (*_nobody(tx, row), *_silent(tx, asks, settings))


def _to_operators(failure: Row) -> str:
    """Why it failed, in the words of whoever failed."""
    return str(failure.get("said") or failure.get("message", ""))


def _doing(line: Line) -> str:
    match line:
        case Place():
            return "it looks for a host"
        case Ask():
            return "it waits for a host's answer"
        case Call():
            return "it asks another service"
        case Park():
            return "it waits"
    return "it is about to be written down"


def _nobody(tx: Tx, row: Row) -> list[str]:
    idle = overview.present(tx) - max(row["until"], row["updated_at"])
    return ["start a conductor: berthold conductor --database …"] if idle > ABANDONED_S else []


def _silent(tx: Tx, asks: Sequence[Row], settings: Settings) -> list[str]:
    """Hosts that will not answer by themselves."""
    present = overview.machine_time(tx)
    return [
        f"look at {each['name']} and its agent, which is not heard"
        for each in asks
        if present - (each["heard_at"] or 0.0) > settings.silent_after_s
    ]


# -- What was found of each host ----------------------------------------------------------


def refused(tx: Tx, row: Row) -> tuple[HostSaid, ...]:
    """Each host that was refused or that failed, by name, as it was then."""
    failure = row["failure"].get("before") or row["failure"] if row["state"] == "stuck" else row["failure"]
    names = {host_id: name for name, host_id in reading.host_names(tx).items()}
    found = {
        names.get(host_id, host_id): Against("tried", "already tried", f"it took the server, then: {why}")
        for host_id, why in row["facts"].get("tried", {}).items()
        if not why.startswith(ANOTHER_FAILED)
    }
    waits = row["facts"].get("waits", {}).get("hosts", {})
    there = {
        name: tuple(explain.occupant(each) for each in members)
        for name, members in failure.get("members", {}).items()
    }
    for name, text in {**(failure.get("hosts") or {}), **waits}.items():
        found[name] = _recorded(text, found.get(name), name, there)
    return tuple(HostSaid(name, (against,)) for name, against in sorted(found.items()))


def _recorded(
    text: str, tried: Against | None, host: str, there: Mapping[str, tuple[Occupant, ...]]
) -> Against:
    """`cause: reason`, as a move keeps it; an agent's own words have no cause. `there`: who of its group
    was on which host then."""
    cause, _, reason = text.partition(": ")
    if tried is not None and cause == "already refused":
        return tried
    if cause not in CAUSES:
        cause, reason = next((c for c, said in UNSAID.items() if said.match(text)), "the host said no"), text
    named = RULE.search(reason)
    rule = named[1] if named else RULES.get(cause)
    members = {"G1": there.get(host, ()), "G2": tuple(each for held in there.values() for each in held)}
    return Against("recorded", cause, reason, rule, members.get(rule or "", ()))
