"""`berthold doctor`: looks at a whole set-up, says what is wrong and what to do about it.

Every check is a function that looks and gives `Finding`s; it changes nothing, not even the
permissions that it complains of. What only the operator can judge (a host that is fenced and
empty) is a note; what must be done makes the command exit with 1.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import typer
from rich.text import Text

from berthold.cli import database, options
from berthold.cli import home as homes
from berthold.cli.console import Wrong, out
from berthold.cli.moves import ago, where
from berthold.companions import quotas
from berthold.errors import Unavailable
from berthold.ledger import compliance, group_moves, moves, overview, reading
from berthold.ledger.audit import CHECKS, audit
from berthold.ledger.store import Store, Tx
from berthold.moves import group_status
from berthold.moves.auditor import DUTY
from berthold.records import duties
from berthold.settings import Settings

OK, NOTE, WRONG = "ok", "note", "WRONG"
COLOURS = {OK: "green", NOTE: "yellow", WRONG: "bold red"}

SECRETS = ("password", "token.key", "agents.token", "clouds.yaml")
OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
FREE_GB = 1.0
SKEW_S = 1.0
# How many of its turns the auditor may miss.
LATE = 3
# M4: every unfinished move is worked on, or picked up within this.
PICKED_UP_S = 10.0


@dataclass(frozen=True)
class Finding:
    """What a check saw; `do` is what to do about it."""

    word: str
    check: str
    says: str
    do: str = ""


def doctor(database_url: options.Database = None, data: options.Data = homes.DEFAULT) -> None:
    """Check a set-up: what is wrong, and what to do about it.

    Looks at this machine, the data directory, the database, every promise,
    hosts and moves. Changes nothing; may be run beside a cloud that works.
    Exits with 1 if something must be done.

    Example:

      berthold doctor --database postgresql+psycopg://db/berthold
    """
    directory = data.expanduser()
    wrong = 0
    for finding in examine(directory, database_url or f"sqlite:///{directory.resolve() / 'berthold.db'}"):
        show(finding)
        wrong += finding.word == WRONG
    if wrong:
        out.print(f"\n{wrong} thing{'s' * (wrong > 1)} must be done.", style="bold red")
    else:
        out.print("\nNothing must be done.", style="green")
    raise typer.Exit(1 if wrong else 0)


def show(finding: Finding) -> None:
    """One line, and below it what to do."""
    line = Text.assemble(
        (f"{finding.word:<5}", COLOURS[finding.word]), f"  {finding.check:<10}  {finding.says}"
    )
    out.print(line)
    for step in finding.do.splitlines():
        out.print(Text(f"{'':<19}-> {step}"))


def examine(directory: Path, url: str) -> Iterator[Finding]:
    """Every check, one after another; those that need a database only if it can be used."""
    yield from python()
    yield from libraries()
    yield from permissions(directory)
    yield from free_disk(directory)
    reached = list(database_there(url))
    yield from reached
    if any(finding.word == WRONG for finding in reached):
        return
    with closing(Store(url)) as store:
        try:
            for check in (database_settings, clock, promises, placed, hosts, unfinished, groups):
                yield from store.read_now(_looked, check)
        except Unavailable as error:
            yield Finding(WRONG, "database", f"it stopped to answer: {error.message}", "run this again")


def _looked(tx: Tx, check: Callable[[Tx], Iterator[Finding]]) -> list[Finding]:
    return list(check(tx))


# -- The machine --------------------------------------------------------------------------


def python() -> Iterator[Finding]:
    """The interpreter (an older one than we need would not have come this far) and its SQLite."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        old = f"its SQLite is {sqlite3.sqlite_version}"
        yield Finding(WRONG, "python", old, "use a Python with SQLite 3.35 or newer")
    else:
        yield Finding(OK, "python", f"{version}, with SQLite {sqlite3.sqlite_version}")


def libraries() -> Iterator[Finding]:
    """Whether each library is as new as this version of Berthold needs it."""
    try:
        needed = [need for need in metadata.requires("berthold") or [] if "extra ==" not in need]
    except metadata.PackageNotFoundError:
        yield Finding(NOTE, "libraries", "not known: Berthold was not installed as a package")
        return
    old = [trouble for need in needed if (trouble := _too_old(need))]
    if old:
        yield Finding(
            WRONG, "libraries", "; ".join(old), f"{sys.executable} -m pip install --upgrade berthold"
        )
    else:
        yield Finding(OK, "libraries", f"all {len(needed)} are as new as needed")


