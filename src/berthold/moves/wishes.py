"""What owners say about places in words of their own: scheduler hints, traits that flavors and
images name, and what flavors ask of a host's aggregates (`aggregate_instance_extra_specs:KEY`).

`same_host` and `different_host` are ids of servers, one or a list. A flavor names a trait as
`trait:HW_CPU_X86_AVX2` in its extra specs, with the value `required` or `forbidden`; what the
image named when the server was made is kept with the server, as `image_traits`: later moves
obey it too, and an image may change or go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthold.errors import WrongState
from berthold.ledger import view
from berthold.ledger.store import Tx

AGGREGATES = "aggregate_instance_extra_specs:"
HOST_HINTS = ("same_host", "different_host")
TRAIT = "trait:"


def servers_named(hints: Mapping[str, Any], hint: str) -> frozenset[str]:
    """The ids that the hint names."""
    named = hints.get(hint, [])
    return frozenset([named] if isinstance(named, str) else named)


def traits_named(
    extra_specs: Mapping[str, Any], details: Mapping[str, Any]
) -> tuple[frozenset[str], frozenset[str]]:
    """The traits that a host must have, and those that it must not have."""
    said = [(key.removeprefix(TRAIT), value) for key, value in extra_specs.items() if key.startswith(TRAIT)]
    said += details.get("image_traits", {}).items()
    required, forbidden = (
        frozenset(trait for trait, value in said if value == word) for word in ("required", "forbidden")
    )
    return required, forbidden


def aggregates_named(extra_specs: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """What the aggregates of a host must say: a value, or `<or>` one of several."""
    found = {}
    for key, text in extra_specs.items():
        if key.startswith(AGGREGATES):
            several = [each.strip() for each in str(text).split("<or>") if each.strip()]
            values = several if str(text).lstrip().startswith("<or>") else [str(text)]
            found[key.removeprefix(AGGREGATES)] = frozenset(values)
    return found


def check_suits(tx: Tx, host_id: str, image_traits: Mapping[str, str]) -> None:
    """A server that stays where it is may only get an image that its host suits. Raises `WrongState`."""
    required, forbidden = traits_named({}, {"image_traits": image_traits})
    (host,) = view.hosts(tx, [host_id])
    unfit = sorted((required - host.traits) | (forbidden & host.traits))
    if unfit:
        raise WrongState(
            "The server's host does not suit the image: it lacks what the image requires, or has what it"
            f" forbids ({', '.join(unfit)})."
        )
