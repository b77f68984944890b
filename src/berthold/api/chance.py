"""What the API makes up: names of reservations, passwords."""

from __future__ import annotations

from berthold.api.call import Call

LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PASSWORD_LENGTH = 12


def word(call: Call, length: int) -> str:
    """Letters and digits that cannot be mistaken for each other."""
    chance = call.store.clock.chance()
    return "".join(chance.choice(LETTERS) for _ in range(length))


def password(call: Call) -> str:
    """For whoever has named none."""
    return word(call, PASSWORD_LENGTH)
