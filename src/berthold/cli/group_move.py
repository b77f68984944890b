"""`berthold group move`: all members of an affinity group go to one new host, or none does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from berthold.cli import home as homes
from berthold.cli import options
from berthold.cli.console import Wrong, out
from berthold.cli.moves import opened
from berthold.clock import SystemClock
from berthold.errors import Malformed, NotFound, NoValidHost, Refused, WrongState
from berthold.ledger import reading
from berthold.ledger.store import Store, Tx
from berthold.moves import explain_move, group_placing, group_status, together
from berthold.moves.begin import By
from berthold.moves.outcome import by_host
from berthold.moves.watch import Watch
from berthold.settings import Settings

LOOK_AGAIN_S = 0.5
# After so many looks at which nothing had changed it is said what is waited for.
QUIET_LOOKS = 10
COLOURS = {
    "held": "bold red",
    "refused": "bold red",
    "done": "green",
    "returned": "green",
    "arrived": "green",
}

Group = Annotated[str, typer.Argument(metavar="ID", help="The group's id: berthold group list.")]
To = Annotated[str | None, typer.Option("--to", help="The new host; otherwise the best one.")]
Resume = Annotated[bool, typer.Option("--resume", help="Let what is held go on to the new host.")]
Back = Annotated[bool, typer.Option("--back", help="Take all back to where they came from.")]
Wait = Annotated[
    int,
    typer.Option(
        "--wait",
        min=0,
        max=int(Settings.wait_max_s),
        help="For how many seconds the group may wait, if only others on the move are in its way.",
    ),
]
Show = Annotated[bool, typer.Option("--show", help="Change nothing; only say how far it is.")]
Follow = Annotated[bool, typer.Option("--watch", help="Show how far it is until it ends or needs you.")]


def move(
    group: Group,
    to: To = None,
    resume: Resume = False,
    back: Back = False,
    wait: Wait = 0,
    show: Show = False,
    watch: Follow = False,
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
) -> None:
    """Move a whole affinity group to another host.

    A place there is claimed for every member, or for none. Running members go
    live, stopped ones with their disks. No member gives up its old place
    before the last has arrived; so if one cannot go on, the group is held, and
    --resume or --back finishes it. A member whose host is fenced is made anew
    on the other one. With --wait a group that finds no host, or whose members
    are busy, waits where it is, and --back ends that. Exits with 1 if the group
    is held or was given no host.

    Examples:

      berthold group move 0b5f7f1e-2f70-4f7c-9a06-0f1d6b0c8a11 --to node7

      berthold group move 0b5f7f1e-2f70-4f7c-9a06-0f1d6b0c8a11 --wait 600

      berthold group move 0b5f7f1e-2f70-4f7c-9a06-0f1d6b0c8a11 --back --watch
    """
    if sum((to is not None or wait > 0, resume, back, show)) > 1:
        raise Wrong(
            "Only one of --to, --resume, --back and --show can be meant; --wait goes with --to or none."
        )
    with opened(database_url, data) as store:
        try:
            row = store.read_now(reading.group, group, None)
            if not show:
                _ask(store, row, to, wait, together.forward if resume else together.back if back else None)
            seen = _follow(store, group) if watch else store.read_now(group_status.look, group)
        except NoValidHost as nowhere:
            raise Wrong(nowhere.message, "\n".join(by_host(nowhere.reasons))) from nowhere
        except (Malformed, NotFound, Refused, WrongState) as failure:
            raise Wrong(failure.message) from failure
    _print(seen)
    raise typer.Exit(1 if seen["status"] in ("held", "refused") else 0)


def _ask(
    store: Store, group: reading.Row, host: str | None, wait: int, word: Callable[[Tx, str, By], str] | None
) -> None:
    request = f"req-{SystemClock().new_id()}"
    by = By("operator", group["project_id"], request, is_admin=True, wait_s=wait)
    if word is not None:
        store.write_now(word, group["id"], by)
        return
    settings = Settings()
    hosts = Watch(store, settings.silent_after_s)
    asyncio.run(group_placing.move_group(store, hosts, settings, group["id"], by, host))


def _follow(store: Store, group_id: str) -> dict[str, Any]:
    """Show what changes until nothing more will by itself; how it ended."""
    last, quiet = "", 0
    while True:
        seen = store.read_now(group_status.look, group_id)
        line = f"{seen['status']}: " + ", ".join(f"{m['name']} {m['status']}" for m in seen["members"])
        if line != last:
            out.print(line, markup=False, style="dim")
            last, quiet = line, 0
        elif (quiet := quiet + 1) == QUIET_LOOKS:
            for why in store.read_now(_what_for, seen):
                out.print(Text(f"  {why}"))
        if group_status.is_at_rest(seen):
            return seen
        time.sleep(LOOK_AGAIN_S)


def _what_for(tx: Tx, seen: dict[str, Any]) -> list[str]:
    """What the members that are not where they go wait for, and what would help them."""
    found: list[str] = []
    for member in seen["members"]:
        if member["in_motion"]:
            said = explain_move.said(tx, *explain_move.move_of(tx, member["move_id"], None), Settings())
            found += [said.operators_say or said.says, *(f"-> {way}" for way in said.operators_ways)]
    return list(dict.fromkeys(found))


def _print(seen: dict[str, Any]) -> None:
    way = f"{seen['source']} -> {seen['target'] or '?'}"
    status = (seen["status"], COLOURS.get(seen["status"], "bold"))
    out.print(Text.assemble(f"Group move {seen['id']}, {way}: ", status))
    if seen["reason"]:
        out.print(Text(f"  {seen['reason']}"))
    for member in seen["members"]:
        status = (member["status"], COLOURS.get(member["status"], ""))
        where = f"on {member['host']}" if member["host"] else "on no host"
        out.print(Text.assemble(f"  {member['server_id']}  {member['name']}  {where}  ", status))
        if member["reason"]:
            out.print(Text(f"      {member['reason']}"))
        for host, why in member["hosts"].items():
            out.print(Text(f"      {host}: {why}"))
    if seen["status"] == "held":
        out.print("Repair what keeps it, then --resume; or take all back with --back.", markup=False)
