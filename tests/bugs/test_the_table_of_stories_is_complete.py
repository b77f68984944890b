"""The table in README.md names every story, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_story_has_its_row_and_every_row_its_story() -> None:
    rows = re.findall(r"^\| C-\S.*?\| `(\w+)` \|", (HERE / "README.md").read_text(), re.M)
    stories = [path.stem.removeprefix("test_c_") for path in HERE.glob("test_c_*.py")]
    assert sorted(rows) == sorted(stories)


def test_a_story_says_which_reports_it_retells() -> None:
    for path in HERE.glob("test_c_*.py"):
        told = " ".join(path.read_text().split('"""')[1].split())
        assert re.match(r"C-[a-e]\d\d", told), path.name
        assert re.search(r"\d{3,}", told), f"{path.name} names no report"
        assert " Right: " in told, path.name
        assert "What makes it so: " in told or "What prevents it: " in told, path.name
