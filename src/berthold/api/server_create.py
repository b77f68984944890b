"""Making servers: from a request to wishes that `moves.begin.create_servers` carries out.

What the neighbours must confirm (images, volumes, networks) is asked first, what the ledger
knows (flavor, group, key, zone, host) is looked up in the transaction that begins the moves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from berthold.api import boot_devices
from berthold.api.call import Call
from berthold.api.chance import password, word
from berthold.api.hints import checked, group_of
from berthold.api.interfaces import check_address, only_network
from berthold.api.microversions import Version
from berthold.api.problems import named_in_the_body
from berthold.api.schemas.servers import CreateServer, NewNic, NewServer
from berthold.api.server_counts import as_many_as_allowed
from berthold.api.server_words import (
    check_access,
    check_certificates,
    check_host_name,
    check_metadata,
    check_user_data,
)
from berthold.api.servers import by
from berthold.api.views import servers as views
from berthold.api.views.fields import render
from berthold.errors import Malformed, NotFound
from berthold.ledger import quotas, reading
from berthold.ledger.store import Tx
from berthold.moves import begin
from berthold.records import aggregates, flavors, keypairs

FORCED_HOST = "os_compute_api:servers:create:forced_host"
NAMED_HOST = "compute:servers:create:requested_destination"


@dataclass(frozen=True)
class Place:
    """Where the owner wants it: an availability zone, and a host if an operator says so."""

    zone: str | None
    host: str | None


async def create(call: Call) -> dict[str, Any]:
    """Begin to make one server or several; 202 means begun."""
    wish: NewServer = call.body.server
    least, most = _how_many(wish)
    _check_words(wish)
    check_host_name(wish.hostname, call.version)
    place = _place(call, wish)
    flavor = await call.store.read(_flavor, call, wish)
    boot = await boot_devices.chosen(call, wish, flavor, most)
    networks = await _networks(call, wish, most)
    reservation = "r-" + word(call, 8).lower()
    model = _model(call, place, flavor, boot, networks, reservation)
    ids = await as_many_as_allowed(call, model, least, most, _begin)
    return _answer(call, wish, ids, reservation)


def _answer(call: Call, wish: NewServer, ids: list[str], reservation: str) -> dict[str, Any]:
    call.headers["Location"] = call.url("servers", ids[0])
    if wish.return_reservation_id:
        return {"reservation_id": reservation}
    new = {"id": ids[0], "disk_config": wish.disk_config, "admin_pass": wish.admin_pass or password(call)}
    return {"server": render(views.NEW, new, call)}


# -- What the request says ----------------------------------------------------------------


def _how_many(wish: NewServer) -> tuple[int, int]:
    most = wish.max_count if wish.max_count is not None else wish.min_count
    if wish.min_count > most:
        raise Malformed("min_count must be <= max_count")
    return wish.min_count, most


def _check_words(wish: NewServer) -> None:
    """What no shape can say."""
    for group in wish.security_groups:
        if group.name != "default":
            raise Malformed(f"Security group {group.name} not found: this cloud has the group default only.")
    check_certificates(wish.certificates)
    check_metadata(wish.metadata)
    check_access(wish.access_ip_v4, wish.access_ip_v6)
    check_user_data(wish.user_data)


def _place(call: Call, wish: NewServer) -> Place:
    """Zone and host. `zone:host` is the older way to name a host; neither is a way round the rules (M8)."""
    zone, _, host = (wish.availability_zone or "").partition(":")
    if host:
        call.must(FORCED_HOST)
        host = host.partition(":")[0]
    named = wish.host or wish.hypervisor_hostname
    if named:
        call.must(NAMED_HOST)
        if host or (wish.host and wish.hypervisor_hostname and wish.host != wish.hypervisor_hostname):
            raise Malformed("A server can be asked for on one host only.")
    return Place(zone or None, host or named or None)


async def _networks(call: Call, wish: NewServer, most: int) -> list[dict[str, Any]]:
    """One wish per port, for `most` servers. Before 2.37 saying nothing meant `auto`."""
    networks = call.services.neighbours.networks
    if isinstance(wish.networks, str) and call.version < Version(2, 37):
        raise Malformed(f"networks: '{wish.networks}' needs microversion 2.37 or later; expected a list.")
    if wish.networks is None and call.version >= Version(2, 37):
        raise Malformed("networks: expected a list, 'auto' or 'none'.")
    if wish.networks == "none":
        return []
    if wish.networks is None or wish.networks == "auto":
        only = await only_network(call, call.actor)
        return [{"uuid": only.id}] if only else []
    _check_for_one(wish.networks, most)
    wishes = []
    for nic in wish.networks:
        with named_in_the_body():
            if nic.uuid is not None:
                await networks.find(call.actor, nic.uuid)
            elif nic.port is not None:
                await networks.free_port(call.actor, nic.port)
        given = {"uuid": nic.uuid, "port": nic.port, "fixed_ip": nic.fixed_ip, "tag": nic.tag}
        wishes.append({name: value for name, value in given.items() if value is not None})
    return wishes


def _check_for_one(nics: list[NewNic], most: int) -> None:
    """What is one server's can be asked for once. Raises `Malformed`."""
    for nic in nics:
        if (nic.uuid is None) == (nic.port is None):
            raise Malformed("Each of networks needs a uuid or a port, and not both.")
        if nic.fixed_ip is not None:
            check_address(nic.fixed_ip)
    ports = [nic.port for nic in nics if nic.port is not None]
    if len(set(ports)) < len(ports):
        raise Malformed("networks: the same port is named twice.")
    if most > 1 and ports:
        raise Malformed("Failed to launch multiple instances with a single configured port ID.")
    if most > 1 and any(nic.fixed_ip is not None for nic in nics):
        raise Malformed("max_count cannot be greater than 1 if a fixed_ip is specified.")


