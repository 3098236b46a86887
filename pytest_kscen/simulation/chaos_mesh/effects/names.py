"""External targets: addresses, networks and names, each with a port or without.

A name is a Service's in the cluster's DNS, or that of somebody outside the cluster, who has an address for examples.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.names import dns1035_label, dns1123_label, dns1123_subdomain
from pytest_kscen.objects.resources import NAMESPACES, SERVICES
from pytest_kscen.simulation.chaos_mesh.effects.rules import Outside

if TYPE_CHECKING:
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

SUFFIXES = (".svc.cluster.local", ".svc")
NOBODYS = (".cluster.local", ".svc", ".invalid")
"""Names that end so are nobody's outside."""
OUTSIDE = ipaddress.ip_network("2001:db8::/32")
"""The range for documentation: each name has an address of its own in it, and always the same."""


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
            network = ipaddress.ip_network(await self._address_of(place.lower().removesuffix(".")))
        return Outside(network, int(port or 0))

    async def _address_of(self, host: str) -> str:
        bare = next((host.removesuffix(suffix) for suffix in SUFFIXES if host.endswith(suffix)), host)
        name, _, namespace = bare.partition(".")
        service: Obj = {}
        if not dns1035_label(name) and not dns1123_label(namespace or "default"):
            with contextlib.suppress(NotFound):
                service = await self._api.get(SERVICES, name, namespace or "default")
        address = str((service.get("spec") or {}).get("clusterIP") or "None")
        return address if address != "None" else await self._address_outside(host)

    async def _address_outside(self, host: str) -> str:
        is_outside = "." in host and not host.endswith(NOBODYS) and not dns1123_subdomain(host)
        if not is_outside or await self._is_in_a_namespace(host):
            raise ValueError(f"lookup {host}: no such host")
        place = hashlib.sha256(host.encode()).digest()[: (OUTSIDE.max_prefixlen - OUTSIDE.prefixlen) // 8]
        return str(OUTSIDE[int.from_bytes(place)])

    async def _is_in_a_namespace(self, host: str) -> bool:
        """A Service of the cluster's, if there were one of this name."""
        _, _, namespace = host.partition(".")
        with contextlib.suppress(NotFound):
            return bool("." not in namespace and await self._api.get(NAMESPACES, namespace))
        return False
