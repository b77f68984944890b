"""Stories: a world that writes down what happens in it, as a page that people read.

    story = Story("Evacuate, then the source returns", hosts=3)
    story.says("node1 fails.")
    story.asks("the operator evacuates web-1", lambda: evacuate(story.world, one))
    story.goes("web-1", until="rebuild on target")
    story.shows()

What was asked, done and refused, and how the cloud looks, is written in Markdown: nothing of it
is put in words by the test but the sentences of `says`. A page stands beside its test and must be
what the story tells; `pytest tests/stories --tell` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from berthold.agent.protocol import Ask, Fenced
from berthold.errors import Failure, NotFound
from berthold.lab.scenarios import always
from berthold.lab.world import World
from berthold.moves import group_status
from berthold.moves.status import line_of

PAGES = Path(__file__).parent / "stories"
# How a claim is shown: role of the claim → what it is for a reader.
ROLES = {"home": "**home**", "target": "target", "source": "source", "left": "left behind"}


class Story:
    """A world, and the page that is written of it. No promise may be broken at any line of it."""

    def __init__(self, title: str, hosts: int = 3, **more: Any) -> None:
        self.world = World(hosts=hosts, **more)
        self.lines: list[str] = [f"# {title}"]
        self._log: list[tuple[str, str]] = []
        self.servers: dict[str, str] = {}
        self._waiting: set[str] = set()

    # -- What the test tells ----------------------------------------------------------------

    def part(self, title: str) -> None:
        """A new part of the story."""
        self._write(f"## {title}")

    def says(self, text: str) -> None:
        """A paragraph for the reader."""
        self._write(" ".join(text.split()))

    def boots(self, name: str, group: str | None = None, **wishes: Any) -> str:
        """A server that is made before the story begins; its id."""
        server = self.servers[name] = self.world.boot(name, group, **wishes)
        return server

    def asks(self, what: str, f: Callable[[], object]) -> None:
        """Somebody asks for something: it is accepted, or refused with a sentence."""
        try:
            f()
        except Failure as no:
            self._note(what, f"refused: {self._named(str(no))}")
        else:
            self._note(what, "accepted")

    def happens(self, what: str, f: Callable[[], object]) -> None:
        """Something happens that nobody can refuse."""
        f()
        self._note(what, "")

    def goes(self, *names: str, until: str | None = None) -> None:
        """The moves of these servers (or of all) go on, in turns, to their ends or to where this line
        is the next to do; and every agent that lives does what it is asked."""
        wanted = {self.servers[name] for name in names or self.servers}
        for _ in range(300):
            under_way = [each for each in self.world.unfinished() if self._server(each) in wanted]
            busy = [self._step(each) for each in under_way if self._at(each) != until]
            if until and all(self._at(each) == until for each in under_way):
                return
            busy += [self._obey(name) for name in self.world.agents]
            busy.append(self._attend())
            if not any(busy):
                if not self._can_go_on(under_way):
                    return
                self.world.pass_time(1.0)
        raise AssertionError(f"this story never ends: {self.world.moves()}")

    def agents_obey(self, *, but: str | None = None) -> None:
        """The agents (`but` one) do all that they are asked."""
        others = [name for name in self.world.agents if name != but]
        while sum(self._obey(name) for name in others):  # all of them, not until the first
            pass

    def shows(self) -> None:
        """How the cloud looks: what every server claims and runs where, and what its owner sees."""
        world, names = self.world, list(self.world.agents)
        status = {row["name"]: "disabled" if row["disabled"] else row["status"] for row in world.rows("host")}
        rows = [["", *names, "its owner sees"], ["---"] * (len(names) + 2)]
        rows.append(["", *(status[name] for name in names), ""])
        for name, server in self.servers.items():
            cells = [self._cell(server, host) for host in names]
            shown = world.status(server)
            rows.append(
                [name, *cells, f"{shown.status}{f', {shown.task_state}' if shown.task_state else ''}"]
            )
        self._write("\n".join(f"| {' | '.join(row)} |" for row in rows))

    def sums_up(self, table: Sequence[Sequence[str]]) -> None:
        """A table of the story's own; its first row is the head."""
        head, *rows = table
        self._write("\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)))

    def ends(self) -> str:
        """The page. Nothing is broken or under way."""
        assert [self._at(each) for each in self.world.unfinished()] == []
        self._flush()
        return "\n\n".join(self.lines) + "\n"

    # -- How it goes ------------------------------------------------------------------------

    def _step(self, move: str) -> bool:
        before = line_of(self.world.move(move)).name
        outcome = self.world.step(move)
        after = self.world.move(move)
        name = self._name(self._server(move))
        if after["facts"].get("waits"):
            if move not in self._waiting:
                self._waiting.add(move)
                message = self._named(after["facts"]["waits"]["message"])
                self._note(f"conductor: {name}", f"{before}: {message}")
            return False
        if outcome.over:
            back = after["state"] == "undone" or (after["state"] == "waiting" and after["group_move_id"])
            why = self._named(after["failure"].get("said", "")) if back else ""
            self._note(f"conductor: {name}", f"{before} → {outcome.state}{f': {why}' if why else ''}")
        elif line_of(after).name != before:
            self._note(f"conductor: {name}", before)
        return not outcome.wait_s

    def _attend(self) -> bool:
        """Whoever attends to whole-group moves does what is due."""
        if not self.world.attend():
            return False
        for row in self.world.rows("server_group"):
            with suppress(NotFound):
                seen = self.world.store.read_now(group_status.look, row["id"])
                self._note(f"conductor: {row['name']}", f"the whole group is {seen['status']}")
        return True

    def _obey(self, host: str) -> bool:
        if host in self.world.silent:
            return False
        asked = self._asked(host)
        if not self.world.obey(host):
            return False
        if asked is None:
            self._note(host, "registers anew")
        else:
            answer = next(row for row in self.world.rows("ask") if row["id"] == asked.id)["answer"]
            said = "done" if answer["ok"] else f"no: {answer['reason']}"
            self._note(host, f"{asked.verb} {self._name(asked.server)}: {said}")
        return True

    def _asked(self, host: str) -> Ask | None:
        try:
            return next(iter(self.world.asks(host)), None)
        except Fenced:
            return None

    def _can_go_on(self, under_way: list[str]) -> bool:
        """Whether time alone may help: who is silent is not waited for, nor what others must give up."""
        moving = [each for each in under_way if not self.world.move(each)["facts"].get("waits")]
        return bool(moving) and not self.world.silent

    def _at(self, move: str) -> str:
        row = self.world.move(move)
        return line_of(row).name if row["state"] == "running" else str(row["state"])

    def _server(self, move: str) -> str:
        return str(self.world.move(move)["server_id"])

    # -- How it is written ------------------------------------------------------------------

    def _cell(self, server: str, host: str) -> str:
        world = self.world
        roles = [ROLES[claim.role] for claim in world.claims(server) if claim.host_name == host]
        state = world.ground.states(host).get(server)
        parts = [*sorted(roles), *([f"guest {state}"] if state else [])]
        return ", ".join(parts)

    def _name(self, server: str) -> str:
        return next((name for name, each in self.servers.items() if each == server), server)

    def _named(self, text: str) -> str:
        """The text with names in the place of ids."""
        known = {
            row["id"]: row["name"] for table in ("host", "server_group") for row in self.world.rows(table)
        }
        known |= {server: name for name, server in self.servers.items()}
        for each, name in known.items():
            text = text.replace(f"{name} ({each})", name).replace(each, name)
        return text

    def _note(self, who: str, what: str) -> None:
        problems = always(self.world)
        assert problems == [], f"{problems} after {who} {what}"
        self._log.append((who, what))

    def _flush(self) -> None:
        if self._log:
            wide = max((len(who) for who, what in self._log if what), default=0)
            lines = [f"    {who:<{wide}}  {what}".rstrip() for who, what in self._log]
            self.lines.append("\n".join(lines))
            self._log = []

    def _write(self, block: str) -> None:
        self._flush()
        self.lines.append(block)


@contextmanager
def story(title: str, page: str, *, tell: bool, **world: Any) -> Iterator[Story]:
    """A story, whose page must be what is written in `page` (or is written there, if asked to `tell`)."""
    told = Story(title, **world)
    try:
        yield told
        text, path = told.ends(), PAGES / page
        if tell:
            path.write_text(text)
        assert path.exists(), f"{page} is not written: run pytest tests/stories --tell"
        assert text == path.read_text(), f"the story goes otherwise than {page} tells; see pytest --tell"
    finally:
        told.world.close()
