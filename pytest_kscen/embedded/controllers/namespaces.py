"""Delete the content of terminating namespaces, and keep default objects in living ones.

Two controllers, started by `actors`. Pods are deleted first, then everything else; the namespace is
finalized when nothing is left. Remaining content and finalizers are reported in its conditions. As
in Kubernetes, five seconds pass before the first pass and between passes.
"""

from __future__ import annotations

import collections
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import Reconciler, follow
from pytest_kscen.embedded.controllers.pod_control import in_terminating_namespace
from pytest_kscen.embedded.controllers.pod_state import is_finished
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.conditions import set_condition
from pytest_kscen.objects.errors import AlreadyExists, ApiError, MethodNotAllowed, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj, Resource


FINALIZER = "kubernetes"
RECHECK_DELAY = 5.0
FINALIZER_ESTIMATE = 15.0  # seconds expected for objects with finalizers

DEFAULT_CONDITIONS = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


@dataclass(slots=True)
class RemainingContent:
    """Content that one pass over a namespace could not remove, with the failures of that pass.
    Source of the conditions of the namespace.
    """

    counts: dict[str, int] = field(default_factory=dict)
    finalizers: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[ApiError] = field(default_factory=list)
    estimate: float = 0.0
    """Seconds until the content may be gone; 0 if unknown."""

    def add(self, resource: Resource, items: list[Obj]) -> None:
        if not items:
            return
        self.counts[f"{resource.plural}.{resource.group}"] = len(items)
        for item in items:
            self.finalizers.update(item["metadata"].get("finalizers") or ())
            if item["metadata"].get("finalizers"):
                self.estimate = max(self.estimate, FINALIZER_ESTIMATE)

    def true_conditions(self) -> dict[str, tuple[str, str]]:
        """Return the conditions that are true, by type, with reason and message in the words of
        the real controller.
        """
        found = {}
        if self.failures:
            details = ", ".join(error.message for error in self.failures)
            message = (
                f"Failed to delete all resource types, {len(self.failures)} remaining: {details}"
            )
            found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if self.counts:
            details = ", ".join(
                f"{name} has {count} resource instances"
                for name, count in sorted(self.counts.items())
            )
            found["NamespaceContentRemaining"] = (
                "SomeResourcesRemain",
                f"Some resources are remaining: {details}",
            )
        if self.finalizers:
            details = ", ".join(
                f"{name} in {count} resource instances"
                for name, count in sorted(self.finalizers.items())
            )
            message = f"Some content in the namespace has finalizers remaining: {details}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return found


