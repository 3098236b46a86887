"""Actions of nodes on the cluster: create, find and delete chaos, pods and status checks.

Called by `transitions` and `cleanup`, by the action of a table's cell. Each actor is idempotent: a
restarted engine repeats the last action of a node. The result is the event that follows at once, or
None if a watch reports what comes of it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from pytest_kscen.objects.chaos_mesh import (
    ABORT,
    KINDS,
    MANAGED_BY,
    NODE_LABEL,
    RUNNING,
    SCHEDULE,
    WORKFLOW_LABEL,
)
from pytest_kscen.objects.errors import AlreadyExists, Conflict, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, owner_reference
from pytest_kscen.workflow.container_output import exit_code_of, output_of
from pytest_kscen.workflow.engine.repository import run_label
from pytest_kscen.workflow.engine.trees import needs_result
from pytest_kscen.workflow.engine.triggers import OBJECT_LOST_MESSAGE
from pytest_kscen.workflow.schedule_jobs import type_of
from pytest_kscen.workflow.tables.machine import EventType, NodeAction, NodeActionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode
    from pytest_kscen.workflow.engine.triggers import Watches


SNAPSHOT, SNAPSHOT_FOLDER = "workflow.json", "/var/run/chaos-mesh"
SNAPSHOT_VOLUME = "workflow-snapshot"
CONTEXT_SHOWN = 300
"""Characters of a variable that a node's status shows."""
NO_INJECTOR = (
    "no controller injects it: install Chaos Mesh on this cluster, or a version of it that "
    "has this kind"
)


@dataclass(frozen=True, slots=True)
class ActorClients:
    """Clients that actors use: the API group, the objects of nodes, and the watches on them.

    Shared by all actors of one engine. Requests are retried for a few seconds and then fail, since
    the workflow's other events wait meanwhile.
    """

    family: EngineResources
    node_objects: NodeObjects
    watches: Watches


async def _resource(clients: ActorClients, node: TreeNode) -> Resource:
    """Return the resource of a node's chaos or Schedule; raise NotFound if the cluster has no such
    kind.
    """
    if node.template.type == SCHEDULE:
        return clients.family.schedules
    kind = node.template.chaos_kind
    return await clients.node_objects.api.resource_of(kind.resource.api_version, kind.kind)