def _too_old(need: str) -> str | None:
    asked = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", need.replace(" ", ""))
    if asked is None:
        return None
    name, least = asked.groups()
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"{name} is not installed"
    return f"{name} is {found}, {least} is needed" if _numbers(found) < _numbers(least) else None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, without trailing zeros."""
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in leading[0].split(".")] if leading else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def permissions(directory: Path) -> Iterator[Finding]:
    """Only its owner may read the data directory and what is secret in it."""
    if not directory.is_dir():
        yield Finding(
            NOTE,
            "directory",
            f"{directory} is not there",
            "the first start of a cloud makes it (--data names it)",
        )
        return
    if not os.access(directory, os.R_OK | os.X_OK):
        yield Finding(WRONG, "directory", f"{directory} cannot be read", "run this as the cloud's own user")
        return
    secrets = [directory / name for name in SECRETS if (directory / name).exists()]
    open_to_all = [path for path in (directory, *secrets) if path.stat().st_mode & 0o077]
    if directory.stat().st_uid != os.geteuid():
        yield Finding(
            NOTE, "directory", f"{directory} is another user's", "run the cloud, and this, as that user"
        )
    for path in open_to_all:
        right = "700" if path == directory else "600"
        says = f"others may use {path} ({path.stat().st_mode & 0o777:o})"
        yield Finding(WRONG, "directory", says, f"chmod {right} {path}")
    if not open_to_all:
        yield Finding(OK, "directory", f"{directory} and its secrets are its owner's alone")


def free_disk(directory: Path) -> Iterator[Finding]:
    """Room where images, volumes and a SQLite database are kept."""
    place = next(path for path in (directory.resolve(), *directory.resolve().parents) if path.is_dir())
    free = shutil.disk_usage(place).free / 2**30
    if free < FREE_GB:
        yield Finding(WRONG, "disk", f"{free:.1f} GiB are free at {place}", "make room, at least 1 GiB")
    else:
        yield Finding(OK, "disk", f"{free:.0f} GiB are free at {place}")


# -- The database -------------------------------------------------------------------------


def database_there(url: str) -> Iterator[Finding]:
    """Whether it can be reached and has the tables of this version."""
    if database.missing(url):
        do = "start a cloud: berthold up\nor name one: --data"
        yield Finding(WRONG, "database", f"{database.shown(url)} is not there", do)
        return
    try:
        database.standing(url)
    except Wrong as wrong:
        yield Finding(WRONG, "database", wrong.says, wrong.do)
    else:
        yield Finding(OK, "database", f"{database.shown(url)} is reached and current")


def database_settings(tx: Tx) -> Iterator[Finding]:
    """What promises rest on: A1 on writes that reach the disk, M4 on sessions that end."""
    settings = overview.settings(tx)
    bad = {name: value for name, (value, good) in settings.items() if value not in good}
    for name, value in bad.items():
        says = f"{name} is {value}: a crash may lose what was acknowledged"
        do = f"ALTER SYSTEM SET {name} = '{settings[name][1][0]}'; SELECT pg_reload_conf();"
        yield Finding(WRONG, "settings", says, do)
    if not bad:
        yield Finding(OK, "settings", ", ".join(f"{name}={value}" for name, (value, _) in settings.items()))


def clock(tx: Tx) -> Iterator[Finding]:
    """Leases go by the database's clock, heartbeats by those of the API's machines."""
    ahead = overview.skew(tx)
    if abs(ahead) > SKEW_S:
        says = f"the database's is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
        yield Finding(WRONG, "clock", says, "let NTP (chrony, timesyncd) keep both")
    else:
        yield Finding(OK, "clock", "the database and this machine agree")


def promises(tx: Tx) -> Iterator[Finding]:
    """Every promise, as `berthold db audit` asks for it; M4 is a matter of `unfinished`."""
    violations = [found for found in (*audit(tx), *quotas.audit(tx)) if found.promise != "M4"]
    for violation in violations:
        do = "stop the conductors, keep the database as it is, and report this (berthold db audit has more)"
        yield Finding(WRONG, "promises", f"{violation.promise} is broken: {violation.says}", do)
    if not violations:
        count = len({check.promise for check in CHECKS})
        yield Finding(OK, "promises", f"all {count} that can be asked of a database hold")


def placed(tx: Tx) -> Iterator[Finding]:
    """Whether servers are where their groups and their hosts' capacity want them; whether it is watched."""
    found = compliance.violations(tx)
    for each in found:
        yield Finding(WRONG, "compliance", f"({each.rule}) {each.says}", "\n".join(each.mends))
    last = duties.last(tx, DUTY)
    late = Settings().audit_s * LATE
    if last and last["done_at"] is not None and overview.machine_time(tx) - last["done_at"] > late:
        says = f"the auditor has not looked for {ago(overview.machine_time(tx) - last['done_at'])}"
        yield Finding(NOTE, "compliance", says, "start a conductor: berthold conductor --database …")
    elif not found:
        looks = "the auditor looks" if last else "the auditor has not looked yet"
        yield Finding(OK, "compliance", f"all servers are where they should be; {looks}")


