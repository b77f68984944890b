"""Says at the end of a run how many seconds each folder of tests took, its workers added up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

SPENT = pytest.StashKey[Counter[str]]()
TESTS = pytest.StashKey[Counter[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[SPENT] = Counter()
    config.stash[TESTS] = Counter()
    config.pluginmanager.register(Watch(config), "seconds of each folder")


class Watch:
    """Adds up what the reports say; under xdist they all come to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.spent = config.stash[SPENT]
        self.tests = config.stash[TESTS]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = str(Path(report.nodeid.partition("::")[0]).parent)
        self.spent[folder] += report.duration
        self.tests[folder] += report.when == "call"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    spent, tests = config.stash[SPENT], config.stash[TESTS]
    if not spent:
        return
    terminalreporter.section("seconds of each folder")
    for folder, seconds in sorted(spent.items(), key=lambda pair: -pair[1]):
        terminalreporter.write_line(f"{seconds:8.1f} s  {tests[folder]:5} tests  {folder}")
