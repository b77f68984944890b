"""M6: bytes that were written when their maker died go when the call is repeated, undone or outdone.

Each maker is stopped at the worst instant: its file is complete, and no row names it yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from berthold.companions import Companions, build
from berthold.companions.snapshots import snapshot_row
from berthold.errors import Unavailable
from berthold.ledger.store import Store
from berthold.neighbours import volume_snapshot_id

SERVER, MOVE = "s1", "m1"


class Died(BaseException):
    """The process is gone."""


@pytest.fixture
def four(store: Store, tmp_path: Path) -> Companions:
    return build(store, tmp_path, b"k" * 32)


@pytest.fixture
def dying(four: Companions, monkeypatch: pytest.MonkeyPatch) -> Callable[[Coroutine[Any, Any, Any]], None]:
    """Run a call whose process dies before it has written that its file is complete; its file stays."""

    def run(call: Coroutine[Any, Any, Any]) -> None:
        write = four.store.write

        async def die(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if f.__name__ in ("complete", "activate"):
                raise Died
            return await write(f, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(four.store, "write", die)
            patch.setattr("berthold.companions.files.Files.remove", lambda self, name: None)
            with pytest.raises(Died):
                asyncio.run(call)

    return run


def volume(four: Companions) -> Coroutine[Any, Any, Any]:
    return four.volumes.create("p1", MOVE, name="root", size=1)


def files(directory: Path) -> int:
    return len(list(directory.iterdir()))


def test_a_volume_that_is_made_again_has_one_file(four: Companions, dying: Any) -> None:
    dying(volume(four))
    dying(volume(four))
    assert files(four.volumes.files.directory) == 2
    asyncio.run(volume(four))
    assert files(four.volumes.files.directory) == 1
    assert asyncio.run(volume(four)).status == "creating"
    assert files(four.volumes.files.directory) == 1


def test_a_volume_whose_create_is_undone_has_none(four: Companions, dying: Any) -> None:
    dying(volume(four))
    asyncio.run(four.volumes.undo_create("p1", MOVE, name="root", server_id=SERVER))
    assert files(four.volumes.files.directory) == 0


def test_a_volume_keeps_the_file_of_whoever_was_first(four: Companions, dying: Any) -> None:
    """Another conductor had made it when the one that died had its file complete."""
    made = asyncio.run(volume(four))
    late = four.volumes.files.path(f"{made.id}.late")
    late.touch()
    assert asyncio.run(volume(four)) == made
    assert not late.exists()
    assert files(four.volumes.files.directory) == 1


def test_a_delete_that_died_before_the_bytes_went_is_finished_by_the_next(
    four: Companions, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = asyncio.run(volume(four))
    with monkeypatch.context() as patch:
        patch.setattr("berthold.companions.files.Files.keep_only", lambda self, thing, name=None: None)
        asyncio.run(four.volumes.delete(made.id))
    assert files(four.volumes.files.directory) == 1
    asyncio.run(four.volumes.delete(made.id))
    assert files(four.volumes.files.directory) == 0


def image(four: Companions) -> Coroutine[Any, Any, Any]:
    return four.images.snapshot("p1", MOVE, name="copy", base=None, properties={})


def test_an_image_of_a_server_that_is_made_again_has_one_file(four: Companions, dying: Any) -> None:
    dying(image(four))
    asyncio.run(image(four))
    assert files(four.images.files.directory) == 1


def test_an_image_of_a_server_that_is_undone_has_none(four: Companions, dying: Any) -> None:
    dying(image(four))
    asyncio.run(four.images.undo_snapshot("p1", MOVE))
    assert files(four.images.files.directory) == 0


def test_a_snapshot_of_a_volume_that_is_taken_again_has_one_file(four: Companions, dying: Any) -> None:
    made = asyncio.run(volume(four))
    asyncio.run(four.volumes.attach(made.id, SERVER, MOVE, device="/dev/vda"))
    dying(four.volumes.snapshot(made.id, MOVE, name="copy"))
    asyncio.run(four.volumes.snapshot(made.id, MOVE, name="copy"))
    assert files(four.volumes.snapshots.files.directory) == 1


def test_a_snapshot_of_a_volume_that_is_undone_has_none(four: Companions, dying: Any) -> None:
    made = asyncio.run(volume(four))
    asyncio.run(four.volumes.attach(made.id, SERVER, MOVE, device="/dev/vda"))
    dying(four.volumes.snapshot(made.id, MOVE, name="copy"))
    asyncio.run(four.volumes.undo_snapshot(made.id, MOVE))
    assert files(four.volumes.snapshots.files.directory) == 0


def test_a_snapshot_that_another_process_has_completed_stays_when_the_first_one_fails(
    four: Companions, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = asyncio.run(volume(four))
    asyncio.run(four.volumes.attach(made.id, SERVER, MOVE, device="/dev/vda"))
    other = build(four.store, four.volumes.files.directory.parent, b"k" * 32)

    def outdone(*_: object) -> None:
        asyncio.run(other.volumes.snapshot(made.id, MOVE, name="copy"))
        raise Unavailable("the disk went away")

    monkeypatch.setattr(four.volumes.snapshots, "_copy", outdone)
    with pytest.raises(Unavailable):
        asyncio.run(four.volumes.snapshot(made.id, MOVE, name="copy"))
    taken = four.store.read_now(snapshot_row, volume_snapshot_id(MOVE, made.id))
    assert taken.status == "available"
    assert files(four.volumes.snapshots.files.directory) == 1


def test_other_things_keep_their_files(four: Companions, dying: Any) -> None:
    other = asyncio.run(four.volumes.create("p1", "m2", name="root", size=1))
    dying(volume(four))
    asyncio.run(four.volumes.undo_create("p1", MOVE, name="root", server_id=SERVER))
    (kept,) = four.volumes.files.directory.iterdir()
    assert kept.name.startswith(other.id)
