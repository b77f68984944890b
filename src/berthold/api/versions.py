"""The version documents: what clients read before they have a token."""

from __future__ import annotations

from typing import Any

from berthold.api.microversions import NEWEST, OLDEST


def _v21(base: str) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(NEWEST),
        "min_version": str(OLDEST),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{base}/v2.1/"}],
    }


def all_versions(base: str) -> dict[str, Any]:
    """`GET /`: the versions that there are, one."""
    return {"versions": [_v21(base)]}


def one_version(base: str) -> dict[str, Any]:
    """`GET /v2.1/`."""
    document = _v21(base)
    document["links"].append(
        {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/api-ref/compute/"}
    )
    document["media-types"] = [
        {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}
    ]
    return {"version": document}
