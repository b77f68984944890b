"""The bytes of images and volumes: files in one directory, complete or not there.

A file is made under a name of its own that no row knows yet, written, synced with its
directory, and only then named in a row. So what a row names is whole, two makers never
write one file, and a crash leaves at worst a file that nobody names. Every file's name begins
with its thing's id: whoever settles what becomes of a thing, or repeats it after a crash, removes
all else that was written of it (`keep_only`). Where nobody repeats anything, `sweep` removes it.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from berthold.errors import Unavailable

log = logging.getLogger("berthold.companions")

CHUNK = 1 << 20
ZEROS = bytes(CHUNK)
# A file without a row that is younger than this may still be in the making.
ORPHAN_AFTER_SECONDS = 24 * 3600.0


class NoSpace(Unavailable):
    """The place where images and volumes are kept is full."""


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
            file = path.open("xb", buffering=0)
        try:
            yield file
            with storage_speaks():
                os.fsync(file.fileno())
                self._sync()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            file.close()

    def open(self, name: str) -> BinaryIO:
        """The file, to read. A row that names a missing file is a broken store: `Unavailable`."""
        try:
            return (self.directory / name).open("rb")
        except FileNotFoundError as gone:
            raise Unavailable(f"the bytes of {name} are gone from {self.directory.name}/") from gone

    def path(self, name: str) -> Path:
        return self.directory / name

    def grow(self, name: str, size: int) -> None:
        """Make the file at least so long; what is new in it is a hole. May be repeated."""
        with storage_speaks():
            try:
                file = (self.directory / name).open("r+b", buffering=0)
            except FileNotFoundError as gone:
                raise Unavailable(f"the bytes of {name} are gone from {self.directory.name}/") from gone
            with file:
                if file.seek(0, os.SEEK_END) < size:
                    file.truncate(size)
                    os.fsync(file.fileno())

    def remove(self, name: str) -> None:
        """Remove the file; nothing to do if it is gone."""
        (self.directory / name).unlink(missing_ok=True)

    def keep_only(self, thing: str, name: str | None = None) -> None:
        """Remove whatever was written of a thing, by whomever, but the file `name` that its row has from
        now on. A maker that comes late loses its file, and finds that the row will not have it."""
        for entry in os.scandir(self.directory):
            if entry.name.startswith(f"{thing}.") and entry.name != name:
                self.remove(entry.name)

    def sweep(self, named: set[str]) -> int:
        """Remove old files that no row names; how many."""
        before = time.time() - ORPHAN_AFTER_SECONDS
        removed = 0
        for entry in os.scandir(self.directory):
            with suppress(FileNotFoundError):  # its maker, or another process that sweeps, was faster
                if entry.name not in named and entry.stat().st_mtime < before:
                    log.warning("removing %s: nothing knows it", entry.path)
                    os.unlink(entry.path)
                    removed += 1
        return removed

    def _sync(self) -> None:
        handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write every byte; an unbuffered file may take them in parts."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def copy_sparse(source: BinaryIO, target: BinaryIO, most: int | None = None) -> None:
    """Copy every byte of the source, or the first `most`; holes and runs of zeros become holes."""
    end = source.seek(0, os.SEEK_END)
    end = end if most is None else min(end, most)
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
        chunk = source.read(min(CHUNK, max(end - position, 0)))
        if chunk != ZEROS[: len(chunk)]:
            write_all(target, chunk)
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
            raise NoSpace("no space is left where images and volumes are kept") from error
        log.error("the file store fails: %s", error)
        raise Unavailable("the place where images and volumes are kept does not answer") from error
