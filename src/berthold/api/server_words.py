"""What no shape can say of the words in a server's body: each check raises unless all is well."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping

from berthold.api.microversions import Version
from berthold.api.schemas.servers import METADATA_MAX
from berthold.errors import Malformed, NotAllowed

LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
WHOLE_NAMES = Version(2, 94)  # with a domain


def check_host_name(text: str | None, version: Version) -> None:
    """Raise `Malformed` unless it is what a guest may be called."""
    if not text or re.fullmatch(LABEL, text):
        return
    if version < WHOLE_NAMES:
        raise Malformed(
            f"Invalid input for field hostname: '{text}' is no host name of up to 63 letters, digits and"
            " hyphens; one with its domain needs microversion 2.94 or later."
        )
    if not re.fullmatch(rf"{LABEL}(\.{LABEL})*", text):
        raise Malformed(
            f"Invalid input for field hostname: '{text}' is no host name, nor one with its domain."
        )


def check_user_data(text: str | None) -> None:
    """Raise `Malformed` unless it is base64, in lines or not."""
    try:
        base64.b64decode("".join((text or "").split()), validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("Invalid input for field user_data: expected text in base64.") from None


def check_certificates(certificates: list[str] | None) -> None:
    """Raise `Malformed` for any."""
    if certificates:
        raise Malformed("trusted_image_certificates cannot be checked by this cloud; leave them out.")


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise `NotAllowed` for too many."""
    if len(metadata) > METADATA_MAX:
        raise NotAllowed(f"Maximum number of metadata items exceeds {METADATA_MAX}")


def check_access(v4: str | None, v6: str | None) -> None:
    """Raise `Malformed` unless each, if given, is an address of its kind."""
    for text, kind in ((v4, ipaddress.IPv4Address), (v6, ipaddress.IPv6Address)):
        try:
            kind(text or ("0.0.0.0" if kind is ipaddress.IPv4Address else "::"))
        except ValueError:
            raise Malformed(f"'{text}' is not an IP address of the right version.") from None
