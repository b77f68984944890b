"""Power: stop, start, reboot, pause and unpause, suspend and resume a server where it is.

    stop guest ══ it is stopped          the same for start, reboot, pause, unpause …
        ▲       ║
        └ undo ─╨─ the guest obeyed

If the guest does not obey it is brought back to what it was, and the server with it (M6). A
server in error has no such state to return to: nothing is known of its guest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berthold.ledger.store import Tx
from berthold.moves import steps
from berthold.moves.playbook import Ask, Errand, Facts, Playbook, PointOfNoReturn, Scene, Write, source

# What the guest of a server at rest is; of a server in error nobody knows.
GUEST_AT_REST: Mapping[str, str] = {
    "active": "running",
    "stopped": "stopped",
    "paused": "paused",
    "suspended": "suspended",
    "rescued": "running",
    "shelved": "stopped",
    "soft-deleted": "stopped",
}


def if_it_is_known(scene: Scene) -> list[str]:
    return source(scene) if scene.server["condition"] in GUEST_AT_REST else []


def guest_as_it_was(scene: Scene) -> Facts:
    return {**steps.guest_as_it_is(scene), "state": GUEST_AT_REST[scene.server["condition"]]}


def softly(scene: Scene) -> Facts:
    return {**steps.guest_as_it_is(scene), "hard": False}


def hard(scene: Scene) -> Facts:
    return {**steps.guest_as_it_is(scene), "hard": True}


AS_IT_WAS = Errand("restore", if_it_is_known, guest_as_it_was)


def now_it_is(condition: str) -> Callable[[Tx, Scene], None]:
    """The server's condition from now on."""

    def settle(tx: Tx, scene: Scene) -> None:
        steps.set_condition(tx, scene, condition)

    return settle


STOP = Playbook(
    "stop",
    Ask(
        "stop guest",
        Errand("stop", source),
        undo=AS_IT_WAS,
        event="compute_stop_instance",
        task="powering-off",
    ),
    PointOfNoReturn("the guest is stopped"),
    Write("settle", now_it_is("stopped"), task="powering-off"),
)

START = Playbook(
    "start",
    Ask(
        "start guest",
        Errand("start", source, steps.guest_as_it_is),
        undo=AS_IT_WAS,
        event="compute_start_instance",
        task="powering-on",
    ),
    PointOfNoReturn("the guest runs"),
    Write("settle", now_it_is("active"), task="powering-on"),
)

REBOOT = Playbook(
    "reboot",
    Ask(
        "reboot guest",
        Errand("reboot", source, softly),
        undo=AS_IT_WAS,
        event="compute_reboot_instance",
        task="rebooting",
    ),
    PointOfNoReturn("the guest has begun anew"),
    Write("settle", now_it_is("active"), task="rebooting"),
)

HARD_REBOOT = Playbook(
    "hard-reboot",
    Ask(
        "reboot guest",
        Errand("reboot", source, hard),
        undo=AS_IT_WAS,
        event="compute_reboot_instance",
        task="rebooting_hard",
    ),
    PointOfNoReturn("the guest has begun anew"),
    Write("settle", now_it_is("active"), task="rebooting_hard"),
)

PAUSE = Playbook(
    "pause",
    Ask(
        "pause guest",
        Errand("pause", source),
        undo=AS_IT_WAS,
        event="compute_pause_instance",
        task="pausing",
    ),
    PointOfNoReturn("the guest is frozen"),
    Write("settle", now_it_is("paused"), task="pausing"),
)

UNPAUSE = Playbook(
    "unpause",
    Ask(
        "unpause guest",
        Errand("unpause", source),
        undo=AS_IT_WAS,
        event="compute_unpause_instance",
        task="unpausing",
    ),
    PointOfNoReturn("the guest goes on"),
    Write("settle", now_it_is("active"), task="unpausing"),
)

SUSPEND = Playbook(
    "suspend",
    Ask(
        "suspend guest",
        Errand("suspend", source),
        undo=AS_IT_WAS,
        event="compute_suspend_instance",
        task="suspending",
    ),
    PointOfNoReturn("its memory is on disk"),
    Write("settle", now_it_is("suspended"), task="suspending"),
)

RESUME = Playbook(
    "resume",
    Ask(
        "resume guest",
        Errand("resume", source),
        undo=AS_IT_WAS,
        event="compute_resume_instance",
        task="resuming",
    ),
    PointOfNoReturn("the guest goes on"),
    Write("settle", now_it_is("active"), task="resuming"),
)
