"""The companions as routes of the cloud's one HTTP application."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as Exact

from berthold.companions import (
    identity_admin_api,
    identity_api,
    image_api,
    network_api,
    ports_api,
    volume_api,
    volume_routes,
)
from berthold.companions.embedded import Companions
from berthold.companions.files import NoSpace
from berthold.companions.http import Service
from berthold.companions.roles import CHANGES_THINGS
from berthold.errors import Refused, WrongState


def companions_app(four: Companions, base_url: str | None = None) -> list[BaseRoute]:
    """/identity, /image, /volume and /network, each with and without what follows.

    Links and catalog name `base_url`, or else the address that the request came to. To be
    put at the root of the application.
    """
    services = (
        Service(
            four,
            "/identity",
            identity_admin_api.OPEN_ROUTES,
            identity_admin_api.ROUTES,
            identity_api.fault,
            unscoped=True,
            base_url=base_url,
        ),
        Service(
            four,
            "/image",
            image_api.OPEN_ROUTES,
            image_api.ROUTES,
            image_api.fault,
            # Glance calls a full disk a body that is too large for it.
            statuses={NoSpace: 413},
            changed_by=CHANGES_THINGS,
            base_url=base_url,
        ),
        Service(
            four,
            "/volume",
            volume_routes.OPEN_ROUTES,
            volume_routes.ROUTES,
            volume_api.fault,
            # Cinder calls a volume's wrong state a bad request, and too much of anything too large.
            statuses={WrongState: 400, Refused: 413},
            changed_by=CHANGES_THINGS,
            base_url=base_url,
        ),
        Service(
            four,
            "/network",
            ports_api.OPEN_ROUTES,
            ports_api.ROUTES,
            network_api.fault,
            titles={Refused: "OverQuota"},
            changed_by=CHANGES_THINGS,
            base_url=base_url,
        ),
    )
    routes: list[BaseRoute] = []
    for service in services:
        routes += [Exact(service.prefix, service), Mount(service.prefix, service)]
    return routes
