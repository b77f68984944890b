"""`held` makes of `berthold up` one whose hosts can be told not to finish sending a guest.

While the file `hold` is in the data directory a live migration that begins stays under way,
until somebody aborts it. While there is a file `slow`, volumes and interfaces come and go slowly. All else
takes no time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from berthold.agent.faults import Pace

LONG_S = 3600.0
SLOW_S = 1.0
of = Pace.of


def pace_of(self: Pace, verb: str) -> float:
    data = Path(sys.argv[sys.argv.index("--data") + 1])
    if verb.startswith(("attach", "detach")) and (data / "slow").exists():
        return SLOW_S
    return LONG_S if verb == "send" and (data / "hold").exists() else of(self, verb)


def held() -> None:
    Pace.of = pace_of  # type: ignore[method-assign]
