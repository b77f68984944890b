"""Which roles a cloud has from the start, and which of them imply which."""

from __future__ import annotations

from collections.abc import Set

# A role implies those after it.
ROLES = ("admin", "manager", "member", "reader")
# Who may do more than look at a project's images, volumes and networks.
CHANGES_THINGS = "member"


def implied(roles: Set[str]) -> frozenset[str]:
    """The roles and those that they imply."""
    highest = min((ROLES.index(role) for role in roles if role in ROLES), default=len(ROLES))
    return frozenset(roles) | frozenset(ROLES[highest:])
