"""Report each phase: journal, log, and Kubernetes Events with Chaos Mesh's reasons."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.events import EventRecorder
from pytest_kscen.objects.chaos_mesh import FAILED, INIT
from pytest_kscen.workflow.engine.trees import ROOT, lateness
from pytest_kscen.workflow.parameters import values_of
from pytest_kscen.workflow.probes import score_of
from pytest_kscen.workflow.story import FOUND, HINDERED
from pytest_kscen.workflow.tables.machine import Act, Happening

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Node, Tree

COMPONENT = "kscen-workflow"
ENDED = {
    Happening.DEADLINE: "NodeDeadlineExceed",
    Happening.PARENT_DEADLINE: "ParentNodeDeadlineExceed",
    Happening.ABORTED: "ParentNodeAborted",
}
DONE = {
    Act.CREATE_CHAOS: ("ChaosCRCreated", "created {kind} {name}"),
    Act.DELETE_CHAOS: ("ChaosCRDeleted", "removed {kind} {name}"),
    Act.RUN_POD: ("TaskPodSpawned", "runs pod {name}"),
    Act.EVALUATE: ("ConditionalBranchesSelected", "goes on with: {chosen}"),
    Act.CREATE_CHECK: ("StatusCheckCreated", "created status check {name}"),
    Act.DELETE_CHECK: ("StatusCheckDeleted", "removed status check {name}"),
}
POD_DELETED = ("TaskPodDeleted", "removed pod {name}")
"""Which is not told of one that is ended in its time."""
NOT_DONE = {
    Act.CREATE_CHAOS: "ChaosCRCreateFailed",
    Act.DELETE_CHAOS: "ChaosCRDeleteFailed",
    Act.SEE_CHAOS_GONE: "ChaosCRDeleteFailed",
    Act.RUN_POD: "TaskPodSpawnFailed",
    Act.END_POD: "TaskPodDeleteFailed",
    Act.CREATE_CHECK: "StatusCheckCreatedFailed",
    Act.DELETE_CHECK: "StatusCheckDeletedFailed",
}


class Voice:
    """One engine's."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._recorder = EventRecorder(actor.api, actor.clock, COMPONENT)

    def phase(self, tree: Tree, node: Node) -> None:
        """A node, or the workflow, is in this phase from now on."""
        where = {"workflow": tree.key.name, "namespace": tree.key.namespace}
        told = {**where, "phase": node.phase}
        message, why = (
            ({"message": node.message}, {"why": node.message}) if node.message else ({}, {})
        )
        level = logging.WARNING if node.phase == FAILED else logging.INFO
        if node.name == ROOT:
            # With which values it begins, and to which score it has come.
            if node.phase == INIT and (values := values_of(node.obj.get("spec") or {})):
                beside: Obj = {"parameters": values}
            else:
                beside = {"score": score_of(node.probes)} if node.is_over and node.probes else {}
            self._actor.note("workflow-phase", **told, **message, **beside)
            self._actor.log(level, "workflow", **told, **why, **beside)
            return
        about: Obj = {
            "node": node.name,
            "template": node.template.name,
            "type": node.template.type,
            "parent": node.parent,
        }
        about |= {"attempt": node.attempt} if node.attempt > 1 else {}
        about |= {"left": True} if node.has_left else {}
        about |= {"exit": True} if node.name in tree.root.children[1:] else {}
        self._actor.note("workflow-node", **told, **message, **about)
        self._actor.log(level, "node", **told, **why, **about)

    def found(self, tree: Tree, node: Node) -> None:
        """A node, or the workflow, is on that an engine before this one has begun."""
        about = {"workflow": tree.key.name, "namespace": tree.key.namespace, "phase": node.phase}
        if node.name != ROOT:
            about |= {
                "node": node.name,
                "template": node.template.name,
                "type": node.template.type,
                "parent": node.parent or ROOT,
            }
        age = round(self._actor.clock.now() - node.started, 6)
        self._actor.note(FOUND, **about, age=age)

    def waits(self, tree: Tree, node: Node) -> None:
        """What its pod waits for, or that it does no longer."""
        where = {"workflow": tree.key.name, "namespace": tree.key.namespace, "node": node.name}
        self._actor.note("workflow-node-waits", **where, message=node.waits_for)
        self._actor.log(logging.INFO, "waits", **where, why=node.waits_for)

    def made(self, tree: Tree, parent: Node, children: list[Node]) -> None:
        names = ", ".join(child.name for child in children)
        reason = "EntryCreated" if parent.name == ROOT else "NodesCreated"
        self._recorder.normal(parent.obj, reason, f"created {names}")
        for child in children:
            self.phase(tree, child)

    def over(self, tree: Tree, node: Node) -> None:
        if node.ending in ENDED and not _was_aborted_itself(tree, node):
            self._recorder.normal(
                node.obj, ENDED[node.ending], lateness(node, node.ending) or node.message
            )
        what = "Workflow" if node.name == ROOT else "Node"
        if node.phase == FAILED:
            self._recorder.warning(node.obj, f"{what}Failed", node.message)
        else:
            self._recorder.normal(node.obj, f"{what}Accomplished", f"{what.lower()} accomplished")

    def unwritten(self, tree: Tree, node: Node, why: str) -> None:
        """The API does not take what has become of a node."""
        self._actor.note("workflow-refused", workflow=str(tree.key), node=node.name, error=why)
        self._actor.log(logging.ERROR, "refused", workflow=str(tree.key), node=node.name, error=why)
        self._recorder.warning(node.obj, "StatusNotWritten", f"its status cannot be written: {why}")

    def hindered(self, tree: Tree, why: str) -> None:
        """What keeps the workflow, or that nothing does any longer."""
        self._actor.note(
            HINDERED, workflow=tree.key.name, namespace=tree.key.namespace, message=why
        )
        self._actor.log(
            logging.WARNING if why else logging.INFO, "hindered", workflow=str(tree.key), why=why
        )
        if why:
            self._recorder.warning(tree.root.obj, "StatusNotWritten", why)
        else:
            self._recorder.normal(tree.root.obj, "StatusWritten", "all statuses are written again")

    def ended_from_outside(self, node: Node, why: str = "") -> None:
        reason = "WorkflowAborted" if node.name == ROOT else "NodeAborted"
        self._recorder.normal(node.obj, reason, why or "it was aborted by its annotation")

    def spec_changed(self, tree: Tree, kept: list[str]) -> None:
        """Of the templates that are on, those that were changed in vain."""
        why = "its spec was changed: that holds for what begins from now on"
        if kept:
            why = f"{why}, and not for what has begun already: {', '.join(kept)}"
        level, report = (
            (logging.WARNING, self._recorder.warning)
            if kept
            else (logging.INFO, self._recorder.normal)
        )
        self._actor.log(level, "changed", workflow=str(tree.key), why=why)
        report(tree.root.obj, "SpecChanged", why)

    def pod_ended(self, node: Node) -> None:
        self._recorder.normal(
            node.obj, "TaskPodPodCompleted", f"pod {node.made} has come to its end"
        )

    def did(self, act: Act, node: Node) -> None:
        if act in DONE:
            reason, words = DONE[act]
            self._recorder.normal(node.obj, reason, words.format(**_words(node)))

    def gone_at_last(self, tree: Tree, node: Node, act: Act | None) -> None:
        """What it had left."""
        reason, words = DONE.get(act or Act.DELETE_CHAOS, POD_DELETED)
        self._recorder.normal(node.obj, reason, f"{words.format(**_words(node))}, at last")
        self._actor.log(
            logging.INFO, "gone at last", workflow=str(tree.key), node=node.name, resource=node.made
        )

    def could_not(self, act: Act, node: Node, why: str) -> None:
        if act in NOT_DONE:
            self._recorder.warning(node.obj, NOT_DONE[act], why)


def _was_aborted_itself(tree: Tree, node: Node) -> bool:
    """Which was told when it was seen."""
    parent = None if node.parent is None else tree.node(node.parent)
    return node.ending is Happening.ABORTED and (
        parent is None or parent.ending is not Happening.ABORTED
    )


def _words(node: Node) -> dict[str, str]:
    return {
        "kind": node.template.type,
        "name": node.made,
        "chosen": ", ".join(node.chosen or ()) or "nothing",
    }
