"""Keep Endpoints and EndpointSlices for the pods that each Service selects.

Two controllers, started by `actors`. Traffic is not simulated here: these objects are only read by
clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.controller import Reconciler
from pytest_kscen.embedded.controllers import endpoint_slices
from pytest_kscen.embedded.controllers.endpoint_slices import (
    HEADLESS,
    EndpointPort,
    ServiceBackend,
    backends_of,
    families_of,
    is_headless,
    publishes_all,
)
from pytest_kscen.embedded.controllers.ownership import (
    LabelSelectorIndex,
    controller_index,
    namespace_index,
)
from pytest_kscen.embedded.controllers.pod_control import in_terminating_namespace
from pytest_kscen.embedded.controllers.pod_state import is_finished, is_ready
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj


def follow_services(enqueue: Callable[[Ref], None], services: Informer, pods: Informer) -> None:
    by_namespace = namespace_index(services)

    def service_changed(new: Obj | None, old: Obj | None) -> None:
        enqueue(Ref.of(new or old or {}))

    def pod_changed(new: Obj | None, old: Obj | None) -> None:
        candidates = by_namespace.of((new or old or {})["metadata"].get("namespace", ""))
        if not candidates or (
            new and old and _address_relevant_state(new) == _address_relevant_state(old)
        ):
            return
        for service in candidates:
            selector = service["spec"].get("selector")
            if selector and (_selects(selector, new) or _selects(selector, old)):
                enqueue(Ref.of(service))

    services.on_change(service_changed)
    pods.on_change(pod_changed)


def _selects(selector: dict[str, str], pod: Obj | None) -> bool:
    return pod is not None and selector.items() <= (pod["metadata"].get("labels") or {}).items()


def _address_relevant_state(pod: Obj) -> tuple[object, ...]:
    """Return the parts of a pod that are visible in an address of a Service.

    Changes of anything else, such as container statuses, wake no Service; comparing these tuples is
    cheaper than a reconciliation.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    where = (
        spec.get("nodeName"),
        spec.get("hostname"),
        spec.get("subdomain"),
        status.get("podIPs"),
        status.get("podIP"),
    )
    return (
        metadata.get("labels"),
        bool(metadata.get("deletionTimestamp")),
        is_ready(pod),
        is_finished(pod),
        *where,
    )


ENDPOINTS_MANAGED_BY = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
MAX_ADDRESSES = 1000
TRUNCATED = {"endpoints.kubernetes.io/over-capacity": "truncated"}


def endpoints_labels(service: Obj) -> dict[str, str]:
    own = service["metadata"].get("labels") or {}
    return {**own, **ENDPOINTS_MANAGED_BY, **({HEADLESS: ""} if is_headless(service) else {})}


def subsets_of(service: Obj, backends: list[ServiceBackend]) -> list[Obj]:
    """Group backends into Endpoints subsets: ports that lead to the same addresses share one.

    The port None stands for a Service without ports. Terminating pods are left out unless the
    Service publishes unready addresses.
    """
    by_port: dict[EndpointPort | None, list[ServiceBackend]] = {}
    portless = () if service["spec"].get("ports") else (None,)
    for backend in backends:
        if publishes_all(service) or not backend.is_terminating:
            for port in backend.ports or portless:
                by_port.setdefault(port, []).append(backend)
    by_backends: dict[tuple[str, ...], list[EndpointPort | None]] = {}
    for port in sorted(by_port, key=lambda port: port or ()):
        by_backends.setdefault(tuple(backend.uid for backend in by_port[port]), []).append(port)
    subsets = []
    for ports in by_backends.values():
        ready: list[Obj] = []
        unready: list[Obj] = []
        for backend in by_port[ports[0]]:
            node = backend.pod["spec"].get("nodeName")
            address = {
                "ip": backend.address,
                **({"hostname": backend.hostname} if backend.hostname else {}),
                **({"nodeName": node} if node else {}),
                "targetRef": backend.target,
            }
            is_shown = backend.is_ready or publishes_all(service)
            (ready if is_shown else unready).append(address)
        port_objects = [
            {
                **({"name": port.name} if port.name else {}),
                "port": port.number,
                "protocol": port.protocol,
                **({"appProtocol": port.app} if port.app else {}),
            }
            for port in filter(None, ports)
        ]
        subsets.append(
            {
                **({"addresses": ready} if ready else {}),
                **({"notReadyAddresses": unready} if unready else {}),
                **({"ports": port_objects} if port_objects else {}),
            }
        )
    return subsets