class Namespaces(Reconciler):
    """Empty and finalize terminating namespaces.

    A pass repeats until nothing is left: after half of the longest grace period of the pods, or
    after `RECHECK_DELAY` seconds. Failures of single resources do not stop a pass; the first one is
    raised at its end.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._namespaces = context.informers.of(NAMESPACES)
        super().__init__(context, self._namespaces)
        self._namespaces.on_change(self._changed)

    def _changed(self, new: Obj | None, _: Obj | None) -> None:
        if new and new["metadata"].get("deletionTimestamp"):
            self._controller.enqueue_after(Ref.of(new), RECHECK_DELAY)

    async def _reconcile(self, ref: Ref) -> float | None:
        namespace = self._namespaces.objects.get(ref)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        if FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return None
        remaining = RemainingContent()
        # Pods go first; the estimate is the longest grace period (seconds) of a pod that runs.
        await self._context.api.delete_collection(PODS, ref.name, propagation="Background")
        grace_periods = [
            pod["spec"].get("terminationGracePeriodSeconds") or 0
            for pod in (await self._context.api.list(PODS, ref.name)).items
            if not is_finished(pod)
        ]
        pods_estimate = float(max(grace_periods, default=0))
        if not pods_estimate:
            for resource in [row for row in await self._context.api.resources() if row.namespaced]:
                await self._delete_all(resource, ref.name, remaining)
        before = namespace.get("status") or {}
        conditions = list(before.get("conditions") or ())
        true_conditions, now = remaining.true_conditions(), self._context.timestamp()
        for type_, defaults in DEFAULT_CONDITIONS.items():
            reason, message = true_conditions.get(type_, defaults)
            details = {
                "type": type_,
                "status": str(type_ in true_conditions),
                "reason": reason,
                "message": message,
            }
            conditions = set_condition(conditions, details, now)
        status = {**before, "phase": "Terminating", "conditions": conditions}
        if status != before:
            namespace = await self._context.api.update(
                NAMESPACES, {**namespace, "status": status}, subresource="status"
            )
        if remaining.failures:
            raise remaining.failures[0]
        if estimate := pods_estimate or remaining.estimate:
            return estimate / 2 + 1
        if remaining.counts:
            return RECHECK_DELAY
        finalizers = [name for name in namespace["spec"]["finalizers"] if name != FINALIZER]
        finalized = {**namespace, "spec": {**namespace["spec"], "finalizers": finalizers}}
        with contextlib.suppress(NotFound):
            await self._context.api.update(NAMESPACES, finalized, subresource="finalize")
        return None

    async def _delete_all(self, resource: Resource, name: str, remaining: RemainingContent) -> None:
        try:
            try:
                await self._context.api.delete_collection(resource, name, propagation="Background")
            except MethodNotAllowed:
                for item in (await self._context.api.list(resource, name)).items:
                    await self._context.api.delete(
                        resource, item["metadata"]["name"], name, propagation="Background"
                    )
            remaining.add(resource, (await self._context.api.list(resource, name)).items)
        except NotFound:  # no longer served
            return
        except ApiError as error:
            remaining.failures.append(error)


DEFAULT_ACCOUNT = {"metadata": {"name": "default"}}
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal "
    "service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
)
ROOT_CERTIFICATES = {
    "metadata": {
        "name": "kube-root-ca.crt",
        "annotations": {"kubernetes.io/description": DESCRIPTION},
    },
    "data": {
        "ca.crt": (
            "There is no certificate: the processes of this cluster's containers are simulated.\n"
        )
    },
}


class NamespaceObjectController(Reconciler):
    """Keep one object in every namespace that is not terminating.

    Created when missing; changed `data` is restored, all other fields belong to the user. Runs as
    the controller for service accounts and for root certificates.
    """

    def __init__(self, context: ControllerContext, resource: Resource, wanted: Obj) -> None:
        self._resource = resource
        self._wanted = wanted
        self._name = wanted["metadata"]["name"]
        self._namespaces = context.informers.of(NAMESPACES)
        self._objects = context.informers.of(resource)
        super().__init__(context, self._namespaces, self._objects)
        follow(self._controller, self._namespaces)
        self._objects.on_change(self._changed)

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        metadata = (new or old or {})["metadata"]
        if metadata["name"] == self._name:
            self._controller.enqueue(Ref("", metadata["namespace"]))

    async def _reconcile(self, ref: Ref) -> None:
        namespace = self._namespaces.objects.get(ref)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        existing = self._objects.get(self._name, ref.name)
        try:
            if existing is None:
                await self._context.api.create(self._resource, self._wanted, ref.name)
            elif "data" in self._wanted and existing.get("data") != self._wanted["data"]:
                await self._context.api.update(
                    self._resource, {**existing, "data": self._wanted["data"]}
                )
        except (AlreadyExists, NotFound):
            return
        except ApiError as error:
            if not in_terminating_namespace(error):
                raise


def service_accounts(context: ControllerContext) -> NamespaceObjectController:
    """Return the controller that keeps the service account `default`, which pods use unless
    they name another one.
    """
    return NamespaceObjectController(context, SERVICE_ACCOUNTS, DEFAULT_ACCOUNT)


def root_certificates(context: ControllerContext) -> NamespaceObjectController:
    """Return the controller that keeps the ConfigMap with the cluster's certificates, which is
    part of every pod's token volume.
    """
    return NamespaceObjectController(context, CONFIG_MAPS, ROOT_CERTIFICATES)
