"""What goes wrong in a storm. Every fault says what it did, or None where there was nothing to break.

Some strike at once; others wait for the next ask, call or transaction, and are counted when they
have struck (`Cloud.struck`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random

from berthold.agent.faults import Kind
from berthold.errors import Unavailable
from berthold.lab.storm.cloud import PLANNED, Cloud, Mood

# At most so many hosts are without power at once, so that something can go on.
DARK_MOST = 2


@dataclass(frozen=True)
class Mishap:
    """A kind of fault."""

    name: str
    strike: Callable[[Cloud, Random], str | None]
    weight: int = 1


# -- Conductors -----------------------------------------------------------------------------


def kill_conductor(cloud: Cloud, chance: Random) -> str:
    """It dies between two transactions of its steps; another process begins in its place."""
    number = chance.randrange(len(cloud.crew))
    dying = cloud.crew[number]
    dying.die()
    cloud.crew[number] = cloud.new_conductor()
    cloud.struck["a conductor is killed"] += 1
    return f"{dying.name} is killed"


def sleep(cloud: Cloud, chance: Random) -> str | None:
    """It stands still between two transactions until its leases are long over, then goes on."""
    awake = [each for each in cloud.crew if not each.asleep_until and each.held]
    if not awake or any(each.asleep_until for each in cloud.crew):
        return None
    sleeper = chance.choice(awake)
    seconds = chance.choice((3.0, 6.0, 12.0))
    sleeper.asleep_until = cloud.clock.now() + seconds
    if chance.random() < 0.5:
        cloud.pass_time(cloud.settings.lease_s + 0.5)
    cloud.struck["a conductor oversleeps its leases"] += 1
    return f"{sleeper.name} stands still for {seconds:g} s"


def jump(cloud: Cloud, chance: Random) -> str:
    """All clocks jump at once."""
    seconds = chance.choice((-2.0, 4.0, 11.0, 30.0))
    cloud.clock.advance(seconds)
    cloud.tick()
    cloud.struck["the clock jumps"] += 1
    return f"the clock jumps by {seconds:g} s"


# -- Agents ---------------------------------------------------------------------------------


def asked(cloud: Cloud, chance: Random) -> list[tuple[str, str, str]]:
    """(host's name, server, verb) of what agents are about to do; if that is nothing, a little later."""
    for _ in range(8):
        if found := _asked(cloud):
            return found
        cloud.work(chance, 1)
    return []


def _asked(cloud: Cloud) -> list[tuple[str, str, str]]:
    rows = cloud.select(
        "SELECT h.name, a.server_id, a.verb FROM ask a JOIN host h ON h.id = a.host_id"
        " WHERE a.state = 'open' ORDER BY a.host_id, a.seq"
    )
    busy = {(name, server) for name, hands in cloud.hands.items() for server in hands}
    return [row for row in rows if row[0] not in cloud.silent and (row[0], row[1]) not in busy]


def plan(kind: Kind, cloud: Cloud, chance: Random) -> str | None:
    """The agent does something else with what it is about to do."""
    open_ = asked(cloud, chance)
    if not open_:
        return None
    name, server, verb = chance.choice(open_)
    times = chance.choice((1, 1, 1, 6)) if kind == "refuse" else 1
    fault = cloud.faults_of[name].plan(kind, server=server, verb=verb, times=times)
    cloud.planned.append((f"an agent: {kind}", fault))
    if kind in ("stall", "forget"):
        cloud.alarm(chance.choice((2.0, 9.0, 20.0)), cloud.release)
    return f"{name} is about to {verb} {server}: {kind}"


def misdeliver(fate: str, cloud: Cloud, chance: Random) -> str | None:
    open_ = asked(cloud, chance)
    if not open_:
        return None
    name = chance.choice(open_)[0]
    cloud.post[name].append(fate)
    return f"the next answer of {name} is {fate}"


def lively(cloud: Cloud) -> list[str]:
    return [name for name in cloud.agents if name not in cloud.silent]


def kill_agent(cloud: Cloud, chance: Random) -> str | None:
    """The process dies and begins anew, at once or later; guests run on."""
    names = lively(cloud)
    if not names:
        return None
    name, seconds = chance.choice(names), chance.choice((0.0, 2.0, 12.0))
    cloud.agent_dies(name)
    cloud.struck["an agent is killed"] += 1
    if seconds:
        cloud.alarm(seconds, partial(cloud.agent_returns, name))
    else:
        cloud.agent_returns(name)
    return f"the agent of {name} is killed and away for {seconds:g} s"


def cut_off(cloud: Cloud, chance: Random) -> str | None:
    """Nobody hears of the host for a while; it is alive, and what was in its hands goes on."""
    names = lively(cloud)
    if not names:
        return None
    name, seconds = chance.choice(names), chance.choice((3.0, 12.0))
    cloud.silent.add(name)
    cloud.alarm(seconds, partial(cloud.heard_again, name))
    cloud.struck["a host is cut off"] += 1
    return f"{name} is cut off for {seconds:g} s"


def lose_power(cloud: Cloud, chance: Random) -> str | None:
    """The machine fails, and everything that ran there; nobody hears of it until it is switched on."""
    names = lively(cloud)
    if not names or len(cloud.dark) >= DARK_MOST:
        return None
    name = chance.choice(names)
    cloud.lose_power(name)
    if chance.random() < 0.7:
        cloud.pass_time(cloud.settings.silent_after_s + 1)
    cloud.struck["a host loses power"] += 1
    return f"{name} loses power"


# -- What everything stands on ----------------------------------------------------------------


def neighbour(cloud: Cloud, chance: Random) -> str | None:
    if cloud.broken_neighbours:
        return None
    how, error = chance.choice(("before", "after")), chance.choice(PLANNED)
    cloud.broken_neighbours.append(Mood(f"a neighbour fails {how} it has done it", how, error("planned")))
    return f"a neighbour will fail {how} it has done it: {error.__name__}"


def database(cloud: Cloud, chance: Random) -> str | None:
    if cloud.broken_database:
        return None
    how = chance.choice(("before", "after"))
    name = f"the database is lost {how} a commit"
    cloud.broken_database.append(Mood(name, how, Unavailable("planned: the database does not answer")))
    return name


KINDS: tuple[Kind, ...] = ("refuse", "stall", "forget", "answer twice", "die before", "die after")
MISHAPS = (
    Mishap("kill a conductor", kill_conductor, 4),
    Mishap("a conductor oversleeps", sleep, 3),
    Mishap("the clock jumps", jump),
    *(Mishap(f"an agent will {kind}", partial(plan, kind)) for kind in KINDS),
    Mishap("an answer gets lost", partial(misdeliver, "lost")),
    Mishap("an answer comes late", partial(misdeliver, "late")),
    Mishap("kill an agent", kill_agent, 2),
    Mishap("a host is cut off", cut_off),
    Mishap("a host loses power", lose_power, 3),
    Mishap("a neighbour fails", neighbour, 2),
    Mishap("the database fails once", database, 2),
)
FAULTS: Mapping[str, Mishap] = {each.name: each for each in MISHAPS}
FAULTS_WORDS = tuple(each.name for each in MISHAPS for _ in range(each.weight))
