"""The simulated hypervisor: obeys like a real one, and misbehaves on demand.

Its guests live on a `Ground` that all simulated hosts share. With no pace and no faults no
verb ever suspends, so a test or the lab may drive them by hand.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from berthold.agent.driver import Impossible
from berthold.agent.faults import Fault, Faults, Pace
from berthold.agent.ground import Ground, Place
from berthold.agent.protocol import Guest, Hello, Progress, Running

# How often a stalled verb looks whether it was released.
STALL_S = 0.05

FACTS: dict[str, Any] = {
    "hypervisor_type": "simulated",
    "hypervisor_version": 1000,
    "host_ip": "127.0.0.1",
    "users": 0,
    "load_average": "0.00, 0.00, 0.00",
}
TRAITS = ["COMPUTE_NODE", "HW_CPU_X86_SSE2"]

# What a guest writes to its console each time it is started.
BOOT = (
    "[    0.000000] Simulated guest {guest.name}",
    "[    0.000000] Command line: console=ttyS0",
    "[    0.004000] Memory: {guest.memory_mb}M available",
    "[    0.012000] smp: Brought up {guest.vcpus} CPUs",
    "[    0.250000] virtio_blk virtio1: [vda] {guest.disk_gb} GiB",
    "[    0.310000] virtio_net virtio0 eth0: link up",
    "[    0.520000] EXT4-fs (vda1): mounted filesystem",
    "[    0.900000] init: started",
    "[    1.400000] cloud-init: instance-id {guest.server}",
    "[    1.900000] sshd: listening on port 22",
    "",
    "{guest.name} login:",
)


@dataclass(frozen=True)
class Sending:
    """A live migration under way: when it began, how long it will take, how much there is to send."""

    began: float
    seconds: float
    amount: int


class Simulated:
    """One simulated host called `name`. It was switched on at `booted_at`, if anybody wants to know."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        *,
        vcpus: int = 4,
        memory_mb: int = 4096,
        disk_gb: int = 100,
        zone: str = "nova",
        pace: Pace | None = None,
        faults: Faults | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        booted_at: float | None = None,
    ) -> None:
        self.booted_at = booted_at
        self.ground = ground
        self.name = name
        self.zone = zone
        self.amounts = {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": disk_gb}
        self.pace = pace or Pace()
        self.faults = faults or Faults()
        self._sleep = sleep
        self._monotonic = monotonic
        self._sendings: dict[str, Sending] = {}

    def hello(self) -> Hello:
        """The host as it introduces itself."""
        return Hello(
            name=self.name,
            key=self.ground.key(self.name),
            inventory={name: self._offer(amount) for name, amount in self.amounts.items()},
            traits=TRAITS,
            facts={**FACTS, "cpu_info": self._cpu_info(), "booted_at": self.booted_at},
            zone=self.zone,
            guests=self.guests(),
        )

    def guests(self) -> list[Running]:
        """Everything that is here, in whatever state."""
        return [Running(server, state) for server, state in self.ground.states(self.name).items()]

    def progress(self) -> dict[str, Progress]:
        """Memory goes over evenly in the time that the sending takes."""
        told = {}
        for server, sending in self._sendings.items():
            passed = self._monotonic() - sending.began
            share = min(passed / sending.seconds, 1.0) if sending.seconds > 0 else 1.0
            done = int(sending.amount * share)
            told[server] = Progress(sending.amount, done, sending.amount - done)
        return told

    async def spawn(self, guest: Guest) -> dict[str, Any]:
        """Make the guest and start it."""
        fault = await self._before("spawn", guest.server)
        self._must_fit(guest)
        with self.ground.together():
            here = self._here(guest.server)
            if here is None or here.state != "running":
                self.ground.boot(self.name, guest)
        await self._after(fault)
        return {"console": f"simulated://{self.name}/{guest.server}"}

    async def check(self, guest: Guest) -> dict[str, Any]:
        """Whether the guest would fit on an empty host of this size."""
        fault = await self._before("check", guest.server)
        self._must_fit(guest)
        await self._after(fault)
        return {}

    async def prepare(self, guest: Guest) -> dict[str, Any]:
        """An empty shell for a guest that will come."""
        fault = await self._before("prepare", guest.server)
        self._must_fit(guest)
        with self.ground.together():
            here = self._here(guest.server)
            if here is not None and here.state in ("running", "paused", "suspended", "stopped"):
                raise Impossible(f"{guest.server} is already on {self.name}, {here.state}")
            if here is None or here.state == "remains":
                # A guest on volumes alone has no disk that would have to be copied.
                nothing_to_copy = guest.disk_gb == 0 and guest.image is None
                self.ground.put(self.name, guest, "incoming", disks=nothing_to_copy)
        await self._after(fault)
        return {"url": f"simulated://{self.name}"}

    async def send(self, server: str, target: str) -> dict[str, Any]:
        """Live migration: at one instant the guest is gone from here and runs on the target."""
        attempt = self.ground.renew_attempt(self.name, server)
        seconds = self.pace.of("send")
        here = self._here(server)
        amount = (here.guest.memory_mb if here is not None else 0) << 20
        self._sendings[server] = mine = Sending(self._monotonic(), seconds, amount)
        try:
            fault = await self._before("send", server, seconds)
            guest = self.ground.hand_over(self.name, server, target, attempt)
        finally:
            if self._sendings.get(server) is mine:
                del self._sendings[server]
        await self._after(fault)
        return {"memory_mb": guest.memory_mb, "seconds": round(seconds, 3)}

    async def send_disk(self, server: str, target: str) -> dict[str, Any]:
        """Copy the stopped guest's disks to the prepared target."""
        fault = await self._before("send_disk", server)
        self.ground.copy_disks(self.name, server, target)
        await self._after(fault)
        return {}

    async def locate(self, server: str) -> dict[str, Any]:
        """End any sending, then say where the guest is."""
        self.ground.renew_attempt(self.name, server)
        fault = await self._before("locate", server)
        here = self._here(server)
        await self._after(fault)
        runs = here is not None and here.state in ("running", "paused")
        return {"running": runs, "present": here is not None}

    async def start(self, guest: Guest) -> dict[str, Any]:
        """Start what is here."""
        fault = await self._before("start", guest.server)
        with self.ground.together():
            here = self._here(guest.server)
            if here is None or here.state == "remains":
                raise Impossible(f"{guest.server} is not on {self.name}")
            if not here.disks:
                raise Impossible(f"the disks of {guest.server} were not copied to {self.name}")
            if here.state != "running":
                self.ground.boot(self.name, guest)
        await self._after(fault)
        return {}

    async def stop(self, server: str) -> dict[str, Any]:
        """Stop the guest and keep it. What was prepared and never started need not be stopped."""
        fault = await self._before("stop", server)
        with self.ground.together():
            here = self._here(server)
            if here is None or here.state == "remains":
                raise Impossible(f"{server} is not on {self.name}")
            if here.state in ("running", "paused", "suspended"):
                self.ground.put(self.name, here.guest, "stopped", disks=here.disks)
        await self._after(fault)
        return {"was_running": here.state == "running"}

    async def restore(self, guest: Guest, state: str) -> dict[str, Any]:
        """The guest is in `state` again."""
        fault = await self._before("restore", guest.server)
        with self.ground.together():
            here = self._must_be_here(guest.server)
            if here.state == "stopped" != state:
                self.ground.boot(self.name, guest)
            self.ground.put(self.name, guest, state, disks=here.disks)
        await self._after(fault)
        return {}

    async def reboot(self, guest: Guest, hard: bool) -> dict[str, Any]:
        """Start the guest from the beginning."""
        fault = await self._before("reboot", guest.server)
        with self.ground.together():
            here = self._must_be_here(guest.server)
            if here.state != "running" and not hard:
                raise Impossible(f"{guest.server} is {here.state} on {self.name}: only a hard reboot will do")
            self.ground.boot(self.name, guest)
        await self._after(fault)
        return {}

    async def pause(self, server: str) -> dict[str, Any]:
        """Freeze the running guest."""
        return await self._switch("pause", server, "running", "paused")

    async def unpause(self, server: str) -> dict[str, Any]:
        """Let it go on."""
        return await self._switch("unpause", server, "paused", "running")

    async def suspend(self, server: str) -> dict[str, Any]:
        """Its memory goes to disk."""
        return await self._switch("suspend", server, "running", "suspended")

    async def resume(self, server: str) -> dict[str, Any]:
        """Its memory comes back."""
        return await self._switch("resume", server, "suspended", "running")

    async def rebuild(self, guest: Guest) -> dict[str, Any]:
        """Start the guest from the beginning, from that image."""
        return await self._start_anew("rebuild", guest)

    async def rescue(self, guest: Guest) -> dict[str, Any]:
        """The same; a simulated guest never wrote to its own disk."""
        return await self._start_anew("rescue", guest)

    async def _start_anew(self, verb: str, guest: Guest) -> dict[str, Any]:
        fault = await self._before(verb, guest.server)
        with self.ground.together():
            self._must_be_here(guest.server)
            self.ground.boot(self.name, guest)
        await self._after(fault)
        return {}

    async def _switch(self, verb: str, server: str, before: str, after: str) -> dict[str, Any]:
        fault = await self._before(verb, server)
        with self.ground.together():
            here = self._must_be_here(server)
            if here.state not in (before, after):
                raise Impossible(f"{server} is {here.state} on {self.name}")
            self.ground.put(self.name, here.guest, after, disks=here.disks)
        await self._after(fault)
        return {}

    async def attach_volume(self, server: str, volume: dict[str, Any]) -> dict[str, Any]:
        """One more block device; refused where another has its name."""
        fault = await self._before("attach_volume", server)
        with self.ground.together():
            others = self._volumes_but(server, volume)
            if any(each.get("device") == volume["device"] for each in others):
                raise Impossible(f"{server} has a {volume['device']} already")
            self._change(server, volumes=[*others, volume])
        await self._after(fault)
        return {}

    async def detach_volume(self, server: str, volume: dict[str, Any]) -> dict[str, Any]:
        """One block device less."""
        fault = await self._before("detach_volume", server)
        with self.ground.together():
            self._change(server, volumes=self._volumes_but(server, volume))
        await self._after(fault)
        return {}

    async def attach_interface(self, server: str, port: dict[str, Any]) -> dict[str, Any]:
        """One more network interface."""
        fault = await self._before("attach_interface", server)
        with self.ground.together():
            self._change(server, ports=[*self._ports_but(server, port), port])
        await self._after(fault)
        return {}

    async def detach_interface(self, server: str, port: dict[str, Any]) -> dict[str, Any]:
        """One network interface less."""
        fault = await self._before("detach_interface", server)
        with self.ground.together():
            self._change(server, ports=self._ports_but(server, port))
        await self._after(fault)
        return {}

    def _volumes_but(self, server: str, volume: dict[str, Any]) -> list[dict[str, Any]]:
        guest = self._must_be_here(server).guest
        return [each for each in guest.volumes if each["volume_id"] != volume["volume_id"]]

    def _ports_but(self, server: str, port: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in self._must_be_here(server).guest.ports if each["id"] != port["id"]]

    def _change(self, server: str, **devices: list[dict[str, Any]]) -> None:
        here = self._must_be_here(server)
        guest = msgspec.structs.replace(here.guest, **devices)
        self.ground.put(self.name, guest, here.state, disks=here.disks)

    async def console(self, server: str, lines: int | None) -> dict[str, Any]:
        """As many boots as there were, in the words of a kernel."""
        await self._before("console", server)
        here = self._must_be_here(server)
        wrote = [line.format(guest=here.guest) for line in BOOT] * here.boots
        return {"output": "\n".join(wrote if lines is None else wrote[max(0, len(wrote) - lines) :])}

    async def discard(self, server: str) -> dict[str, Any]:
        """Nothing of the guest is here when this returns."""
        fault = await self._before("discard", server)
        self.ground.remove(self.name, server)
        await self._after(fault)
        return {}

    # -- Faults, time, sizes ------------------------------------------------------------

    async def _before(self, verb: str, server: str, seconds: float | None = None) -> Fault | None:
        """What comes before the deed: the verb's time and the faults that keep it from being done."""
        fault = self.faults.strike(verb, server)
        if fault is not None and fault.kind == "refuse":
            raise Impossible(fault.reason)
        if fault is not None and fault.kind == "die before":
            self.faults.die()
        if fault is not None and fault.kind == "stall":
            await self._wait_for_release(fault)
        if seconds is None:
            seconds = self.pace.of(verb)
        if seconds > 0:
            await self._sleep(seconds)
        return fault

    async def _after(self, fault: Fault | None) -> None:
        """What comes after it: the faults that keep anybody from hearing of it."""
        if fault is not None and fault.kind == "die after":
            self.faults.die()
        if fault is not None and fault.kind == "forget":
            await self._wait_for_release(fault)

    async def _wait_for_release(self, fault: Fault) -> None:
        while not fault.released:
            await self._sleep(STALL_S)

    def _here(self, server: str) -> Place | None:
        return self.ground.place(self.name, server)

    def _must_be_here(self, server: str) -> Place:
        """What is running, paused or stopped here. Raises `Impossible`."""
        here = self._here(server)
        if here is None or here.state in ("incoming", "remains"):
            raise Impossible(f"{server} is not on {self.name}")
        return here

    def _must_fit(self, guest: Guest) -> None:
        wanted = {"VCPU": guest.vcpus, "MEMORY_MB": guest.memory_mb, "DISK_GB": guest.disk_gb}
        for name, amount in wanted.items():
            if amount > self.amounts[name]:
                raise Impossible(f"{self.name} has {self.amounts[name]} {name}, the guest needs {amount}")

    @staticmethod
    def _offer(amount: int) -> dict[str, float]:
        return {
            "total": amount,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": max(1, amount),
            "step_size": 1,
            "allocation_ratio": 1.0,
        }

    def _cpu_info(self) -> dict[str, Any]:
        return {
            "arch": "x86_64",
            "model": "Nehalem",
            "vendor": "Intel",
            "features": ["pge", "clflush"],
            "topology": {"cores": 1, "threads": 1, "sockets": self.amounts["VCPU"]},
        }
