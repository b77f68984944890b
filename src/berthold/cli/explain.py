"""`berthold explain server|group|move ID`: why something can or cannot be placed, host by host."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from berthold.cli import home as homes
from berthold.cli import options
from berthold.cli.console import Wrong, out
from berthold.cli.moves import opened
from berthold.errors import NotFound
from berthold.ledger import reading
from berthold.ledger.store import Store, Tx
from berthold.moves import explain, explain_group, explain_move
from berthold.moves.explain import Asked
from berthold.moves.explained import Against, Domain, GroupSaid, HostSaid, Look, MoveSaid
from berthold.moves.watch import Watch
from berthold.settings import Settings

app = typer.Typer(help="Say why something can or cannot be placed.", no_args_is_help=True)

Server = Annotated[str, typer.Argument(metavar="ID", help="The server's id.")]
Group = Annotated[str, typer.Argument(metavar="ID", help="The group's id: berthold group list.")]
Move = Annotated[str, typer.Argument(metavar="ID", help="The move's id, as `berthold move list` shows it.")]
Host = Annotated[str | None, typer.Option("--host", help="Ask about this host only.")]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", min=0, help="How many hosts are shown one by one; 0 for all. JSON always has all of them."
    ),
]

T = TypeVar("T")
LIMIT = 20
# So many hosts are named where they share what would help; more are counted.
NAMED_AT_MOST = 6


@app.command("server")
def server_command(
    server: Server,
    host: Host = None,
    limit: Limit = LIMIT,
    as_json: options.AsJson = False,
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
) -> None:
    """Explain where a server could go now, and what its last move met.

    Each host is judged as a move that began now would judge it: which rule
    refuses it, which servers are in the way, and what would unblock it.

    Example:

      berthold explain server 7a2e0c4e-55a1-4cf3-8a9d-0f7f6c6e1c11
    """
    with _asking(database_url, data) as ask:
        found, last, asked = ask.read(_server, server, "openstack server list --all-projects")
        look = ask.look(asked, host)
    if as_json:
        subject = {"id": found["id"], "name": found["name"]}
        move = last.document(by_host=True) if last else None
        _json({"server": subject, "move": move, "now": look.document(by_host=True)})
        return
    where = f"lives on {found['host']['name']}" if found["host"] else "is on no host"
    out.print(Text.assemble((found["name"], "bold"), f" {where}."))
    if last:
        _print_move(last, limit)
    _print_look(look, limit)


def _server(tx: Tx, server_id: str) -> tuple[reading.Row, MoveSaid | None, Asked]:
    found = reading.server_of(tx, server_id, None)
    last = explain_move.last_of(tx, server_id)
    said = explain_move.said(tx, last, found, Settings()) if last else None
    return found, said, explain.scene_of_server(tx, found)


@app.command("group")
def group_command(
    group: Group,
    host: Host = None,
    limit: Limit = LIMIT,
    as_json: options.AsJson = False,
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
) -> None:
    """Explain where a group's members are, and where one more could go.

    Shows each host where a member holds a seat or the group's place, with what
    is in flight there; then each host as a further member would find it.

    Example:

      berthold explain group 0b5f7f1e-2f70-4f7c-9a06-0f1d6b0c8a11
    """
    with _asking(database_url, data) as ask:
        said, asked = ask.read(_group, group, "berthold group list")
        look = ask.look(asked, host)
    if as_json:
        _json({**said.document(by_host=True), "further_member": look.document(by_host=True)})
        return
    _print_group(said)
    _print_look(look, limit, "A further member")


def _group(tx: Tx, group_id: str) -> tuple[GroupSaid, Asked]:
    row = reading.group(tx, group_id, None)
    return explain_group.said(tx, row), explain.further_member(tx, row)


@app.command("move")
def move_command(
    move: Move,
    host: Host = None,
    limit: Limit = LIMIT,
    as_json: options.AsJson = False,
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
) -> None:
    """Explain a move: what it does, why it waits or why it failed.

    Shows what was found of each host at the time; and, where the same could be
    asked for again, what each host would say now. Finished moves too.

    Example:

      berthold explain move 5b0c9a5e-3f0c-4d43-9c0b-6f1f3b1f8f52
    """
    with _asking(database_url, data) as ask:
        said, asked = ask.read(_move, move, "berthold move list, openstack server migration list")
        look = ask.look(asked, host) if asked else None
    if as_json:
        now = look.document(by_host=True) if look else None
        _json({"move": said.document(by_host=True), "now": now})
        return
    _print_move(said, limit)
    if look:
        _print_look(look, limit)


def _move(tx: Tx, move_id: str) -> tuple[MoveSaid, Asked | None]:
    row, server = explain_move.move_of(tx, move_id, None)
    return explain_move.said(tx, row, server, Settings()), explain_move.asked_again(tx, row, server)


# -- Asking -------------------------------------------------------------------------------


class _Ask:
    """A cloud's database, asked by somebody who sees all of it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.watch = Watch(store, Settings().silent_after_s)

    def read(self, f: Callable[[Tx, str], T], thing_id: str, shown_by: str) -> T:
        try:
            return self.store.read_now(f, thing_id)
        except NotFound as absent:
            raise Wrong(absent.message, f"ids are shown by: {shown_by}") from absent

    def look(self, asked: Asked, host: str | None) -> Look:
        look = self.store.read_now(explain.look, asked, Settings(), self.watch)
        if host is None:
            return look
        if not (one := look.of_host(host)).hosts:
            raise Wrong(f"There is no host {host}.", "without --host all are explained")
        return one


