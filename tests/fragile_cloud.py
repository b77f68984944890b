"""`fragile` makes of `berthold up` one that kills itself where it is told to.

The file `kill` in the data directory names a playbook and the number of a line. When a
conductor is about to begin that line, the process is gone as after `kill -9`. Leases are
short, so that a test need not wait for those of the dead.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from berthold.cli import processes
from berthold.ledger import moves
from berthold.moves import sight
from berthold.moves.outcome import Outcome
from berthold.moves.runner import Runner
from berthold.settings import Settings

step = Runner.step


def order() -> Path:
    return Path(sys.argv[sys.argv.index("--data") + 1]) / "kill"


async def fragile_step(self: Runner, lease: moves.Lease, *seen: Any, **known: Any) -> Outcome:
    if order().exists():
        self.at_once, seen = False, ()  # else it might not stop at this line
        playbook, line = order().read_text().split()
        move: Any = (await self.store.read(sight.look, lease)).scene.move
        if move["playbook"] == playbook and move["line"] == int(line):
            os.kill(os.getpid(), signal.SIGKILL)
    return await step(self, lease, *seen, **known)


def fragile() -> None:
    Runner.step = fragile_step  # type: ignore[method-assign]
    vars(processes)["Settings"] = partial(Settings, lease_s=1.0, scan_s=0.2)
