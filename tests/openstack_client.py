"""The real `openstack` client in the tests' own process, each command as if it had a process to itself.

A command costs a twentieth of what a process costs. Nothing stays behind: what the client caches
on its classes (handles, token, discovery: another cloud's, or another microversion's), the log
handlers it adds, the warnings it raises.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shlex
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

# Who imports this is skipped where the client is not installed.
shell = pytest.importorskip("openstackclient.shell")
clients = pytest.importorskip("osc_lib.clientmanager")
utils = pytest.importorskip("osc_lib.utils")

# A client that waits looks every 5 s; here there is no reason to wait that long.
LOOK_S = 0.05


@dataclass(frozen=True)
class Said:
    """What a command has answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its JSON, which may follow words about progress."""
        starts = [at for at in (self.out.find("{"), self.out.find("[")) if at >= 0]
        return json.loads(self.out[min(starts) :])


def say(words: str) -> Said:
    """Run one command. What cloud it talks to is in the environment."""
    out, err = io.StringIO(), io.StringIO()
    with _alone(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = shell.main(shlex.split(words))
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    for handle in vars(clients.ClientManager).values():
        if isinstance(handle, clients.ClientCache):
            handle._handle = None
    log = logging.getLogger()
    handlers, level, disabled = log.handlers[:], log.level, log.manager.disable
    # It logs every byte for whoever collects it, which takes more time than all else.
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the client and its libraries
            yield
    finally:
        logging.disable(disabled)
        log.handlers[:] = handlers
        log.setLevel(level)


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `--wait` look every moment."""
    monkeypatch.setattr(utils, "time", SimpleNamespace(sleep=lambda _: time.sleep(LOOK_S)))
