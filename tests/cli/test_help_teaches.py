"""`--help`: each command says in a line what it is for, and shows an example that would work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from berthold.cli import app
from commands import Berthold

WIDTH = 80
README = Path(__file__).parents[2] / "README.md"


def commands(command: object, *path: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every command that does something, with the words that name it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    else:
        for name, each in below.items():
            yield from commands(each, *path, name)


ALL = dict(commands(typer.main.get_command(app)))


def examples(path: tuple[str, ...]) -> list[str]:
    """The lines of a command's help that one is meant to type."""
    text = getattr(ALL[path], "help", "") or ""
    return re.findall(r"^  (\S.*)$", text, re.M)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def test_every_command_is_known_here() -> None:
    words = {" ".join(path) for path in ALL}
    assert words == {
        *("up", "api", "conductor", "agent", "demo", "doctor"),
        *("db upgrade", "db audit", "move list", "move resume"),
        *("group list", "group show", "group move"),
        *("explain server", "explain group", "explain move"),
    }


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_command_has_an_example_that_is_shown_in_one_piece(
    berthold: Berthold, path: tuple[str, ...]
) -> None:
    ran = berthold(*path, "--help")
    assert ran.status == 0
    own = [line for line in examples(path) if line.startswith(f"berthold {' '.join(path)} ")]
    assert own, "no example of its own"
    shown = [line.strip() for line in ran.text.splitlines()]
    for line in examples(path):
        assert line in shown, "broken at the edge of a narrow terminal"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_what_an_example_says_there_is(path: tuple[str, ...]) -> None:
    """Commands and options that exist, each with a value that it takes."""
    for line in examples(path):
        if line.startswith("berthold "):
            check(line)


def test_what_the_readme_says_there_is() -> None:
    """The same of every line of the README that begins with the command."""
    lines = re.findall(r"^    (?:\.venv/bin/)?(berthold .*)$", README.read_text(), re.M)
    assert len(lines) > 3
    for line in lines:
        check(line)


def check(line: str) -> None:
    """A line that one is meant to type: nothing in it is unknown, and nothing that is needed is missing."""
    words = shlex.split(line)
    (named,) = [known for known in ALL if words[1 : 1 + len(known)] == list(known)]
    command = ALL[named]
    assert isinstance(command, typer.core.TyperCommand)
    context = command.context_class(command)
    given, left, _ = command.make_parser(context).parse_args(words[1 + len(named) :])
    assert left == [], line
    missing = [each.name for each in command.params if each.required and each.name not in given]
    assert missing == [], line


@pytest.mark.parametrize("group", [(), ("db",), ("move",), ("group",), ("explain",)], ids=" ".join)
def test_a_list_of_commands_has_a_line_for_each(berthold: Berthold, group: tuple[str, ...]) -> None:
    text = berthold(*group, "--help").text
    rows = text.split(" Commands ")[1].splitlines()[1:]
    for row in rows:
        if re.match(r"│ {4,}\S", row):
            raise AssertionError(f"a second line: {row}")


def test_a_token_file_that_holds_something_else_is_refused_and_not_shown(
    berthold: Berthold, tmp_path: Path
) -> None:
    """A library would tell the world that it is an illegal header, and which."""
    file = tmp_path / "agents.token"
    file.write_text("hush\nhush-too\n")
    ran = berthold("agent", "--url", "http://127.0.0.1:1", "--token-file", file)
    assert ran.status == 1
    assert "does not hold the agents' token" in ran.error
    assert "hush" not in ran.error + ran.text
