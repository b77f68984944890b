"""Why no host will do: once for the tenant, once for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from berthold.scheduler.candidates import Refusal
from berthold.scheduler.filters import AFFINITY_VIOLATED, ANTI_AFFINITY_VIOLATED

# The filter that refuses all hosts but the one that was asked for.
ASKED_FOR = "requested host"


def no_valid_host(refused: Mapping[str, Refusal]) -> tuple[str, dict[str, str]]:
    """The public message, and the reason of each host by name.

    The message begins with `No valid host was found.` and counts the hosts by class of
    cause; it names no host and no group, since a tenant may read it. The second part is for
    operators only. Where one host was asked for, only that one is told of, if it is known at all.
    """
    refused = {name: each for name, each in refused.items() if each.filter != ASKED_FOR} or refused
    per_host = {name: f"{refusal.cause}: {refusal.reason}" for name, refusal in sorted(refused.items())}
    if not refused:
        return "No valid host was found. There are no hosts.", per_host
    causes = Counter(_public_cause(refusal) for refusal in refused.values())
    # The commonest first; the alphabet settles the rest, so that a message can be compared.
    ordered = sorted(causes.items(), key=lambda pair: (-pair[1], pair[0]))
    counted = ", ".join(f"{count} {'host' if count == 1 else 'hosts'}: {cause}" for cause, count in ordered)
    return f"No valid host was found. {counted}", per_host


def _public_cause(refusal: Refusal) -> str:
    """The class of cause, with the words of the group's policy if that is what was in the way
    (here, or at the ledger that refused the host before)."""
    for violated in (ANTI_AFFINITY_VIOLATED, AFFINITY_VIOLATED):
        if violated in refusal.reason:
            return f"{refusal.cause} ({violated})"
    return refusal.cause
