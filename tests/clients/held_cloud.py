"""`python held_cloud.py up …`: `berthold up` whose hosts can be told not to finish sending a guest.

While the file `hold` is in the data directory a live migration that begins stays under way,
until somebody aborts it. All else takes no time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from berthold import cli
from berthold.agent.faults import Pace

HOLD = Path(sys.argv[sys.argv.index("--data") + 1]) / "hold"
LONG_S = 3600.0
of = Pace.of


def held(self: Pace, verb: str) -> float:
    return LONG_S if verb == "send" and HOLD.exists() else of(self, verb)


if __name__ == "__main__":
    Pace.of = held  # type: ignore[method-assign]
    cli.main()
