"""Block storage v3 over HTTP: what is done to a volume beside making and deleting it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from berthold.companions import volume, volume_changes
from berthold.companions.http import Asked, Document, answer, nothing
from berthold.companions.volume_api import Metadata, Pairs, check_project
from berthold.errors import Malformed, NotFound

T = TypeVar("T")


class NewSize(Struct):
    new_size: Annotated[int, Meta(ge=1)]


class Bootable(Struct):
    bootable: bool


class NewStatus(Struct):
    status: Literal["available", "in-use", "error"] | None = None
    attach_status: str | None = None
    migration_status: str | None = None


class OnePair(Struct):
    meta: Pairs


async def extend(asked: Asked, wish: Any) -> int:
    size = shaped(wish, NewSize).new_size
    await volume_changes.extend(asked.four.volumes, asked.actor, asked.path["id"], size)
    return 202


async def set_bootable(asked: Asked, wish: Any) -> int:
    fields = {"bootable": shaped(wish, Bootable).bootable}
    await asked.four.store.write(volume_changes.change, asked.actor, asked.path["id"], fields)
    return 200


async def reset_status(asked: Asked, wish: Any) -> int:
    """Attachments and migrations have no state of their own here, so only `status` can be reset."""
    asked.need_admin()
    wanted = shaped(wish, NewStatus)
    if wanted.status is None:
        raise Malformed("only `status` can be reset here: to available, in-use or error")
    await asked.four.store.write(volume_changes.reset_status, asked.actor, asked.path["id"], wanted.status)
    return 202


async def force_delete(asked: Asked, _: Any) -> int:
    """Whatever state it is in, but not under a server, and not before its snapshots."""
    asked.need_admin()
    await asked.four.store.read(volume_changes.need_no_snapshots, asked.actor, asked.path["id"])
    await asked.four.volumes.delete(asked.path["id"])
    return 202


ACTIONS: dict[str, Callable[[Asked, Any], Awaitable[int]]] = {
    "os-extend": extend,
    "os-set_bootable": set_bootable,
    "os-reset_status": reset_status,
    "os-force_delete": force_delete,
}


async def act(asked: Asked) -> Response:
    """One action, named by the only key of the body."""
    check_project(asked)
    body = await asked.body(dict[str, Any])
    if len(body) != 1:
        raise Malformed('say one action, as in {"os-extend": {"new_size": 2}}')
    ((name, wish),) = body.items()
    await asked.four.store.read(volume.volume_of, asked.actor, asked.path["id"])
    if name not in ACTIONS:
        raise Malformed(f"there is no such action here: {name}; there are {', '.join(sorted(ACTIONS))}")
    return nothing(await ACTIONS[name](asked, wish))


def shaped(wish: Any, shape: type[T]) -> T:
    """What an action is told; `Malformed` says what does not fit."""
    try:
        return msgspec.convert(wish, shape)
    except msgspec.ValidationError as error:
        raise Malformed(f"the body does not fit: {error}") from error


# -- Metadata -----------------------------------------------------------------------------


async def pairs_of(asked: Asked) -> dict[str, str]:
    check_project(asked)
    row = await asked.four.store.read(volume.volume_of, asked.actor, asked.path["id"])
    return dict(row.metadata)


async def show_metadata(asked: Asked) -> Response:
    return answer({"metadata": await pairs_of(asked)})


async def add_metadata(asked: Asked) -> Response:
    return await changed(asked, (await asked.body(Metadata)).metadata, keep=True)


async def replace_metadata(asked: Asked) -> Response:
    return await changed(asked, (await asked.body(Metadata)).metadata, keep=False)


async def changed(asked: Asked, pairs: dict[str, str], *, keep: bool) -> Response:
    check_project(asked)
    actor, volume_id = asked.actor, asked.path["id"]
    kept = await asked.four.store.write(
        lambda tx: volume_changes.change_pairs(tx, actor, volume_id, pairs, keep=keep)
    )
    return answer({"metadata": kept})


async def show_item(asked: Asked) -> Response:
    pairs, key = await pairs_of(asked), asked.path["key"]
    if key not in pairs:
        raise NotFound(f"volume {asked.path['id']} has no metadata with key {key}")
    return answer({"meta": {key: pairs[key]}})


async def set_item(asked: Asked) -> Response:
    pairs: Document = (await asked.body(OnePair)).meta
    if list(pairs) != [asked.path["key"]]:
        raise Malformed("the body names one item, the one that the address names")
    await changed(asked, pairs, keep=True)
    return answer({"meta": pairs})


async def delete_item(asked: Asked) -> Response:
    check_project(asked)
    await asked.four.store.write(volume_changes.drop_pair, asked.actor, asked.path["id"], asked.path["key"])
    return nothing(200)
