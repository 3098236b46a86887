"""proxy: an HTTP request that the API server passes on to a pod, or to one of the ready ones
behind a Service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.api import Answer, HttpCall
from pytest_kscen.objects.errors import BadRequest, ServiceUnavailable, not_found, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

SERVICE_NAME = "kubernetes.io/service-name"
SCHEMES = ("", "http", "https")
HTTP = {"": "80", "http": "80", "https": "443"}


class Meant(NamedTuple):
    """What the name in the path says: `name`, `name:port` or `scheme:name:port`."""

    scheme: str
    name: str
    port: str


async def proxy(core: Core, kind: Kind, request: Request) -> Answer:
    what = {"services": "service", "pods": "pod"}.get(kind.resource.plural)
    if what is None:
        raise ServiceUnavailable(
            "the kubelets of this cluster are simulated, and serve nothing but logs"
        )
    meant = _meant(request.name, what)
    obj = core.store.get(("", kind.resource.plural, request.namespace, meant.name))
    if obj is None:
        raise not_found(kind.resource, meant.name)
    address, port = (
        _of_service(core, kind, request, obj, meant) if what == "service" else _of_pod(obj, meant)
    )
    if core.web is None:
        raise ServiceUnavailable(
            "error trying to reach service: no kubelet of this cluster runs anything at "
            f"{address}:{port}"
        )
    call = request.body if isinstance(request.body, HttpCall) else HttpCall()
    try:
        return Answer(await core.web.ask(address, port, call))
    except OSError as error:
        raise ServiceUnavailable(f"error trying to reach service: {error}") from None


def _meant(text: str, what: str) -> Meant:
    parts = text.split(":")
    scheme, name, port = parts if len(parts) == len(Meant._fields) else ("", *parts, "")[:3]
    if len(parts) > len(Meant._fields) or scheme not in SCHEMES or not name:
        raise BadRequest(f"invalid {what} request {quoted(text)}")
    return Meant(scheme, name, port)


def _of_pod(pod: Obj, meant: Meant) -> tuple[str, int]:
    ports = (
        port for container in pod["spec"]["containers"] for port in container.get("ports") or ()
    )
    declared = next((str(port["containerPort"]) for port in ports), "")
    port = meant.port or declared or HTTP[meant.scheme]
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise BadRequest("address not allowed")
    if not port.isdecimal():
        raise ServiceUnavailable(
            f"error trying to reach service: dial tcp: lookup tcp/{port}: unknown port"
        )
    return address, int(port)


def _of_service(
    core: Core, kind: Kind, request: Request, service: Obj, meant: Meant
) -> tuple[str, int]:
    wanted = _port_name(service, meant)
    slices = [
        each
        for each in core.store.all("discovery.k8s.io", "endpointslices", request.namespace)
        if _is_of(each, meant.name)
    ]
    if not slices:
        raise not_found(kind.resource, meant.name)
    if not any(each.get("endpoints") for each in slices):
        raise ServiceUnavailable(f"no endpoints available for service {quoted(meant.name)}")
    places = [place for each in slices for place in _ready(each, wanted)]
    if not places:
        raise ServiceUnavailable(f"no endpoints available for service {quoted(request.name)}")
    return core.chance.stream("service proxy").choice(places)


def _port_name(service: Obj, meant: Meant) -> str:
    if not meant.port.isdecimal():
        return meant.port
    for port in service["spec"].get("ports") or ():
        if port["port"] == int(meant.port):
            return str(port.get("name", ""))
    raise ServiceUnavailable(f"no service port {meant.port} found for service {quoted(meant.name)}")


def _is_of(endpoint_slice: Obj, service: str) -> bool:
    return (endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_NAME) == service


def _ready(endpoint_slice: Obj, port_name: str) -> Iterator[tuple[str, int]]:
    ports = [
        port["port"]
        for port in endpoint_slice.get("ports") or ()
        if port.get("name", "") == port_name
    ]
    for endpoint in endpoint_slice.get("endpoints") or ():
        if ports and (endpoint.get("conditions") or {}).get("ready", True):
            yield endpoint["addresses"][0], ports[0]
