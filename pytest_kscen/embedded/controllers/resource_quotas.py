"""Recalculate the usage in ResourceQuota statuses when objects change or disappear.

Admission, in the API server, adds to the usage when objects are created; this controller, started
by `actors`, corrects it. Only resources that some quota limits are watched. A pod that exceeds its
grace period is no longer charged, so its quota is recalculated then.
"""

from __future__ import annotations

import contextlib
import datetime
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler
from pytest_kscen.embedded.controllers.ownership import namespace_index
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects import quantities
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.quota import measured, meter_of, used
from pytest_kscen.objects.resources import PODS, RESOURCE_QUOTAS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.kube.informer import Informer
    from pytest_kscen.objects.resources import Obj, Resource

CHARGED_STATUS = ("phase", "allocatedResources")  # fields of a status that usage depends on


class ResourceQuotas(Reconciler):
    """Keep `status.used` of every quota equal to the sum over the namespace's objects.

    Resources are followed from the first quota that limits them on, and are not dropped again.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._quotas = context.informers.of(RESOURCE_QUOTAS)
        self._by_namespace = namespace_index(self._quotas)
        self._followed: dict[Resource, Informer] = {}
        super().__init__(context, self._quotas)

        def quota_changed(new: Obj | None, old: Obj | None) -> None:
            # Statuses are ignored, as admission and this controller write them.
            if new and (old is None or new["spec"] != old["spec"]):
                self._controller.enqueue(Ref.of(new))

        self._quotas.on_change(quota_changed)

    def _object_changed(self, new: Obj | None, old: Obj | None) -> None:
        if new and old:
            status, was = new.get("status") or {}, old.get("status") or {}
            if (
                new.get("spec") == old.get("spec")
                and all(status.get(name) == was.get(name) for name in CHARGED_STATUS)
                and new["metadata"].get("deletionTimestamp")
                == old["metadata"].get("deletionTimestamp")
            ):
                return  # heartbeats and most status writes alter no usage
        namespace = (new or old or {})["metadata"].get("namespace", "")
        for quota in self._by_namespace.of(namespace):
            self._controller.enqueue(Ref.of(quota))

    async def _reconcile(self, ref: Ref) -> float | None:
        quota = self._quotas.objects.get(ref)
        if quota is None:
            return None
        amounts: dict[str, str] = {}
        for resource in [
            each
            for each in await self._context.api.resources()
            if measured(quota, meter_of(each.group, each.plural))
        ]:
            if resource not in self._followed:
                self._followed[resource] = self._context.informers.of(resource)
                self._followed[resource].on_change(self._object_changed)
            await self._followed[resource].synced()
            objects = namespace_index(self._followed[resource]).of(ref.namespace)
            meter = meter_of(resource.group, resource.plural)
            amounts |= used(quota, meter, objects, self._context.now())
        hard, status = quota["spec"].get("hard") or {}, quota.get("status") or {}
        listed = {
            name: quantities.canonical(amount) for name, amount in amounts.items() if name in hard
        }
        if status.get("hard", {}) != hard or status.get("used", {}) != listed:
            new = {**quota, "status": {"hard": hard, "used": listed}}
            with contextlib.suppress(NotFound):
                await self._context.api.update(RESOURCE_QUOTAS, new, subresource="status")
        # Seconds until the next pod beyond its grace period is no longer charged.
        waits, now = [], self._context.now()
        for pod in self._followed.get(PODS, ()):
            metadata = pod["metadata"]
            gone = metadata.get("deletionTimestamp")
            grace = metadata.get("deletionGracePeriodSeconds")
            if gone and grace is not None and metadata.get("namespace") == ref.namespace:
                waits.append(datetime.datetime.fromisoformat(gone).timestamp() + grace - now)
        return min((left + 1 for left in waits if left >= 0), default=None)
