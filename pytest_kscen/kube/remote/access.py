"""What a kubeconfig says about reaching a server and being known there; the official client reads the file."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pathlib


@dataclass(frozen=True, slots=True)
class Access:
    """A server, and the credentials that it takes."""

    server: str
    authorization: str = ""
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


def configuration_of(path: pathlib.Path | str, context: str = "") -> Any:
    """The official client's Configuration of a context; the file's current one unless named."""
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_kube_config(str(path), context or None, configuration, persist_config=False)  # type: ignore[no-untyped-call]
    configuration.disable_strict_ssl_verification = True  # as Go has it: many a cluster's own certificates are not strict
    if _is_loopback(configuration.host):
        configuration.proxy = None
    return configuration


def access_of(configuration: Any) -> Access:
    return Access(
        server=configuration.host,
        authorization=configuration.api_key.get("BearerToken", ""),
        tls=_tls_of(configuration) if configuration.host.startswith("https") else None,
        server_name=configuration.tls_server_name,
        proxy=_proxy_of(configuration),
    )


def _tls_of(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _proxy_of(configuration: Any) -> str | None:
    from kubernetes.client.rest import should_bypass_proxies

    if configuration.proxy and not should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return str(configuration.proxy)
    return None


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
