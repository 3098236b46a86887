"""exec, attach and portforward: streams to a kubelet, which the embedded cluster's kubelets do not serve.

The refusals are those of an API server whose caller cannot be connected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from pytest_kscen.machinery.reading import current
from pytest_kscen.machinery.subresources.logs import container_of
from pytest_kscen.objects.errors import BadRequest, ServiceUnavailable

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.machinery.kinds import Kind

SIMULATED = "a connection into a container needs its processes, and this cluster's are simulated: its log can be read"


async def upgrade(core: Core, kind: Kind, request: Request) -> Never:
    pod = current(core, kind, request)
    if request.subresource != "portforward":
        container_of(pod, dict(request.options.extra).get("container", ""))
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {request.name} does not have a host assigned")
    if "upgrade" in dict(request.options.extra):
        raise ServiceUnavailable(SIMULATED)
    raise BadRequest("Upgrade request required")
