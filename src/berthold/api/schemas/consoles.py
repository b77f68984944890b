"""Bodies about consoles."""

from __future__ import annotations

from typing import Literal

from berthold.api.schemas.body import Body, Shape


class NewConsole(Shape):
    protocol: Literal["vnc", "spice", "rdp", "serial", "mks"]
    type: Literal["novnc", "xvpvnc", "spice-html5", "rdp-html5", "serial", "webmks"]


class CreateConsole(Shape):
    remote_console: NewConsole


CREATE = Body(CreateConsole)
