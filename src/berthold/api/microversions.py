"""Every microversion in one line of prose, and which one a request asks for.

A version is a pair of numbers. `Versions("2.19-2.56 2.80-")` is a set of them, as used
beside fields and routes. The header is `OpenStack-API-Version: compute 2.64` or, older,
`X-OpenStack-Nova-API-Version: 2.64`; without either a request is served as 2.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import microversion_parse

from berthold.api.problems import NotAcceptable
from berthold.errors import Malformed

HEADER = "OpenStack-API-Version"
LEGACY_HEADER = "X-OpenStack-Nova-API-Version"


class Version(NamedTuple):
    """Compares as numbers do: 2.9 < 2.10."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


HISTORY: dict[str, str] = {
    "2.1": "The base: the v2 API with strict validation.",
    "2.2": "Keypairs have a type; creating one answers 201 and deleting one 204.",
    "2.3": "Servers show more attributes: hostname, reservation, launch index, user data.",
    "2.4": "Fixed IPs show whether they are reserved.",
    "2.5": "Listing all projects' servers may filter by IPv6 address.",
    "2.6": "Remote consoles are one resource, `remote-consoles`.",
    "2.7": "A public flavor refuses an access list.",
    "2.8": "Remote consoles may be of type MKS.",
    "2.9": "Servers show whether they are locked.",
    "2.10": "An admin may act on another user's keypairs with `user_id`.",
    "2.11": "Services may be forced down and show whether they are.",
    "2.12": "Virtual interfaces show their network.",
    "2.13": "Server groups show project and user.",
    "2.14": "Evacuate has no `onSharedStorage`.",
    "2.15": "Server groups may be of the soft policies.",
    "2.16": "Servers show the state of their host.",
    "2.17": "A server may be made to dump its memory.",
    "2.18": "The project may be left out of every URL.",
    "2.19": "Servers have a description.",
    "2.20": "Volumes of a shelved server may be attached and detached.",
    "2.21": "Instance actions of deleted servers are shown.",
    "2.22": "A live migration may be forced to complete.",
    "2.23": "Live migrations in progress are shown under their server; migrations have a type.",
    "2.24": "A live migration may be aborted.",
    "2.25": "Live migration: `block_migration` may be `auto`, no `disk_over_commit`.",
    "2.26": "Servers have tags.",
    "2.27": "The header is `OpenStack-API-Version: compute 2.27`.",
    "2.28": "A hypervisor's `cpu_info` is an object.",
    "2.29": "Evacuate may be forced to a host.",
    "2.30": "Live migration may be forced to a host.",
    "2.31": "Console tokens of every type are shown.",
    "2.32": "Networks and block devices of a new server may have a tag.",
    "2.33": "Hypervisors are listed in pages.",
    "2.34": "Live migration is checked after it was accepted, never before.",
    "2.35": "Keypairs are listed in pages.",
    "2.36": "What was passed on to other services (images, networks, volumes) is gone.",
    "2.37": "A new server must say its networks, `auto` or `none`.",
    "2.38": "Filtering servers by an unknown status is refused.",
    "2.39": "No `maxImageMeta` in the limits.",
    "2.40": "Usage is listed in pages.",
    "2.41": "Aggregates show their UUID.",
    "2.42": "Tags of networks and block devices are accepted again.",
    "2.43": "`os-hosts` is gone.",
    "2.44": "Actions on fixed and floating IPs are gone.",
    "2.45": "createImage and createBackup answer with the image's id.",
    "2.46": "Every answer has `x-openstack-request-id`; it always had here.",
    "2.47": "A server shows its flavor as it was, instead of a link.",
    "2.48": "Diagnostics have one form for every hypervisor.",
    "2.49": "Interfaces and volumes may be attached with a tag.",
    "2.50": "Quota classes show server groups, and nothing of networks.",
    "2.51": "Instance actions show `updated_at` and their events to the owner.",
    "2.52": "A new server may have tags.",
    "2.53": "Services and hypervisors are known by UUID.",
    "2.54": "Rebuild may change the key.",
    "2.55": "Flavors have a description.",
    "2.56": "Cold migration may name a host.",
    "2.57": "No personality files; quotas and limits do not count them.",
    "2.58": "Instance actions are listed in pages and show `updated_at`.",
    "2.59": "Migrations are listed in pages and show their UUID.",
    "2.60": "A volume may be attached to more than one server.",
    "2.61": "Flavors show their extra specs.",
    "2.62": "Instance-action events show their host.",
    "2.63": "Servers may have trusted image certificates.",
    "2.64": "Server groups have one policy, with rules; no metadata.",
    "2.65": "A queued live migration may be aborted.",
    "2.66": "Lists may be asked for what changed before a moment.",
    "2.67": "A block device may name its volume type.",
    "2.68": "Nothing may be forced to a host past the scheduler.",
    "2.69": "Servers of a part that does not answer are shown as far as known.",
    "2.70": "Attached interfaces and volumes show their tags.",
    "2.71": "A server shows its groups.",
    "2.72": "A server may be made with ports that need bandwidth.",
    "2.73": "Lock has a reason, and servers show it.",
    "2.74": "A new server may name its host without going past the scheduler.",
    "2.75": "Unknown query parameters are refused; answers are alike where they differed.",
    "2.76": "The event `power-update` exists.",
    "2.77": "Unshelve may name an availability zone.",
    "2.78": "A server's NUMA topology is shown.",
    "2.79": "An attached volume may be deleted with its server.",
    "2.80": "Migrations show and filter by user and project.",
    "2.81": "Images may be cached on an aggregate's hosts.",
    "2.82": "The event `accelerator-request-bound` exists.",
    "2.83": "Everybody may filter servers by more of their own attributes.",
    "2.84": "Instance-action events have details, for whom the policy shows them to.",
    "2.85": "`delete_on_termination` of an attached volume may be changed.",
    "2.86": "Extra specs that cannot be right are refused.",
    "2.87": "A server that boots from a volume may be rescued.",
    "2.88": "Hypervisors show no sums of resources, and their uptime.",
    "2.89": "Attached volumes show their attachment and block device.",
    "2.90": "The host name that a guest sees may be chosen.",
    "2.91": "Unshelve may name a host.",
    "2.92": "A keypair's public key must be brought along.",
    "2.93": "A volume-backed server may be rebuilt.",
    "2.94": "The host name that a guest sees may be fully qualified.",
    "2.95": "An evacuated server stays stopped.",
    "2.96": "Servers show the availability zone that they are pinned to.",
}


