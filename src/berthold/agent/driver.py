"""What an agent can make a hypervisor do.

Every verb may come twice and then changes nothing the second time. A verb that cannot be
done raises `Impossible` with a reason that operators can read, and has changed nothing that
`discard` does not undo. A verb may be cancelled; it lets go only when nothing of it is going
on any more, since `locate` or `discard` of the same guest comes next.
"""

from __future__ import annotations

from typing import Any, Protocol

from berthold.agent.protocol import Guest, Hello, Progress, Running


class Impossible(Exception):
    """The hypervisor cannot do this: no disk space, unknown guest, CPU that does not fit …"""


class Driver(Protocol):
    """One hypervisor host. `facts` in the comments is what goes into the answer."""

    def hello(self) -> Hello:
        """The host's name, key, inventory, traits and facts."""
        ...

    def guests(self) -> list[Running]:
        """What is really here, in whatever state."""
        ...

    def progress(self) -> dict[str, Progress]:
        """How far every sending that is under way has come, by server."""
        ...

    async def spawn(self, guest: Guest) -> dict[str, Any]:
        """Make the guest and start it. facts: {"console": …} as far as known."""
        ...

    async def check(self, guest: Guest) -> dict[str, Any]:
        """Whether this host could receive the guest; changes nothing."""
        ...

    async def prepare(self, guest: Guest) -> dict[str, Any]:
        """Make room to receive the guest: disks, ports, an empty shell (`incoming`).
        facts: {"url": where a source sends it}."""
        ...

    async def send(self, server: str, target: str) -> dict[str, Any]:
        """Live migration: send the running guest to host `target`, which was prepared. When it
        returns the guest runs there and is gone from here but for what `discard` removes.
        facts: {"memory_mb", "seconds"}. At no instant do both run it."""
        ...

    async def send_disk(self, server: str, target: str) -> dict[str, Any]:
        """Cold migration: copy the stopped guest's disks to `target`. The guest stays here too, stopped."""
        ...

    async def locate(self, server: str) -> dict[str, Any]:
        """End any sending of the guest that is under way, then say where it is:
        facts: {"running": whether it runs here, "present": whether anything of it is here}."""
        ...

    async def start(self, guest: Guest) -> dict[str, Any]:
        """Start the guest that is here (stopped, or prepared with its disks copied)."""
        ...

    async def stop(self, server: str) -> dict[str, Any]:
        """Stop the guest and keep it; one that is prepared and was never started stays as it is.
        facts: {"was_running": whether it ran}."""
        ...

    async def restore(self, guest: Guest, state: str) -> dict[str, Any]:
        """Whatever was begun with the guest: when this returns it is in `state` again, running,
        paused or stopped, with the volumes that it names."""
        ...

    async def reboot(self, guest: Guest, hard: bool) -> dict[str, Any]:
        """Restart the guest, which runs. `hard`: cut its power and make it anew, in whatever state
        it is; then it runs."""
        ...

    async def pause(self, server: str) -> dict[str, Any]:
        """Freeze the running guest; its memory stays."""
        ...

    async def unpause(self, server: str) -> dict[str, Any]:
        """Let the frozen guest go on."""
        ...

    async def suspend(self, server: str) -> dict[str, Any]:
        """Write the memory of the guest to disk and stop it."""
        ...

    async def resume(self, server: str) -> dict[str, Any]:
        """Let the suspended guest go on where it was."""
        ...

    async def rebuild(self, guest: Guest) -> dict[str, Any]:
        """Whatever the guest is: its own disk is removed, made anew from the image that it names, and
        started. Volumes stay as they are."""
        ...

    async def rescue(self, guest: Guest) -> dict[str, Any]:
        """Whatever the guest is: it runs from the image that it names, its own disk beside that. A hard
        `reboot` makes it run from its own disk again."""
        ...

    async def attach_volume(self, server: str, volume: dict[str, Any]) -> dict[str, Any]:
        """Give the guest, running or not, a further block device: {"volume_id", "device", …}."""
        ...

    async def detach_volume(self, server: str, volume: dict[str, Any]) -> dict[str, Any]:
        """Take that block device from the guest; nothing to do if it has not got it."""
        ...

    async def attach_interface(self, server: str, port: dict[str, Any]) -> dict[str, Any]:
        """Give the guest, running or not, a further network interface: {"id", "mac_address", …}."""
        ...

    async def detach_interface(self, server: str, port: dict[str, Any]) -> dict[str, Any]:
        """Take that interface from the guest; nothing to do if it has not got it."""
        ...

    async def console(self, server: str, lines: int | None) -> dict[str, Any]:
        """What the guest has written to its console, the last `lines` of it. Changes nothing.
        facts: {"output"}."""
        ...

    async def discard(self, server: str) -> dict[str, Any]:
        """Remove everything of the guest from this host, running or not. When it returns
        nothing of it is here; there may have been nothing."""
        ...
