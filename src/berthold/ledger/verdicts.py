"""What an error of the database means: to be tried again, to be told, or a bug of ours."""

from __future__ import annotations

import logging
import sqlite3

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from berthold.errors import Unavailable

log = logging.getLogger("berthold.store")

# Deadlock, serialisation failure, lock timeout; a session that stood still too long.
RETRIED_STATES = {"40P01", "40001", "55P03", "25P03"}
# A server that takes no writes just now: a standby, or a primary that was demoted.
READ_ONLY = "25006"
# Violations that mean "the rule changed under me": a group was deleted, a seat or place was
# taken or given up, a host introduced, between the look and the write. From the start, it
# comes out right.
RETRIED_CONSTRAINTS = {
    "claim_rule_is_its_servers",
    "claim_group_is_its_servers",
    "g1_claim_has_seat",
    "g1_honest_per_host",
    "g1_seat_of_member",
    "g1_one_each",
    "g2_claim_at_place",
    "g2_group",
    "g2_one_home_one_next",
    "g2_place",
    "host_one_name",
    "m1_one_host_per_machine",
    "provider_one_name",
    "server_rule_is_its_groups",
}


class Again(Exception):
    """What a transaction had read changed before it could be held. Begun anew it comes out right."""


def may_retry(error: DBAPIError) -> bool:
    """Whether the same transaction, begun anew, may come out right."""
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error, OperationalError) and "locked" in str(error.orig)
    return state in RETRIED_STATES or (
        isinstance(error, IntegrityError) and violated(error) in RETRIED_CONSTRAINTS
    )


def violated(error: DBAPIError) -> str | None:
    """The name of the violated constraint. SQLite names CHECKs only, so branch on this never."""
    diagnosis = getattr(error.orig, "diag", None)
    return diagnosis.constraint_name if diagnosis else None


def told(error: DBAPIError) -> Exception:
    """What the caller should see: `Unavailable` for a database that is not there, else the bug itself."""
    # SQLite calls a faulty statement by the same name as a database that cannot be opened.
    faulty = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    read_only = getattr(error.orig, "sqlstate", None) == READ_ONLY
    if (isinstance(error, OperationalError) and not faulty) or error.connection_invalidated or read_only:
        log.error("the database does not answer: %s", error.orig)
        return Unavailable("the database does not answer; try again in a moment")
    return error