@contextmanager
def _asking(database_url: str | None, data: Path) -> Iterator[_Ask]:
    with opened(database_url, data) as store:
        yield _Ask(store)


# -- Showing ------------------------------------------------------------------------------


def _json(document: object) -> None:
    out.print(json.dumps(document, indent=2), markup=False)


def _nearest(hosts: Sequence[HostSaid], limit: int) -> tuple[Sequence[HostSaid], int]:
    """So many hosts, those first that have least against them, and how many are left out."""
    ordered = sorted(hosts, key=lambda host: len(host.against))
    shown = ordered[:limit] if limit else ordered
    return shown, len(ordered) - len(shown)


def _left_out(hosts: int) -> None:
    if hosts:
        which = f"{hosts} more {'host' if hosts == 1 else 'hosts'}"
        out.print(Text(f"  … and {which}: --limit 0 shows all, --host NAME one.", style="dim"))


def _print_move(said: MoveSaid, limit: int) -> None:
    out.print(Text(said.operators_say or said.says))
    out.print(Text(f"  move {said.row['id']}, {said.row['state']}", style="dim"))
    for way in (*said.ways, *said.operators_ways):
        out.print(Text(f"  -> {way}"))
    hosts, more = _nearest(said.refused, limit)
    for host in hosts:
        for against in host.against:
            there = ", ".join(dict.fromkeys(each.name for each in against.members))
            blocked = f" [{there}]" if there else ""
            out.print(Text.assemble("  ", (host.host, "bold"), f"  {_why(against)}{blocked}"))
    _left_out(more)


def _print_look(look: Look, limit: int, who: str = "") -> None:
    when = f", once move {look.after} is over" if look.after else " that began now"
    who = who or f"A {look.kind}{when}"
    out.print(Text(f"\n{who}: {look.says()}"))
    shared = {way: names for way, names in _helped_by(look).items() if len(names) > 1}
    hosts, more = _nearest(look.hosts, limit)
    for host in hosts:
        _print_host(host, shared)
    _left_out(more)
    for way, names in _most_helpful(shared, limit):
        which = ", ".join(names) if len(names) <= NAMED_AT_MOST else f"{len(names)} hosts"
        out.print(Text(f"  -> {which}: {way}"))


def _most_helpful(shared: Mapping[str, Sequence[str]], limit: int) -> list[tuple[str, Sequence[str]]]:
    """As many of the ways as hosts are shown, those first that help most hosts."""
    ordered = sorted(shared.items(), key=lambda way: -len(way[1]))
    return ordered[:limit] if limit else ordered


def _helped_by(look: Look) -> dict[str, list[str]]:
    """The hosts that each way would help, so that what helps on several is said once."""
    found: dict[str, list[str]] = {}
    for host in look.hosts:
        for way in dict.fromkeys(way for against in host.against for way in against.ways):
            found.setdefault(way, []).append(host.host)
    return found


def _print_host(host: HostSaid, shared: Container[str]) -> None:
    members = f"  ({host.members} of its group there)" if host.members else ""
    word, colour = ("refused", "red") if host.against else ("would do", "green")
    out.print(Text.assemble("  ", (host.host, "bold"), "  ", (word, colour), members))
    for against in host.against:
        out.print(Text(f"      {_why(against)}"))
        for way in (each for each in against.ways if each not in shared):
            out.print(Text(f"      -> {way}"))


def _why(against: Against) -> str:
    rule = f" ({against.rule})" if against.rule and f"({against.rule})" not in against.reason else ""
    return f"{against.cause}{rule}: {against.reason}"


def _print_group(said: GroupSaid) -> None:
    row = said.row
    out.print(Text.assemble((row["name"], "bold"), f"  {row['policy']}, {len(row['member_ids'])} members"))
    if said.operators_moving:
        out.print(Text(f"  It is on its way: {said.operators_moving}."))
    for domain in said.domains:
        _print_domain(domain)
    for member in said.nowhere:
        out.print(Text(f"  {member} is on no host"))


def _print_domain(domain: Domain) -> None:
    held = len({each.id for each in domain.holders})
    seats = f"{held} of {domain.limit} seats" if domain.limit else f"{held} members"
    place = f", its {domain.place}" if domain.place else ""
    out.print(Text.assemble("  ", (domain.host, "bold"), f"  {seats}{place}"))
    for each in domain.holders:
        under_way = f", {each.move_kind} under way (move {each.move_id})" if each.move_id else ""
        out.print(Text(f"      {each.id}  {each.name}  {each.role}{under_way}"))
