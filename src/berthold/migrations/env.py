"""What Alembic runs: the revisions, on the connection and in the transaction of `berthold.database`.

To write the next revision after a change of a schema module, `python -m berthold.migrations
"what changed"`, and read what it wrote before it is committed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from alembic import context
from alembic.operations import MigrationScript
from alembic.runtime.migration import MigrationContext

from berthold.database import metadata

given: dict[str, Any] = context.config.attributes
only: Container[str] | None = given.get("only")


def is_wanted(_: Any, name: str | None, kind: str, *__: Any) -> bool:
    """A revision may be about some tables only."""
    return only is None or kind != "table" or name in only


def only_forward(_: MigrationContext, __: Any, scripts: Iterable[MigrationScript]) -> None:
    for script in scripts:
        if script.downgrade_ops:
            script.downgrade_ops.ops = []


context.configure(
    connection=given["connection"],
    target_metadata=metadata,
    include_object=is_wanted,
    process_revision_directives=only_forward,
    # Defaults are not compared: Alembic cannot, on either engine. A test reads the catalogs.
    compare_type=True,
    # SQLite cannot alter a constraint; Alembic copies the table instead.
    render_as_batch=only is None,
)
with context.begin_transaction():
    context.run_migrations()
