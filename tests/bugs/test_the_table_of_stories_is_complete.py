"""The table in README.md names every story, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
# How many cases the collection has of each area.
CASES = {"a": 21, "b": 30, "c": 15, "d": 17, "e": 13}


def test_every_story_has_its_row_and_every_row_its_story() -> None:
    rows = re.findall(r"^\| C-\S.*?\| `(\w+)` \|", (HERE / "README.md").read_text(), re.M)
    stories = [path.stem.removeprefix("test_c_") for path in HERE.glob("test_c_*.py")]
    assert sorted(rows) == sorted(stories)


def test_every_case_is_accounted_for() -> None:
    """Retold by a test, decided otherwise by a promise, or not applicable."""
    cells = re.findall(r"^\| (C-.*?) \|", (HERE / "README.md").read_text(), re.M)
    told = {area + number for area, number in re.findall(r"\b([a-e])(\d\d)\b", " ".join(cells))}
    assert told == {f"{area}{number:02}" for area, count in CASES.items() for number in range(1, count + 1)}
    assert len(told) == 96


def test_a_case_is_retold_where_the_table_says() -> None:
    rows = re.findall(r"^\| (C-\S.*?) \| `(\w+)` \|", (HERE / "README.md").read_text(), re.M)
    for cases, name in rows:
        text = (HERE / f"test_c_{name}.py").read_text()
        head = re.sub(r"\s+", " ", text.split('"""')[1])
        for area, number in re.findall(r"\b([a-e])(\d\d)\b", cases):
            assert f"C-{area}{number}" in head, f"{name} does not say that it retells C-{area}{number}"


def test_a_story_says_which_reports_it_retells() -> None:
    for path in HERE.glob("test_c_*.py"):
        told = " ".join(path.read_text().split('"""')[1].split())
        assert re.match(r"C-[a-e]\d\d", told), path.name
        assert re.search(r"\d{3,}", told), f"{path.name} names no report"
        assert " Right: " in told, path.name
        assert "What makes it so: " in told or "What prevents it: " in told, path.name
