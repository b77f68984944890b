"""Options that several commands have, each with its meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from berthold.settings import Settings

Data = Annotated[Path, typer.Option("--data", help="The data directory.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        help="The database as a SQLAlchemy URL: postgresql+psycopg://… or sqlite:///… "
        "(default: berthold.db in the data directory).",
    ),
]
Listen = Annotated[str, typer.Option("--listen", help="The address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for a free one.")]
Pace = Annotated[
    str,
    typer.Option(
        "--pace",
        help="How long simulated hosts take: lifelike, none, or a factor of lifelike (2.5: so much slower).",
    ),
]
Vcpus = Annotated[int, typer.Option("--vcpus", min=1, help="CPUs of a simulated host.")]
Memory = Annotated[int, typer.Option("--memory-mb", min=1, help="MiB of memory of a simulated host.")]
Disk = Annotated[int, typer.Option("--disk-gb", min=0, help="GiB of disk of a simulated host.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy-file",
        help="Rules of the compute API that differ from the defaults (YAML, under Nova's rule names).",
    ),
]
Wait = Annotated[
    int,
    typer.Option(
        "--wait",
        min=0,
        max=int(Settings.wait_max_s),
        help="For how many seconds a move may wait for a place that others on the move may give up, where"
        " its request does not say so (header Berthold-Wait).",
    ),
]
KeepDeleted = Annotated[
    int,
    typer.Option(
        "--keep-deleted",
        min=0,
        help="For how many seconds a deleted server may be restored; 0 deletes it at once. The same for all"
        " processes of a cloud.",
    ),
]
KeepShelved = Annotated[
    int,
    typer.Option(
        "--keep-shelved",
        min=-1,
        help="For how many seconds a shelved server keeps its host; -1 until somebody offloads it. The same"
        " for all processes of a cloud.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
