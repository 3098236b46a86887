"""The playground: where actors do to the world what a node is about. Whatever is done twice has happened once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import AlreadyExists, Conflict, NotFound
from pytest_kscen.objects.owners import owner_reference
from pytest_kscen.objects.workflows import MANAGED_BY, NODE_LABEL, WORKFLOW_LABEL
from pytest_kscen.workflow.repository import run_label

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.workflow.trees import Node, Tree


class Playground:
    """The cluster, as actors may use it."""

    def __init__(self, actor: Actor) -> None:
        self.api = actor.api
        self.clock = actor.clock

    async def create(self, resource: Resource, tree: Tree, node: Node, body: Obj) -> Obj:
        """Make an object of a node's own; one that it has made before is found again."""
        labels = {**((body.get("metadata") or {}).get("labels") or {}), **marks(tree, node)}
        metadata = {
            **(body.get("metadata") or {}),
            "name": node.made,
            "namespace": tree.key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(node.obj)],
        }
        obj = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        try:
            return await self.api.create(resource, obj)
        except AlreadyExists:
            if found := await self._find(resource, tree, node):
                return found
            raise

    async def delete(self, resource: Resource, tree: Tree, node: Node, *, with_dependents: bool = False) -> bool:
        """Whether it was still there; what is somebody else's is not touched. It may have to outlast what it has made itself.

        Without its labels nobody would see it go: it gets them back.
        """
        found = await self._find(resource, tree, node)
        if found is None:
            return False
        how = {"precondition_uid": found["metadata"]["uid"], "propagation": "Foreground" if with_dependents else "Background"}
        try:
            if not _is_marked(found, tree, node):
                await self.api.patch(resource, node.made, {"metadata": {"labels": marks(tree, node)}}, tree.key.namespace)
            await self.api.delete(resource, node.made, tree.key.namespace, **how)
        except (NotFound, Conflict):
            return False
        return True

    async def delete_spawned(self, resource: Resource, tree: Tree, node: Node) -> list[str]:
        """The names of what the node's Schedule has spawned and nobody else owns, as far as it was still there."""
        spawned = await self.api.list(resource, tree.key.namespace, labels=f"{MANAGED_BY}={node.made}")
        owned = ((obj["metadata"], obj["metadata"].get("ownerReferences") or ()) for obj in spawned.items)
        left = [metadata for metadata, owners in owned if all(owner["name"] == node.made for owner in owners)]
        for metadata in left:
            with contextlib.suppress(NotFound, Conflict):
                await self.api.delete(resource, metadata["name"], tree.key.namespace, precondition_uid=metadata["uid"])
        return [metadata["name"] for metadata in left]

    async def has(self, resource: Resource, tree: Tree, node: Node) -> bool:
        return await self._find(resource, tree, node) is not None

    async def shows(self, resource: Resource, tree: Tree, node: Node) -> bool:
        """Whether it is there with its labels, so that what becomes of it is seen."""
        found = await self._find(resource, tree, node)
        return found is not None and _is_marked(found, tree, node)

    async def _find(self, resource: Resource, tree: Tree, node: Node) -> Obj | None:
        """What the node has made."""
        if node.is_lost:
            await self._recall(resource, tree, node)
        try:
            found = await self.api.get(resource, node.made, tree.key.namespace)
        except NotFound:
            return None
        return found if _is_made_by(found, tree, node) else None

    async def _recall(self, resource: Resource, tree: Tree, node: Node) -> None:
        """In which attempt it was, by what it has made last."""
        made = await self.api.list(resource, tree.key.namespace, labels=f"{NODE_LABEL}={node.name}")
        ends = [each["metadata"]["name"].removeprefix(f"{node.name}-") for each in made.items]
        node.attempt = max((int(end) for end in ends if end.isdecimal()), default=1)


def _is_made_by(obj: Obj, tree: Tree, node: Node) -> bool:
    """Its owner says so, or what it has of its labels, if it has no other owner."""
    metadata = obj["metadata"]
    owners, labels = metadata.get("ownerReferences") or (), metadata.get("labels") or {}
    if any(owner["uid"] == node.obj["metadata"]["uid"] for owner in owners):
        return True
    wanted = {(WORKFLOW_LABEL, tree.key.name), (NODE_LABEL, node.name)}
    found = {(label, labels[label]) for label, _ in wanted if label in labels}
    return bool(found) and found <= wanted and all(owner["name"] == node.name for owner in owners)


def _is_marked(obj: Obj, tree: Tree, node: Node) -> bool:
    return marks(tree, node).items() <= (obj["metadata"].get("labels") or {}).items()


def marks(tree: Tree, node: Node) -> dict[str, str]:
    """The labels of what a node has made."""
    return {WORKFLOW_LABEL: tree.key.name, NODE_LABEL: node.name, **run_label(tree)}