# -- What the ledger knows ----------------------------------------------------------------


def _flavor(tx: Tx, call: Call, wish: NewServer) -> dict[str, Any]:
    with named_in_the_body():
        record = flavors.get(tx, str(wish.flavor).rsplit("/", 1)[-1], call.scope)
    return flavors.snapshot(record)


def _model(
    call: Call,
    place: Place,
    flavor: dict[str, Any],
    boot: boot_devices.Boot,
    networks: list[dict[str, Any]],
    reservation: str,
) -> begin.NewServer:
    """What all servers of this request have in common."""
    body: CreateServer = call.body
    wish = body.server
    hints = checked(body.hints | body.hints_too)
    details = {
        "reservation_id": reservation,
        "disk_config": wish.disk_config,
        "user_data": wish.user_data,
        "config_drive": bool(wish.config_drive),
        "access_ip_v4": wish.access_ip_v4 or "",
        "access_ip_v6": wish.access_ip_v6 or "",
        "tags": list(dict.fromkeys(wish.tags)),
        "image_traits": boot.traits,
    }
    return begin.NewServer(
        project_id=call.actor.project_id,
        user_id=call.actor.user_id,
        name=wish.name,
        flavor=flavor,
        image_id=boot.image_id,
        group_id=group_of(hints),
        zone=place.zone,
        host=place.host,
        hints=hints,
        metadata=wish.metadata,
        networks=networks,
        volumes=boot.volumes,
        key_name=wish.key_name,
        description=wish.description if wish.description is not None else None,
        details=details,
    )


def _begin(tx: Tx, call: Call, model: begin.NewServer, many: int) -> list[str]:
    quotas.ensure_project(tx, call.actor.project_id, call.settings)
    _check_known(tx, call, model)
    wishes = []
    for index in range(many):
        name = model.name if many == 1 else f"{model.name}-{index + 1}"
        hostname = call.body.server.hostname or _host_name(name)
        details = {**model.details, "launch_index": index, "hostname": hostname}
        wishes.append(_with(model, name=name, details=details))
    with named_in_the_body():
        return begin.create_servers(tx, by(call), wishes)


def _with(model: begin.NewServer, **changes: Any) -> begin.NewServer:
    return begin.NewServer(**{**vars(model), **changes})


def _check_known(tx: Tx, call: Call, model: begin.NewServer) -> None:
    """Group, key, zone and host exist, and the group and key are the caller's. Raises `Malformed`."""
    with named_in_the_body():
        if model.group_id is not None:
            reading.group(tx, model.group_id, model.project_id)
        if model.key_name is not None:
            check_key(tx, model.user_id, model.key_name)
    zones = {**reading.host_zones(tx), **aggregates.zones(tx)} if model.zone or model.host else {}
    if model.zone and model.zone not in zones.values():
        raise Malformed("The requested availability zone is not available")
    if model.host and model.host not in zones:
        raise Malformed(f"Compute host {model.host} could not be found.")


def check_key(tx: Tx, user_id: str, name: str) -> None:
    """Raise `Malformed` unless the user has a key of that name."""
    try:
        keypairs.get(tx, user_id, name)
    except NotFound:
        raise Malformed("Invalid key_name provided.") from None


def _host_name(name: str) -> str:
    """A name that a guest may have, from its server's."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower().replace("_", "-").replace(" ", "-")).strip("-")
    return plain[:63] or "server"
