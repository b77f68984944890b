"""`python -m berthold.lab.storm --seconds 60 --seed 1`: storms, one after another, for as long as one likes.

On SQLite in memory, or with `--engine postgresql` on a server that is started for them (or the one that
BERTHOLD_TEST_POSTGRESQL names), where plain claims are taken by the server's own function. There a storm
costs two to three times as much; from one seed both begin alike, and often end alike.

Prints how fast they went and what was done in them. At the first that breaks a promise it prints the
story, the shortest history that breaks the same promise, and the seed that does it again; exit 1.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from berthold.lab.engines import PostgreSQL
from berthold.lab.storm.runs import Broken, Sea, Storm, run, script, shortest


@dataclass
class Log:
    """What was done so far."""

    begun: float = field(default_factory=time.monotonic)
    runs: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    contended: int = 0
    refused: int = 0

    def add(self, storm: Storm) -> None:
        self.runs += 1
        self.operations += storm.acknowledged
        self.faults += storm.cloud.struck
        self.contended += storm.contended
        self.refused += storm.refused

    def rate(self) -> str:
        seconds = max(time.monotonic() - self.begun, 0.001)
        operations, faults = self.operations.total(), self.faults.total()
        share = self.contended / max(operations, 1)
        return (
            f"{self.runs} storms in {seconds:.0f} s ({self.runs / seconds:.2f}/s): {operations} operations"
            f" ({operations / seconds:.0f}/s, {share:.0%} on contended groups, {self.refused} more refused),"
            f" {faults} faults"
        )

    def table(self) -> str:
        rows = [
            *(f"  {number:7} {name}" for name, number in self.operations.most_common()),
            "faults:",
            *(f"  {number:7} {name}" for name, number in self.faults.most_common()),
        ]
        return "\n".join(["operations:", *rows])


@contextmanager
def database(engine: str) -> Iterator[tuple[str, str]]:
    """The URL of a database of that engine without tables, and the engine's version."""
    if engine == "sqlite":
        yield "sqlite://", f"SQLite {sqlite3.sqlite_version}"
        return
    server = PostgreSQL()
    try:
        yield server.create_bare(), f"PostgreSQL {server.version}"
    finally:
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m berthold.lab.storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, help="the first storm's seed; alone: that storm only")
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--tell", action="store_true", help="print the story of each storm")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int(time.time())
    with database(options.engine) as (url, version), closing(Sea(url=url)) as sea:
        print(f"storms from seed {seed} for {options.seconds:g} s on {version}", flush=True)
        return blow(sea, seed, options)


def blow(sea: Sea, seed: int, options: argparse.Namespace) -> int:
    """One storm after another. 1 if one broke a promise."""
    log = Log()
    told = time.monotonic()
    try:
        while log.runs == 0 or time.monotonic() - log.begun < options.seconds:
            storm = run(sea, script(seed))
            log.add(storm)
            if options.tell:
                print(f"seed {seed}:", *storm.story, sep="\n  ")
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(log.rate(), flush=True)
            seed += 1
    except Broken as broken:
        again = f"make storm SECONDS=0 SEED={seed} ENGINE={options.engine}"
        print(f"seed {seed} broke a promise: {again}\n{broken}\n", flush=True)
        print(f"the shortest history of it:\n{shortest(sea, broken)}")
        return 1
    finally:
        print(log.rate(), log.table(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
