"""Says at the end of a run what tests had to tell, and how many seconds each folder took.

A test tells something with `record_property("told", sentence)`; under xdist that and the
seconds of all workers come together here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

SPENT = pytest.StashKey[dict[str, float]]()
TESTS = pytest.StashKey[Counter[str]]()
TOLD = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[SPENT] = defaultdict(float)
    config.stash[TESTS] = Counter()
    config.stash[TOLD] = []
    config.pluginmanager.register(Watch(config), "seconds of each folder")


class Watch:
    """Adds up what the reports say."""

    def __init__(self, config: pytest.Config) -> None:
        self.spent = config.stash[SPENT]
        self.tests = config.stash[TESTS]
        self.told = config.stash[TOLD]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = str(Path(report.nodeid.partition("::")[0]).parent)
        self.spent[folder] += report.duration
        self.tests[folder] += report.when == "call"
        if report.when == "call":
            self.told.extend(str(value) for name, value in report.user_properties if name == "told")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    spent, tests = config.stash[SPENT], config.stash[TESTS]
    if config.stash[TOLD]:
        terminalreporter.section("told by tests")
        for sentence in config.stash[TOLD]:
            terminalreporter.write_line(sentence)
    if spent:
        terminalreporter.section("seconds of each folder")
    for folder, seconds in sorted(spent.items(), key=lambda pair: -pair[1]):
        terminalreporter.write_line(f"{seconds:8.1f} s  {tests[folder]:5} tests  {folder}")
