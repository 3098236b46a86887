"""What the API has of a workflow that is on, as a tree again: from the workflow down, so that what is not its own stays outside.

A node that its parent tells of and that is not there was deleted while no engine was: somebody has to stand in for it until
what it had made is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_kscen.objects.workflows import (
    HOLDING,
    PARALLEL,
    RUNNING,
    SERIAL,
    SUCCEED,
    SUSPEND,
    TASK,
    WAITING_FOR_CHILD,
)
from pytest_kscen.workflow.refusals import MISREAD
from pytest_kscen.workflow.repository import is_owned, stem_of
from pytest_kscen.workflow.retries import Retry
from pytest_kscen.workflow.templates import Template
from pytest_kscen.workflow.trees import ROOT, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.repository import Repository
    from pytest_kscen.workflow.trees import Tree

LOST = "its WorkflowNode was deleted"
IN_THE_MIDST = {SERIAL: WAITING_FOR_CHILD, PARALLEL: WAITING_FOR_CHILD, TASK: WAITING_FOR_CHILD, SUSPEND: HOLDING}
"""Where a node is ended with all that it may have made; others make something themselves."""


def replant(repository: Repository, tree: Tree, below: Mapping[str, list[Obj]], unread: Callable[[Obj, Exception], None]) -> None:
    """`below` are all that may be its nodes by their parents' names, in the order in which they were made."""
    parents, misread = [tree.root], dict[str, str]()
    while parents:
        parent = parents.pop()
        for obj in below.get(parent.name, ()):
            if parent.name != ROOT or obj["metadata"]["name"] in parent.children or is_owned(obj, tree.root.obj):
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
    targets = (tree.definition.entry, tree.definition.exit) if parent.name == ROOT else parent.template.targets
    known = (tree.definition.templates[each] for each in targets if each in tree.definition.templates)
    template = next((each for each in known if stem_of(each) == name.rpartition("-")[0]), None) or Template(name, PARALLEL, {})
    metadata = {"name": name, "namespace": tree.key.namespace, "uid": ""}
    api_version = tree.root.obj["apiVersion"]
    obj = {"apiVersion": api_version, "kind": "WorkflowNode", "metadata": metadata}
    node = Node(name, replace(template, retry=Retry(), probes=()), parent.name, parent.started, obj)
    node.is_lost = True
    node.phase = _was_over(parent, name) or IN_THE_MIDST.get(template.type, RUNNING)
    return node


def _was_over(parent: Node, name: str) -> str:
    """The phase in which it was over, if its parent has heard of that: a failure would have ended the parent, too."""
    if parent.is_over:
        return SUCCEED
    status = parent.obj.get("status") or {}
    if parent.name == ROOT:
        return str((status.get("engine") or {}).get("entryPhase") or "") if name == parent.children[0] else ""
    return SUCCEED if any(each["name"] == name for each in status.get("finishedChildren") or ()) else ""
