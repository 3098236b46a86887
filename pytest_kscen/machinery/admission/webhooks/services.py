"""Where a webhook's server is. Nothing listens behind a simulated Service, unless it says who stands in for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kscen.machinery.admission.webhooks.verdicts import CallError

if TYPE_CHECKING:
    from pytest_kscen.machinery.admission.webhooks.configured import Webhook
    from pytest_kscen.machinery.store import Store
    from pytest_kscen.objects.resources import Obj

STAND_IN = "kscen.io/address"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a webhook is: what the URL says, who is connected to, and whose certificate that must show."""

    url: str
    host: str
    port: int
    server_name: str
    ca_bundle: bytes = b""

    @classmethod
    def of_url(cls, url: str, ca_bundle: bytes) -> Address:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return cls(url, host, parts.port or 443, host, ca_bundle)


def address_of(webhook: Webhook, store: Store) -> Address:
    if "url" in webhook.client:
        return Address.of_url(webhook.client["url"], webhook.ca_bundle)
    return _of_service(webhook.client["service"], webhook, store)


def _of_service(reference: Obj, webhook: Webhook, store: Store) -> Address:
    name, namespace, port = reference["name"], reference["namespace"], reference.get("port") or 443
    server_name = f"{name}.{namespace}.svc"
    url = f"https://{server_name}:{port}/{(reference.get('path') or '').lstrip('/')}"
    service = store.get(("", "services", namespace, name))
    asked = f'failed to call webhook: Post "{url}?timeout={webhook.timeout}s"'
    if service is None:
        raise CallError(f'{asked}: service "{name}" not found')
    stand_in = str((service["metadata"].get("annotations") or {}).get(STAND_IN, ""))
    host, _, own_port = stand_in.rpartition(":")
    if not host or not own_port.isdecimal():
        how = f"annotate the service with {STAND_IN}=HOST:PORT of a server on this machine, or use clientConfig.url"
        raise CallError(f'{asked}: nothing listens behind the simulated service "{name}": {how}')
    return Address(url, host.strip("[]"), int(own_port), server_name, webhook.ca_bundle)
