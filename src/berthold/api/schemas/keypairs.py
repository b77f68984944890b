"""Bodies about keypairs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from berthold.api.schemas.body import Body, Id, Shape

KeyName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9 ._@-]+\Z")]


class NewKeypair(Shape):
    name: KeyName
    type: Literal["ssh", "x509"] = "ssh"
    public_key: Annotated[str, Meta(min_length=1, max_length=16384)] | None = None
    user_id: Id | None = None


class CreateKeypair(Shape):
    keypair: NewKeypair


CREATE = Body(
    CreateKeypair,
    when={"keypair.type": "2.2", "keypair.user_id": "2.10"},
    needs={"keypair.public_key": "2.92"},
)
