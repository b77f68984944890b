"""Sequences of client commands as tables: a step is a command, what it must answer, what to keep of it.

Expected is either a text (the whole of what is printed), an object (the fields named of what is
shown), a list of objects (every row, every column), or a `Refusal`. `FILLED`, `UUID`, `MOMENT`, and
`Like` stand for values that differ each time. `{name}` in a command is what a step before has kept,
`{free}` a host without any server, `{picked}` the one that was last.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openstack_client import Said
from running import REST_S, Running, unfinished


class Like:
    """Equal to each text that the expression describes wholly."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and re.fullmatch(self._expression, other, re.DOTALL) is not None

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Like({self._expression!r})"


class Filled:
    """Equal to everything but what a table would show as an empty cell."""

    def __eq__(self, other: object) -> bool:
        return other not in (None, "", [], {})

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "FILLED"


FILLED = Filled()
UUID = Like(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOMENT = Like(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6}|Z)")
NODE = Like(r"node[1-5]")
NOTHING = ""


@dataclass(frozen=True)
class Refusal:
    """The command fails, and says something that the expression is found in."""

    expression: str


@dataclass(frozen=True)
class Step:
    words: str
    expected: Any
    keep: dict[str, str]


def step(words: str, expected: Any = NOTHING, **keep: str) -> Step:
    """A row. `keep` names what later commands need, and the field (of the first row) it is found in."""
    return Step(words, expected, keep)


class Walk:
    """Runs steps one after another. Between any two the cloud comes to rest, unless the client was
    told to wait: then there must be nothing left to wait for."""

    def __init__(self, cloud: Running, openstack: Callable[[str], Said]) -> None:
        self._cloud = cloud
        self._openstack = openstack
        self._kept: dict[str, str] = {}

    def through(self, steps: Iterable[Step], *, resting: bool = True) -> None:
        for each in steps:
            self.take(each)
            if resting and "--wait" not in each.words:
                self.rest()

    def rest(self) -> None:
        self._cloud.api.at_rest()
        until = time.monotonic() + REST_S
        while moves := unfinished(self._cloud.home.database_url):
            assert time.monotonic() < until, f"still on the way after {REST_S} s: {moves}"
            time.sleep(0.02)

    def take(self, step: Step) -> None:
        words = self._words(step.words)
        structured = isinstance(step.expected, dict | list)
        said = self._openstack(f"{words} -f json" if structured else words)
        if isinstance(step.expected, Refusal):
            assert said.code == 1, f"openstack {words}: succeeded"
            expression = self._words(step.expected.expression)
            assert re.search(expression, said.err), f"openstack {words}: {said.err}"
            return
        assert said.code == 0, f"openstack {words}: {said.err}"
        answer: Any = said.document if structured else _without_progress(said.out)
        seen = answer
        if isinstance(step.expected, dict):
            seen = {name: answer.get(name, "(no such field)") for name in step.expected}
        assert seen == self._said_before(step.expected), f"openstack {words}"
        for name, field in step.keep.items():
            self._kept[name] = _field(answer, field)

    def _said_before(self, expected: Any) -> Any:
        return self._words(expected) if isinstance(expected, str) else expected

    def _words(self, words: str) -> str:
        if "{free}" in words:
            taken = {each["OS-EXT-SRV-ATTR:host"] for each in self._cloud.api.servers().values()}
            free = min({f"node{n}" for n in range(1, self._cloud.hosts + 1)} - taken)
            self._kept |= {"free": free, "picked": free}
        return words.format_map(self._kept)


def _without_progress(text: str) -> str:
    return re.sub(r"\r?Progress: \d+ *|\r", "", text).strip()


def _field(answer: dict[str, Any] | Sequence[dict[str, Any]] | str, field: str) -> str:
    if isinstance(answer, str):
        return answer
    return str(answer[field] if isinstance(answer, dict) else answer[0][field])
