"""Every option, once: what it means and its default.

`Settings` is made when a process starts and passed down; nothing else reads the environment
or a file. An option that cannot be right stops the start.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How a cloud behaves. Seconds are `…_s`."""

    # How long a conductor's lease of a move lasts without renewal (M4: at most 5).
    lease_s: float = 5.0
    # How often a conductor looks for moves that nobody works on (M4: at most 1).
    scan_s: float = 1.0
    # After how long without a heartbeat a host is silent and gets no new servers.
    silent_after_s: float = 10.0
    # How long an agent may take for a short ask before the move gives up on that host.
    ask_s: float = 60.0
    # How long an agent may take to send memory or disks.
    send_s: float = 3600.0
    # How many hosts a move tries, counting those that accepted and then failed.
    hosts_tried_max: int = 10
    # Whether a resize may stay on its host.
    resize_on_same_host: bool = False
    # How long a deleted server may be restored before it is deleted for good; 0 deletes it at once.
    reclaim_s: float = 0.0
    # How long a shelved server keeps its host: 0 gives it back at once, -1 only when it is asked for.
    shelved_offload_s: float = 0.0
    # For how long a move may wait for a place that others on the move may give up, unless its request
    # says so; 0: it fails at once.
    wait_s: float = 0.0
    # For how long a request may ask to wait at most.
    wait_max_s: float = 3600.0
    # For how long a request to attach or detach a volume or an interface waits for its turn while its
    # server is given or gives back another, before it is refused; 0: it is refused at once.
    turn_s: float = 30.0
    # Waits between tries of a line that must succeed: from this, doubled, up to the next.
    retry_first_s: float = 0.5
    retry_last_s: float = 30.0
    # After how many tries of such a line an operator is called (the server shows ERROR).
    tries_max: int = 100
    # How many moves one conductor works on at once.
    moves_at_once: int = 256
    # How often the auditor looks whether what is promised holds; 0 for never.
    audit_s: float = 60.0
    # How long a token is valid.
    token_s: float = 3600.0 * 12
    # The largest request body, in bytes (image uploads apart).
    body_max: int = 1_000_000
    # How many items a list answers at most.
    page_max: int = 1000
    # A policy file over the default rules (YAML, as Nova's); none if empty.
    policy_file: str = ""
    # What a new project may use; -1 for no limit.
    quota_instances: int = 1000
    quota_cores: int = 4000
    quota_ram: int = 8_000_000
    quota_server_groups: int = 1000
    quota_server_group_members: int = 1000
    # The same of the embedded block storage and network services. The largest volume counts nothing.
    quota_volumes: int = 1000
    quota_snapshots: int = 1000
    quota_gigabytes: int = 100_000
    quota_per_volume_gigabytes: int = -1
    quota_network: int = 100
    quota_subnet: int = 100
    quota_port: int = 5000

    def __post_init__(self) -> None:
        assert 0 < self.lease_s <= 5, "lease_s: promise M4 needs a lease of at most 5 seconds"
        assert 0 <= self.wait_s <= self.wait_max_s, "wait_s: it is from 0 to wait_max_s"
        assert self.turn_s >= 0, "turn_s: nobody waits for less than no time"
        assert 0 < self.scan_s <= 1, "scan_s: promise M4 needs a scan every second at least"
        for name, value in vars(self).items():
            if name.startswith("quota_"):
                assert value >= -1, f"{name}: -1 is for no limit, and less than that is none"
