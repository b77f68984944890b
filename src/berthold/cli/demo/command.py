"""`berthold demo` itself: a cloud in a temporary directory, the acts, the verdict."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from berthold.cli.console import Wrong, out
from berthold.cli.demo import acts
from berthold.cli.demo.beyond import BEYOND
from berthold.cli.demo.cloud import Cloud
from berthold.cli.demo.race import Stage
from berthold.cli.demo.screen import Screen
from berthold.cli.demo.shell import Shell
from berthold.cli.demo.verdict import Violated, judge_now

EVERY_ACT = {**acts.ACTS, **BEYOND}

# So slow that three clients which start at once are all served while the first guest moves.
PACE = 2.5


def demo(
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often the races are run.")] = 1,
    hosts: Annotated[int, typer.Option("--hosts", min=5, max=50, help="How many simulated hosts.")] = 5,
    act: Annotated[
        list[str] | None,
        typer.Option("--act", help=f"Only this act (may be repeated): {', '.join(EVERY_ACT)}."),
    ] = None,
    all_acts: Annotated[
        bool,
        typer.Option("--all", help="Also what the test plan leaves out: unshelve, evacuate, a whole group."),
    ] = False,
    pace: Annotated[float, typer.Option("--pace", min=0.1, help="How slow hosts are.")] = PACE,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the cloud's directory.")] = False,
    unguarded: Annotated[
        bool, typer.Option("--unguarded", help="On a cloud that does not keep the group rules.")
    ] = False,
) -> None:
    """Watch members of a group race, and never meet.

    The test plan of Launchpad bug 1821755, with the real openstack client, on
    a cloud of its own that is gone afterwards: members of an anti-affinity
    group are live-migrated, cold-migrated and resized at once. Exits with 1 if
    a promise was broken.

    Example, without the rules in the database, which shows the bug, and the
    same for every act, each on a cloud of its own:

      berthold demo --unguarded
      berthold demo --unguarded --all
    """
    chosen = act or list(EVERY_ACT if all_acts else acts.ACTS)
    if unknown := [name for name in chosen if name not in EVERY_ACT]:
        raise Wrong(f"there is no act {unknown[0]}; there are: {', '.join(EVERY_ACT)}")
    # Where a promise is broken a cloud's demo ends. So that each act can show it, each has a cloud.
    alone = unguarded and (all_acts or act is not None)
    good = True
    for names in [[name] for name in chosen] if alone else [chosen]:
        good = _on_a_cloud(names, hosts, pace, not unguarded, rounds, keep) and good
    raise typer.Exit(0 if good else 1)


def _on_a_cloud(
    chosen: Sequence[str], hosts: int, pace: float, guarded: bool, rounds: int, keep: bool
) -> bool:
    """Play these acts on a new cloud; whether all was as it should be."""
    begun = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="berthold-demo-"))
    cloud = Cloud(directory, hosts=hosts, pace=pace, guarded=guarded)
    screen = Screen()
    try:
        _play(cloud, screen, chosen, rounds)
        return _verdict(screen, time.monotonic() - begun)
    except Violated as violated:
        out.print("\n[bold red]A promise was broken.[/]")
        out.print(str(violated), markup=False)
        return False
    finally:
        cloud.stop()
        if keep:
            out.print(f"The cloud's directory is kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _play(cloud: Cloud, screen: Screen, chosen: Sequence[str], rounds: int) -> None:
    shell = Shell(cloud.home)
    address = cloud.start()
    out.print(f"A cloud of {len(cloud.hosts)} simulated hosts listens on [bold]{address}[/].")
    if not cloud.guarded:
        out.print(
            "[bold red]It does not keep the rules of server groups: only its scheduler looks at them.[/]"
        )
    out.print("Every command below is run as it stands, by the unmodified client.\n")
    shell.introduce()
    stage = Stage(cloud, shell, screen)
    acts.prepare(stage)
    acts.boot(stage)
    for number in range(1, rounds + 1):
        if rounds > 1:
            screen.say(f"\nRound {number} of {rounds}")
        for name in chosen:
            if name != "three-hosts":  # it needs an empty cloud, and leaves two members
                EVERY_ACT[name](stage)
    if "three-hosts" in chosen:
        acts.three_hosts(stage)
    acts.clean_up(stage)
    screen.act("·", "The judge")
    events = judge_now(cloud)
    screen.expect(
        True, f"{events} events of the placement history replayed: no promise was broken at any instant"
    )
    screen.expect(not cloud.errors, "no server was ever in ERROR")


def _verdict(screen: Screen, seconds: float) -> bool:
    out.print()
    if screen.wrong:
        out.print(f"[bold red]{len(screen.wrong)} things were not as they should be:[/]")
        for sentence in screen.wrong:
            out.print(f"  {sentence}", markup=False)
        return False
    out.print(f"[bold green]Every promise held.[/] {seconds:.0f} s.")
    return True
