"""How a namespace ends: its pods are deleted, then everything else in it, of whatever kind; when
all is gone, it is let go.

What is left, and what holds it, is told in the namespace's conditions. Five seconds pass before the
first look, and before another after each change, as with Kubernetes' own controller."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.embedded.controller import follow
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
FINALIZER_ESTIMATE = 15.0  # seconds that something with a finalizer is expected to need

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
    """What a look at a namespace has found still there."""

    counts: dict[str, int] = field(default_factory=dict)
    finalizers: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[ApiError] = field(default_factory=list)
    needs: float = 0.0
    """Seconds until it may be gone, as far as one can tell."""

    def add(self, resource: Resource, items: list[Obj]) -> None:
        if not items:
            return
        self.counts[f"{resource.plural}.{resource.group}"] = len(items)
        for item in items:
            self.finalizers.update(item["metadata"].get("finalizers") or ())
            if item["metadata"].get("finalizers"):
                self.needs = max(self.needs, FINALIZER_ESTIMATE)

    def troubles(self) -> dict[str, tuple[str, str]]:
        """The conditions that are true, with reason and message."""
        found = {}
        if self.failures:
            words = ", ".join(error.message for error in self.failures)
            message = (
                f"Failed to delete all resource types, {len(self.failures)} remaining: {words}"
            )
            found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if self.counts:
            words = ", ".join(
                f"{name} has {count} resource instances"
                for name, count in sorted(self.counts.items())
            )
            found["NamespaceContentRemaining"] = (
                "SomeResourcesRemain",
                f"Some resources are remaining: {words}",
            )
        if self.finalizers:
            words = ", ".join(
                f"{name} in {count} resource instances"
                for name, count in sorted(self.finalizers.items())
            )
            message = f"Some content in the namespace has finalizers remaining: {words}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return found


class Namespaces:
    """The controller."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._namespaces = context.informers.of(NAMESPACES)
        self._controller = context.controller(self._reconcile, self._namespaces)
        self._namespaces.on_change(self._changed)

    async def run(self) -> None:
        await self._controller.run()

    def _changed(self, new: Obj | None, _: Obj | None) -> None:
        if new and new["metadata"].get("deletionTimestamp"):
            self._controller.enqueue_after(Ref.of(new), RECHECK_DELAY)

    async def _reconcile(self, ref: Ref) -> float | None:
        namespace = self._namespaces.objects.get(ref)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return None
        if FINALIZER not in (namespace["spec"].get("finalizers") or ()):
            return None
        left = RemainingContent()
        pods_need = await self._empty_of_pods(ref.name)
        if not pods_need:
            for resource in await self._context.api.resources():
                if resource.namespaced:
                    await self._empty(resource, ref.name, left)
        namespace = await self._tell(namespace, left)
        if left.failures:
            raise left.failures[0]
        if needs := pods_need or left.needs:
            return needs / 2 + 1
        if left.counts:
            return RECHECK_DELAY
        await self._let_go(namespace)
        return None

    async def _empty_of_pods(self, name: str) -> float:
        """Delete the pods; the longest that one of those that are left may take."""
        await self._context.api.delete_collection(PODS, name, propagation="Background")
        pods = (await self._context.api.list(PODS, name)).items
        needs = (
            pod["spec"].get("terminationGracePeriodSeconds") or 0
            for pod in pods
            if not is_finished(pod)
        )
        return float(max(needs, default=0))

    async def _empty(self, resource: Resource, name: str, left: RemainingContent) -> None:
        try:
            try:
                await self._context.api.delete_collection(resource, name, propagation="Background")
            except MethodNotAllowed:
                for item in (await self._context.api.list(resource, name)).items:
                    await self._context.api.delete(
                        resource, item["metadata"]["name"], name, propagation="Background"
                    )
            left.add(resource, (await self._context.api.list(resource, name)).items)
        except NotFound:  # it is served no longer
            return
        except ApiError as error:
            left.failures.append(error)

    async def _tell(self, namespace: Obj, left: RemainingContent) -> Obj:
        before = namespace.get("status") or {}
        conditions = list(before.get("conditions") or ())
        troubles, now = left.troubles(), self._context.timestamp()
        for type_, fine in DEFAULT_CONDITIONS.items():
            reason, message = troubles.get(type_, fine)
            words = {
                "type": type_,
                "status": str(type_ in troubles),
                "reason": reason,
                "message": message,
            }
            conditions = set_condition(conditions, words, now)
        status = {**before, "phase": "Terminating", "conditions": conditions}
        if status == before:
            return namespace
        return await self._context.api.update(
            NAMESPACES, {**namespace, "status": status}, subresource="status"
        )

    async def _let_go(self, namespace: Obj) -> None:
        finalizers = [name for name in namespace["spec"]["finalizers"] if name != FINALIZER]
        finalized = {**namespace, "spec": {**namespace["spec"], "finalizers": finalizers}}
        try:
            await self._context.api.update(NAMESPACES, finalized, subresource="finalize")
        except NotFound:
            return


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


class NamespaceObjectController:
    """Keeps one object in every namespace; what somebody changes of its data is put back."""

    def __init__(self, context: ControllerContext, resource: Resource, wanted: Obj) -> None:
        self._context = context
        self._resource = resource
        self._wanted = wanted
        self._name = wanted["metadata"]["name"]
        self._namespaces = context.informers.of(NAMESPACES)
        self._objects = context.informers.of(resource)
        self._controller = context.controller(self._reconcile, self._namespaces, self._objects)
        follow(self._controller, self._namespaces)
        self._objects.on_change(self._changed)

    async def run(self) -> None:
        await self._controller.run()

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        metadata = (new or old or {})["metadata"]
        if metadata["name"] == self._name:
            self._controller.enqueue(Ref("", metadata["namespace"]))

    async def _reconcile(self, ref: Ref) -> None:
        namespace = self._namespaces.objects.get(ref)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        there = self._objects.get(self._name, ref.name)
        try:
            if there is None:
                await self._context.api.create(self._resource, self._wanted, ref.name)
            elif "data" in self._wanted and there.get("data") != self._wanted["data"]:
                await self._context.api.update(
                    self._resource, {**there, "data": self._wanted["data"]}
                )
        except (AlreadyExists, NotFound):
            return
        except ApiError as error:
            if not in_terminating_namespace(error):
                raise


def service_accounts(context: ControllerContext) -> NamespaceObjectController:
    """The account that pods run as unless they name another."""
    return NamespaceObjectController(context, SERVICE_ACCOUNTS, DEFAULT_ACCOUNT)


def root_certificates(context: ControllerContext) -> NamespaceObjectController:
    """What every pod's token volume mounts."""
    return NamespaceObjectController(context, CONFIG_MAPS, ROOT_CERTIFICATES)
