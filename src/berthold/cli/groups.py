"""`berthold group list` and `berthold group show`: server groups, and whether their members comply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.text import Text

from berthold.api.views.fields import iso_long
from berthold.cli import group_move, options
from berthold.cli import home as homes
from berthold.cli.console import Wrong, out
from berthold.cli.moves import opened, table
from berthold.errors import NotFound
from berthold.ledger import compliance, overview, reading
from berthold.ledger.compliance import Finding, Member
from berthold.ledger.store import Tx
from berthold.moves import explain_group
from berthold.moves.explained import compliance_of
from berthold.records import violations
from berthold.settings import Settings

app = typer.Typer(help="See server groups and whether they comply; move a whole one.", no_args_is_help=True)
app.command("move")(group_move.move)

MOST = 1_000_000
HEADINGS = ("group", "name", "policy", "members", "complies", "moving")
COLOURS = {compliance.VIOLATION: "bold red", compliance.AT_RISK: "yellow", compliance.PREFERENCE: "cyan"}


@app.command("list")
def list_command(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """List all server groups, and whether each complies.

    A group complies when every member is where its policy wants it, on a host
    that holds no more than it may.

    Example:

      berthold group list --database postgresql+psycopg://db/berthold
    """
    with opened(database_url, data) as store:
        rows = store.read_now(_groups)
    if not rows:
        out.print("There are no server groups.")
        return
    table(HEADINGS, rows)


def _groups(tx: Tx) -> list[tuple[str, ...]]:
    wrong = {server for finding in compliance.violations(tx) for server in finding.servers}
    return [
        (
            row["id"],
            row["name"],
            policy(row),
            str(len(row["member_ids"])),
            "yes" if wrong.isdisjoint(row["member_ids"]) else "NO",
            "yes" if row["moving"] else "-",
        )
        for row in reading.groups(tx, project_id=None, limit=MOST)
    ]


def policy(group: reading.Row) -> str:
    """The group's policy, and how many members a host may hold where that is not one."""
    most = f" (up to {group['per_host']} on a host)" if group["per_host"] > 1 else ""
    return f"{group['policy']}{most}"


@app.command()
def show(
    group: Annotated[str, typer.Argument(metavar="ID", help="The group's id.")],
    as_json: options.AsJson = False,
    database_url: options.Database = None,
    data: options.Data = homes.DEFAULT,
) -> None:
    """Show a group's members, whether each complies, and why not.

    A member does not comply when it is where the policy does not want it, or
    on a host that holds more than its capacity. It is at risk when its host is
    fenced or silent. Exits with 1 if a member does not comply.

    Example:

      berthold group show 0b5f7f1e-2f70-4f7c-9a06-0f1d6b0c8a11
    """
    with opened(database_url, data) as store:
        try:
            row, members, since = store.read_now(_group, group)
            way = store.read_now(explain_group.moving, row)[1]
        except NotFound as absent:
            raise Wrong(absent.message, "ids are shown by: berthold group list") from absent
    if as_json:
        out.print(json.dumps(compliance_of(row, members, since, by_host=True), indent=2), markup=False)
    else:
        _print(row, way, members, since)
    raise typer.Exit(0 if all(member.complies for member in members) else 1)


def _group(tx: Tx, group_id: str) -> tuple[reading.Row, list[Member], dict[str, str]]:
    row = reading.group(tx, group_id, None)
    heard_since = overview.machine_time(tx) - Settings().silent_after_s
    since = {each["key"]: iso_long(each["since"]) or "" for each in violations.standing(tx)}
    return row, compliance.members(tx, row, heard_since), since


def _print(row: reading.Row, way: str, members: list[Member], since: Mapping[str, str]) -> None:
    out.print(Text.assemble((row["name"], "bold"), f"  {policy(row)}, {len(members)} members"))
    if way:
        out.print(Text(f"  It is on its way: {way}."))
    for member in members:
        word, colour = ("complies", "green") if member.complies else ("DOES NOT COMPLY", "bold red")
        where = f"on {member.host}" if member.host else "on no host"
        out.print(Text.assemble(f"  {member.id}  {member.name}  {where}  ", (word, colour)))
        for finding in member.findings:
            _explain(finding, since.get(finding.key))


def _explain(finding: Finding, since: str | None) -> None:
    says = f" ({finding.rule}): {finding.says}{f', seen since {since}' if since else ''}"
    out.print(Text.assemble("      ", (finding.kind, COLOURS[finding.kind]), says))
    for way in finding.mends:
        out.print(Text(f"      -> {way}"))
