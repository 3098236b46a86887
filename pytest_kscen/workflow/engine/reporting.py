"""Report phases and actions of nodes: to the journal, the log, and as Kubernetes Events.

Called by every other module of the engine. Reasons of Events are Chaos Mesh's own; keys of the
journal's entries are read by `story` and `telemetry`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.events import EventRecorder
from pytest_kscen.objects.chaos_mesh import FAILED, INIT
from pytest_kscen.workflow.engine.trees import ROOT, deadline_message
from pytest_kscen.workflow.parameters import values_of
from pytest_kscen.workflow.probes import score_of
from pytest_kscen.workflow.story import FOUND, HINDERED
from pytest_kscen.workflow.tables.machine import EventType, NodeAction

if TYPE_CHECKING:
    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode

COMPONENT = "kscen-workflow"
ENDED_REASONS = {
    EventType.DEADLINE: "NodeDeadlineExceed",
    EventType.PARENT_DEADLINE: "ParentNodeDeadlineExceed",
    EventType.ABORTED: "ParentNodeAborted",
}
ACTION_EVENTS = {
    NodeAction.CREATE_CHAOS: ("ChaosCRCreated", "created {kind} {name}"),
    NodeAction.DELETE_CHAOS: ("ChaosCRDeleted", "removed {kind} {name}"),
    NodeAction.CREATE_POD: ("TaskPodSpawned", "runs pod {name}"),
    NodeAction.EVALUATE: ("ConditionalBranchesSelected", "goes on with: {chosen}"),
    NodeAction.CREATE_CHECK: ("StatusCheckCreated", "created status check {name}"),
    NodeAction.DELETE_CHECK: ("StatusCheckDeleted", "removed status check {name}"),
}
POD_DELETED = ("TaskPodDeleted", "removed pod {name}")
"""Event of a leftover pod's deletion; regular deletions of pods are not reported."""
FAILED_ACTION_REASONS = {
    NodeAction.CREATE_CHAOS: "ChaosCRCreateFailed",
    NodeAction.DELETE_CHAOS: "ChaosCRDeleteFailed",
    NodeAction.CONFIRM_DELETED: "ChaosCRDeleteFailed",
    NodeAction.CREATE_POD: "TaskPodSpawnFailed",
    NodeAction.DELETE_POD: "TaskPodDeleteFailed",
    NodeAction.CREATE_CHECK: "StatusCheckCreatedFailed",
    NodeAction.DELETE_CHECK: "StatusCheckDeletedFailed",
}


