"""The catalog: which services there are, and where each is reached."""

from __future__ import annotations

import uuid

from berthold.companions.http import Asked, Document

# Type, name, where below our own address.
SERVICES = (
    ("identity", "keystone", "/identity"),
    ("compute", "nova", "/compute/v2.1"),
    ("image", "glance", "/image"),
    ("block-storage", "cinder", "/volume/v3"),
    ("network", "neutron", "/network"),
)


def fixed_id(*words: str) -> str:
    """The same id for the same words, on every machine."""
    return uuid.uuid5(uuid.NAMESPACE_URL, "/".join(words)).hex


def catalog(asked: Asked) -> list[Document]:
    return [
        {"id": fixed_id(kind), "type": kind, "name": name, "endpoints": endpoints_of(asked, kind, path)}
        for kind, name, path in SERVICES
    ]


def endpoints_of(asked: Asked, kind: str, path: str) -> list[Document]:
    region = asked.four.region
    return [
        {
            "id": fixed_id(kind, interface),
            "interface": interface,
            "region": region,
            "region_id": region,
            "url": asked.home + path,
        }
        for interface in ("public", "internal", "admin")
    ]
