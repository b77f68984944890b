"""The catalog over HTTP: services, endpoints and regions, which are what the cloud is made of."""

from __future__ import annotations

from starlette.responses import Response

from berthold.companions.catalog import SERVICES, catalog, endpoints_of, fixed_id
from berthold.companions.http import Asked, Document, answer
from berthold.companions.identity_api import listing
from berthold.errors import NotAllowed, NotFound


async def show_catalog(asked: Asked) -> Response:
    """Of a token for a project."""
    if asked.bearer.project is None:
        raise NotAllowed("a token without a project has no catalog")
    return answer(listing(asked, "catalog", catalog(asked)))


async def list_services(asked: Asked) -> Response:
    """By type and name."""
    asked.need_admin()
    return answer(listing(asked, "services", _chosen(asked, _services(), ("type", "name"))))


async def show_service(asked: Asked) -> Response:
    """One of them."""
    asked.need_admin()
    return _one(asked, "service", _services())


async def list_endpoints(asked: Asked) -> Response:
    """By interface, service and region."""
    asked.need_admin()
    chosen = _chosen(asked, _endpoints(asked), ("interface", "service_id", "region_id"))
    return answer(listing(asked, "endpoints", chosen))


async def show_endpoint(asked: Asked) -> Response:
    """One of them."""
    asked.need_admin()
    return _one(asked, "endpoint", _endpoints(asked))


async def list_regions(asked: Asked) -> Response:
    """There is one."""
    return answer(listing(asked, "regions", _regions(asked)))


async def show_region(asked: Asked) -> Response:
    """That one."""
    return _one(asked, "region", _regions(asked))


def _services() -> list[Document]:
    return [
        {"id": fixed_id(k), "type": k, "name": n, "description": "", "enabled": True} for k, n, _ in SERVICES
    ]


def _endpoints(asked: Asked) -> list[Document]:
    return [
        {**endpoint, "service_id": fixed_id(kind), "enabled": True}
        for kind, _, path in SERVICES
        for endpoint in endpoints_of(asked, kind, path)
    ]


def _regions(asked: Asked) -> list[Document]:
    return [{"id": asked.four.region, "description": "", "parent_region_id": None}]


def _chosen(asked: Asked, rows: list[Document], keys: tuple[str, ...]) -> list[Document]:
    return [row for row in rows if all(asked.query.get(key, row[key]) == row[key] for key in keys)]


def _one(asked: Asked, noun: str, rows: list[Document]) -> Response:
    """The one of the path's id; raises `NotFound`."""
    for row in rows:
        if row["id"] == asked.path["id"]:
            return answer({noun: row})
    raise NotFound(f"could not find {noun}: {asked.path['id']}")
