"""Trees of running workflows, and their WorkflowNodes in the API.

Called by the manager (which adds and restores trees) and by `transitions` (which creates nodes and
saves statuses). Writes are refused after `PATIENCE` seconds, since every other event of the
workflow waits meanwhile; `pending_writes` retries them.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.clock import epoch_of, timestamp_of
from pytest_kscen.kube.actor import RUN_LABEL
from pytest_kscen.kube.api import JSON_PATCH
from pytest_kscen.objects.chaos_mesh import (
    ABORTED,
    CHAOS_INJECTED,
    CHAOS_LEFT,
    HOLDING,
    INIT,
    NODE_PHASES,
    OVER,
    PARALLEL,
    RUNNING,
    SERIAL,
    SUCCEED,
    SUSPEND,
    TASK,
    WAITING_FOR_CHILD,
    WORKFLOW_LABEL,
    phase_of,
)
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import AlreadyExists, Invalid, NotFound, not_found
from pytest_kscen.objects.resources import owner_reference
from pytest_kscen.workflow.engine.statuses import (
    CHILDREN,
    MALFORMED,
    UNTIL,
    UNWRITTEN_ANNOTATION,
    checked_phase,
    current_status,
    read_with_notes,
    unwritten_note,
)
from pytest_kscen.workflow.engine.templates import Definition, Retry, Template
from pytest_kscen.workflow.engine.trees import ROOT, Tree, TreeNode
from pytest_kscen.workflow.tables.machine import EventType, WorkflowKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj


NAME_LENGTH, SUFFIX = 54, 5
PATIENCE = 5.0
"""Seconds for which a refused status is retried at once; the workflow's other events wait
meanwhile.
"""
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as in Kubernetes' generated names
TEMPLATE_FIELDS_COPIED = (
    "task",
    "children",
    "conditionalBranches",
    "schedule",
    "statusCheck",
    "abortWithStatusCheck",
    "retry",
    "probes",
)


class Repository:
    """Trees of one engine by workflow, and the reads and writes of their statuses.

    Reads come from the manager's watches. Writes are patches, and none is sent if nothing has
    changed. A status that is refused raises ApiError, which `pending_writes` handles.
    """

    def __init__(self, actor: Actor, family: EngineResources) -> None:
        self.family = family
        self.trees: dict[WorkflowKey, Tree] = {}
        self._actor = actor
        self._impatient_api = actor.with_retry_time(PATIENCE).api

    # --- trees ---

    def add_tree(self, workflow: Obj) -> Tree:
        """Add the tree of a workflow; its nodes are added when they are read or created."""
        root = read_with_notes(workflow, self._read_root)
        tree = self.trees[workflow_key(workflow)] = Tree(
            workflow_key(workflow), Definition("", {}), root
        )
        return tree

    def _read_root(self, workflow: Obj, status: Obj) -> TreeNode:
        started = (
            epoch_of(status["startTime"]) if "startTime" in status else self._actor.clock.now()
        )
        root = TreeNode(ROOT, Template(ROOT, "Workflow", {}), None, started, workflow)
        root.phase = checked_phase(phase_of({"status": status}), (INIT, RUNNING, *OVER))
        root.ending = EventType.ABORTED if is_true(workflow, ABORTED) else None
        engine = status.get("engine") or {}
        root.message = (
            engine.get("message", "") if "hindrance" in engine else status.get("message", "")
        )
        root.is_unsaved = "hindrance" in engine  # the hindrance is gone, or will be met again
        root.noted_at = engine.get("noted", "")
        if ending := engine.get("ending"):
            root.ending = EventType(ending)
        root.children = [name for name in (status.get("entryNode"), engine.get("exitNode")) if name]
        return root

    def orphan_tree(self, key: WorkflowKey) -> Tree:
        """Return a tree for nodes whose workflow is deleted; it is not registered under its
        name.
        """
        gone = {"metadata": {"name": key.name, "namespace": key.namespace}}
        return Tree(
            key,
            Definition("", {}),
            TreeNode(ROOT, Template(ROOT, "Workflow", {}), None, self._actor.clock.now(), gone),
        )

    def forget(self, tree: Tree) -> None:
        if self.is_current(tree):
            del self.trees[tree.key]
            if not tree.root.is_over:
                self._actor.note(
                    "workflow-gone", workflow=tree.key.name, namespace=tree.key.namespace
                )

    def is_current(self, tree: Tree) -> bool:
        """Return True if the tree is the registered tree of its name."""
        return self.trees.get(tree.key) is tree

    def add_node(self, tree: Tree, obj: Obj, template: Template | None = None) -> TreeNode:
        """Add a node from its object. Without a template, the template of its spec is used."""
        node = read_with_notes(obj, lambda obj, status: _read_node(obj, status, template))
        tree.nodes[node.name] = node
        return node

    # --- writing ---

    async def make(self, tree: Tree, parent: TreeNode, template: Template) -> TreeNode:
        """Create the next child of a node, and add it.

        The name is derived from the workflow's uid and the child's place, so a restarted engine
        finds the child that was already created. A name that is taken leads to the next draw.
        """
        for draw in itertools.count():
            uid = tree.root.obj["metadata"]["uid"]
            place = f"{uid}/{parent.name}/{parent.attempt}/{len(parent.children)}/{draw}"
            digest = int.from_bytes(hashlib.sha256(place.encode()).digest())
            suffix = "".join(
                ALPHABET[digest // len(ALPHABET) ** power % len(ALPHABET)]
                for power in range(SUFFIX)
            )
            name = f"{name_prefix(template)}-{suffix}"
            node = tree.nodes.get(name) or await self._create_or_get(tree, parent, template, name)
            if node and node.parent == parent.name and name not in parent.children:
                parent.children.append(node.name)
                return node
        raise AssertionError

    async def _create_or_get(
        self, tree: Tree, parent: TreeNode, template: Template, name: str
    ) -> TreeNode | None:
        """Return the node of this name, created or found; None if the name belongs to another
        owner.
        """
        now = self._actor.clock.now()
        spec = {
            "templateName": template.name,
            "workflowName": tree.key.name,
            "type": template.type,
            "startTime": timestamp_of(now, micro=True),
            **{key: template.body[key] for key in TEMPLATE_FIELDS_COPIED if template.body.get(key)},
        }
        if template.deadline is not None:
            spec["deadline"] = timestamp_of(now + template.deadline, micro=True)
        if template.is_chaos:
            spec[template.chaos_kind.key] = template.chaos
        obj = {
            "apiVersion": self.family.nodes.api_version,
            "kind": self.family.nodes.kind,
            "metadata": {
                "name": name,
                "namespace": tree.key.namespace,
                "labels": {WORKFLOW_LABEL: tree.key.name, **run_label(tree)},
                "annotations": {PARENT_ANNOTATION: parent.name},
                "ownerReferences": [owner_reference(parent.obj)],
            },
            "spec": spec,
        }
        try:
            made = await self._actor.api.create(self.family.nodes, obj)
        except AlreadyExists:
            try:
                made = await self._actor.api.get(self.family.nodes, name, tree.key.namespace)
            except NotFound:
                return None
            if not is_owned(made, parent.obj):
                return None
        return self.add_node(tree, made, template)

    async def save(self, tree: Tree, node: TreeNode) -> None:
        """Patch the changed fields of the node's status, or of the workflow's for the root.

        Raise NotFound if the object is gone, or if another workflow has the name by now.
        """
        api, name, namespace = self._impatient_api, tree.key.name, tree.key.namespace
        before = node.obj.get("status") or {}
        status = current_status(tree, node)
        changed = {field: value for field, value in status.items() if before.get(field) != value}
        if not changed:
            return
        if node.name != ROOT:
            patch = {"status": changed}
            node.obj = await api.patch(
                self.family.nodes, node.name, patch, namespace, subresource="status"
            )
            return
        uid = node.obj["metadata"]["uid"]
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": {**before, **changed}},
        ]
        resource = self.family.workflows
        try:
            node.obj = await api.patch(
                resource, name, operations, namespace, subresource="status", patch_type=JSON_PATCH
            )
        except Invalid:
            if (await api.get(resource, name, namespace))["metadata"]["uid"] != uid:
                raise not_found(resource, name) from None
            raise

    async def note(self, tree: Tree, node: TreeNode, *, is_written: bool) -> None:
        """Store a refused status in an annotation; remove the annotation if `is_written`."""
        resource = self.family.workflows if node.name == ROOT else self.family.nodes
        node.noted_at = (
            node.noted_at if is_written else timestamp_of(self._actor.clock.now(), micro=True)
        )
        noted_at = None if is_written else unwritten_note(tree, node)
        patch = {"metadata": {"annotations": {UNWRITTEN_ANNOTATION: noted_at}}}
        await self._impatient_api.patch(
            resource, node.obj["metadata"]["name"], patch, tree.key.namespace
        )


PARENT_ANNOTATION = "workflow.kscen.io/parent"
"""Annotation with the name of a WorkflowNode's parent node; empty below the workflow itself."""


