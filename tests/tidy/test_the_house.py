"""The house rules, checked: who may import whom, who writes which table, how long things get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "berthold"
FILES = sorted(SOURCE.rglob("*.py"))

LEAVES = {"errors", "clock", "settings", "logs"}
# The table of ARCHITECTURE.md: what each room may import besides the leaves and itself.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "settings": set(),
    "logs": set(),
    "ledger": set(),
    "scheduler": set(),
    "records": {"ledger"},
    "agent": set(),
    "neighbours": set(),
    "companions": {"ledger", "neighbours"},
    "moves": {"ledger", "records", "scheduler", "neighbours"},
    "api": {"moves", "ledger", "records", "neighbours", "agent.protocol"},
    "database": {"ledger", "records", "companions"},
    "migrations": {"database", "ledger", "records", "companions"},
    "lab": {"*"},
    "cli": {"*"},
    "cloud": {"*"},
    "__main__": {"cli"},
}

FILE_LINES = 400
FUNCTION_LINES = 70


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Every module of ours that the file imports, without the leading `berthold.`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("berthold"):
            module = node.module.removeprefix("berthold").strip(".")
            for alias in node.names:
                yield f"{module}.{alias.name}".strip(".")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("berthold."):
                    yield alias.name.removeprefix("berthold.")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_module_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    allowed = MAY_IMPORT[room] | {room} | LEAVES | {"__version__"}
    if "*" in allowed:
        return
    strangers = [
        module
        for module in imports_of(path)
        if not any(module == each or module.startswith(f"{each}.") for each in allowed)
    ]
    assert strangers == []


def test_nobody_but_the_command_line_imports_the_lab() -> None:
    importers = {name_of(path) for path in FILES if any(m.split(".")[0] == "lab" for m in imports_of(path))}
    assert {name.split("/")[0] for name in importers} <= {"lab", "cli"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_stays_readable(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or not tree.body, "say what the module promises"
    if room_of(path) != "migrations" and path.name != "schema.py":
        assert len(path.read_text().splitlines()) <= FILE_LINES
    long = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno
        and node.end_lineno - node.lineno >= FUNCTION_LINES
        and room_of(path) != "migrations"
    ]
    assert long == []


def test_the_heart_of_the_ledger_fits_in_one_head() -> None:
    heart = ("claims", "seats", "groups", "inventories", "hosts", "quotas")
    assert sum(len((SOURCE / "ledger" / f"{each}.py").read_text().splitlines()) for each in heart) <= 1500


# -- Who writes what ----------------------------------------------------------------------


def tables_written(path: Path) -> set[str]:
    """The tables that a module's statements change, by the names that it gives them."""
    tree = ast.parse(path.read_text())
    called: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        pairs = [(node.targets[0], node.value)]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
        for target, value in pairs:
            if isinstance(target, ast.Name) and (table := table_in(value, {})):
                called[target.id] = table
    written = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in ("insert", "update", "delete") and node.args:
            written.add(table_in(node.args[-1], called))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "insert":
            written.add(table_in(node.func.value, called))
    return {table for table in written if table}


def table_in(node: ast.expr, called: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return called.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "schema":
        return node.attr
    return None


def test_each_table_of_the_ledger_is_written_by_whom_its_comment_names() -> None:
    text = (SOURCE / "ledger" / "schema.py").read_text()
    named: dict[str, set[str]] = {}
    comment = ""
    for line in text.splitlines():
        if line.startswith("#"):
            comment += line.removeprefix("#") + " "
        elif match := re.match(r"(\w+) = Table\(", line):
            named[match[1]] = set(re.findall(r"ledger/(\w+)\.py", comment))
            comment = ""
        elif line.strip():
            comment = ""
    assert all(named.values()), f"no writer is named for {[t for t, who in named.items() if not who]}"
    writers: dict[str, set[str]] = {table: set() for table in named}
    for path in FILES:
        for table in tables_written(path) & writers.keys() if room_of(path) != "lab" else ():
            writers[table].add(path.stem if room_of(path) == "ledger" else name_of(path))
    assert writers == named


# -- Documents ----------------------------------------------------------------------------


def test_every_promise_of_the_readme_has_an_audit_query_or_says_where_it_is_kept() -> None:
    from berthold.ledger.audit import CHECKS

    promises = set(re.findall(r"^\| ([A-Z]\d) \|", (ROOT / "README.md").read_text(), re.MULTILINE))
    # Kept at a door, or a preference: there is no state that could show it broken.
    elsewhere = {"G3", "M5", "M8", "T1"}
    assert promises - elsewhere == {check.promise for check in CHECKS}


def test_every_decision_is_listed() -> None:
    listed = set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (ROOT / "decisions" / "README.md").read_text()))
    assert listed == {path.name for path in (ROOT / "decisions").glob("0*.md")}


def test_every_setting_says_what_it_means() -> None:
    lines = (SOURCE / "settings.py").read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"    \w+: \w+ = ", line):
            above = lines[number - 1].strip()
            assert above.startswith("#") or re.match(r"\w+: \w+ = ", above), f"what is {line.strip()}?"


def test_names_say_something() -> None:
    bad = [name_of(p) for p in FILES if re.search(r"(manager|util|helper|common|misc)", p.stem)]
    assert bad == []


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    left = [name_of(path) for path in FILES if marks.search(path.read_text())]
    assert left == []
