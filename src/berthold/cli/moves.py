"""`berthold move list` and `berthold move resume`: what is under way, and going on with what is stuck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from berthold.cli import database, options
from berthold.cli import home as homes
from berthold.cli.console import Wrong, out
from berthold.errors import NotFound, WrongState
from berthold.ledger import moves, overview
from berthold.ledger.store import Store
from berthold.moves.status import line_of

app = typer.Typer(help="See what is under way, and go on with what is stuck.", no_args_is_help=True)

HEADINGS = ("move", "server", "kind", "state", "line", "since", "owner", "last trouble")


@app.command("list")
def list_command(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """List what is under way, and what went wrong last.

    For each unfinished move: its server, its kind, the line that it is at and
    since when, and the conductor that works on it. One that is `waiting` is a
    resize to be confirmed or reverted, or part of a whole-group move; one that
    is `stuck` needs an operator.
    One that waits for a place says which hosts others on the move may free.

    Example:

      berthold move list --database postgresql+psycopg://db/berthold
    """
    with opened(database_url, data) as store:
        present = store.read_now(overview.present)
        unfinished = store.read_now(overview.unfinished_moves)
    if not unfinished:
        out.print("Nothing is under way.")
        return
    table(HEADINGS, [_cells(move, present) for move in unfinished])


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns, as wide as they must be: a line that is cut can be read neither by eye nor by grep."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for number, row in enumerate([headings, *rows]):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        out.print(Text(line.rstrip(), style="" if number else "bold"))


def _cells(move: Mapping[str, Any], present: float) -> tuple[str, ...]:
    return (
        move["id"],
        move["server_name"],
        move["kind"],
        move["state"],
        where(move),
        ago(present - move["line_since"]),
        owner(move, present),
        waits_for(move) or move["trouble"],
    )


def where(move: Mapping[str, Any]) -> str:
    """The line that the move is at, and which try of it this is, or for how many hosts it waits there."""
    if waits := move["facts"].get("waits"):
        hosts = len(waits["hosts"])
        return f"{line_of(move).name} (waits for {hosts} {'host' if hosts == 1 else 'hosts'})"
    tried = f" (try {move['attempt'] + 1})" if move["attempt"] else ""
    return f"{line_of(move).name}{tried}"


def waits_for(move: Mapping[str, Any]) -> str:
    """What a move that waits for a place waits for, by host."""
    hosts: Mapping[str, str] = move["facts"].get("waits", {}).get("hosts", {})
    return "; ".join(f"{name}: {why}" for name, why in hosts.items())


def owner(move: Mapping[str, Any], present: float) -> str:
    """Which conductor works on the move; a dash for one that nobody need work on."""
    lets_be = move["owner"] is None and move["facts"].get("waits")
    if move["state"] not in moves.WORKED_ON or lets_be:
        return "-"
    if move["until"] < present:
        return "nobody"
    return move["owner"] or f"again in {ago(move['until'] - present)}"


def ago(seconds: float) -> str:
    """A length of time as people say it: 12s, 3m, 5h, 2d."""
    seconds = max(seconds, 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


@app.command()
def resume(
    move: Annotated[
        str, typer.Argument(metavar="ID", help="The move's id, as `berthold move list` shows it.")
    ],
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
) -> None:
    """Go on with a move that is stuck.

    To be done when what kept it is repaired. It goes on where it was, in the
    direction that it had. (To delete the server is the other way out.)

    Example:

      berthold move resume 5b0c9a5e-3f0c-4d43-9c0b-6f1f3b1f8f52
    """
    with opened(database_url, data) as store:
        try:
            store.write_now(moves.unstick, move)
        except (NotFound, WrongState) as failure:
            raise Wrong(failure.message, "what is under way is shown by: berthold move list") from failure
    out.print(f"Move {move} goes on; a conductor takes it within a second or two.", markup=False)


@contextmanager
def opened(database_url: str | None, data: Path) -> Iterator[Store]:
    """The cloud's database, which must be there and current."""
    store = Store(database.found(database_url, data))
    try:
        yield store
    finally:
        store.close()
