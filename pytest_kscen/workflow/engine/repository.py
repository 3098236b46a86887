"""Store trees in the API: read and write node statuses, and rebuild the tree of a running
workflow.
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
    MISREAD,
    UNTIL,
    UNWRITTEN,
    known,
    note_of,
    read,
    status_now,
)
from pytest_kscen.workflow.engine.templates import Definition, Retry, Template
from pytest_kscen.workflow.engine.trees import ROOT, Node, Tree
from pytest_kscen.workflow.tables.machine import Happening, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj


NAME_LENGTH, SUFFIX = 54, 5
PATIENCE = 5.0
"""Seconds for which a refused status is offered again at once: all else that happens to the
workflow waits meanwhile.
"""
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # as in Kubernetes' generated names
FROM_TEMPLATE = (
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
    """One engine's."""

    def __init__(self, actor: Actor, family: EngineResources) -> None:
        self.family = family
        self.trees: dict[Key, Tree] = {}
        self._actor = actor
        self._hasty = actor.with_patience(PATIENCE).api

    # --- trees ---

    def plant(self, workflow: Obj) -> Tree:
        """The tree of a workflow that nobody knew; its nodes are added when they are read or
        made.
        """
        root = read(workflow, self._root)
        tree = self.trees[key_of(workflow)] = Tree(key_of(workflow), Definition("", {}), root)
        return tree

    def _root(self, workflow: Obj, status: Obj) -> Node:
        started = (
            epoch_of(status["startTime"]) if "startTime" in status else self._actor.clock.now()
        )
        root = Node(ROOT, Template(ROOT, "Workflow", {}), None, started, workflow)
        root.phase = known(phase_of({"status": status}), (INIT, RUNNING, *OVER))
        root.ending = Happening.ABORTED if is_true(workflow, ABORTED) else None
        engine = status.get("engine") or {}
        root.message = (
            engine.get("message", "") if "hindrance" in engine else status.get("message", "")
        )
        root.is_unsaved = "hindrance" in engine  # it is gone, or is met again
        root.noted = engine.get("noted", "")
        if ending := engine.get("ending"):
            root.ending = Happening(ending)
        root.children = [name for name in (status.get("entryNode"), engine.get("exitNode")) if name]
        return root

    def headless(self, key: Key) -> Tree:
        """A tree for nodes whose workflow is no more; nobody knows it by its name."""
        gone = {"metadata": {"name": key.name, "namespace": key.namespace}}
        return Tree(
            key,
            Definition("", {}),
            Node(ROOT, Template(ROOT, "Workflow", {}), None, self._actor.clock.now(), gone),
        )

    def forget(self, tree: Tree) -> None:
        if self.knows(tree):
            del self.trees[tree.key]
            if not tree.root.is_over:
                self._actor.note(
                    "workflow-gone", workflow=tree.key.name, namespace=tree.key.namespace
                )

    def knows(self, tree: Tree) -> bool:
        """Whether it is that of the workflow that has its name now."""
        return self.trees.get(tree.key) is tree

    def graft(self, tree: Tree, obj: Obj, template: Template | None = None) -> Node:
        """Put a node, as the API has it, in its place; what its template was when it was begun
        stands in its spec.
        """
        node = read(obj, lambda obj, status: _node(obj, status, template))
        tree.nodes[node.name] = node
        return node

    # --- writing ---

    async def make(self, tree: Tree, parent: Node, template: Template) -> Node:
        """The next child of a node."""
        for draw in itertools.count():
            # The template's name and what its place in the tree makes of it; another one for
            # each draw, as some may be taken.
            uid = tree.root.obj["metadata"]["uid"]
            place = f"{uid}/{parent.name}/{parent.attempt}/{len(parent.children)}/{draw}"
            digest = int.from_bytes(hashlib.sha256(place.encode()).digest())
            suffix = "".join(
                ALPHABET[digest // len(ALPHABET) ** power % len(ALPHABET)]
                for power in range(SUFFIX)
            )
            name = f"{stem_of(template)}-{suffix}"
            node = tree.nodes.get(name) or await self._made(tree, parent, template, name)
            if node and node.parent == parent.name and name not in parent.children:
                parent.children.append(node.name)
                return node
        raise AssertionError

    async def _made(self, tree: Tree, parent: Node, template: Template, name: str) -> Node | None:
        """None if somebody else's node has this name."""
        try:
            made = await self._actor.api.create(
                self.family.nodes, self._node_object(tree, parent, template, name)
            )
        except AlreadyExists:
            try:
                made = await self._actor.api.get(self.family.nodes, name, tree.key.namespace)
            except NotFound:
                return None
            if not is_owned(made, parent.obj):
                return None
        return self.graft(tree, made, template)

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
        status = status_now(tree, node)
        before = node.obj.get("status") or {}
        if changed := {name: value for name, value in status.items() if before.get(name) != value}:
            write = self._write_root if node.name == ROOT else self._write
            node.obj = await write(tree, node, changed)

    async def note(self, tree: Tree, node: Node, *, is_paid: bool) -> None:
        """What cannot be written as its status, in an annotation; none if it could at last."""
        resource = self.family.workflows if node.name == ROOT else self.family.nodes
        node.noted = node.noted if is_paid else timestamp_of(self._actor.clock.now(), micro=True)
        noted = None if is_paid else note_of(tree, node)
        patch = {"metadata": {"annotations": {UNWRITTEN: noted}}}
        await self._hasty.patch(resource, node.obj["metadata"]["name"], patch, tree.key.namespace)

    async def _write(self, tree: Tree, node: Node, changed: Obj) -> Obj:
        patch, where = {"status": changed}, tree.key.namespace
        return await self._hasty.patch(
            self.family.nodes, node.name, patch, where, subresource="status"
        )

    async def _write_root(self, tree: Tree, root: Node, changed: Obj) -> Obj:
        """A workflow's name may be another's by now, and that one's status is not this one's:
        NotFound.
        """
        api, resource, (name, namespace) = (
            self._hasty,
            self.family.workflows,
            (tree.key.name, tree.key.namespace),
        )
        uid = root.obj["metadata"]["uid"]
        status = {**(root.obj.get("status") or {}), **changed}
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        try:
            return await api.patch(
                resource, name, patch, namespace, subresource="status", patch_type=JSON_PATCH
            )
        except Invalid:
            if (await api.get(resource, name, namespace))["metadata"]["uid"] != uid:
                raise not_found(resource, name) from None
            raise


PARENT = "workflow.kscen.io/parent"
"""The annotation that tells of a node whose child it is."""


def key_of(workflow: Obj) -> Key:
    return Key(workflow["metadata"].get("namespace", ""), workflow["metadata"]["name"])


def run_label(tree: Tree) -> dict[str, str]:
    """What is made for a workflow of a run is the run's."""
    labels = tree.root.obj["metadata"].get("labels") or {}
    return {RUN_LABEL: labels[RUN_LABEL]} if RUN_LABEL in labels else {}


def is_owned(obj: Obj, owner: Obj) -> bool:
    return any(
        each["uid"] == owner["metadata"]["uid"]
        for each in obj["metadata"].get("ownerReferences") or ()
    )


def _node(obj: Obj, status: Obj, template: Template | None) -> Node:
    spec = obj["spec"]
    engine = status.get("engine") or {}
    parent = obj["metadata"]["annotations"][PARENT]
    name = sys.intern(obj["metadata"]["name"])
    node = Node(name, template or _template_of(spec), parent, epoch_of(spec["startTime"]), obj)
    node.phase = known(phase_of({"status": status}), NODE_PHASES)
    node.noted = engine.get("noted", "")
    node.attempt = engine.get("attempt", 1)
    node.ending = Happening(engine["ending"]) if "ending" in engine else None
    node.is_called_off = engine.get("calledOff", node.ending not in (None, Happening.FAULT))
    node.is_cleaning = engine.get("cleaning", False)
    node.has_made = engine.get("made", False)
    node.has_held = is_true({"status": status}, CHAOS_INJECTED)
    node.has_left = is_true({"status": status}, CHAOS_LEFT)
    node.until = {wait: epoch_of(engine[key]) for wait, key in UNTIL.items() if key in engine}
    node.children = [each["name"] for kind in CHILDREN for each in status.get(kind) or ()]
    node.chosen = engine.get("chosen")
    is_told = (
        node.is_over or node.ending or node.is_cleaning
    )  # else the message says what its pod waits for
    node.message = status.get("message", "") if is_told else ""
    branches = status.get("conditionalBranchesStatus") or {}
    node.evaluations, node.context = branches.get("branches", []), branches.get("context", [])
    node.ended = epoch_of(status["endTime"]) if "endTime" in status else None
    return node


def _template_of(spec: Obj) -> Template:
    """The template that a node was made from."""
    body = {**spec, "name": spec["templateName"], "templateType": spec["type"]}
    absolute = body.pop("deadline", None)
    length = epoch_of(absolute) - epoch_of(spec["startTime"]) if absolute else None
    return replace(Template.of(body), deadline=length)


def stem_of(template: Template) -> str:
    """What the names of all its nodes begin with."""
    return template.name[:NAME_LENGTH].rstrip("-.")


# What the API has of a workflow that is on, as a tree again: from the workflow down, so that
# what is not its own stays outside. A node that its parent tells of and that is not there was
# deleted while no engine was: somebody has to stand in for it until what it had made is gone.


LOST = "its WorkflowNode was deleted"
IN_THE_MIDST = {
    SERIAL: WAITING_FOR_CHILD,
    PARALLEL: WAITING_FOR_CHILD,
    TASK: WAITING_FOR_CHILD,
    SUSPEND: HOLDING,
}
"""Where a node is ended with all that it may have made; others make something themselves."""


def replant(
    repository: Repository,
    tree: Tree,
    below: Mapping[str, list[Obj]],
    unread: Callable[[Obj, Exception], None],
) -> None:
    """`below` are all that may be its nodes by their parents' names, in the order in which they
    were made.
    """
    parents, misread = [tree.root], dict[str, str]()
    while parents:
        parent = parents.pop()
        for obj in below.get(parent.name, ()):
            if (
                parent.name != ROOT
                or obj["metadata"]["name"] in parent.children
                or is_owned(obj, tree.root.obj)
            ):
                try:
                    node = repository.graft(tree, obj)
                except MISREAD as error:
                    unread(obj, error)
                    misread[obj["metadata"]["name"]] = f"its WorkflowNode cannot be read: {error!r}"
                    continue
                parents.append(node)
                if parent.is_lost:
                    parent.children.append(node.name)
        for name in [name for name in parent.children if name not in tree.nodes]:
            tree.nodes[name] = _stand_in(tree, parent, name)
            tree.nodes[name].trouble = misread.get(name, "")
            parents.append(tree.nodes[name])
    tree.nodes = dict(sorted(tree.nodes.items(), key=lambda named: named[1].started))
    tree.made = len(tree.nodes)


def _stand_in(tree: Tree, parent: Node, name: str) -> Node:
    """Its template follows from its name; of what it was to do only what it has made counts."""
    targets = (
        (tree.definition.entry, tree.definition.exit)
        if parent.name == ROOT
        else parent.template.targets
    )
    known = (
        tree.definition.templates[each] for each in targets if each in tree.definition.templates
    )
    template = next(
        (each for each in known if stem_of(each) == name.rpartition("-")[0]), None
    ) or Template(name, PARALLEL, {})
    metadata = {"name": name, "namespace": tree.key.namespace, "uid": ""}
    api_version = tree.root.obj["apiVersion"]
    obj = {"apiVersion": api_version, "kind": "WorkflowNode", "metadata": metadata}
    node = Node(name, replace(template, retry=Retry(), probes=()), parent.name, parent.started, obj)
    node.is_lost = True
    node.phase = _was_over(parent, name) or IN_THE_MIDST.get(template.type, RUNNING)
    return node


def _was_over(parent: Node, name: str) -> str:
    """The phase in which it was over, if its parent has heard of that: a failure would have
    ended the parent, too.
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
