"""The two controllers: each change of a Service or of a pod that it selects brings the Service's addresses up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from pytest_kscen.simulation.endpoints import slices, subsets
from pytest_kscen.simulation.endpoints.backends import backends_of, families_of
from pytest_kscen.simulation.endpoints.following import follow_services
from pytest_kscen.simulation.workloads.owners import controlled
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace
from pytest_kscen.simulation.workloads.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench
    from pytest_kscen.simulation.endpoints.backends import Backend

TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"


class Endpoints:
    """Keeps the Endpoints of each Service that selects pods."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._services, pods = bench.informers.of(SERVICES), bench.informers.of(PODS)
        self._endpoints = bench.informers.of(ENDPOINTS)
        self._selection = Selection(pods)
        self._controller = bench.controller(self._reconcile, self._services, pods, self._endpoints)
        follow_services(self._controller.enqueue, self._services, pods)

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, ref: Ref) -> None:
        service, there = self._services.objects.get(ref), self._endpoints.objects.get(ref)
        if service is None:
            if there:
                await _unless_gone(self._bench.api.delete(ENDPOINTS, ref.name, ref.namespace))
        elif service["spec"].get("selector"):
            pods = self._selection.of({"matchLabels": service["spec"]["selector"]}, ref.namespace)
            await self._write(service, there, _all_backends(service, pods))

    async def _write(self, service: Obj, there: Obj | None, backends: list[Backend]) -> None:
        kept = subsets.limited(backends)
        wanted, labels = subsets.subsets_of(service, kept), subsets.labels_of(service)
        truncated = subsets.TRUNCATED if len(kept) < len(backends) else {}
        if there is None:
            about = {"name": service["metadata"]["name"], "labels": labels}
            made = {"metadata": {**about, "annotations": truncated}, "subsets": wanted}
            marked = _triggered(made, has_news=True, now=self._bench.timestamp())
            await _unless_gone(self._bench.api.create(ENDPOINTS, marked, service["metadata"]["namespace"]))
        elif (there.get("subsets") or []) != wanted or there["metadata"].get("labels") != labels:
            annotations = {**(there["metadata"].get("annotations") or {}), **truncated}
            metadata = {**there["metadata"], "labels": labels, "annotations": annotations}
            has_news = _has_news(subsets.addresses_of(wanted), subsets.addresses_of(there.get("subsets") or ()))
            changed = {**there, "metadata": metadata, "subsets": wanted}
            await _unless_gone(
                self._bench.api.update(ENDPOINTS, _triggered(changed, has_news=has_news, now=self._bench.timestamp()))
            )


class EndpointSlices:
    """Keeps the EndpointSlices of each Service that selects pods."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._services, pods = bench.informers.of(SERVICES), bench.informers.of(PODS)
        self._slices, self._nodes = bench.informers.of(ENDPOINT_SLICES), bench.informers.of(NODES)
        self._slices_of, self._selection = controlled(self._slices), Selection(pods)
        self._controller = bench.controller(self._reconcile, self._services, pods, self._slices, self._nodes)
        follow_services(self._controller.enqueue, self._services, pods)
        self._slices.on_change(self._slice_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _slice_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Somebody may have changed or deleted what is kept here."""
        metadata = (new or old or {})["metadata"]
        labels = metadata.get("labels") or {}
        if labels.get(slices.MANAGED_BY) == slices.MANAGER and slices.SERVICE_NAME in labels:
            ref = Ref(metadata["namespace"], labels[slices.SERVICE_NAME])
            if ref in self._services.objects:
                self._controller.enqueue(ref)

    async def _reconcile(self, ref: Ref) -> None:
        service = self._services.objects.get(ref)
        if service is None or not service["spec"].get("selector") or service["metadata"].get("deletionTimestamp"):
            return
        pods = self._selection.of({"matchLabels": service["spec"]["selector"]}, ref.namespace)
        there = [one for one in self._slices_of.of(service["metadata"]["uid"]) if not one["metadata"].get("deletionTimestamp")]
        for family in families_of(service):
            backends = backends_of(service, pods, family)
            same_family = [one for one in there if one["addressType"] == family]
            await self._write(slices.changes(slices.Wanted(service, family, self._zones(pods)), backends, same_family))

    def _zones(self, pods: list[Obj]) -> dict[str, str]:
        names = dict.fromkeys(pod["spec"].get("nodeName", "") for pod in pods)
        nodes = [node for name in names if (node := self._nodes.get(name))]
        return {node["metadata"]["name"]: zone for node in nodes if (zone := slices.zone_of(node))}

    async def _write(self, changes: slices.Changes) -> None:
        now = self._bench.timestamp()
        for one in changes.create:
            marked = _triggered(one, has_news=True, now=now)
            await _unless_gone(self._bench.api.create(ENDPOINT_SLICES, marked, one["metadata"]["namespace"]))
        for one in changes.update:
            before = self._slices.objects.get(Ref.of(one)) or {}
            has_news = _has_news(one.get("endpoints") or (), before.get("endpoints") or ())
            await _unless_gone(self._bench.api.update(ENDPOINT_SLICES, _triggered(one, has_news=has_news, now=now)))
        for one in changes.delete:
            metadata = one["metadata"]
            await _unless_gone(self._bench.api.delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"]))


def _all_backends(service: Obj, pods: list[Obj]) -> list[Backend]:
    """Of the Service's first family: one Endpoints object mixes none."""
    return backends_of(service, pods, families_of(service)[0])


def _has_news(new: Iterable[Obj], old: Iterable[Obj]) -> bool:
    """Whether anything is there that was not, or was otherwise; that something has gone is no news."""
    known = list(old)
    return any(part not in known for part in new)


def _triggered(obj: Obj, *, has_news: bool, now: str) -> Obj:
    """With the time of the change in the pods that has led to it."""
    annotations = {key: text for key, text in (obj["metadata"].get("annotations") or {}).items() if key != TRIGGERED}
    marked = {**annotations, **({TRIGGERED: now} if has_news else {})}
    return {**obj, "metadata": {**obj["metadata"], "annotations": marked}}


async def _unless_gone(write: Awaitable[Any]) -> None:
    try:
        await write
    except (AlreadyExists, NotFound):
        return
    except ApiError as error:
        if not in_terminating_namespace(error):
            raise
