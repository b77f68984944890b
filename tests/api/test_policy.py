"""Who may do what: defaults under Nova's names, an operator's file over them, decided once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from oslo_policy.policy import Enforcer

from berthold.api.policy import RULES, Policy
from berthold.errors import Malformed, NotAllowed
from compute import ACTORS

ANN, MEL, RITA, ADMIN = (ACTORS[name] for name in ("ann", "mel", "rita", "admin"))


def test_the_defaults_know_four_roles() -> None:
    rules = Policy()
    may = {
        name: {rule for rule in RULES if rules.allows(ACTORS[name], rule)}
        for name in ("rita", "ann", "mel", "admin")
    }
    assert may["rita"] < may["ann"] < may["mel"] < may["admin"] == set(RULES)
    assert "os_compute_api:servers:show" in may["rita"]
    assert "os_compute_api:servers:create" in may["ann"] - may["rita"]
    assert "os_compute_api:os-migrate-server:migrate_live" in may["mel"] - may["ann"]
    assert "os_compute_api:os-services:update" in may["admin"] - may["mel"]
    with pytest.raises(NotAllowed, match="os-services:list"):
        rules.check(ANN, "os_compute_api:os-services:list")


def test_a_file_that_was_written_for_nova_is_obeyed(cloud: Any, fault: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        '"os_compute_api:os-hypervisors:list": "rule:project_reader_api"\n'
        '"os_compute_api:servers:create": "!"\n'
        '"os_compute_api:something:of:elsewhere": "role:admin"\n'
    )
    cloud.app = cloud.over_http(policy=Policy(file))
    assert cloud.get("/os-hypervisors", "rita").status == 200
    body = {"server": {"name": "x", "flavorRef": "1", "networks": "none"}}
    assert "servers:create" in fault(cloud.post("/servers", body, "admin", "2.37"), 403)
    fault(cloud.get("/os-services", "rita"), 403)


@pytest.mark.parametrize("rule", ["role:admin and (", "admin", "role:admin or or role:x", "not"])
def test_a_rule_that_is_no_expression_stops_the_start_and_is_named(
    rule: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f'"os_compute_api:servers:create": "{rule}"\n')
    with pytest.raises(Malformed, match="the rule os_compute_api:servers:create is no expression"):
        Policy(file)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("rule", ["!", " ! ", "", "@", "not role:admin", "role:admin and (role:x or !)"])
def test_every_rule_that_is_one_is_taken(rule: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f'"os_compute_api:servers:create": "{rule}"\n')
    Policy(file)


@pytest.mark.parametrize("text", ["a: [", "- x", '"os_compute_api:limits": "rule:nowhere"', "a: 5"])
def test_what_is_no_policy_file_stops_the_start(text: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(Malformed, match="is not a policy file"):
        Policy(file)
    with pytest.raises(Malformed, match="is not a policy file"):
        Policy(tmp_path / "nowhere.yaml")


def test_a_rule_is_decided_once_however_many_rows_ask(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    enforce = Enforcer.enforce

    def counted(self: Any, rule: str, *more: Any) -> Any:
        asked.append(rule)
        return enforce(self, rule, *more)

    monkeypatch.setattr(Enforcer, "enforce", counted)
    cloud.app = cloud.over_http()
    for number in range(5):
        cloud.server(f"s{number}", settle=False)
    asked.clear()
    assert len(cloud.get("/servers/detail", "rita", "2.96").json["servers"]) == 5
    assert len(asked) == len(set(asked)) > 0
    asked.clear()
    cloud.get("/servers/detail", "rita", "2.96")
    assert asked == []
