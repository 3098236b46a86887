"""Actions of nodes on the cluster: create, find and delete chaos, pods and checks.

Each is idempotent.
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
from pytest_kscen.workflow.container_output import exit_code_of, written_by
from pytest_kscen.workflow.engine.repository import run_label
from pytest_kscen.workflow.engine.trees import needs_result
from pytest_kscen.workflow.engine.triggers import NOT_SEEN
from pytest_kscen.workflow.schedule_jobs import type_of
from pytest_kscen.workflow.tables.machine import Act, Happening, Impossible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.workflow.engine.trees import Node, Tree
    from pytest_kscen.workflow.engine.triggers import Watches


SNAPSHOT, SNAPSHOT_FOLDER = "workflow.json", "/var/run/chaos-mesh"
SNAPSHOT_VOLUME = "workflow-snapshot"
CONTEXT_SHOWN = 300
"""Characters of a variable that a node's status shows."""
NOBODY_INJECTS = (
    "nobody is there to inject it: install Chaos Mesh on this cluster, or another version of "
    "it if that is there"
)


@dataclass(frozen=True, slots=True)
class Hands:
    """What actors work with."""

    family: EngineResources
    playground: Playground
    watches: Watches


async def _resource(hands: Hands, node: Node) -> Resource:
    """Of which resource the object is that a node makes."""
    if node.template.type == SCHEDULE:
        return hands.family.schedules
    kind = node.template.chaos_kind
    return await hands.playground.api.resource_of(kind.resource.api_version, kind.kind)


