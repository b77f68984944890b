"""`python -m berthold.migrations "what changed"`: write the next revision from the schema modules.

With `--anew` instead of words the first revisions are written again: only until the first
release, while no database exists that was made by them, and refused once there are later
ones. Needs ruff (the `test` extra).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from alembic import command
from sqlalchemy import Table

from berthold.database import migrations, upgrade_engine
from berthold.ledger.store import engine_for

VERSIONS = Path(__file__).parent / "versions"
FIRST = ("ledger", "records", "companions")


def main(words: list[str]) -> None:
    """Write the next revision, or the first ones anew, and say where."""
    if words != ["--anew"]:
        if not words or words[0].startswith("-"):
            sys.exit(__doc__)
        print(write(" ".join(words)))
        return
    first = {f"{number:04}_{module}.py" for number, module in enumerate(FIRST, 1)}
    # A later revision is somebody's work, and builds on the first ones as they are.
    if later := {path.name for path in VERSIONS.glob("0*.py")} - first:
        sys.exit(f"there are later revisions, so the first ones stay: {', '.join(sorted(later))}")
    for name in first:
        (VERSIONS / name).unlink(missing_ok=True)
    for module in FIRST:
        print(write(f"The first tables of {module}", module, _tables_of(module)))


def write(title: str, slug: str = "%%(slug)s", only: Collection[str] | None = None) -> Path:
    """Compare a database at the newest revision with the schema and write down the difference."""
    number = f"{len(list(VERSIONS.glob('0*.py'))) + 1:04}"
    with tempfile.TemporaryDirectory() as folder:
        engine = engine_for(f"sqlite:///{folder}/empty.db")
        upgrade_engine(engine)
        with engine.begin() as connection:
            config = migrations()
            config.attributes.update(connection=connection, only=only)
            config.set_main_option("file_template", f"%%(rev)s_{slug}")
            command.revision(config, title, autogenerate=True, rev_id=number)
        engine.dispose()
    (written,) = VERSIONS.glob(f"{number}_*.py")
    text = re.sub(r"^ *# .*Alembic.*\n", "", written.read_text(), flags=re.M)
    # On SQLite Alembic puts a boolean default in brackets, which PostgreSQL takes and keeps no less.
    written.write_text(re.sub(r'text\("\((true|false)\)"\)', r'text("\1")', text))
    subprocess.run([sys.executable, "-m", "ruff", "check", "-q", "--fix", str(written)], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(written)], check=True)
    return written


def _tables_of(module: str) -> set[str]:
    """The tables that `berthold.<module>.schema` declares."""
    return {
        each.name
        for each in vars(sys.modules[f"berthold.{module}.schema"]).values()
        if isinstance(each, Table)
    }


if __name__ == "__main__":
    main(sys.argv[1:])
