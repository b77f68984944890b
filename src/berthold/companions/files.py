"""The bytes of images and volumes: files in one directory, complete or not there.

A file is made under a name of its own that no row knows yet, written, synced with its
directory, and only then named in a row. So what a row names is whole, two makers never
write one file, and a crash leaves at worst a file that nobody names; `sweep` removes those.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from berthold.errors import Unavailable

log = logging.getLogger("berthold.companions")

CHUNK = 1 << 20
ZEROS = bytes(CHUNK)
# A file without a row that is younger than this may still be in the making.
ORPHAN_AFTER_SECONDS = 24 * 3600.0


class Files:
    """One directory of files that are complete or not there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def making(self, name: str) -> Iterator[BinaryIO]:
        """A new file to write; on disk when the block ends, gone when the block fails."""
        path = self.directory / name
        with storage_speaks():
            file = path.open("xb")
        try:
            with storage_speaks(), file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with storage_speaks():
                self._sync()
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def open(self, name: str) -> BinaryIO:
        """The file, to read. A row that names a missing file is a broken store: `Unavailable`."""
        try:
            return (self.directory / name).open("rb")
        except FileNotFoundError as gone:
            raise Unavailable(f"the bytes of {name} are not in {self.directory.name}/") from gone

    def path(self, name: str) -> Path:
        return self.directory / name

    def remove(self, name: str) -> None:
        """Remove the file; nothing to do if it is gone."""
        (self.directory / name).unlink(missing_ok=True)

    def sweep(self, named: set[str]) -> int:
        """Remove old files that no row names; how many."""
        before = time.time() - ORPHAN_AFTER_SECONDS
        orphans = [p for p in self.directory.iterdir() if p.name not in named and p.stat().st_mtime < before]
        for orphan in orphans:
            log.warning("removing %s: nothing knows it", orphan)
            orphan.unlink(missing_ok=True)
        return len(orphans)

    def _sync(self) -> None:
        handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def copy_sparse(source: BinaryIO, target: BinaryIO) -> None:
    """Copy every byte of the source; its holes and runs of zeros become holes."""
    end = source.seek(0, os.SEEK_END)
    position = 0
    while position < end:
        try:
            position = os.lseek(source.fileno(), position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                break
            raise
        source.seek(position)
        target.seek(position)
        chunk = source.read(CHUNK)
        if chunk != ZEROS[: len(chunk)]:
            target.write(chunk)
        position += len(chunk)
    target.seek(end)
    target.truncate()


@contextmanager
def storage_speaks() -> Iterator[None]:
    """Say a full or failing disk in words (`Unavailable`)."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Unavailable("no space is left where images and volumes are kept") from error
        log.error("the file store fails: %s", error)
        raise Unavailable("the place where images and volumes are kept does not answer") from error
