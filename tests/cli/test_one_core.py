"""`berthold up` stays on one CPU core, all its threads with it, unless it is told not to."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

import pytest

from berthold.cli import processes
from running import Running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nothing is asked for elsewhere")


def cores_of(pid: int) -> list[set[int]]:
    """On which cores each thread of the process may run."""
    return [os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()]


@pytest.mark.parametrize("words", [["--one-core"], ["--any-core"]])
def test_all_threads_stay_on_one_core_unless_told_not_to(tmp_path: Path, words: list[str]) -> None:
    cloud = Running(tmp_path, hosts=1)
    cloud.words += words
    cloud.start()
    try:
        assert cloud.process is not None
        threads = cores_of(cloud.process.pid)
    finally:
        cloud.stop()
    mine = os.sched_getaffinity(0)
    assert len(threads) > 1
    if words == ["--any-core"]:
        assert threads == [mine] * len(threads)
    else:
        assert threads == [threads[0]] * len(threads)
        assert len(threads[0]) == 1
        assert threads[0] <= mine


def test_one_core_is_what_happens_if_nothing_is_said() -> None:
    assert inspect.signature(processes.up).parameters["one_core"].default is True