# -- Hosts and moves ----------------------------------------------------------------------


def hosts(tx: Tx) -> Iterator[Finding]:
    """Hosts that are silent, fenced, or still clean up."""
    known = reading.hosts(tx)
    if len(known) > 1 and all(_unheard(tx, row) > Settings().silent_after_s for row in known):
        says = f"none of {len(known)} hosts is heard"
        yield Finding(WRONG, "hosts", says, "start the cloud (berthold up), or the agents and an API process")
        return
    troubles = [finding for row in known for finding in _host(tx, row)]
    yield from troubles
    if not known:
        yield Finding(NOTE, "hosts", "there are none", "start agents: berthold agent --url … --token-file …")
    elif not troubles:
        yield Finding(OK, "hosts", f"all {len(known)} are up and heard")


def _unheard(tx: Tx, row: reading.Row) -> float:
    """For how many seconds nobody has heard of the host."""
    heard: float = row["heard_at"] or 0.0
    return overview.machine_time(tx) - heard


def _host(tx: Tx, row: reading.Row) -> Iterator[Finding]:
    name, guests = row["name"], overview.homes_on(tx, row["id"])
    unheard = _unheard(tx, row)
    silence = f"has not been heard for {ago(unheard)}" if row["heard_at"] else "has not been heard yet"
    silent = unheard > Settings().silent_after_s
    live = f"{guests} {'server lives' if guests == 1 else 'servers live'} there"
    see = f"see what lives there: openstack server list --all-projects --host {name}"
    evacuate = f"{see}\nthen, for each: openstack server evacuate SERVER"
    if row["status"] == "fenced" and guests:
        yield Finding(WRONG, "hosts", f"{name} is fenced and {live}", evacuate)
    elif row["status"] == "fenced":
        do = f"once it is repaired: openstack compute service set --up {name} nova-compute"
        yield Finding(NOTE, "hosts", f"{name} is fenced and empty", do)
    elif row["status"] == "cleaning":
        says = f"{name} takes nothing before it has removed what it left behind"
        word, do = (WRONG, "start its agent, which does that") if silent else (NOTE, "wait for it")
        yield Finding(word, "hosts", f"{says}, and {silence}" if silent else says, do)
    elif silent:
        down = f"if it is dead: openstack compute service set --down {name} nova-compute"
        steps = [f"look at {name} and its agent", down, *([evacuate] if guests else [])]
        says = f"{name} {silence}, and {live}" if guests else f"{name} {silence}"
        yield Finding(WRONG, "hosts", says, "\n".join(steps))
    elif row["disabled"]:
        reason = f": {row['disabled_reason']}" if row["disabled_reason"] else ""
        do = f"openstack compute service set --enable {name} nova-compute"
        yield Finding(NOTE, "hosts", f"{name} is disabled{reason}", do)


def unfinished(tx: Tx) -> Iterator[Finding]:
    """Moves that are stuck or that nobody works on (M4)."""
    present, rows = overview.present(tx), overview.unfinished_moves(tx)
    stuck = [row for row in rows if row["state"] == "stuck"]
    idle = [row for row in rows if row["state"] in moves.WORKED_ON and _left_alone(row, present)]
    for row in stuck:
        says = f"the {row['kind']} of {row['server_name']} is stuck at '{where(row)}': {row['trouble']}"
        do = f"repair that, then: berthold move resume {row['id']}"
        do += f"\nor: openstack server delete {row['server_id']}"
        yield Finding(WRONG, "moves", says, do)
    if idle:
        oldest = ago(max(present - max(row["until"], row["updated_at"]) for row in idle))
        says = f"nobody works on {len(idle)} of {len(rows)} unfinished moves, for up to {oldest}"
        yield Finding(WRONG, "moves", says, "start a conductor: berthold conductor --database …")
    if not stuck and not idle:
        yield Finding(OK, "moves", f"{len(rows)} under way, none stuck or left alone")


def groups(tx: Tx) -> Iterator[Finding]:
    """Whole-group moves that wait for an operator."""
    for whole in group_moves.unfinished(tx):
        seen = group_status.look(tx, group_moves.find(tx, whole)["group_id"])
        if seen["status"] != "held":
            continue
        (kept, *_) = [member for member in seen["members"] if member["status"] == "held"]
        says = f"a whole group is held between {seen['source']} and {seen['target']}: {kept['name']}: "
        do = f"repair that, then: berthold group move {seen['group_id']} --resume\nor take it back: --back"
        yield Finding(WRONG, "groups", says + str(kept["said"] or kept["reason"]), do)


def _left_alone(row: overview.Row, present: float) -> bool:
    return bool(present - max(row["until"], row["updated_at"]) > PICKED_UP_S)
