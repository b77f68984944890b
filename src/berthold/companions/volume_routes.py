"""Block storage v3 over HTTP: versions, limits and quotas, types, and the whole table of routes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from berthold.companions import quotas, snapshots_api
from berthold.companions.http import Asked, Document, Route, answer, nothing, yes
from berthold.companions.quotas import OF_VOLUMES
from berthold.companions.volume_actions_api import (
    act,
    add_metadata,
    delete_item,
    replace_metadata,
    set_item,
    show_item,
    show_metadata,
)
from berthold.companions.volume_api import (
    TYPE_ID,
    TYPE_NAME,
    change_volume,
    check_project,
    delete_volume,
    list_details,
    list_volumes,
    make_volume,
    show_volume,
)
from berthold.errors import Malformed, NotFound

# As `quota_set` calls it, and as the limits do: what there may be, and what there is.
ABSOLUTE = {
    "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
    "gigabytes": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    "snapshots": ("maxTotalSnapshots", "totalSnapshotsUsed"),
    "backups": ("maxTotalBackups", "totalBackupsUsed"),
    "backup_gigabytes": ("maxTotalBackupGigabytes", "totalBackupGigabytesUsed"),
}
NOT_LIMITS = ("id", "tenant_id", "project_id", "force", "skip_validation")


class NewLimits(Struct):
    quota_set: dict[str, Any]


async def versions(asked: Asked) -> Response:
    return answer(version_list(asked), 300)


async def version_3(asked: Asked) -> Response:
    return answer(version_list(asked))


def version_list(asked: Asked) -> Document:
    version = {
        "id": "v3.0",
        "status": "CURRENT",
        "version": "3.71",
        "min_version": "3.0",
        "updated": "2023-08-31T00:00:00Z",
        "links": [{"rel": "self", "href": f"{asked.home}/volume/v3/"}],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}
        ],
    }
    return {"versions": [version]}


# -- Limits and quotas --------------------------------------------------------------------


async def show_limits(asked: Asked) -> Response:
    check_project(asked)
    usage = await asked.four.store.read(quotas.of, asked.actor.project_id, tuple(ABSOLUTE))
    absolute: Document = {}
    for name, (most, used) in ABSOLUTE.items():
        absolute |= {most: usage[name].limit, used: usage[name].used}
    return answer({"limits": {"rate": [], "absolute": absolute}})


async def show_quota(asked: Asked) -> Response:
    """What a project may have; its own member may ask, or an administrator."""
    check_project(asked)
    await asked.need_project(asked.path["id"])
    usage = await asked.four.store.read(quotas.of, asked.path["id"], OF_VOLUMES)
    quota: Document = {"id": asked.path["id"]}
    for name, each in usage.items():
        detail = {"limit": each.limit, "in_use": each.used, "reserved": 0, "allocated": 0}
        quota[name] = detail if yes(asked.query.get("usage", "false")) else each.limit
    return answer({"quota_set": quota})


async def show_default_quota(asked: Asked) -> Response:
    """What a new project may have. Anybody may ask, so only an administrator is told of one that is not."""
    check_project(asked)
    if asked.actor.is_admin:
        await asked.need_project(asked.path["id"])
    limits = quotas.defaults(asked.four.store.settings, OF_VOLUMES)
    return answer({"quota_set": {"id": asked.path["id"], **limits}})


async def change_quota(asked: Asked) -> Response:
    check_project(asked)
    asked.need_admin()
    await asked.need_project(asked.path["id"])
    wish = (await asked.body(NewLimits)).quota_set
    limits = {name: value for name, value in wish.items() if name not in NOT_LIMITS}
    if unknown := sorted(limits.keys() - set(OF_VOLUMES)):
        raise Malformed(f"Bad key(s) in quota set: {', '.join(unknown)}")
    wanted = quotas.limits_from(limits)
    await asked.four.store.write(quotas.set_limits, asked.path["id"], wanted)
    usage = await asked.four.store.read(quotas.of, asked.path["id"], OF_VOLUMES)
    return answer({"quota_set": {name: each.limit for name, each in usage.items()}})


async def reset_quota(asked: Asked) -> Response:
    """The default limits again; of a project that was removed, too."""
    check_project(asked)
    asked.need_admin()
    await asked.four.store.write(quotas.reset_limits, asked.path["id"], OF_VOLUMES)
    return nothing(200)


# -- Types and zones ----------------------------------------------------------------------


VOLUME_TYPE = {
    "id": TYPE_ID,
    "name": TYPE_NAME,
    "description": "a sparse file",
    "is_public": True,
    "os-volume-type-access:is_public": True,
    "extra_specs": {},
    "qos_specs_id": None,
}


async def list_types(asked: Asked) -> Response:
    return answer({"volume_types": [VOLUME_TYPE]})


async def show_type(asked: Asked) -> Response:
    if asked.path["id"] not in (TYPE_ID, "default"):
        raise NotFound(f"volume type {asked.path['id']} could not be found")
    return answer({"volume_type": VOLUME_TYPE})


async def list_zones(asked: Asked) -> Response:
    return answer({"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]})


OPEN_ROUTES: tuple[Route, ...] = (
    ("GET", "", versions),
    ("GET", "/", versions),
    ("GET", "/v3", version_3),
    ("GET", "/v3/", version_3),
)

PATHS: tuple[Route, ...] = (
    ("GET", "/volumes", list_volumes),
    ("POST", "/volumes", make_volume),
    ("GET", "/volumes/detail", list_details),
    ("GET", "/volumes/{id}", show_volume),
    ("PUT", "/volumes/{id}", change_volume),
    ("DELETE", "/volumes/{id}", delete_volume),
    ("POST", "/volumes/{id}/action", act),
    ("GET", "/volumes/{id}/metadata", show_metadata),
    ("POST", "/volumes/{id}/metadata", add_metadata),
    ("PUT", "/volumes/{id}/metadata", replace_metadata),
    ("GET", "/volumes/{id}/metadata/{key}", show_item),
    ("PUT", "/volumes/{id}/metadata/{key}", set_item),
    ("DELETE", "/volumes/{id}/metadata/{key}", delete_item),
    ("GET", "/snapshots", snapshots_api.list_snapshots),
    ("POST", "/snapshots", snapshots_api.make_snapshot),
    ("GET", "/snapshots/detail", snapshots_api.list_details),
    ("GET", "/snapshots/{id}", snapshots_api.show_snapshot),
    ("PUT", "/snapshots/{id}", snapshots_api.change_snapshot),
    ("DELETE", "/snapshots/{id}", snapshots_api.delete_snapshot),
    ("GET", "/snapshots/{id}/metadata", snapshots_api.show_metadata),
    ("POST", "/snapshots/{id}/metadata", snapshots_api.add_metadata),
    ("PUT", "/snapshots/{id}/metadata", snapshots_api.replace_metadata),
    ("GET", "/limits", show_limits),
    ("GET", "/types", list_types),
    ("GET", "/types/{id}", show_type),
    ("GET", "/os-availability-zone", list_zones),
    ("GET", "/os-quota-sets/{id}", show_quota),
    ("PUT", "/os-quota-sets/{id}", change_quota),
    ("DELETE", "/os-quota-sets/{id}", reset_quota),
    ("GET", "/os-quota-sets/{id}/defaults", show_default_quota),
)
# Every path stands below /v3 and below /v3/{project_id}.
ROUTES: tuple[Route, ...] = tuple(
    (method, prefix + path, function)
    for prefix in ("/v3", "/v3/{project_id}")
    for method, path, function in PATHS
)
