"""What tests need that drive a `lab.world.World` by hand: turns stopped half-way, and short words
for what a user, an operator and the ledger see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from berthold.agent.simulated import Simulated
from berthold.lab.outages import evacuate, lose
from berthold.lab.world import Turn, World
from berthold.ledger import hosts, moves, schema
from berthold.ledger.store import Tx
from berthold.moves import begin, placing
from berthold.moves.outcome import Outcome
from berthold.moves.playbook import Place
from berthold.moves.sight import scene_of
from berthold.moves.status import line_of, migration_status
from berthold.scheduler.candidates import rank

MakeWorld = Callable[..., World]

__all__ = ["evacuate", "lose"]  # besides what is defined here


class Halfway:
    """A conductor's step on one move, stopped just before one of its transactions."""

    def __init__(self, world: World, move: str) -> None:
        self._world = world
        self._work = world.runner.step(world.lease(move))
        self._due: Turn | None = None
        self._outcome: Outcome | None = None
        self._go_on()

    def until(self, transaction: str) -> Halfway:
        """Go on until the transaction of that name is the next thing to happen."""
        while self._due is None or self._due.name != transaction:
            assert self._outcome is None, f"this step never comes to {transaction}"
            self._go_on()
        return self

    def end(self) -> Outcome:
        """Take the step to its end. Raises what it raises."""
        while self._outcome is None:
            self._go_on()
        return self._outcome

    def drop(self) -> None:
        """The conductor dies here."""
        self._work.close()

    def _go_on(self) -> None:
        self._world.store.switching = True
        try:
            self._due = self._take_turn() if self._due else self._work.send(None)
        except StopIteration as end:
            self._due, self._outcome = None, end.value
        finally:
            self._world.store.switching = False

    def _take_turn(self) -> Turn:
        assert self._due is not None
        try:
            result = self._due.do()
        except Exception as error:
            due: Turn = self._work.throw(error)
        else:
            due = self._work.send(result)
        return due


def under_way(world: World, server: str) -> str:
    """The server's unfinished move."""
    move = world.store.read_now(moves.unfinished, server)
    assert move is not None, f"nothing is under way for {server}"
    return str(move["id"])


def come_back(world: World, host: str) -> None:
    """The machine is on again and an operator lets it act; the guests that lived there are started."""
    world.restart_agent(host)
    world.settle()
    if host_status(world, host) == "fenced":
        world.store.write_now(hosts.unfence, world.host_id(host))
        world.settle()
    for row in world.rows("server"):
        if row["condition"] == "active" and world.home(row["id"]) == host:
            world.store.write_now(begin.begin, "hard-reboot", row["id"], world.by(), {})
    world.settle()


def in_zones(world: World, **zones: str) -> None:
    """These hosts are in those availability zones: their agents say so."""
    for name, zone in zones.items():
        driver = world.agents[name].driver
        assert isinstance(driver, Simulated)
        driver.zone = zone
        world.restart_agent(name)


def host_status(world: World, host: str) -> str:
    return next(str(row["status"]) for row in world.rows("host") if row["name"] == host)


def choosing(world: World, move: str) -> Halfway:
    """The move has chosen its host and has not written that down."""
    return Halfway(world, move).until("place_line")


def step_until(world: World, move: str, line: str, *, obey: bool = True) -> None:
    """Step this move alone, and the agents, until it is at the line of that name."""
    for _ in range(100):
        if _line(world, move) == line and world.move(move)["state"] == "running":
            return
        if obey:
            for name in world.agents:
                world.obey(name)
        if _line(world, move) != line:
            world.step(move)
    raise AssertionError(f"the move never comes to {line!r}: {world.move(move)}")


def _line(world: World, move: str) -> str:
    return line_of(world.move(move)).name


def preferred(world: World, move: str) -> list[str]:
    """The hosts that the scheduler would propose for the move now, best first."""

    row = world.move(move)
    line = line_of(row)

    def ranked(tx: Tx) -> list[str]:
        scene = scene_of(tx, row)
        assert isinstance(line, Place)
        sight = placing.survey(tx, scene, line, world.settings, world.runner.watch)
        return [host.name for host in rank(sight.request, sight.view, world.clock.chance())]

    return world.store.read_now(ranked)