async def create_chaos(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    """Create the chaos resource or Schedule, after its watch is established.

    A Schedule is in effect as soon as it exists; chaos reports that by its conditions. A kind that
    the cluster does not serve raises NodeActionError with the remedy.
    """
    try:
        resource = await _resource(clients, node)
    except NotFound as refusal:
        raise NodeActionError(f"{refusal.message}: {NO_INJECTOR}") from None
    await clients.watches.follow(resource)
    if node.template.type == SCHEDULE:
        await clients.node_objects.create(
            resource, tree, node, {"spec": node.template.body["schedule"]}
        )
        return EventType.INJECTED
    await clients.node_objects.create(resource, tree, node, {"spec": node.template.chaos})
    return None


async def delete_chaos(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    """Delete the chaos resource or Schedule; the watch reports when it is gone.

    An object that never existed, or whose kind the cluster does not serve, counts as deleted at
    once.
    """
    try:
        resource = await _resource(clients, node)
    except NotFound:
        return EventType.CLEANED
    is_schedule = node.template.type == SCHEDULE
    if clients.watches.is_synced(resource) or await clients.node_objects.has(resource, tree, node):
        await clients.watches.follow(resource)
        if await clients.node_objects.delete(resource, tree, node, with_dependents=is_schedule):
            return None
    if not is_schedule:
        return EventType.CLEANED
    # The objects of a Schedule that was deleted without its dependents.
    spawned = KINDS.get(type_of({"spec": node.template.body["schedule"]}))
    left = spawned and await clients.node_objects.delete_spawned(spawned.resource, tree, node)
    if not spawned or not left:
        return EventType.CLEANED
    node.last_error = f"{spawned.kind} {left[0]}, which its Schedule has made, still exists"
    return EventType.DELETE_REFUSED


async def find_chaos(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    """Check that the resource of a resumed node exists; raise NodeActionError if it was deleted."""
    resource = await _resource(clients, node)
    await clients.watches.follow(resource)  # reports chaos that is in effect already, too
    if not await clients.node_objects.shows(resource, tree, node):
        raise NodeActionError(OBJECT_LOST_MESSAGE)
    return EventType.INJECTED if node.template.type == SCHEDULE and node.phase == RUNNING else None


async def create_pod(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    """Create the Task's pod, with a snapshot of the workflow as a file in a ConfigMap volume."""
    task = node.template.body["task"]
    await clients.watches.follow(PODS)
    snapshot = {
        key: tree.root.obj[key]
        for key in ("apiVersion", "kind", "metadata", "spec", "status")
        if key in tree.root.obj
    }
    await clients.node_objects.create(
        CONFIG_MAPS, tree, node, {"data": {SNAPSHOT: orjson.dumps(snapshot).decode()}}
    )
    mount = {"name": SNAPSHOT_VOLUME, "mountPath": SNAPSHOT_FOLDER, "readOnly": True}
    container = {
        **task["container"],
        "volumeMounts": [*(task["container"].get("volumeMounts") or ()), mount],
    }
    volume = {"name": SNAPSHOT_VOLUME, "configMap": {"name": node.object_name}}
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [*(task.get("volumes") or ()), volume],
    }
    metadata = {name: task[name] for name in ("labels", "annotations") if task.get(name)}
    await clients.node_objects.create(PODS, tree, node, {"metadata": metadata, "spec": spec})
    return None


async def delete_pod(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    await clients.node_objects.delete(PODS, tree, node)
    return None


async def find_pod(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    if not await clients.node_objects.shows(PODS, tree, node):
        raise NodeActionError("its pod was deleted before it completed")
    return None


async def evaluate_branches(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    """Choose the branches of a Task by the exit code and log of its pod; needs the terminated
    pod.
    """
    from pytest_kscen.workflow.expressions import ExpressionError, select

    pod = await clients.node_objects.api.get(PODS, node.object_name, tree.key.namespace)
    container = node.template.body["task"]["container"]["name"]
    code = exit_code_of(pod, container)
    if code is None:
        reason = (pod.get("status") or {}).get("reason") or "no container has terminated"
        raise NodeActionError(f"its pod has no exit code: {reason}")
    variables: dict[str, object] = {
        "exitCode": code,
        "stdout": await output_of(clients.node_objects.api, pod, container),
    }
    texts = {name: str(value) for name, value in variables.items()}
    node.context = [
        f"{name}: {text[:CONTEXT_SHOWN]}{'…' * (len(text) > CONTEXT_SHOWN)}"
        for name, text in texts.items()
    ]
    node.evaluations, chosen = [], []
    for branch in node.template.branches:
        try:
            is_chosen = select(branch.expression, variables)
        except ExpressionError as error:
            raise NodeActionError(f"the branch to {branch.target!r}: {error}") from None
        node.evaluations.append({"target": branch.target, "evaluationResult": str(is_chosen)})
        chosen += [branch.target] * is_chosen
    node.chosen = chosen
    return None


async def create_check(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    """Create the StatusCheck. A continuous one takes the deadline as its own duration."""
    await clients.watches.follow(clients.family.status_checks)
    body = dict(node.template.body["statusCheck"])
    if node.template.deadline is not None and not needs_result(node.template):
        body.setdefault("duration", f"{node.template.deadline:g}s")
    await clients.node_objects.create(clients.family.status_checks, tree, node, {"spec": body})
    return None


async def find_check(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    if not await clients.node_objects.shows(clients.family.status_checks, tree, node):
        raise NodeActionError("its StatusCheck was deleted, and not by the engine")
    return None


async def delete_check(clients: ActorClients, tree: Tree, node: TreeNode) -> EventType | None:
    await clients.node_objects.delete(clients.family.status_checks, tree, node)
    return None


async def abort_workflow(
    clients: ActorClients,
    tree: Tree,
    node: TreeNode,  # noqa: ARG001  # the signature of actors
) -> EventType | None:
    """Set the abort annotation of the workflow, as a user would."""
    patch = {"metadata": {"annotations": {ABORT: "true"}}}
    tree.root.obj = await clients.node_objects.api.patch(
        clients.family.workflows, tree.key.name, patch, tree.key.namespace
    )
    return None


ACTORS: dict[NodeAction, Callable[[ActorClients, Tree, TreeNode], Awaitable[EventType | None]]] = {
    NodeAction.CREATE_CHAOS: create_chaos,
    NodeAction.DELETE_CHAOS: delete_chaos,
    NodeAction.CONFIRM_DELETED: delete_chaos,
    NodeAction.FIND_CHAOS: find_chaos,
    NodeAction.CREATE_POD: create_pod,
    NodeAction.FIND_POD: find_pod,
    NodeAction.DELETE_POD: delete_pod,
    NodeAction.EVALUATE: evaluate_branches,
    NodeAction.CREATE_CHECK: create_check,
    NodeAction.FIND_CHECK: find_check,
    NodeAction.DELETE_CHECK: delete_check,
    NodeAction.ABORT_WORKFLOW: abort_workflow,
}
SAVE_BEFORE = frozenset(ACTORS) - {
    NodeAction.EVALUATE,
    NodeAction.FIND_CHAOS,
    NodeAction.FIND_POD,
    NodeAction.FIND_CHECK,
}
"""Actions before which the node's status is saved, so that a restarted engine finds them."""
CREATING_ACTIONS = frozenset(
    {NodeAction.CREATE_CHAOS, NodeAction.CREATE_POD, NodeAction.CREATE_CHECK}
)
"""Actions that are not carried out unless that status was written."""
DELETING_ACTIONS = frozenset(
    {
        NodeAction.DELETE_CHAOS,
        NodeAction.CONFIRM_DELETED,
        NodeAction.DELETE_POD,
        NodeAction.DELETE_CHECK,
    }
)


class NodeObjects:
    """Objects of nodes on the cluster: create, find and delete them by the attempt's object name.

    Every call is idempotent, and leaves objects of others alone, even under the same name.
    """

    def __init__(self, actor: Actor) -> None:
        self.api = actor.api
        self.clock = actor.clock

    async def create(self, resource: Resource, tree: Tree, node: TreeNode, body: Obj) -> Obj:
        """Create an object with the node as owner; return the existing one if an earlier call
        created it.
        """
        labels = {**((body.get("metadata") or {}).get("labels") or {}), **node_labels(tree, node)}
        metadata = {
            **(body.get("metadata") or {}),
            "name": node.object_name,
            "namespace": tree.key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(node.obj)],
        }
        obj = {
            **body,
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
        }
        try:
            return await self.api.create(resource, obj)
        except AlreadyExists:
            if found := await self._find(resource, tree, node):
                return found
            raise

    async def delete(
        self, resource: Resource, tree: Tree, node: TreeNode, *, with_dependents: bool = False
    ) -> bool:
        """Delete the node's object; return False if it does not exist or belongs to another owner.

        Labels that were removed are restored first: watches select by them, and must see the
        deletion.
        """
        found = await self._find(resource, tree, node)
        if found is None:
            return False
        options = {
            "precondition_uid": found["metadata"]["uid"],
            "propagation": "Foreground" if with_dependents else "Background",
        }
        try:
            if not _is_marked(found, tree, node):
                await self.api.patch(
                    resource,
                    node.object_name,
                    {"metadata": {"labels": node_labels(tree, node)}},
                    tree.key.namespace,
                )
            await self.api.delete(resource, node.object_name, tree.key.namespace, **options)
        except (NotFound, Conflict):
            return False
        return True

    async def delete_spawned(self, resource: Resource, tree: Tree, node: TreeNode) -> list[str]:
        """Delete the objects that a node's Schedule has spawned; return the names of those still
        there.

        Objects with another owner are kept.
        """
        spawned = await self.api.list(
            resource, tree.key.namespace, labels=f"{MANAGED_BY}={node.object_name}"
        )
        owned = (
            (obj["metadata"], obj["metadata"].get("ownerReferences") or ()) for obj in spawned.items
        )
        left = [
            metadata
            for metadata, owners in owned
            if all(owner["name"] == node.object_name for owner in owners)
        ]
        for metadata in left:
            with contextlib.suppress(NotFound, Conflict):
                await self.api.delete(
                    resource, metadata["name"], tree.key.namespace, precondition_uid=metadata["uid"]
                )
        return [metadata["name"] for metadata in left]

    async def has(self, resource: Resource, tree: Tree, node: TreeNode) -> bool:
        return await self._find(resource, tree, node) is not None

    async def shows(self, resource: Resource, tree: Tree, node: TreeNode) -> bool:
        """Return whether the object exists with its labels, so that watches report its changes."""
        found = await self._find(resource, tree, node)
        return found is not None and _is_marked(found, tree, node)

    async def _find(self, resource: Resource, tree: Tree, node: TreeNode) -> Obj | None:
        """Return the object that the node has created, None if there is none.

        The attempt of a lost node is unknown: it is derived from the names of its objects.
        """
        if node.is_lost:
            created = await self.api.list(
                resource, tree.key.namespace, labels=f"{NODE_LABEL}={node.name}"
            )
            suffixes = [
                obj["metadata"]["name"].removeprefix(f"{node.name}-") for obj in created.items
            ]
            node.attempt = max((int(text) for text in suffixes if text.isdecimal()), default=1)
        try:
            found = await self.api.get(resource, node.object_name, tree.key.namespace)
        except NotFound:
            return None
        metadata = found["metadata"]
        owners, labels = metadata.get("ownerReferences") or (), metadata.get("labels") or {}
        if any(owner["uid"] == node.obj["metadata"]["uid"] for owner in owners):
            return found
        # Without an owner reference, labels of this node alone count.
        expected = {(WORKFLOW_LABEL, tree.key.name), (NODE_LABEL, node.name)}
        present = {(label, labels[label]) for label, _ in expected if label in labels}
        is_labelled = bool(present) and present <= expected
        return (
            found if is_labelled and all(owner["name"] == node.name for owner in owners) else None
        )


def _is_marked(obj: Obj, tree: Tree, node: TreeNode) -> bool:
    return node_labels(tree, node).items() <= (obj["metadata"].get("labels") or {}).items()


def node_labels(tree: Tree, node: TreeNode) -> dict[str, str]:
    return {WORKFLOW_LABEL: tree.key.name, NODE_LABEL: node.name, **run_label(tree)}