def workflow_key(workflow: Obj) -> WorkflowKey:
    return WorkflowKey(workflow["metadata"].get("namespace", ""), workflow["metadata"]["name"])


def run_label(tree: Tree) -> dict[str, str]:
    """Return the label of the run that the workflow belongs to, for objects made for it."""
    labels = tree.root.obj["metadata"].get("labels") or {}
    return {RUN_LABEL: labels[RUN_LABEL]} if RUN_LABEL in labels else {}


def is_owned(obj: Obj, owner: Obj) -> bool:
    return any(
        each["uid"] == owner["metadata"]["uid"]
        for each in obj["metadata"].get("ownerReferences") or ()
    )


def _read_node(obj: Obj, status: Obj, template: Template | None) -> TreeNode:
    spec = obj["spec"]
    engine = status.get("engine") or {}
    parent = obj["metadata"]["annotations"][PARENT_ANNOTATION]
    name = sys.intern(obj["metadata"]["name"])
    started = epoch_of(spec["startTime"])
    if template is None:
        body = {**spec, "name": spec["templateName"], "templateType": spec["type"]}
        absolute = body.pop("deadline", None)
        length = epoch_of(absolute) - started if absolute else None
        template = replace(Template.of(body), deadline=length)
    node = TreeNode(name, template, parent, started, obj)
    node.phase = checked_phase(phase_of({"status": status}), NODE_PHASES)
    node.noted_at = engine.get("noted", "")
    node.attempt = engine.get("attempt", 1)
    node.ending = EventType(engine["ending"]) if "ending" in engine else None
    node.retry_forbidden = engine.get("calledOff", node.ending not in (None, EventType.FAULT))
    node.is_cleaning = engine.get("cleaning", False)
    node.has_created = engine.get("made", False)
    node.was_injected = is_true({"status": status}, CHAOS_INJECTED)
    node.has_leftovers = is_true({"status": status}, CHAOS_LEFT)
    node.until = {wait: epoch_of(engine[key]) for wait, key in UNTIL.items() if key in engine}
    node.children = [each["name"] for kind in CHILDREN for each in status.get(kind) or ()]
    node.chosen = engine.get("chosen")
    if node.is_over or node.ending or node.is_cleaning:  # before, it is the reason to wait
        node.message = status.get("message", "")
    branches = status.get("conditionalBranchesStatus") or {}
    node.evaluations, node.context = branches.get("branches", []), branches.get("context", [])
    node.ended = epoch_of(status["endTime"]) if "endTime" in status else None
    return node