def version(text: str) -> Version:
    """ "2.19" as a version; the text is ours."""
    major, minor = text.split(".")
    return Version(int(major), int(minor))


OLDEST = version(next(iter(HISTORY)))
NEWEST = version(list(HISTORY)[-1])


@dataclass(frozen=True, init=False)
class Versions:
    """A set of versions: "2.19" (from there on), "2.1-2.56" (up to there), several with blanks."""

    ranges: tuple[tuple[Version, Version], ...]

    def __init__(self, text: str = "2.1") -> None:
        ranges = []
        for part in text.split():
            first, _, last = part.partition("-")
            ranges.append((version(first), version(last) if last else NEWEST))
        object.__setattr__(self, "ranges", tuple(ranges))

    def __contains__(self, asked: Version) -> bool:
        return any(first <= asked <= last for first, last in self.ranges)


def asked_for(headers: Mapping[str, str]) -> Version:
    """The version that a request asks for. Raises `Malformed`, or `NotAcceptable` for one we have not."""
    try:
        text = microversion_parse.get_version(dict(headers), "compute", [LEGACY_HEADER])
    except ValueError:
        raise Malformed(
            f"The header {HEADER} is of invalid format; it must be like 'compute 2.64'."
        ) from None
    if text is None:
        return OLDEST
    text = text.strip()
    if text.lower() == "latest":
        return NEWEST
    if not re.fullmatch(r"[1-9]\d{0,3}\.(0|[1-9]\d{0,3})", text, re.ASCII):
        raise Malformed(
            f"API Version String {text[:40]} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    asked = version(text)
    if not OLDEST <= asked <= NEWEST:
        raise NotAcceptable(
            f"Version {asked} is not supported by the API. Minimum is {OLDEST} and maximum is {NEWEST}."
        )
    return asked
