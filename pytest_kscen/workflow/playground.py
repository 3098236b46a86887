"""The playground: where actors do to the world what a node is about. Whatever is done twice has happened once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import AlreadyExists, NotFound
from pytest_kscen.objects.workflows import NODE_LABEL, WORKFLOW_LABEL
from pytest_kscen.workflow.repository import owner_reference, run_label

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.workflow.trees import Node, Tree


class Playground:
    """The cluster, as actors may use it."""

    def __init__(self, actor: Actor) -> None:
        self.api = actor.api
        self.clock = actor.clock

    async def create(self, resource: Resource, tree: Tree, node: Node, body: Obj, *, name: str = "") -> Obj:
        """Make an object of a node's own; one that it has made before is found again."""
        named = name or node.name
        labels = {**((body.get("metadata") or {}).get("labels") or {}), **marks(tree, node)}
        metadata = {
            **(body.get("metadata") or {}),
            "name": named,
            "namespace": tree.key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(node.obj)],
        }
        obj = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        try:
            return await self.api.create(resource, obj)
        except AlreadyExists:
            found = await self.api.get(resource, named, tree.key.namespace)
            if (found["metadata"].get("labels") or {}).get(NODE_LABEL) != node.name:
                raise
            return found

    async def delete(self, resource: Resource, tree: Tree, name: str) -> bool:
        """Whether it was still there."""
        try:
            await self.api.delete(resource, name, tree.key.namespace, propagation="Background")
        except NotFound:
            return False
        return True


def marks(tree: Tree, node: Node) -> dict[str, str]:
    """The labels of what a node has made."""
    return {WORKFLOW_LABEL: tree.key.name, NODE_LABEL: node.name, **run_label(tree)}
