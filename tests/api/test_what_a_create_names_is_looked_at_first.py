"""What a body names wrongly is refused at once, with a sentence, instead of making a server that fails."""

from __future__ import annotations

from typing import Any

import pytest

from berthold.companions import ports
from compute import ANNS_PROJECT, BOBS_PROJECT

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def cloud_with_a_network(cloud: Any) -> Any:
    cloud.host()
    cloud.flavor(disk=1)
    return cloud


def port(cloud: Any, network: str, project: str = ANNS_PROJECT) -> str:
    return str(cloud.store.write_now(ports.make_port, project, network))


def asked(cloud: Any, **wish: Any) -> Any:
    hints = wish.pop("hints", {})
    body = {"name": "a", "flavorRef": "100", "imageRef": cloud.image(), "networks": "none", **wish}
    return cloud.post("/servers", {"server": body, "os:scheduler_hints": hints}, "ann", "2.96")


def refused(cloud: Any, fault: Any, status: int = 400, **wish: Any) -> str:
    before = cloud.get("/servers?all_tenants=1").json
    message = fault(asked(cloud, **wish), status)
    assert cloud.get("/servers?all_tenants=1").json == before
    return str(message)


def test_a_port_must_be_there_and_be_the_caller_s(cloud_with_a_network: Any, fault: Any) -> None:
    cloud = cloud_with_a_network
    bobs = port(cloud, cloud.network(), BOBS_PROJECT)
    unknown = refused(cloud, fault, networks=[{"port": NOBODY}])
    assert NOBODY in unknown
    assert refused(cloud, fault, networks=[{"port": bobs}]) == unknown.replace(NOBODY, bobs)


def test_a_port_must_be_free(cloud_with_a_network: Any, fault: Any) -> None:
    cloud = cloud_with_a_network
    anns = port(cloud, cloud.network())
    assert asked(cloud, networks=[{"port": anns}]).status == 202
    cloud.world.settle()
    assert "in use" in refused(cloud, fault, 409, networks=[{"port": anns}])


def test_one_port_and_one_address_are_for_one_server(cloud_with_a_network: Any, fault: Any) -> None:
    cloud = cloud_with_a_network
    network = cloud.network()
    anns = port(cloud, network)
    assert "twice" in refused(cloud, fault, networks=[{"port": anns}, {"port": anns}])
    assert "single configured port" in refused(cloud, fault, networks=[{"port": anns}], max_count=2)
    fixed = [{"uuid": network, "fixed_ip": "10.0.0.9"}]
    assert "fixed_ip" in refused(cloud, fault, networks=fixed, max_count=2)
    assert asked(cloud, networks=fixed).status == 202


@pytest.mark.parametrize("name", ["same_host", "different_host"])
def test_a_hint_that_names_servers_names_them_by_id(cloud_with_a_network: Any, fault: Any, name: str) -> None:
    for value in ("web-1", ["web-1"], [NOBODY, "web-1"], NOBODY + "0"):
        assert name in refused(cloud_with_a_network, fault, hints={name: value})
    assert asked(cloud_with_a_network, hints={name: [NOBODY]}).status == 202


@pytest.mark.parametrize("text", ["#!/bin/sh", "***", "YWJ", "YW=J"])
def test_user_data_is_base64(cloud_with_a_network: Any, fault: Any, text: str) -> None:
    cloud = cloud_with_a_network
    assert "user_data" in refused(cloud, fault, user_data=text)
    server = cloud.server(**{"user_data": "IyEv\nYmlu\n"})
    image = cloud.image()
    assert "user_data" in fault(cloud.act(server, "rebuild", {"imageRef": image, "user_data": text}), 400)


@pytest.mark.parametrize("wrong", [{"accessIPv4": "x"}, {"accessIPv4": "::1"}, {"accessIPv6": "1.2.3.4"}])
def test_an_access_address_is_one_when_it_is_changed_too(
    cloud_with_a_network: Any, fault: Any, wrong: dict[str, str]
) -> None:
    cloud = cloud_with_a_network
    server = cloud.server(accessIPv4="1.2.3.4")
    fault(cloud.put(f"/servers/{server}", {"server": wrong}, "ann", "2.96"), 400)
    assert cloud.shown(server)["accessIPv4"] == "1.2.3.4"
    assert cloud.put(f"/servers/{server}", {"server": {"accessIPv4": ""}}, "ann", "2.96").status == 200
    assert cloud.shown(server)["accessIPv4"] == ""