async def create_chaos(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """A Schedule is in effect as soon as it is there; chaos says so itself."""
    try:
        resource = await _resource(hands, node)
    except NotFound as refusal:
        raise Impossible(f"{refusal.message}: {NOBODY_INJECTS}") from None
    await hands.watches.follow(resource)
    if node.template.type == SCHEDULE:
        await hands.playground.create(
            resource, tree, node, {"spec": node.template.body["schedule"]}
        )
        return Happening.INJECTED
    await hands.playground.create(resource, tree, node, {"spec": node.template.chaos})
    return None


async def delete_chaos(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """What was never made, or cannot be, as its kind is unknown, is as good as gone."""
    try:
        resource = await _resource(hands, node)
    except NotFound:
        return Happening.CLEANED
    is_schedule = node.template.type == SCHEDULE
    if hands.watches.sees(resource) or await hands.playground.has(resource, tree, node):
        await hands.watches.follow(resource)
        if await hands.playground.delete(resource, tree, node, with_dependents=is_schedule):
            return None
    return await _delete_orphans(hands, tree, node) if is_schedule else Happening.CLEANED


async def _delete_orphans(hands: Hands, tree: Tree, node: Node) -> Happening:
    """What a Schedule has spawned that somebody has deleted without it."""
    kind = KINDS.get(type_of({"spec": node.template.body["schedule"]}))
    if kind is None:
        return Happening.CLEANED
    left = await hands.playground.delete_spawned(kind.resource, tree, node)
    if not left:
        return Happening.CLEANED
    node.trouble = f"{kind.kind} {left[0]}, which its Schedule has made, is still there"
    return Happening.NOT_REMOVED


async def find_chaos(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """A Schedule is in effect by that, as when it was made."""
    resource = await _resource(hands, node)
    await hands.watches.follow(
        resource
    )  # or it is not heard in time that it is in effect since long
    if not await hands.playground.shows(resource, tree, node):
        raise Impossible(NOT_SEEN)
    return Happening.INJECTED if node.template.type == SCHEDULE and node.phase == RUNNING else None


async def run_pod(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """With a picture of the workflow, as it is now, in a file."""
    task = node.template.body["task"]
    await hands.watches.follow(PODS)
    snapshot = {
        key: tree.root.obj[key]
        for key in ("apiVersion", "kind", "metadata", "spec", "status")
        if key in tree.root.obj
    }
    await hands.playground.create(
        CONFIG_MAPS, tree, node, {"data": {SNAPSHOT: orjson.dumps(snapshot).decode()}}
    )
    mount = {"name": SNAPSHOT_VOLUME, "mountPath": SNAPSHOT_FOLDER, "readOnly": True}
    container = {
        **task["container"],
        "volumeMounts": [*(task["container"].get("volumeMounts") or ()), mount],
    }
    volume = {"name": SNAPSHOT_VOLUME, "configMap": {"name": node.made}}
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [*(task.get("volumes") or ()), volume],
    }
    metadata = {name: task[name] for name in ("labels", "annotations") if task.get(name)}
    await hands.playground.create(PODS, tree, node, {"metadata": metadata, "spec": spec})
    return None


async def end_pod(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    await hands.playground.delete(PODS, tree, node)
    return None


async def find_pod(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    if not await hands.playground.shows(PODS, tree, node):
        raise Impossible("its pod has vanished before it came to its end")
    return None


async def evaluate(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """Which branches are chosen by what the pod has come to."""
    from pytest_kscen.workflow.expressions import ExpressionError, select

    # What expressions may speak of.
    pod = await hands.playground.api.get(PODS, node.made, tree.key.namespace)
    container = node.template.body["task"]["container"]["name"]
    code = exit_code_of(pod, container)
    if code is None:
        reason = (pod.get("status") or {}).get("reason") or "no container has come to an end"
        raise Impossible(f"its pod has no exit code: {reason}")
    variables: dict[str, object] = {
        "exitCode": code,
        "stdout": await written_by(hands.playground.api, pod, container),
    }
    node.context = [f"{name}: {_shown(value)}" for name, value in variables.items()]
    node.evaluations, chosen = [], []
    for branch in node.template.branches:
        try:
            is_chosen = select(branch.expression, variables)
        except ExpressionError as error:
            raise Impossible(f"the branch to {branch.target!r}: {error}") from None
        node.evaluations.append({"target": branch.target, "evaluationResult": str(is_chosen)})
        chosen += [branch.target] * is_chosen
    node.chosen = chosen
    return None


def _shown(value: object) -> str:
    words = str(value)
    return words if len(words) <= CONTEXT_SHOWN else f"{words[:CONTEXT_SHOWN]}…"


async def create_check(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """One that goes on until its time is over is told when that is; one that has to hold before
    is cut off then.
    """
    await hands.watches.follow(hands.family.status_checks)
    body = dict(node.template.body["statusCheck"])
    if node.template.deadline is not None and not needs_result(node.template):
        body.setdefault("duration", f"{node.template.deadline:g}s")
    await hands.playground.create(hands.family.status_checks, tree, node, {"spec": body})
    return None


async def find_check(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    if not await hands.playground.shows(hands.family.status_checks, tree, node):
        raise Impossible("its status check is gone, and the engine has not removed it")
    return None


async def delete_check(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    await hands.playground.delete(hands.family.status_checks, tree, node)
    return None


# whichever node it was
async def abort_workflow(hands: Hands, tree: Tree, node: Node) -> Happening | None:  # noqa: ARG001
    """As a person would."""
    patch = {"metadata": {"annotations": {ABORT: "true"}}}
    tree.root.obj = await hands.playground.api.patch(
        hands.family.workflows, tree.key.name, patch, tree.key.namespace
    )
    return None


ACTORS: dict[Act, Callable[[Hands, Tree, Node], Awaitable[Happening | None]]] = {
    Act.CREATE_CHAOS: create_chaos,
    Act.DELETE_CHAOS: delete_chaos,
    Act.SEE_CHAOS_GONE: delete_chaos,
    Act.FIND_CHAOS: find_chaos,
    Act.RUN_POD: run_pod,
    Act.FIND_POD: find_pod,
    Act.END_POD: end_pod,
    Act.EVALUATE: evaluate,
    Act.CREATE_CHECK: create_check,
    Act.FIND_CHECK: find_check,
    Act.DELETE_CHECK: delete_check,
    Act.ABORT_WORKFLOW: abort_workflow,
}
OUTWARD = frozenset(ACTORS) - {Act.EVALUATE, Act.FIND_CHAOS, Act.FIND_POD, Act.FIND_CHECK}
"""Before these the API knows of the node what they are a part of."""
BEGINNING = frozenset({Act.CREATE_CHAOS, Act.RUN_POD, Act.CREATE_CHECK})
"""These wait for that; what ends something does not."""
REMOVING = frozenset({Act.DELETE_CHAOS, Act.SEE_CHAOS_GONE, Act.END_POD, Act.DELETE_CHECK})


# The playground: where actors do to the world what a node is about. Whatever is done twice has
# happened once.


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
        self, resource: Resource, tree: Tree, node: Node, *, with_dependents: bool = False
    ) -> bool:
        """Whether it was still there; what is somebody else's is not touched. It may have to
        outlast what it has made itself.

        Without its labels nobody would see it go: it gets them back.
        """
        found = await self._find(resource, tree, node)
        if found is None:
            return False
        how = {
            "precondition_uid": found["metadata"]["uid"],
            "propagation": "Foreground" if with_dependents else "Background",
        }
        try:
            if not _is_marked(found, tree, node):
                await self.api.patch(
                    resource,
                    node.made,
                    {"metadata": {"labels": marks(tree, node)}},
                    tree.key.namespace,
                )
            await self.api.delete(resource, node.made, tree.key.namespace, **how)
        except (NotFound, Conflict):
            return False
        return True

    async def delete_spawned(self, resource: Resource, tree: Tree, node: Node) -> list[str]:
        """The names of what the node's Schedule has spawned and nobody else owns, as far as it
        was still there.
        """
        spawned = await self.api.list(
            resource, tree.key.namespace, labels=f"{MANAGED_BY}={node.made}"
        )
        owned = (
            (obj["metadata"], obj["metadata"].get("ownerReferences") or ()) for obj in spawned.items
        )
        left = [
            metadata
            for metadata, owners in owned
            if all(owner["name"] == node.made for owner in owners)
        ]
        for metadata in left:
            with contextlib.suppress(NotFound, Conflict):
                await self.api.delete(
                    resource, metadata["name"], tree.key.namespace, precondition_uid=metadata["uid"]
                )
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
            # In which attempt it was, by what it has made last.
            made = await self.api.list(
                resource, tree.key.namespace, labels=f"{NODE_LABEL}={node.name}"
            )
            ends = [each["metadata"]["name"].removeprefix(f"{node.name}-") for each in made.items]
            node.attempt = max((int(end) for end in ends if end.isdecimal()), default=1)
        try:
            found = await self.api.get(resource, node.made, tree.key.namespace)
        except NotFound:
            return None
        return found if _is_made_by(found, tree, node) else None


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
