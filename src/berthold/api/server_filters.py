"""From the query of `GET /servers` to what the ledger is asked for.

Every filter that is accepted counts, for whom it is meant: some are for operators, and some of these for
everybody since 2.83; for others they say nothing, as ever. What servers show is compared as it is shown.

A name is a regular expression on MySQL's terms: found anywhere, upper and lower case alike.
Plain words and anchors become LIKE. The rest is judged in Python, and only expressions that
cannot run away are: bounded in length, no groups repeated, two repeats at most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.views.servers import ROOT_DEVICE, status
from berthold.errors import Malformed, NotAllowed
from berthold.ledger.reading import SORT_KEYS, Row, ServersWanted
from berthold.moves.status import AT_REST, ON_THE_MOVE, WHILE_ACTIVE

Judge = Callable[[Row], bool]

ALL_PROJECTS = "os_compute_api:servers:index:get_all_tenants"
ALL_FILTERS = "os_compute_api:servers:allow_all_filters"
STATUSES = {
    "VERIFY_RESIZE",
    *(status for status, _, _ in AT_REST.values()),
    *ON_THE_MOVE.values(),
    *WHILE_ACTIVE.values(),
}
PATTERN_MAX = 255
REPEATS_MAX = 2

# Query parameter -> column that must be equal: for admins, and since 2.83 for everybody where
# the last set names it.
ADMINS = {
    "user_id": "user_id",
    "uuid": "id",
    "instance_uuid": "id",
    "image_ref": "image_id",
    "key_name": "key_name",
    "description": "description",
    "display_description": "description",
}
# The same for what a server shows and no column says: text, a truth, a moment.
SHOWN: Mapping[str, Callable[[Row], Any]] = {
    "power_state": lambda row: status(row).power_state,
    "progress": lambda row: status(row).progress,
    "launch_index": lambda row: row["details"].get("launch_index", 0),
    "hostname": lambda row: row["details"].get("hostname"),
    "access_ip_v4": lambda row: row["details"].get("access_ip_v4", ""),
    "access_ip_v6": lambda row: row["details"].get("access_ip_v6", ""),
    "root_device_name": lambda row: ROOT_DEVICE,
    "kernel_id": lambda row: "",
    "ramdisk_id": lambda row: "",
}
FLAGS: Mapping[str, Callable[[Row], bool]] = {
    "config_drive": lambda row: bool(row["details"].get("config_drive")),
    "auto_disk_config": lambda row: row["details"].get("disk_config") == "AUTO",
}
MOMENTS = {"created_at": "created_at", "launched_at": "launched_at", "terminated_at": "deleted_at"}
SINCE_2_83 = {
    *("user_id", "key_name", "description", "availability_zone", "vm_state", "task_state"),
    *("power_state", "progress", "config_drive", *MOMENTS),
}
# What only operators may know of servers, not even by the order in which theirs stand.
SORTED_BY_ADMINS = {"host", "node"}

QUERY = frozenset(
    {
        "access_ip_v4",
        "access_ip_v6",
        "all_tenants",
        "auto_disk_config",
        "availability_zone",
        "changes-before",
        "changes-since",
        "config_drive",
        "created_at",
        "deleted",
        "description",
        "display_description",
        "display_name",
        "fixed_ip",
        "flavor",
        "host",
        "hostname",
        "image",
        "image_ref",
        "instance_uuid",
        "ip",
        "ip6",
        "kernel_id",
        "key_name",
        "launch_index",
        "launched_at",
        "limit",
        "locked",
        "marker",
        "name",
        "node",
        "not-tags",
        "not-tags-any",
        "power_state",
        "progress",
        "project_id",
        "ramdisk_id",
        "reservation_id",
        "root_device_name",
        "soft_deleted",
        "sort_dir",
        "sort_key",
        "status",
        "tags",
        "tags-any",
        "task_state",
        "tenant_id",
        "terminated_at",
        "user_id",
        "uuid",
        "vm_state",
    }
)


def wanted(call: Call, zones: Mapping[str, str]) -> ServersWanted:
    """Which servers a request asks for; `zones` is what aggregates give to hosts.

    Raises `Malformed`, `NotAllowed`.
    """
    query, admin = call.query, call.may(ALL_FILTERS)
    name = query.text("name")
    name_like, name_judge = name_filter(query.text("display_name") if name is None and admin else name)
    judges = [name_judge, _statuses(call), _states(call, admin, zones), _reservation(call), _address(call)]
    judges += [_tags(call), _fixed_address(call, admin), *_as_shown(call, admin)]
    active = [judge for judge in judges if judge is not None]
    equal: dict[str, Any] = {}
    for name, column in {"image": "image_id", **(ADMINS if admin else {})}.items():
        if (value := query.text(name)) is not None:
            equal[column] = value
    if call.version >= Version(2, 83):
        for name in SINCE_2_83 & ADMINS.keys():
            if (value := query.text(name)) is not None:
                equal[ADMINS[name]] = value
    if call.version >= Version(2, 73) and (locked := query.flag("locked")) is not None:
        equal["locked"] = locked
    since, before = query.period(before=call.version >= Version(2, 66))
    return ServersWanted(
        project_id=_project(call),
        deleted=_deleted(call, admin),
        soft_deleted=_soft_deleted(call, admin),
        equal=equal,
        host=(query.text("host") or query.text("node")) if admin else None,
        flavor_id=query.text("flavor"),
        name_like=name_like,
        changed_since=since,
        changed_before=before,
        judge=(lambda row: all(judge(row) for judge in active)) if active else None,
    )


def sorting(call: Call) -> list[tuple[str, bool]]:
    """By what the list is sorted. Raises `Malformed`, `NotAllowed`."""
    keys = call.query.sorting(SORT_KEYS, "created_at")
    for key, _ in keys:
        if key in SORTED_BY_ADMINS and not call.is_admin:
            raise NotAllowed(f"Only administrators can sort servers by {key}")
    return keys


def _project(call: Call) -> str | None:
    """Whose servers: the caller's, one that an admin names, or everybody's."""
    named = call.query.text("project_id") or call.query.text("tenant_id")
    everybody = call.query.flag("all_tenants")
    if everybody:
        call.must(ALL_PROJECTS)
    if call.may(ALL_PROJECTS) and named and everybody is not False:
        return named
    return None if everybody else call.actor.project_id


def _deleted(call: Call, admin: bool) -> bool | None:
    statuses = [text.upper() for text in call.query.all("status")]
    if "DELETED" in statuses:
        if not admin:
            raise NotAllowed("Only administrators may list deleted instances")
        return True
    asked = call.query.flag("deleted", lax=True) if admin else None
    if asked is None and call.query.text("changes-since") is not None:
        return None  # whoever asks what changed wants to hear of what is gone
    return bool(asked)


def _soft_deleted(call: Call, admin: bool) -> bool:
    """Servers that may still be restored are listed for whoever asks for them, or for what has changed."""
    if "SOFT_DELETED" in {text.upper() for text in call.query.all("status")}:
        return True
    if call.query.text("vm_state") == "soft-delete" or call.query.text("changes-since") is not None:
        return True
    return admin and bool(call.query.flag("soft_deleted", lax=True) or call.query.flag("deleted", lax=True))


def _statuses(call: Call) -> Judge | None:
    asked = {text.upper() for text in call.query.all("status")}
    if call.version >= Version(2, 38) and (unknown := asked - STATUSES):
        raise Malformed(f"Invalid status value '{min(unknown)[:60]}'; known: {', '.join(sorted(STATUSES))}.")
    return (lambda row: status(row).status in asked) if asked else None


def _states(call: Call, admin: bool, zones: Mapping[str, str]) -> Judge | None:
    if not admin and call.version < Version(2, 83):
        return None
    vm_state, task_state = call.query.text("vm_state"), call.query.text("task_state")
    zone = call.query.text("availability_zone")
    if vm_state is None and task_state is None and zone is None:
        return None

    def judge(row: Row) -> bool:
        shown = status(row)
        host = row["host"]
        there = zones.get(host["name"], host["zone"]) if host else row["zone"]
        return (
            (vm_state is None or shown.vm_state == vm_state)
            and (task_state is None or (shown.task_state or "") == task_state)
            and (zone is None or there == zone)
        )

    return judge


def _as_shown(call: Call, admin: bool) -> list[Judge]:
    """One judge for each filter by what a server shows that this caller may use."""
    judges: list[Judge] = []
    for name in SHOWN.keys() | FLAGS.keys() | MOMENTS.keys():
        if call.query.text(name) is None or not _may_ask(call, admin, name):
            continue
        if name in SHOWN:
            judges.append(partial(_shows, SHOWN[name], call.query.text(name)))
        elif name in FLAGS:
            judges.append(partial(_is, FLAGS[name], call.query.flag(name)))
        else:
            judges.append(partial(_happened, MOMENTS[name], call.query.moment(name)))
    return judges


def _may_ask(call: Call, admin: bool, name: str) -> bool:
    return admin or (call.version >= Version(2, 83) and name in SINCE_2_83)


def _shows(shown: Callable[[Row], Any], asked: str | None, row: Row) -> bool:
    return str(shown(row)) == asked


def _is(shown: Callable[[Row], bool], asked: bool | None, row: Row) -> bool:
    return shown(row) is asked


def _happened(column: str, asked: float | None, row: Row) -> bool:
    """Whether it was at that moment, of which clients may have been shown the second only."""
    moment = row[column]
    return moment is not None and asked in (round(moment, 6), int(moment))


def _reservation(call: Call) -> Judge | None:
    asked = call.query.text("reservation_id")
    return (lambda row: row["details"].get("reservation_id") == asked) if asked is not None else None


def _address(call: Call) -> Judge | None:
    patterns = [text for name in ("ip", "ip6") if (text := call.query.text(name)) is not None]
    if not patterns:
        return None
    compiled = [_compiled(text, "ip") for text in patterns]

    def judge(row: Row) -> bool:
        addresses = [each["ip_address"] for port in row["ports"] for each in port["addresses"]]
        return all(any(pattern.search(address) for address in addresses) for pattern in compiled)

    return judge


def _fixed_address(call: Call, admin: bool) -> Judge | None:
    asked = call.query.text("fixed_ip") if admin else None
    if asked is None:
        return None
    return lambda row: any(each["ip_address"] == asked for port in row["ports"] for each in port["addresses"])


def _tags(call: Call) -> Judge | None:
    query = call.query
    if call.version < Version(2, 26) or not {"tags", "tags-any", "not-tags", "not-tags-any"} & {
        name for name, _ in query.pairs
    }:
        return None
    names = ("tags", "tags-any", "not-tags", "not-tags-any")
    every, some, not_every, none = (set((query.text(name) or "").split(",")) - {""} for name in names)

    def judge(row: Row) -> bool:
        has = set(row["details"].get("tags", []))
        return (
            every <= has
            and (not some or bool(some & has))
            and not (not_every and not_every <= has)
            and not none & has
        )

    return judge


# -- Names --------------------------------------------------------------------------------


def name_filter(pattern: str | None) -> tuple[str | None, Judge | None]:
    """A LIKE pattern if that says the same, else a function that judges. Raises `Malformed`."""
    if pattern is None or pattern in ("", ".*"):
        return None, None
    if len(pattern) > PATTERN_MAX:
        raise Malformed(f"The name filter is longer than {PATTERN_MAX} characters.")
    begins, ends = pattern.startswith("^"), pattern.endswith("$")
    literal = pattern[1 if begins else 0 : -1 if ends else None]
    if re.fullmatch(r"[\w :;,@#~=<>!&%/'\"-]*", literal, re.ASCII):
        escaped = re.sub(r"([%_\\])", r"\\\1", literal)
        return ("" if begins else "%") + escaped + ("" if ends else "%"), None
    compiled = _compiled(pattern, "name")
    return None, lambda row: compiled.search(row["name"]) is not None


def _compiled(pattern: str, what: str) -> re.Pattern[str]:
    """The expression, if it is one and cannot take for ever on a name of 255 characters."""
    if len(pattern) > PATTERN_MAX:
        raise Malformed(f"The {what} filter is longer than {PATTERN_MAX} characters.")
    plain = re.sub(r"\[\^?\]?[^\]]*\]", "c", re.sub(r"\\\D", "c", pattern))
    if "(?" in plain or "\\" in plain or re.search(r"\)[*+?{]", plain):
        raise Malformed(
            f"The {what} filter must not repeat groups or use (?…) or back references: that has no end."
        )
    if len(re.findall(r"[*+?]|\{", plain)) > REPEATS_MAX:
        raise Malformed(
            f"The {what} filter may repeat {REPEATS_MAX} things at most: more could take for ever."
        )
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError) as error:
        raise Malformed(f"The {what} filter is not a regular expression: {error}.") from None
