"""ControllerRevisions: numbered copies of the pod templates of a StatefulSet or DaemonSet.

Used by the two controllers to tell old pods from new ones, and to roll back. Collisions of hashes
are counted in the owner's status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.controllers.ownership import (
    ControllerRefManager,
    is_controlled_by,
    reference_to,
)
from pytest_kscen.embedded.controllers.pod_control import short_hash
from pytest_kscen.objects.errors import AlreadyExists, NotFound
from pytest_kscen.objects.resources import CONTROLLER_REVISIONS

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.objects.resources import Obj, Resource


def template_of(revision: Obj) -> Obj:
    """Return the pod template stored in a revision, without the patch directive that Kubernetes
    stores with it.
    """
    return {
        name: part
        for name, part in revision["data"]["spec"]["template"].items()
        if name != "$patch"
    }


def hash_of(revision: Obj) -> str:
    return str(revision["metadata"]["name"]).rpartition("-")[2]


def collisions(owner: Obj) -> int | None:
    return (owner.get("status") or {}).get("collisionCount")


class Revisions:
    """Revision history of one kind of owner. `label` is the label under which a revision
    carries its hash.
    """

    def __init__(self, context: ControllerContext, owners: Resource, label: str) -> None:
        self._context = context
        self._owners = owners
        self._label = label
        self._ref_manager = ControllerRefManager(context, owners, CONTROLLER_REVISIONS)

    async def of(self, owner: Obj) -> list[Obj]:
        """Return the owner's revisions, the oldest first, after adopting and releasing by
        selector.
        """
        return sorted(
            await self._ref_manager.claim(owner),
            key=lambda revision: (revision["revision"], revision["metadata"]["name"]),
        )

    async def latest(self, owner: Obj, history: list[Obj]) -> tuple[Obj, int]:
        """Return the revision of the owner's template and the collision count.

        It is created if missing. An older revision with the same template gets the next number, as
        after a rollback.
        """
        data = {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
        number = history[-1]["revision"] + 1 if history else 1
        equal = [revision for revision in history if revision["data"] == data]
        if not equal:
            # Another template may have the same hash: count the collision and hash again.
            count = collisions(owner) or 0
            labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
            annotations = owner["metadata"].get("annotations")
            namespace = owner["metadata"]["namespace"]
            while True:
                digest = short_hash(data, count)
                name = f"{owner['metadata']['name']}-{digest}"
                revision = {
                    "apiVersion": CONTROLLER_REVISIONS.api_version,
                    "kind": CONTROLLER_REVISIONS.kind,
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "labels": {**labels, self._label: digest},
                        **({"annotations": annotations} if annotations else {}),
                        "ownerReferences": [reference_to(owner, self._owners)],
                    },
                    "data": data,
                    "revision": number,
                }
                try:
                    return await self._context.api.create(
                        CONTROLLER_REVISIONS, revision, namespace
                    ), count
                except AlreadyExists:
                    found = await self._context.api.get(CONTROLLER_REVISIONS, name, namespace)
                    if found["data"] == data and is_controlled_by(found, owner):
                        return found, count
                    count += 1
        if equal[-1] is not history[-1]:
            renewed = await self._context.api.update(
                CONTROLLER_REVISIONS, {**equal[-1], "revision": number}
            )
            return renewed, collisions(owner) or 0
        return equal[-1], collisions(owner) or 0

    async def truncate_history(
        self, owner: Obj, history: list[Obj], in_use: Collection[str]
    ) -> None:
        """Delete the oldest revisions that are not in use, beyond `revisionHistoryLimit`."""
        unused = [revision for revision in history if revision["metadata"]["name"] not in in_use]
        for revision in unused[
            : max(0, len(unused) - owner["spec"].get("revisionHistoryLimit", 10))
        ]:
            metadata = revision["metadata"]
            try:
                await self._context.api.delete(
                    CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"]
                )
            except NotFound:
                continue
