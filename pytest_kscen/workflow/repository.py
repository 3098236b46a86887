"""What the engine knows is in the API: trees are read from there, and every change of a node is written there first thing.

A node's name follows from its place in the tree, so that a node that was made before the engine was cut off is found again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.workflows import (
    ABORTED,
    ACCOMPLISHED,
    CHAOS_INJECTED,
    DEADLINE_EXCEED,
    INIT,
    SCHEDULED,
    STATUS_CHECK,
    WORKFLOW_LABEL,
    phase_of,
)
from pytest_kscen.workflow.events import Happening, Key
from pytest_kscen.workflow.probes import score_of
from pytest_kscen.workflow.templates import Definition, Template
from pytest_kscen.workflow.trees import ROOT, Node, Tree

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.objects.workflows import Family

NAME_LENGTH, SUFFIX = 57, 5
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as in Kubernetes' generated names
FROM_TEMPLATE = ("task", "children", "conditionalBranches", "schedule", "statusCheck", "abortWithStatusCheck", "retry", "probes")


class Repository:
    """One engine's."""

    def __init__(self, actor: Actor, family: Family) -> None:
        self.family = family
        self.trees: dict[Key, Tree] = {}
        self._actor = actor

    # --- trees ---

    def plant(self, workflow: Obj) -> Tree:
        """The tree of a workflow that nobody knew; its nodes are added when they are read or made."""
        key = key_of(workflow)
        definition = Definition.of(workflow["spec"])
        started = (workflow.get("status") or {}).get("startTime")
        root = Node(ROOT, Template(ROOT, "Workflow", {}), None, epoch_of(started) if started else self._actor.clock.now(), workflow)
        root.phase = phase_of(workflow)
        self.trees[key] = Tree(key, definition, root)
        return self.trees[key]

    def graft(self, tree: Tree, obj: Obj) -> Node:
        """Put a node, as the API has it, in its place."""
        spec, status = obj["spec"], obj.get("status") or {}
        engine = status.get("engine") or {}
        parent = obj["metadata"]["annotations"][PARENT]
        node = Node(
            obj["metadata"]["name"], tree.definition.templates[spec["templateName"]], parent, epoch_of(spec["startTime"]), obj
        )
        node.phase = phase_of(obj)
        node.attempt = engine.get("attempt", 1)
        node.ending = Happening(engine["ending"]) if "ending" in engine else None
        node.is_cleaning = engine.get("cleaning", False)
        node.held_until = epoch_of(engine["heldUntil"]) if "heldUntil" in engine else None
        node.children = [*engine.get("children", ())]
        node.chosen = engine.get("chosen")
        node.message = status.get("message", "")
        branches = status.get("conditionalBranchesStatus") or {}
        node.evaluations, node.context = branches.get("branches", []), branches.get("context", [])
        node.ended = epoch_of(status["endTime"]) if "endTime" in status else None
        tree.nodes[node.name] = node
        return node

    # --- writing ---

    async def make(self, tree: Tree, parent: Node, template: Template) -> Node:
        """The next child of a node."""
        name = _name(tree, parent, template, len(parent.children))
        node = tree.nodes.get(name)
        if node is None:
            obj = self._node_object(tree, parent, template, name)
            try:
                made = await self._actor.api.create(self.family.nodes, obj)
            except AlreadyExists:
                made = await self._actor.api.get(self.family.nodes, name, tree.key.namespace)
            node = self.graft(tree, made)
        parent.children.append(name)
        return node

    def _node_object(self, tree: Tree, parent: Node, template: Template, name: str) -> Obj:
        now = self._actor.clock.now()
        owner = parent.obj
        spec = {
            "templateName": template.name,
            "workflowName": tree.key.name,
            "type": template.type,
            "startTime": timestamp_of(now, micro=True),
            **{key: template.body[key] for key in FROM_TEMPLATE if template.body.get(key)},
        }
        if template.deadline is not None:
            spec["deadline"] = timestamp_of(now + template.deadline, micro=True)
        if template.is_chaos:
            spec[template.chaos_kind.key] = template.chaos
        return {
            "apiVersion": self.family.nodes.api_version,
            "kind": self.family.nodes.kind,
            "metadata": {
                "name": name,
                "namespace": tree.key.namespace,
                "labels": {WORKFLOW_LABEL: tree.key.name, **run_label(tree)},
                "annotations": {PARENT: parent.name},
                "ownerReferences": [owner_reference(owner)],
            },
            "spec": spec,
        }

    async def save(self, tree: Tree, node: Node) -> None:
        """What has become of a node."""
        is_root = node.name == ROOT
        status = self._root_status(tree) if is_root else self._status(tree, node)
        resource = self.family.workflows if is_root else self.family.nodes
        name = tree.key.name if is_root else node.name
        node.obj = await self._actor.api.patch(resource, name, {"status": status}, tree.key.namespace, subresource="status")

    def _root_status(self, tree: Tree) -> Obj:
        root = tree.root
        status: Obj = {
            "phase": root.phase,
            "startTime": timestamp_of(root.started),
            "conditions": [
                _condition(SCHEDULED, holds=root.phase != INIT, reason=""),
                _condition(ACCOMPLISHED, holds=root.is_over, reason=root.phase if root.is_over else ""),
            ],
        }
        if root.children:
            status["entryNode"] = root.children[0]
        if root.message:
            status["message"] = root.message
        if root.probes:
            status["probes"] = root.probes
            status["resilienceScore"] = score_of(root.probes)
        if root.ended is not None:
            status["endTime"] = timestamp_of(root.ended)
        return status

    def _status(self, tree: Tree, node: Node) -> Obj:
        status: Obj = {"phase": node.phase, "conditions": _conditions(node), "engine": _engine(node)}
        if node.message:
            status["message"] = node.message
        if node.children:
            children = tree.children(node)
            status["activeChildren"] = [{"name": child.name} for child in children if not child.is_over]
            status["finishedChildren"] = [{"name": child.name} for child in children if child.is_over]
        if node.chosen is not None:
            status["conditionalBranchesStatus"] = {"branches": node.evaluations, "context": node.context}
        if node.template.is_chaos:
            made = node.template.chaos_kind.resource
            status["chaosResource"] = {"apiGroup": made.group, "kind": made.kind, "name": node.name}
        if node.probes:
            status["probes"] = node.probes
        if node.ended is not None:
            status["endTime"] = timestamp_of(node.ended, micro=True)
        return status