def name_prefix(template: Template) -> str:
    """Return the common beginning of the names of a template's nodes."""
    return template.name[:NAME_LENGTH].rstrip("-.")


NODE_DELETED = "its WorkflowNode was deleted"
"""Message of a node whose WorkflowNode was deleted."""
PLACEHOLDER_PHASES = {
    SERIAL: WAITING_FOR_CHILD,
    PARALLEL: WAITING_FOR_CHILD,
    TASK: WAITING_FOR_CHILD,
    SUSPEND: HOLDING,
}
"""Phase in which a placeholder of each type ends with all its objects; RUNNING for other types."""


def restore_tree(
    repository: Repository,
    tree: Tree,
    below: Mapping[str, list[Obj]],
    unread: Callable[[Obj, Exception], None],
) -> None:
    """Rebuild the tree of a running workflow from the top, so that foreign nodes stay outside.

    `below` holds candidates by their parents' names, in the order in which they were made. A node
    that its parent lists and that does not exist was deleted while no engine was running: a
    placeholder takes its place until its objects are deleted. `unread` is called for each malformed
    node.
    """
    parents, malformed = [tree.root], dict[str, str]()
    while parents:
        parent = parents.pop()
        for obj in below.get(parent.name, ()):
            if (
                parent.name != ROOT
                or obj["metadata"]["name"] in parent.children
                or is_owned(obj, tree.root.obj)
            ):
                try:
                    node = repository.add_node(tree, obj)
                except MALFORMED as error:
                    unread(obj, error)
                    malformed[obj["metadata"]["name"]] = (
                        f"its WorkflowNode cannot be read: {error!r}"
                    )
                    continue
                parents.append(node)
                if parent.is_lost:
                    parent.children.append(node.name)
        for name in [name for name in parent.children if name not in tree.nodes]:
            tree.nodes[name] = _placeholder(tree, parent, name)
            tree.nodes[name].last_error = malformed.get(name, "")
            parents.append(tree.nodes[name])
    tree.nodes = dict(sorted(tree.nodes.items(), key=lambda named: named[1].started))
    tree.node_count = len(tree.nodes)


def _placeholder(tree: Tree, parent: TreeNode, name: str) -> TreeNode:
    """Return the placeholder of a deleted node; its template follows from its name.

    It has no retries and no probes, since only the objects that it has created matter.
    """
    targets = (
        (tree.definition.entry, tree.definition.exit)
        if parent.name == ROOT
        else parent.template.targets
    )
    known = (
        tree.definition.templates[each] for each in targets if each in tree.definition.templates
    )
    template = next(
        (each for each in known if name_prefix(each) == name.rpartition("-")[0]), None
    ) or Template(name, PARALLEL, {})
    metadata = {"name": name, "namespace": tree.key.namespace, "uid": ""}
    api_version = tree.root.obj["apiVersion"]
    obj = {"apiVersion": api_version, "kind": "WorkflowNode", "metadata": metadata}
    node = TreeNode(
        name, replace(template, retry=Retry(), probes=()), parent.name, parent.started, obj
    )
    node.is_lost = True
    node.phase = _final_phase(parent, name) or PLACEHOLDER_PHASES.get(template.type, RUNNING)
    return node


def _final_phase(parent: TreeNode, name: str) -> str:
    """Return the phase in which a deleted node was over as its parent's status shows it, or empty.

    A failure would have ended the parent too, so an end that the parent lists is a success.
    """
    if parent.is_over:
        return SUCCEED
    status = parent.obj.get("status") or {}
    if parent.name == ROOT:
        return (
            str((status.get("engine") or {}).get("entryPhase") or "")
            if name == parent.children[0]
            else ""
        )
    return (
        SUCCEED
        if any(each["name"] == name for each in status.get("finishedChildren") or ())
        else ""
    )
