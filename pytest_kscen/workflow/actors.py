"""The actors: each does one thing to the world for a node, on the playground, and says what has happened to it by that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS
from pytest_kscen.objects.workflows import ABORT, RUNNING, SCHEDULE
from pytest_kscen.workflow.events import Happening, Impossible
from pytest_kscen.workflow.output import exit_code_of, written_by
from pytest_kscen.workflow.schedules.jobs import type_of
from pytest_kscen.workflow.tables.machine import Act
from pytest_kscen.workflow.trees import needs_result
from pytest_kscen.workflow.watches import NOT_SEEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kscen.objects.resources import Resource
    from pytest_kscen.objects.workflows import Family
    from pytest_kscen.workflow.playground import Playground
    from pytest_kscen.workflow.trees import Node, Tree
    from pytest_kscen.workflow.watches import Watches

SNAPSHOT, SNAPSHOT_FOLDER = "workflow.json", "/var/run/chaos-mesh"
SNAPSHOT_VOLUME = "workflow-snapshot"
CONTEXT_SHOWN = 300
"""Characters of a variable that a node's status shows."""
NOBODY_INJECTS = "nobody is there to inject it: install Chaos Mesh on this cluster, or another version of it if that is there"


@dataclass(frozen=True, slots=True)
class Hands:
    """What actors work with."""

    family: Family
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
        await hands.playground.create(resource, tree, node, {"spec": node.template.body["schedule"]})
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
    await hands.watches.follow(resource)  # or it is not heard in time that it is in effect since long
    if not await hands.playground.shows(resource, tree, node):
        raise Impossible(NOT_SEEN)
    return Happening.INJECTED if node.template.type == SCHEDULE and node.phase == RUNNING else None


async def run_pod(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """With a picture of the workflow, as it is now, in a file."""
    task = node.template.body["task"]
    await hands.watches.follow(PODS)
    snapshot = {key: tree.root.obj[key] for key in ("apiVersion", "kind", "metadata", "spec", "status") if key in tree.root.obj}
    await hands.playground.create(CONFIG_MAPS, tree, node, {"data": {SNAPSHOT: orjson.dumps(snapshot).decode()}})
    mount = {"name": SNAPSHOT_VOLUME, "mountPath": SNAPSHOT_FOLDER, "readOnly": True}
    container = {**task["container"], "volumeMounts": [*(task["container"].get("volumeMounts") or ()), mount]}
    volume = {"name": SNAPSHOT_VOLUME, "configMap": {"name": node.made}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [*(task.get("volumes") or ()), volume]}
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

    variables = await _context(hands, tree, node)
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


async def _context(hands: Hands, tree: Tree, node: Node) -> dict[str, object]:
    """What expressions may speak of."""
    pod = await hands.playground.api.get(PODS, node.made, tree.key.namespace)
    container = node.template.body["task"]["container"]["name"]
    code = exit_code_of(pod, container)
    if code is None:
        reason = (pod.get("status") or {}).get("reason") or "no container has come to an end"
        raise Impossible(f"its pod has no exit code: {reason}")
    return {"exitCode": code, "stdout": await written_by(hands.playground.api, pod, container)}


def _shown(value: object) -> str:
    words = str(value)
    return words if len(words) <= CONTEXT_SHOWN else f"{words[:CONTEXT_SHOWN]}…"


async def create_check(hands: Hands, tree: Tree, node: Node) -> Happening | None:
    """One that goes on until its time is over is told when that is; one that has to hold before is cut off then."""
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


async def abort_workflow(hands: Hands, tree: Tree, node: Node) -> Happening | None:  # noqa: ARG001  # whichever node it was
    """As a person would."""
    patch = {"metadata": {"annotations": {ABORT: "true"}}}
    tree.root.obj = await hands.playground.api.patch(hands.family.workflows, tree.key.name, patch, tree.key.namespace)
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
