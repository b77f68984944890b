"""A failure is in the log, in a fault and in an event: it names some hosts there, and all in the move."""

from __future__ import annotations

from berthold.errors import NoValidHost
from berthold.moves.outcome import NAMED_MAX, Trouble, by_host


def reasons(hosts: int) -> dict[str, str]:
    return {f"node{n:05}": "capacity: not enough VCPU" for n in range(hosts)}


def test_as_many_hosts_as_fit_are_named_each_with_its_reason() -> None:
    trouble = Trouble.of(NoValidHost("No valid host was found.", reasons(NAMED_MAX)))
    said, *hosts = trouble.trace.splitlines()
    assert said == "No valid host was found."
    assert hosts == [f"  {name}: {why}" for name, why in reasons(NAMED_MAX).items()]


def test_of_ten_thousand_hosts_a_fault_names_some_and_the_move_keeps_all() -> None:
    trouble = Trouble.of(NoValidHost("No valid host was found.", reasons(10_000)))
    assert len(trouble.trace) < 4096
    assert trouble.trace.endswith(f"\n  … and {10_000 - NAMED_MAX} more hosts")
    assert trouble.document()["hosts"] == reasons(10_000)


def test_one_more_is_one_host() -> None:
    assert by_host(reasons(NAMED_MAX + 1))[-1] == "… and 1 more host"
