"""The proxy subresource: forwards an HTTP request to a pod, or to a ready pod behind a Service.

The request is sent through `Core.web`; a Service's endpoint is drawn from the seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.kube.api import Answer, HttpCall
from pytest_kscen.objects.errors import BadRequest, ServiceUnavailable, not_found, quoted

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.kinds import Kind
    from pytest_kscen.kube.api import Request
    from pytest_kscen.objects.resources import Obj

SERVICE_NAME = "kubernetes.io/service-name"
SCHEMES = ("", "http", "https")
DEFAULT_PORTS = {"": "80", "http": "80", "https": "443"}


class ProxyTarget(NamedTuple):
    """Parsed target of a proxy path: `name`, `name:port` or `scheme:name:port`.

    The port is a number or the name of a port; empty means the first declared one.
    """

    scheme: str
    name: str
    port: str


async def proxy(core: Core, kind: Kind, request: Request) -> Answer:
    what = {"services": "service", "pods": "pod"}.get(kind.resource.plural)
    if what is None:
        raise ServiceUnavailable(
            "the kubelets of this cluster are simulated, and serve nothing but logs"
        )
    parts = request.name.split(":")
    scheme, name, port_text = (
        parts if len(parts) == len(ProxyTarget._fields) else ("", *parts, "")[:3]
    )
    if len(parts) > len(ProxyTarget._fields) or scheme not in SCHEMES or not name:
        raise BadRequest(f"invalid {what} request {quoted(request.name)}")
    target = ProxyTarget(scheme, name, port_text)
    obj = core.store.get(("", kind.resource.plural, request.namespace, target.name))
    if obj is None:
        raise not_found(kind.resource, target.name)
    address, port = (
        _service_endpoint(core, kind, request, obj, target)
        if what == "service"
        else _pod_endpoint(obj, target)
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


def _pod_endpoint(pod: Obj, target: ProxyTarget) -> tuple[str, int]:
    ports = (
        port for container in pod["spec"]["containers"] for port in container.get("ports") or ()
    )
    declared = next((str(port["containerPort"]) for port in ports), "")
    port = target.port or declared or DEFAULT_PORTS[target.scheme]
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise BadRequest("address not allowed")
    if not port.isdecimal():
        raise ServiceUnavailable(
            f"error trying to reach service: dial tcp: lookup tcp/{port}: unknown port"
        )
    return address, int(port)


def _service_endpoint(
    core: Core, kind: Kind, request: Request, service: Obj, target: ProxyTarget
) -> tuple[str, int]:
    wanted = _port_name(service, target)
    slices = [
        each
        for each in core.store.all("discovery.k8s.io", "endpointslices", request.namespace)
        if (each["metadata"].get("labels") or {}).get(SERVICE_NAME) == target.name
    ]
    if not slices:
        raise not_found(kind.resource, target.name)
    if not any(each.get("endpoints") for each in slices):
        raise ServiceUnavailable(f"no endpoints available for service {quoted(target.name)}")
    places = [
        (endpoint["addresses"][0], ports[0])
        for each in slices
        if (ports := [p["port"] for p in each.get("ports") or () if p.get("name", "") == wanted])
        for endpoint in each.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    if not places:
        raise ServiceUnavailable(f"no endpoints available for service {quoted(request.name)}")
    return core.chance.stream("service proxy").choice(places)


def _port_name(service: Obj, target: ProxyTarget) -> str:
    if not target.port.isdecimal():
        return target.port
    for port in service["spec"].get("ports") or ():
        if port["port"] == int(target.port):
            return str(port.get("name", ""))
    raise ServiceUnavailable(
        f"no service port {target.port} found for service {quoted(target.name)}"
    )
