"""Whatever is typed wrong, the command says what is wrong and what to do: never a traceback."""

from __future__ import annotations

import socket
import sqlite3
import sys
from pathlib import Path

import pytest

from berthold import cli, database
from berthold.cli.home import Home
from commands import Berthold

# Those that look at a cloud, and those that are one.
LOOKING = [
    ("db", "audit"),
    ("move", "list"),
    ("move", "resume", "x"),
    ("group", "list"),
    ("group", "show", "x"),
    ("group", "move", "x"),
    ("explain", "server", "x"),
    ("explain", "group", "x"),
    ("explain", "move", "x"),
]
BEING = [("api", "--port", "0"), ("conductor",)]


@pytest.fixture
def scrap(tmp_path: Path) -> str:
    """The URL of a file that is no database."""
    file = tmp_path / "scrap"
    file.write_text("nothing that SQLite could read\n" * 100)
    return f"sqlite:///{file}"


@pytest.mark.parametrize("command", [*LOOKING, *BEING, ("db", "upgrade")], ids=" ".join)
@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "this is not the URL of a database that can be used: "),
        ("nonsense://x/y", "this is not the URL of a database that can be used: "),
        ("scrap", "is not a database that can be used: file is not a database"),
        ("postgresql+psycopg://u:secret@127.0.0.1:1/x", "the database cannot be reached: "),
    ],
)
def test_a_database_that_cannot_be_used(
    berthold: Berthold, tmp_path: Path, scrap: str, command: tuple[str, ...], url: str, sentence: str
) -> None:
    ran = berthold(*command, "--data", tmp_path / "data", "--database", scrap if url == "scrap" else url)
    says, do = ran.error.splitlines()
    assert (ran.status, ran.text) == (1, "")
    assert sentence in says
    assert do.startswith("  ")
    assert "secret" not in ran.error


@pytest.mark.parametrize("command", [*LOOKING, *BEING], ids=" ".join)
def test_a_database_that_is_not_there_is_not_made_by_looking(
    berthold: Berthold, tmp_path: Path, command: tuple[str, ...]
) -> None:
    url = f"sqlite:///{tmp_path / 'absent.db'}"
    ran = berthold(*command, "--data", tmp_path / "data", "--database", url)
    assert ran.status == 1
    assert ran.error.startswith(f"{url} is not there\n")
    assert f"or make it: berthold db upgrade --database {url}" in ran.error
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_directory_without_a_cloud(berthold: Berthold, tmp_path: Path, command: tuple[str, ...]) -> None:
    ran = berthold(*command, "--data", tmp_path / "nowhere")
    assert (ran.status, ran.text) == (1, "")
    assert ran.error.startswith(f"there is no cloud in {tmp_path / 'nowhere'}\n")
    assert not (tmp_path / "nowhere").exists()


def test_a_database_whose_settings_break_promises_is_refused_by_name(
    berthold: Berthold, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def proof(url: str) -> bool:
        raise AssertionError(
            "PostgreSQL runs with idle_in_transaction_session_timeout=0 ms; promise M4 needs …"
        )

    monkeypatch.setattr(database, "is_current", proof)
    ran = berthold("move", "list", "--data", data)
    assert (ran.status, "promise M4 needs" in ran.error, "change that setting" in ran.error) == (
        1,
        True,
        True,
    )


@pytest.mark.parametrize("command", [("up", "--port", "0"), *BEING, ("db", "upgrade")], ids=" ".join)
def test_a_data_directory_that_is_a_file(
    berthold: Berthold, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    ran = berthold(*command, "--data", tmp_path / "file")
    assert (ran.status, ran.error.splitlines()[0]) == (
        1,
        f"{tmp_path / 'file'} is a file, and a data directory is wanted",
    )


def test_a_start_on_scrap_where_the_database_should_be(
    berthold: Berthold, tmp_path: Path, scrap: str
) -> None:
    data = Home(tmp_path / "data").path
    Path(scrap.removeprefix("sqlite:///")).rename(data / "berthold.db")
    ran = berthold("up", "--port", 0, "--data", data)
    assert (ran.status, "is not a database that can be used" in ran.error) == (1, True)


@pytest.mark.parametrize(
    "command", [("up", "--port", "0"), *BEING, ("db", "upgrade"), ("move", "list")], ids=" ".join
)
def test_a_database_of_a_newer_version(berthold: Berthold, data: Path, command: tuple[str, ...]) -> None:
    with sqlite3.connect(data / "berthold.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    ran = berthold(*command, "--data", data)
    assert (ran.status, ran.error.splitlines()) == (
        1,
        ["a newer version of Berthold has brought the database's tables further", "  install that one"],
    )


@pytest.mark.parametrize("secret", ["token.key", "password", "agents.token"])
def test_a_secret_that_somebody_has_cut_off(berthold: Berthold, data: Path, secret: str) -> None:
    (data / secret).write_text("\n")
    ran = berthold("up", "--port", 0, "--hosts", 0, "--data", data)
    assert (ran.status, ran.error.splitlines()[0]) == (1, f"{data / secret} is cut off: a secret was there")


@pytest.mark.parametrize("command", [("up", "--port", "0"), *BEING], ids=" ".join)
def test_a_directory_that_another_cloud_has(berthold: Berthold, data: Path, command: tuple[str, ...]) -> None:
    Home(data).lock(alone=True)
    ran = berthold(*command, "--data", data)
    assert (ran.status, ran.error.splitlines()[0]) == (1, f"{data} is in use by another cloud")


def test_a_port_that_is_taken_and_an_address_that_is_none(berthold: Berthold, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = berthold("up", "--data", tmp_path / "one", "--port", port)
    assert (ran.status, ran.error.splitlines()[0]) == (
        1,
        f"cannot listen on 127.0.0.1 port {port}: Address already in use",
    )
    ran = berthold("up", "--data", tmp_path / "two", "--port", 0, "--listen", "not an address")
    assert (ran.status, ran.error.splitlines()[1]) == (
        1,
        "  name an address of this machine: --listen 0.0.0.0 is all of them",
    )
    assert "Unknown error" not in ran.error


@pytest.mark.parametrize(
    "url",
    ["nonsense", "ftp://x", "127.0.0.1:8774", "http://", "http://x:70000", "http://x:1y", "http://[::1"],
)
def test_an_agent_is_told_at_once_that_its_url_is_none(berthold: Berthold, data: Path, url: str) -> None:
    ran = berthold("agent", "--url", url, "--token-file", data / "agents.token", "--ground", data / "ground")
    assert (ran.status, f"not {url!r}" in ran.error) == (1, True)


@pytest.mark.parametrize("ground", ["scrap", "nowhere/ground"])
def test_a_ground_that_no_simulated_host_could_stand_on(
    berthold: Berthold, data: Path, tmp_path: Path, scrap: str, ground: str
) -> None:
    words = ("--url", "http://127.0.0.1:1", "--token-file", data / "agents.token")
    ran = berthold("agent", *words, "--ground", tmp_path / ground)
    says, do = ran.error.splitlines()
    assert ran.status == 1
    assert says.startswith(f"simulated hosts cannot keep their guests in {tmp_path / ground}: ")
    assert "--ground" in do


def test_what_was_typed_is_repeated_as_it_stands(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["berthold", "move", "resume", "[/bold]x[red]", "--data", str(data)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert "berthold: There is no move [/bold]x[red].\n" in capsys.readouterr().err
