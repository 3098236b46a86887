"""Record of changes from watches, on clusters whose store is not in this process.

`LiveCluster.follow_changes` starts one `WatchedChanges` per run. A watch that broke off is followed
by a list: changes between both are marked as skipped, because versions may be missing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.errors import ApiError

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.clock import Clock
    from pytest_kscen.clusters.cluster import NoteChange
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.cache import Ref
    from pytest_kscen.objects.resources import Obj, Resource

RETRY = 5.0  # seconds until resources that are not served yet are looked for again
ALIASES = ("events.k8s.io",)  # groups that serve objects of another group once more


def last_manager(new: Obj, old: Obj | None) -> str:
    """Return the field manager whose entry the new version has and the old one has not."""
    earlier = (old["metadata"].get("managedFields") if old else None) or []
    managed = new["metadata"].get("managedFields") or []
    return next((each.get("manager", "") for each in managed if each not in earlier), "")


class _RecordingInformer(Informer):
    """Informer that notes each change, and whether it comes from a watch or from a later list."""

    def __init__(self, api: Api, clock: Clock, resource: Resource, note: NoteChange) -> None:
        super().__init__(api, clock, resource)
        self._note = note
        self._is_listing = True
        self._has_listed = False

    def _set_version(self, version: str) -> None:
        super()._set_version(version)
        self._is_listing, self._has_listed = False, True

    async def _follow(self) -> None:
        try:
            await super()._follow()
        finally:
            self._is_listing = True

    def _put(self, ref: Ref, new: Obj | None) -> None:
        old = self.objects.get(ref)
        super()._put(ref, new)
        self._note(
            self.resource.qualified,
            old,
            new,
            last_manager(new, old) if new else "",
            initial=not self._has_listed,
            skipped=self._is_listing and self._has_listed,
        )


class WatchedChanges:
    """Watches of a cluster's resources: of all, or of those that were included by name.

    Made in the loop that watches, and active until `stop`.
    """

    def __init__(self, api: Api, clock: Clock, note: NoteChange, *, everything: bool) -> None:
        self._api = api
        self._clock = clock
        self._note = note
        self._everything = everything
        self._wanted: set[str] = set()
        self._watched: dict[Resource, asyncio.Task[Never]] = {}
        self._loop = asyncio.get_running_loop()
        self._life = self._loop.create_task(self._run(), name="record of changes")

    def stop(self) -> None:
        """Stop watching; called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._life.cancel)

    def include(self, kind: str) -> None:
        """Watch this resource as well, given as `pods` or `deployments.apps`, once it is served."""
        self._wanted.add(kind)

    async def _run(self) -> None:
        """Watch until it is cancelled; resources that are served later are found by polling."""
        try:
            while True:
                for resource in await self._missing():
                    informer = _RecordingInformer(self._api, self._clock, resource, self._note)
                    name = f"record of {resource.qualified}"
                    self._watched[resource] = asyncio.create_task(informer.run(), name=name)
                await self._clock.sleep(RETRY, background=True)
        finally:
            for task in self._watched.values():
                task.cancel()

    async def _missing(self) -> list[Resource]:
        """Return the served resources that are wanted and not watched yet."""
        if not self._everything and not self._wanted:
            return []
        try:
            served = await self._api.resources()
        except (ApiError, OSError):
            return []  # tried again with the next look
        return [
            resource
            for resource in served
            if resource not in self._watched
            and resource.group not in ALIASES
            and (
                self._everything
                or resource.plural in self._wanted
                or resource.qualified in self._wanted
            )
        ]
