"""From a changed Service or pod to the Services whose addresses may have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.simulation.workloads.owners import namespaced
from pytest_kscen.simulation.workloads.podstate import is_finished, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj


def follow_services(enqueue: Callable[[Ref], None], services: Informer, pods: Informer) -> None:
    by_namespace = namespaced(services)

    def service_changed(new: Obj | None, old: Obj | None) -> None:
        enqueue(Ref.of(new or old or {}))

    def pod_changed(new: Obj | None, old: Obj | None) -> None:
        near = by_namespace.of((new or old or {})["metadata"].get("namespace", ""))
        if not near or (new and old and _matters(new) == _matters(old)):
            return
        for service in near:
            selector = service["spec"].get("selector")
            if selector and (_selects(selector, new) or _selects(selector, old)):
                enqueue(Ref.of(service))

    services.on_change(service_changed)
    pods.on_change(pod_changed)


def _selects(selector: dict[str, str], pod: Obj | None) -> bool:
    return pod is not None and selector.items() <= (pod["metadata"].get("labels") or {}).items()


def _matters(pod: Obj) -> tuple[object, ...]:
    """What of a pod shows in an address."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    where = spec.get("nodeName"), spec.get("hostname"), spec.get("subdomain"), status.get("podIPs"), status.get("podIP")
    return metadata.get("labels"), bool(metadata.get("deletionTimestamp")), is_ready(pod), is_finished(pod), *where