PARENT = "workflow.kscen.io/parent"
"""The annotation that tells of a node whose child it is."""


def key_of(workflow: Obj) -> Key:
    return Key(workflow["metadata"].get("namespace", ""), workflow["metadata"]["name"])


def owner_reference(owner: Obj) -> Obj:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def run_label(tree: Tree) -> dict[str, str]:
    """What is made for a workflow of a run is the run's."""
    labels = tree.root.obj["metadata"].get("labels") or {}
    return {RUN_LABEL: labels[RUN_LABEL]} if RUN_LABEL in labels else {}


def _name(tree: Tree, parent: Node, template: Template, index: int) -> str:
    """The template's name and what its place in the tree makes of it."""
    place = f"{tree.root.obj['metadata']['uid']}/{parent.name}/{parent.attempt}/{index}"
    digest = int.from_bytes(hashlib.sha256(place.encode()).digest())
    suffix = "".join(ALPHABET[digest // len(ALPHABET) ** power % len(ALPHABET)] for power in range(SUFFIX))
    return f"{template.name[:NAME_LENGTH].rstrip('-.')}-{suffix}"


def _conditions(node: Node) -> list[Obj]:
    by_time = node.ending if node.ending in (Happening.DEADLINE, Happening.PARENT_DEADLINE) else None
    was_held = node.held_until is not None and node.template.type != STATUS_CHECK
    conditions = [_condition(ACCOMPLISHED, holds=node.is_over, reason=node.phase if node.is_over else "")]
    conditions.append(_condition(DEADLINE_EXCEED, holds=by_time is not None, reason=by_time.value if by_time else ""))
    if node.template.is_chaos:
        conditions.append(_condition(CHAOS_INJECTED, holds=was_held, reason=""))
    if node.ending is Happening.ABORTED:
        conditions.append(_condition(ABORTED, holds=True, reason=Happening.ABORTED.value))
    return conditions


def _condition(type_: str, *, holds: bool, reason: str) -> Obj:
    return {"type": type_, "status": "True" if holds else "False", "reason": reason}


def _engine(node: Node) -> Obj:
    """What only the engine needs, to go on after it was cut off."""
    known: dict[str, Any] = {
        "attempt": node.attempt if node.attempt > 1 else None,
        "ending": node.ending.value if node.ending else None,
        "cleaning": node.is_cleaning or None,
        "heldUntil": None if node.held_until is None else timestamp_of(node.held_until, micro=True),
        "children": node.children or None,
        "chosen": node.chosen,
    }
    return {name: value for name, value in known.items() if value is not None}
