"""`python -m bench [a|b|c|d …]`: run these parts (all if none is named) and print one table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table

from bench import claiming, deciding, working
from bench.figures import Figure

PARTS: Mapping[str, Callable[[], list[Figure]]] = {
    "a": claiming.measure,
    "b": working.measure,
    "c": deciding.measure,
    "d": working.weigh,
}


def main() -> None:
    console = Console()
    named = sys.argv[1:] or list(PARTS)
    if strange := [name for name in named if name not in PARTS]:
        console.print(f"there is no part {' '.join(strange)}; there are {' '.join(PARTS)}")
        raise SystemExit(2)
    table = Table(title="Berthold, measured", title_justify="left")
    for heading in ("part", "what", "result", "aim", ""):
        table.add_column(heading, justify="right" if heading in ("result", "aim") else "left")
    for name in named:
        with console.status(f"part {name} …"):
            figures = PARTS[name]()
        for figure in figures:
            table.add_row(name, figure.what, figure.shown, figure.aim, figure.verdict)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