class EventReporter:
    """Reports for one engine, as one component of Kubernetes Events.

    Every phase goes to the journal and the log; Kubernetes Events carry Chaos Mesh's reasons where
    it has one. Reporting never fails an action: the recorder drops Events that are refused.
    """

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._recorder = EventRecorder(actor.api, actor.clock, COMPONENT)

    def report_phase(self, tree: Tree, node: TreeNode) -> None:
        """Report the phase that a node, or the workflow, has just entered. The workflow's entries
        also have the values of its parameters at the beginning, and the score at the end.
        """
        where = {"workflow": tree.key.name, "namespace": tree.key.namespace}
        phase = {**where, "phase": node.phase}
        message, why = (
            ({"message": node.message}, {"why": node.message}) if node.message else ({}, {})
        )
        level = logging.WARNING if node.phase == FAILED else logging.INFO
        if node.name == ROOT:
            # Parameters at the beginning, score at the end.
            if node.phase == INIT and (values := values_of(node.obj.get("spec") or {})):
                beside: Obj = {"parameters": values}
            else:
                beside = {"score": score_of(node.probes)} if node.is_over and node.probes else {}
            self._actor.note("workflow-phase", **phase, **message, **beside)
            self._actor.log(level, "workflow", **phase, **why, **beside)
            return
        about: Obj = {
            "node": node.name,
            "template": node.template.name,
            "type": node.template.type,
            "parent": node.parent,
        }
        about |= {"attempt": node.attempt} if node.attempt > 1 else {}
        about |= {"left": True} if node.has_leftovers else {}
        about |= {"exit": True} if node.name in tree.root.children[1:] else {}
        self._actor.note("workflow-node", **phase, **message, **about)
        self._actor.log(level, "node", **phase, **why, **about)

    def report_found(self, tree: Tree, node: TreeNode) -> None:
        """Report a node or workflow that a previous engine has begun, with its age in seconds."""
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

    def report_wait(self, tree: Tree, node: TreeNode) -> None:
        """Report the reason why a node's pod waits; an empty reason means that it does not wait."""
        where = {"workflow": tree.key.name, "namespace": tree.key.namespace, "node": node.name}
        self._actor.note("workflow-node-waits", **where, message=node.waiting_reason)
        self._actor.log(logging.INFO, "waits", **where, why=node.waiting_reason)

    def report_created(self, tree: Tree, parent: TreeNode, children: list[TreeNode]) -> None:
        names = ", ".join(child.name for child in children)
        reason = "EntryCreated" if parent.name == ROOT else "NodesCreated"
        self._recorder.normal(parent.obj, reason, f"created {names}")
        for child in children:
            self.report_phase(tree, child)

    def report_end(self, tree: Tree, node: TreeNode) -> None:
        """Report the end of a node or workflow as Kubernetes Events, with the cause of an early
        end.
        """
        # The abort of the node itself was reported when it arrived.
        parent = None if node.parent is None else tree.node(node.parent)
        was_aborted_itself = node.ending is EventType.ABORTED and (
            parent is None or parent.ending is not EventType.ABORTED
        )
        if node.ending in ENDED_REASONS and not was_aborted_itself:
            self._recorder.normal(
                node.obj,
                ENDED_REASONS[node.ending],
                deadline_message(node, node.ending) or node.message,
            )
        what = "Workflow" if node.name == ROOT else "Node"
        if node.phase == FAILED:
            self._recorder.warning(node.obj, f"{what}Failed", node.message)
        else:
            self._recorder.normal(node.obj, f"{what}Accomplished", f"{what.lower()} accomplished")

    def report_refused_status(self, tree: Tree, node: TreeNode, why: str) -> None:
        self._actor.note("workflow-refused", workflow=str(tree.key), node=node.name, error=why)
        self._actor.log(logging.ERROR, "refused", workflow=str(tree.key), node=node.name, error=why)
        self._recorder.warning(node.obj, "StatusNotWritten", f"its status cannot be written: {why}")

    def report_hindrance(self, tree: Tree, why: str) -> None:
        """Report the hindrance of the workflow; an empty reason means that it has ended."""
        self._actor.note(
            HINDERED, workflow=tree.key.name, namespace=tree.key.namespace, message=why
        )
        self._actor.log(
            logging.WARNING if why else logging.INFO, "hindered", workflow=str(tree.key), why=why
        )
        if why:
            self._recorder.warning(tree.root.obj, "StatusNotWritten", why)
        else:
            self._recorder.normal(tree.root.obj, "StatusWritten", "all statuses are written")

    def report_abort(self, node: TreeNode, why: str = "") -> None:
        reason = "WorkflowAborted" if node.name == ROOT else "NodeAborted"
        self._recorder.normal(node.obj, reason, why or "it was aborted by its annotation")

    def report_spec_change(self, tree: Tree, kept: list[str]) -> None:
        """Report a change of the spec, with the templates of running nodes that it does not
        reach.
        """
        why = "its spec was changed: nodes that begin from now on use the new one"
        if kept:
            why = f"{why}; these have begun with the old one: {', '.join(kept)}"
        level, report = (
            (logging.WARNING, self._recorder.warning)
            if kept
            else (logging.INFO, self._recorder.normal)
        )
        self._actor.log(level, "changed", workflow=str(tree.key), why=why)
        report(tree.root.obj, "SpecChanged", why)

    def report_pod_end(self, node: TreeNode) -> None:
        self._recorder.normal(
            node.obj, "TaskPodPodCompleted", f"pod {node.object_name} has completed"
        )

    def report_action(self, act: NodeAction, node: TreeNode) -> None:
        if act in ACTION_EVENTS:
            reason, words = ACTION_EVENTS[act]
            self._recorder.normal(node.obj, reason, words.format(**_words(node)))

    def report_late_deletion(self, tree: Tree, node: TreeNode, act: NodeAction | None) -> None:
        """Report that the object a node had left behind is deleted at last."""
        reason, words = ACTION_EVENTS.get(act or NodeAction.DELETE_CHAOS, POD_DELETED)
        self._recorder.normal(node.obj, reason, f"{words.format(**_words(node))}, at last")
        self._actor.log(
            logging.INFO,
            "gone at last",
            workflow=str(tree.key),
            node=node.name,
            resource=node.object_name,
        )

    def report_failed_action(self, act: NodeAction, node: TreeNode, why: str) -> None:
        if act in FAILED_ACTION_REASONS:
            self._recorder.warning(node.obj, FAILED_ACTION_REASONS[act], why)


def _words(node: TreeNode) -> dict[str, str]:
    return {
        "kind": node.template.type,
        "name": node.object_name,
        "chosen": ", ".join(node.chosen or ()) or "nothing",
    }