def holds(world: World, server: str) -> dict[str, str]:
    """The server's claims: host → role (of two on one host, both, in order)."""
    found: dict[str, str] = {}
    for claim in sorted(world.claims(server), key=lambda claim: claim.role):
        before = found.get(claim.host_name)
        found[claim.host_name] = f"{before} {claim.role}" if before else claim.role
    return found


def shown(world: World, server: str) -> tuple[str, str | None]:
    """(status, task_state), as the owner sees them."""
    status = world.status(server)
    return status.status, status.task_state


def ended(world: World, move: str) -> str:
    """The migration's status."""
    return migration_status(world.move(move))


def why(world: World, move: str) -> str:
    """What the owner is told of a failure."""
    return str(world.move(move)["failure"].get("message", ""))


def operators_read(world: World, move: str) -> str:
    """What operators are told of a failure."""
    return str(world.move(move)["failure"].get("traceback", ""))


def events(world: World, move: str) -> list[tuple[str, str]]:
    """(event, result) of everything that was done for the move, in order."""
    numbers = {row["number"] for row in world.rows("action") if row["move_id"] == move}
    rows = sorted(world.rows("event"), key=lambda row: row["number"])
    return [(row["event"], row["result"]) for row in rows if row["action"] in numbers]


def told(world: World, move: str) -> list[str]:
    """The sentences in the move's failed events."""
    numbers = {row["number"] for row in world.rows("action") if row["move_id"] == move}
    rows = sorted(world.rows("event"), key=lambda row: row["number"])
    return [row["details"] for row in rows if row["action"] in numbers and row["result"] == "Error"]


def outcome(world: World, move: str) -> str | None:
    """The message of the move's latest action: None, or "Error"."""
    rows = [row for row in world.rows("action") if row["move_id"] == move]
    message: str | None = max(rows, key=lambda row: row["number"])["message"]
    return message


def used(world: World, host: str, what: str = "VCPU") -> int:
    """How much of a host's `what` the ledger counts as taken."""
    rows = world.rows("inventory")
    return sum(
        row["used"] for row in rows if row["provider_id"] == world.host_id(host) and row["class"] == what
    )


def project(world: World) -> Mapping[str, Any]:
    """What the one project of this world uses."""
    (row,) = world.rows("project")
    return {what: row[what] for what in ("instances", "cores", "ram", "server_groups")}


def guest(world: World, host: str, server: str) -> tuple[str, int] | None:
    """(state, vcpus) of what is really on the host."""
    place = world.ground.place(host, server)
    return (place.state, place.guest.vcpus) if place else None


def assert_quiet(world: World) -> None:
    """Nothing is broken, and nothing is left over: what holds whenever a cloud is at rest."""
    assert world.problems() == []
    assert [move["id"] for move in world.moves() if move["state"] in ("running", "undoing", "stuck")] == []
    parked = {move["server_id"] for move in world.moves() if move["state"] == "waiting"}
    for row in world.rows("server"):
        roles = sorted(claim.role for claim in world.claims(row["id"]))
        runs_on = world.ground.runners(row["id"])
        if row["condition"] == "active":
            assert roles == (["home", "source"] if row["id"] in parked else ["home"]), row["name"]
            assert runs_on == [world.home(row["id"])], row["name"]
        elif row["condition"] in ("deleted", "error"):
            assert (roles, runs_on) == ([], []), row["name"]
    living = [row for row in world.rows("server") if row["deleted_at"] is None]
    (paid,) = world.rows("project")
    assert paid["instances"] == len(living)
    assert paid["cores"] == sum(row["cores"] for row in living)
    waiting = [row for row in world.rows("ask") if row["state"] == "open"]
    assert waiting == [], "an agent still has something to do that nobody waits for"


def members(world: World, group: str) -> list[str]:
    """The group's members, as the API shows them."""
    rows = [row for row in world.rows(schema.server.name) if row["group_id"] == group]
    return sorted(row["id"] for row in rows)