def addresses_of(subsets: Iterable[Obj]) -> list[Obj]:
    """Return all addresses of the subsets, ready or not, each with the list it is in. A change
    of readiness is thus a difference between two results.
    """
    lists = ("addresses", "notReadyAddresses")
    return [
        {**address, "in": name}
        for subset in subsets
        for name in lists
        for address in subset.get(name) or ()
    ]


def limit_addresses(backends: list[ServiceBackend]) -> list[ServiceBackend]:
    """Return at most `MAX_ADDRESSES` backends, ready ones first. More do not fit into one
    Endpoints object, which is then annotated as truncated.
    """
    return (
        sorted(backends, key=lambda backend: not backend.is_ready)[:MAX_ADDRESSES]
        if len(backends) > MAX_ADDRESSES
        else backends
    )


TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


class Endpoints(Reconciler):
    """Keep the Endpoints object of each Service that has a selector.

    Endpoints of a deleted Service are deleted; those of a Service without a selector belong to the
    user and are not touched.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._services, pods = context.informers.of(SERVICES), context.informers.of(PODS)
        self._endpoints = context.informers.of(ENDPOINTS)
        self._selection = LabelSelectorIndex(pods)
        super().__init__(context, self._services, pods, self._endpoints)
        follow_services(self._controller.enqueue, self._services, pods)

    async def _reconcile(self, ref: Ref) -> None:
        service, existing = self._services.objects.get(ref), self._endpoints.objects.get(ref)
        if service is None:
            if existing:
                await _ignore_not_found(
                    self._context.api.delete(ENDPOINTS, ref.name, ref.namespace)
                )
        elif service["spec"].get("selector"):
            pods = self._selection.select(
                {"matchLabels": service["spec"]["selector"]}, ref.namespace
            )
            await self._write(
                service, existing, backends_of(service, pods, families_of(service)[0])
            )

    async def _write(
        self, service: Obj, existing: Obj | None, backends: list[ServiceBackend]
    ) -> None:
        kept = limit_addresses(backends)
        wanted, labels = subsets_of(service, kept), endpoints_labels(service)
        truncated = TRUNCATED if len(kept) < len(backends) else {}
        if existing is None:
            about = {"name": service["metadata"]["name"], "labels": labels}
            made = {"metadata": {**about, "annotations": truncated}, "subsets": wanted}
            marked = _with_trigger_time(made, is_new=True, now=self._context.timestamp())
            await _ignore_not_found(
                self._context.api.create(ENDPOINTS, marked, service["metadata"]["namespace"])
            )
        elif (existing.get("subsets") or []) != wanted or existing["metadata"].get(
            "labels"
        ) != labels:
            annotations = {**(existing["metadata"].get("annotations") or {}), **truncated}
            metadata = {**existing["metadata"], "labels": labels, "annotations": annotations}
            is_new = _has_new_address(
                addresses_of(wanted), addresses_of(existing.get("subsets") or ())
            )
            changed = {**existing, "metadata": metadata, "subsets": wanted}
            await _ignore_not_found(
                self._context.api.update(
                    ENDPOINTS,
                    _with_trigger_time(changed, is_new=is_new, now=self._context.timestamp()),
                )
            )


class EndpointSlices(Reconciler):
    """Keep the EndpointSlices of each Service that has a selector, one set per IP family.

    Slices are owned by their Service, so the garbage collector removes them. Changes by other
    clients are reverted.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._services, pods = context.informers.of(SERVICES), context.informers.of(PODS)
        self._slices, self._nodes = (
            context.informers.of(ENDPOINT_SLICES),
            context.informers.of(NODES),
        )
        self._slices_of, self._selection = controller_index(self._slices), LabelSelectorIndex(pods)
        super().__init__(context, self._services, pods, self._slices, self._nodes)
        follow_services(self._controller.enqueue, self._services, pods)

        def slice_changed(new: Obj | None, old: Obj | None) -> None:
            """Enqueue the Service of a managed slice, as another client may have changed or deleted
            it.
            """
            metadata = (new or old or {})["metadata"]
            labels = metadata.get("labels") or {}
            if (
                labels.get(endpoint_slices.MANAGED_BY) == endpoint_slices.MANAGER
                and endpoint_slices.SERVICE_NAME in labels
            ):
                ref = Ref(metadata["namespace"], labels[endpoint_slices.SERVICE_NAME])
                if ref in self._services.objects:
                    self._controller.enqueue(ref)

        self._slices.on_change(slice_changed)

    async def _reconcile(self, ref: Ref) -> None:
        service = self._services.objects.get(ref)
        if (
            service is None
            or not service["spec"].get("selector")
            or service["metadata"].get("deletionTimestamp")
        ):
            return
        pods = self._selection.select({"matchLabels": service["spec"]["selector"]}, ref.namespace)
        existing = [
            one
            for one in self._slices_of.of(service["metadata"]["uid"])
            if not one["metadata"].get("deletionTimestamp")
        ]
        names = dict.fromkeys(pod["spec"].get("nodeName", "") for pod in pods)
        nodes = [node for name in names if (node := self._nodes.get(name))]
        zones = {
            node["metadata"]["name"]: zone
            for node in nodes
            if (zone := endpoint_slices.zone_of(node))
        }
        for family in families_of(service):
            backends = backends_of(service, pods, family)
            same_family = [one for one in existing if one["addressType"] == family]
            await self._write(
                endpoint_slices.slice_changes(
                    endpoint_slices.SliceTarget(service, family, zones),
                    backends,
                    same_family,
                )
            )

    async def _write(self, changes: endpoint_slices.SliceChanges) -> None:
        now = self._context.timestamp()
        for one in changes.create:
            marked = _with_trigger_time(one, is_new=True, now=now)
            await _ignore_not_found(
                self._context.api.create(ENDPOINT_SLICES, marked, one["metadata"]["namespace"])
            )
        for one in changes.update:
            before = self._slices.objects.get(Ref.of(one)) or {}
            is_new = _has_new_address(one.get("endpoints") or (), before.get("endpoints") or ())
            await _ignore_not_found(
                self._context.api.update(
                    ENDPOINT_SLICES, _with_trigger_time(one, is_new=is_new, now=now)
                )
            )
        for one in changes.delete:
            metadata = one["metadata"]
            await _ignore_not_found(
                self._context.api.delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"])
            )


def _has_new_address(new: Iterable[Obj], old: Iterable[Obj]) -> bool:
    """Return True if some address is new or has changed. A removed address does not count, as
    in the real controller's trigger time.
    """
    known = list(old)
    return any(part not in known for part in new)


def _with_trigger_time(obj: Obj, *, is_new: bool, now: str) -> Obj:
    """Return the object annotated with the time of the pod change that led to this write.

    The annotation is removed when no address is new, as it would report an old change again.
    """
    annotations = {
        key: text
        for key, text in (obj["metadata"].get("annotations") or {}).items()
        if key != TRIGGER_TIME
    }
    marked = {**annotations, **({TRIGGER_TIME: now} if is_new else {})}
    return {**obj, "metadata": {**obj["metadata"], "annotations": marked}}


async def _ignore_not_found(write: Awaitable[Any]) -> None:
    try:
        await write
    except (AlreadyExists, NotFound):
        return
    except ApiError as error:
        if not in_terminating_namespace(error):
            raise
