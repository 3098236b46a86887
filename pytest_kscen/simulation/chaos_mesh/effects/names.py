"""External targets: addresses, networks and names, each with a port or without. A name is a Service's in the cluster's DNS."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.names import dns1035_label, dns1123_label
from pytest_kscen.objects.resources import SERVICES
from pytest_kscen.simulation.chaos_mesh.effects.rules import Outside

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

SUFFIXES = (".svc.cluster.local", ".svc")


class Names:
    """What the daemon asks when it is given one."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def resolve(self, text: str) -> Outside:
        """A ValueError says that nobody has this name."""
        place, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "")
        if port and not port.isdecimal():
            raise ValueError(f"{text!r} has no port that is a number")
        try:
            network = ipaddress.ip_network(place, strict=False)
        except ValueError:
            network = ipaddress.ip_network(await self._address_of(place))
        return Outside(network, int(port or 0))

    async def _address_of(self, host: str) -> str:
        bare = next((host.removesuffix(suffix) for suffix in SUFFIXES if host.endswith(suffix)), host)
        name, _, namespace = bare.partition(".")
        service: Obj = {}
        if not dns1035_label(name) and not dns1123_label(namespace or "default"):
            with contextlib.suppress(NotFound):
                service = await self._api.get(SERVICES, name, namespace or "default")
        address = str((service.get("spec") or {}).get("clusterIP") or "None")
        if address == "None":
            raise ValueError(f"lookup {host}: no such host")
        return address
