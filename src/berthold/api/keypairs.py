"""Keypairs: a user's public keys. Where the cloud makes a pair, it keeps only the public half."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from berthold.api.call import Call
from berthold.api.microversions import Version
from berthold.api.views.fields import Field, column, constant, iso_long, next_link, render, render_all
from berthold.errors import Malformed
from berthold.records import keypairs

OTHERS = "os_compute_api:os-keypairs:of_other_users"
QUERY = frozenset({"user_id", "limit", "marker"})
SHOW_QUERY = frozenset({"user_id"})

BRIEF: list[Field[Mapping[str, Any]]] = [
    Field("name", column("name")),
    Field("type", column("type"), when="2.2"),
    Field("public_key", column("public_key")),
    Field("fingerprint", column("fingerprint")),
]
NEW = [*BRIEF, Field[Mapping[str, Any]]("user_id", column("user_id"))]
FULL: list[Field[Mapping[str, Any]]] = [
    *NEW,
    Field("id", column("number")),
    Field("created_at", lambda key, call: iso_long(key["created_at"])),
    Field("updated_at", constant(None)),
    Field("deleted", constant(False)),
    Field("deleted_at", constant(None)),
]


async def index(call: Call) -> dict[str, Any]:
    """The caller's keypairs, by name."""
    page = call.query.page(call.settings.page_max)
    paged = call.version >= Version(2, 35)
    rows = await call.store.read(
        keypairs.page,
        _owner(call, call.query.text("user_id")),
        limit=page.limit if paged else call.settings.page_max,
        marker=page.marker if paged else None,
    )
    document: dict[str, Any] = {"keypairs": [{"keypair": each} for each in render_all(BRIEF, rows, call)]}
    if paged and page.limited and (links := next_link(call, page, [row["name"] for row in rows])):
        document["keypairs_links"] = links
    return document


async def show(call: Call, name: str) -> dict[str, Any]:
    """One keypair."""
    row = await call.store.read(keypairs.get, _owner(call, call.query.text("user_id")), name)
    return {"keypair": render(FULL, row, call)}


async def create(call: Call) -> dict[str, Any]:
    """Store a public key; before 2.92 without one: make a pair and hand out the private half, once."""
    wish = call.body.keypair
    public, private = wish.public_key, None
    if public is None:
        if wish.type != "ssh":
            raise Malformed("This cloud makes keypairs of type ssh only; bring the public key along.")
        public, private = _new_pair()
    row = await call.store.write(
        keypairs.create,
        user_id=_owner(call, wish.user_id),
        name=wish.name,
        type=wish.type,
        public_key=public,
        fingerprint=_fingerprint(public, wish.type),
    )
    shown = render(NEW, row, call)
    return {"keypair": shown if private is None else {**shown, "private_key": private}}


async def delete(call: Call, name: str) -> None:
    """Servers that were made with it keep it."""
    await call.store.write(keypairs.remove, _owner(call, call.query.text("user_id")), name)


def _owner(call: Call, user_id: str | None) -> str:
    """Whose keypairs: since 2.10 an admin may name another user."""
    if call.version < Version(2, 10) or user_id in (None, call.actor.user_id):
        return call.actor.user_id
    call.must(OTHERS)
    assert user_id is not None
    return user_id


def _new_pair() -> tuple[str, str]:
    """A fresh pair, public and private half in OpenSSH's form."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode(), private.decode()


def _fingerprint(public_key: str, type: str) -> str:
    """MD5 in pairs of hex digits, as keypairs have always shown it. Raises `Malformed` for what is no key."""
    if type == "x509":
        digest = hashlib.sha1(public_key.encode(), usedforsecurity=False).hexdigest()
    else:
        words = public_key.split()
        if len(words) < 2:
            raise Malformed("Keypair data is invalid: expected a type and a key, as in an id_….pub file.")
        try:
            raw = base64.b64decode(words[1], validate=True)
        except (binascii.Error, ValueError):
            raise Malformed("Keypair data is invalid: failed to generate fingerprint.") from None
        if not raw.startswith(len(words[0]).to_bytes(4, "big") + words[0].encode()):
            raise Malformed(f"Keypair data is invalid: the key is not of type {words[0][:40]}.")
        digest = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))
