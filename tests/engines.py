"""The two engines under test, where the tests look for them (`berthold.lab.engines`)."""

from berthold.lab.engines import PostgreSQL, connected, sqlite_template

__all__ = ["PostgreSQL", "connected", "sqlite_template"]
