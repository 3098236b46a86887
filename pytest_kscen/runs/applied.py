"""What a test applies to the cluster: it carries the run's label, is waited for if that is wanted, and is gone after the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.availability import is_available
from pytest_kscen.objects.errors import NotFound

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj, Resource

MANAGER = "pytest-kscen"
GONE = 300.0


class Applied:
    """One run's."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._objects: dict[tuple[Resource, str, str], None] = {}

    async def apply(self, objects: tuple[Obj, ...], available_within: float | None) -> None:
        """Make them, or make them so; then wait until they are what they shall be. What is no object is refused before that."""
        for obj in objects:
            _valid(obj)
        applied = [await self._apply(obj) for obj in objects]
        if available_within is not None:
            end = self._actor.clock.now() + available_within
            for resource, namespace, name in applied:
                await self._wait(resource, namespace, name, end - self._actor.clock.now())

    async def _apply(self, obj: Obj) -> tuple[Resource, str, str]:
        resource = await self._actor.api.resource_of(obj["apiVersion"], obj["kind"])
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "default") if resource.namespaced else ""
        labels = {**(metadata.get("labels") or {}), **self._actor.labels}
        labelled = {**obj, "metadata": {**metadata, "labels": labels, **({"namespace": namespace} if namespace else {})}}
        await self._actor.api.apply(resource, labelled, field_manager=MANAGER, force=True)
        key = (resource, namespace, metadata["name"])
        self._objects[key] = None
        return key

    async def _wait(self, resource: Resource, namespace: str, name: str, patience: float) -> None:
        try:
            await wait_for(
                *(self._actor.api, self._actor.clock, resource, name, namespace),
                condition=lambda obj: obj is not None and is_available(obj),
                timeout=max(patience, 0.001),
            )
        except TimeoutError:
            raise TimeoutError(f"{resource.qualified} {namespace}/{name} was applied, but is not available in time") from None

    async def heal(self) -> None:
        """It disturbs nothing."""

    async def clear(self) -> None:
        """The newest first."""
        for resource, namespace, name in reversed(self._objects):
            try:
                await self._actor.api.delete(resource, name, namespace, propagation="Foreground")
            except NotFound:
                continue
        for resource, namespace, name in self._objects:
            await wait_for(
                *(self._actor.api, self._actor.clock, resource, name, namespace), condition=lambda obj: obj is None, timeout=GONE
            )


def _valid(obj: object) -> None:
    parts = obj if isinstance(obj, dict) else {}
    metadata = parts.get("metadata")
    named = {**parts, "metadata.name": metadata.get("name") if isinstance(metadata, dict) else None}
    for field in ("apiVersion", "kind", "metadata.name"):
        if not isinstance(named.get(field), str) or not named[field]:
            raise ValueError(f"what is to be applied has no {field}: {obj!r}")
