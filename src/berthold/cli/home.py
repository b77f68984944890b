"""The data directory: what a cloud keeps beside its database.

    berthold.db     the database of a cloud in one process
    password        the first administrator's
    token.key       signs tokens
    agents.token    what agents show
    clouds.yaml     for clients
    berthold.log
    simulated.db    the simulated hosts, if there are any
    images/ volumes/

Only its owner may read it. Every secret is made once, whole or not at all, by whoever comes
first. The directory is locked while a cloud uses it: `berthold up` has it alone, processes
of a larger cloud share it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from berthold.cli.console import Wrong
from berthold.companions import TOKEN_KEY_BYTES

DEFAULT = Path("~/.local/share/berthold")


def opened(path: Path) -> Home:
    """The data directory, made if need be; what cannot be one is told to who named it."""
    try:
        return Home(path)
    except FileExistsError as error:
        raise Wrong(f"{path} is a file, and a data directory is wanted", "name another: --data") from error
    except OSError as error:
        why = f"the data directory {path} cannot be used: {error.strerror}"
        raise Wrong(why, "name another (--data), or run this as its owner") from error


class Home:
    """One data directory, made if need be."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.chmod(0o700)
        self._lock: int | None = None

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.path / 'berthold.db'}"

    @property
    def log(self) -> Path:
        return self.path / "berthold.log"

    @property
    def ground(self) -> Path:
        return self.path / "simulated.db"

    @property
    def clouds_yaml(self) -> Path:
        return self.path / "clouds.yaml"

    def lock(self, *, alone: bool) -> None:
        """Keep the directory until this process ends. Raises `Wrong` if another has it."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            os.close(handle)
            do = "end that one, or name another directory: --data"
            raise Wrong(f"{self.path} is in use by another cloud", do) from taken
        self._lock = handle

    def password(self) -> str:
        """The first administrator's password."""
        return self._secret("password", lambda: secrets.token_urlsafe(18).encode()).decode().strip()

    def agents_token(self) -> str:
        """What agents show at the door."""
        return self._secret("agents.token", lambda: secrets.token_urlsafe(32).encode()).decode().strip()

    def token_key(self) -> bytes:
        """Signs tokens."""
        return self._secret("token.key", lambda: secrets.token_bytes(TOKEN_KEY_BYTES), TOKEN_KEY_BYTES)

    def write_clouds_yaml(self, address: str) -> None:
        """What clients read to find the cloud at `address`. Kept as it is if it says so already."""
        auth = {
            "auth_url": f"{address}/identity/v3",
            "username": "admin",
            "password": self.password(),
            "project_name": "admin",
            "user_domain_id": "default",
            "project_domain_id": "default",
        }
        lines = [
            "clouds:",
            "  berthold:",
            "    region_name: RegionOne",
            "    identity_api_version: 3",
            "    auth:",
        ]
        # A JSON string is a YAML string.
        lines += [f"      {name}: {json.dumps(value)}" for name, value in auth.items()]
        text = "\n".join(lines) + "\n"
        if not self.clouds_yaml.exists() or self.clouds_yaml.read_text() != text:
            os.replace(self._temporary(text.encode()), self.clouds_yaml)

    def _secret(self, name: str, draw: Callable[[], bytes], least: int = 1) -> bytes:
        """What the file holds, which is made if need be. Raises `Wrong` for one that somebody has cut off."""
        path = self.path / name
        if not path.exists():
            made = self._temporary(draw())
            try:
                # Of two that come at once one is first, and both read what that one made.
                os.link(made, path)
            except FileExistsError:
                pass
            finally:
                made.unlink()
        content = path.read_bytes()
        if len(content) < least or not content.strip():
            do = "restore it; or remove it, and the next start makes another"
            raise Wrong(f"{path} is cut off: a secret was there", do)
        return content

    def _temporary(self, content: bytes) -> Path:
        """A new file with this content, on disk, readable by its owner only."""
        handle, name = tempfile.mkstemp(dir=self.path, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return Path(name)
