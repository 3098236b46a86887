"""Workflow manager: finds workflows through the API, and has their events processed.

Started by `engine.drive`. On start it restores the trees of running workflows and resumes them;
afterwards watches add workflows and report aborts. At most `concurrency` workflows are processed at
a time, and of each workflow one event at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Informer
from pytest_kscen.objects.chaos_mesh import (
    ABORT,
    INIT,
    SCHEDULE,
    SHIPPED,
    STATUS_CHECK,
    TASK,
    WORKFLOW_LABEL,
    is_over,
    phase_of,
)
from pytest_kscen.objects.resources import PODS
from pytest_kscen.workflow.engine.actors import ActorClients, NodeObjects
from pytest_kscen.workflow.engine.cleanup import WORKFLOW_DELETED, LeftoverCleaner
from pytest_kscen.workflow.engine.node_probes import ProbeCoordinator
from pytest_kscen.workflow.engine.processor import EventProcessor
from pytest_kscen.workflow.engine.reporting import EventReporter
from pytest_kscen.workflow.engine.repository import (
    NODE_DELETED,
    PARENT_ANNOTATION,
    Repository,
    restore_tree,
    workflow_key,
)
from pytest_kscen.workflow.engine.statuses import (
    LONGEST_MESSAGE,
    MALFORMED,
    has_unwritten_note,
    needs_no_cleanup,
    with_minimal_status,
)
from pytest_kscen.workflow.engine.templates import Definition
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.engine.triggers import OperableTrigger, RateLimiter, Watches
from pytest_kscen.workflow.tables.machine import EventType, NodeEvent, WorkflowKey
from pytest_kscen.workflow.validation import validate

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.kube.cache import Handler
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Tree, TreeNode
    from pytest_kscen.workflow.engine.triggers import Trigger

logger = logging.getLogger(__name__)

CONCURRENCY = 100
PATIENCE = 5.0
"""Seconds for which creations and deletions are retried; other events of the workflow wait
meanwhile.
"""


class WorkflowManager:
    """Controller of workflows: owns the repository, the event queue and the watches on both
    resources.

    `run` never returns; cancelling it stops all tasks and leaves workflows as they are, for the
    next engine to resume.
    """

    def __init__(
        self,
        actor: Actor,
        family: EngineResources = SHIPPED,
        *,
        concurrency: int = CONCURRENCY,
        per_second: float | None = None,
    ) -> None:
        """Take the actor that reads and writes; `per_second` delays events that arrive faster."""
        self._actor = actor
        self._family = family
        self._concurrency = concurrency
        self._repository = Repository(actor, family)
        self._trigger = OperableTrigger(
            "workflows", actor.clock, RateLimiter(actor.clock, per_second) if per_second else None
        )
        self._reporter = EventReporter(actor)
        self._workflows = Informer(actor.api, actor.clock, family.workflows)
        self._nodes = Informer(actor.api, actor.clock, family.nodes)

    async def run(self) -> Never:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workflows.run(), name="workflows")
            group.create_task(self._nodes.run(), name="workflow nodes")
            await self._workflows.synced()
            await self._nodes.synced()
            watches = Watches(self._actor, self._family, self._trigger, group)
            node_objects = NodeObjects(self._actor.with_retry_time(PATIENCE))
            clients = ActorClients(self._family, node_objects, watches)
            probe_coordinator = ProbeCoordinator(self._actor, self._trigger, group)
            self._cleaner = LeftoverCleaner(
                self._actor, self._repository, self._reporter, clients, group
            )
            self._processor = EventProcessor(
                self._repository,
                self._trigger,
                self._reporter,
                clients,
                probe_coordinator,
                cleaner=self._cleaner,
            )
            # Resume all workflows that are not over.
            found = self._found()

            def resume(workflow: Obj | None, _: Obj | None) -> None:
                if workflow and not is_over(workflow):
                    tree = self._add_workflow(workflow)
                    restore_tree(
                        self._repository, tree, found.get(tree.key, {}), self._report_malformed
                    )
                    self._resume(tree, watches)

            for workflow in self._workflows:
                self._isolated(resume)(workflow, None)
            for key, below in found.items():
                self._clean_up_orphans(key, below)
            self._workflows.on_change(self._isolated(self._workflow_changed))
            self._nodes.on_change(self._isolated(self._node_changed))
            group.create_task(self._trigger.run(), name=f"delayed events of {self._trigger.name}")
            for number in range(self._concurrency):
                group.create_task(
                    self._work(self._trigger), name=f"worker {number} of {self._trigger.name}"
                )
        raise AssertionError

    async def _work(self, trigger: Trigger) -> Never:
        while True:
            event = await trigger.acquire()
            try:
                await self._processor.take(event)
            except Exception as error:  # noqa: BLE001  # an error of one workflow affects no other
                self._actor.log(
                    logging.ERROR,
                    "refused",
                    workflow=str(event.workflow),
                    node=event.node,
                    error=repr(error),
                )
                self._actor.note(
                    "workflow-refused",
                    workflow=str(event.workflow),
                    node=event.node,
                    error=repr(error),
                )
                if event.event_type is not EventType.FAULT:
                    self._trigger.notify(
                        NodeEvent(event.workflow, event.node, EventType.FAULT, repr(error))
                    )
            finally:
                trigger.done(event)

    # --- objects in the API ---

    def _found(self) -> dict[WorkflowKey, dict[str, list[Obj]]]:
        """Return the WorkflowNodes by workflow and parent, in the order in which they were
        created.
        """
        found: dict[WorkflowKey, dict[str, list[Obj]]] = {}
        for obj in sorted(
            self._nodes, key=lambda each: str((each.get("spec") or {}).get("startTime"))
        ):
            metadata = obj["metadata"]
            try:
                key, parent = (
                    WorkflowKey(metadata["namespace"], metadata["labels"][WORKFLOW_LABEL]),
                    metadata["annotations"][PARENT_ANNOTATION],
                )
                found.setdefault(key, {}).setdefault(parent, []).append(obj)
            except MALFORMED as error:
                self._report_malformed(obj, error)
        return found

    def _report_malformed(self, obj: Obj, error: Exception) -> None:
        """Report an object that is malformed; a workflow fails by it."""
        key, kind = workflow_key(obj), obj["kind"]
        self._actor.log(
            logging.WARNING, "cannot be read", kind=kind, object=str(key), error=repr(error)
        )
        if kind == self._family.workflows.kind:
            self._trigger.notify(
                NodeEvent(key, ROOT, EventType.FAULT, f"it cannot be read: {error!r}")
            )

    def _resume(self, tree: Tree, watches: Watches) -> None:
        """Resume the nodes of a restored tree: watches first, then events, and cleanup of
        leftovers.
        """
        for node in (tree.root, *tree.nodes.values()):
            if has_unwritten_note(node):
                self._processor.status_writer.resume(tree, node)
            if node.has_leftovers:
                self._cleaner.remove(tree, [node])
            if not node.is_over:
                if node is not tree.root or node.phase != INIT:  # new ones are reported when added
                    self._reporter.report_found(tree, node)
                # Changes of the objects that it has created.
                if node.template.is_chaos:
                    watches.begin(node.template.chaos_kind.resource)
                elif node.template.type == TASK:
                    watches.begin(PODS)
                elif node.template.type == STATUS_CHECK:
                    watches.begin(self._family.status_checks)
                elif node.template.type == SCHEDULE:
                    watches.begin(self._family.schedules)
                lost = NodeEvent(
                    tree.key,
                    node.name,
                    EventType.ABORTED,
                    node.last_error or self._deletion_message(tree, node),
                )
                self._trigger.notify(
                    lost if node.is_lost else NodeEvent(tree.key, node.name, EventType.RESUMED)
                )

    def _clean_up_orphans(self, key: WorkflowKey, below: dict[str, list[Obj]]) -> None:
        """Clean up nodes whose workflow was deleted or is over while no engine was running."""
        tree = self._repository.trees.get(key)
        orphans = self._repository.orphan_tree(key)
        for obj in (obj for children in below.values() for obj in children):
            if not (tree and obj["metadata"]["name"] in tree.nodes):
                with contextlib.suppress(*MALFORMED):
                    if not needs_no_cleanup(obj):
                        self._repository.add_node(orphans, obj)
        why = (
            "its workflow was over"
            if self._workflows.get(key.name, key.namespace)
            else WORKFLOW_DELETED
        )
        self._cleaner.remove(orphans, orphans.nodes.values(), why)

    def _add_workflow(self, workflow: Obj) -> Tree:
        """Add the tree of a new workflow; a malformed workflow fails, and its nodes are ended.

        A workflow that has not begun is validated, because some API servers lack the webhook that
        refuses invalid workflows.
        """
        try:
            tree = self._repository.add_tree(workflow)
        except MALFORMED as error:
            tree = self._repository.add_tree(with_minimal_status(workflow))
            self._report_malformed(workflow, error)
        try:
            wrong: list[str] = []
            if tree.root.phase == INIT:
                self._reporter.report_phase(tree, tree.root)
                wrong = [str(fault) for fault in validate(workflow) if fault.is_error]
            if wrong:
                self._trigger.notify(
                    NodeEvent(tree.key, ROOT, EventType.FAULT, "; ".join(wrong)[:LONGEST_MESSAGE])
                )
            else:
                self._read(tree, workflow)
        except Exception as error:  # noqa: BLE001  # any content
            self._report_malformed(workflow, error)
        return tree

    def _read(self, tree: Tree, workflow: Obj) -> None:
        try:
            tree.definition = Definition.of(workflow["spec"])
        except MALFORMED as error:
            self._trigger.notify(
                NodeEvent(tree.key, ROOT, EventType.FAULT, f"its templates cannot be read: {error}")
            )

    def _read_again(self, tree: Tree, workflow: Obj) -> None:
        """Apply a changed spec to nodes that start from now on, and report the nodes it does not
        reach.
        """
        before = tree.definition
        self._read(tree, workflow)
        if tree.definition is not before:
            now = tree.definition.templates
            on = (node.template.name for node in tree.nodes.values() if not node.is_over)
            self._reporter.report_spec_change(
                tree,
                [name for name in dict.fromkeys(on) if before.templates.get(name) != now.get(name)],
            )

    def _isolated(self, handler: Handler) -> Handler:
        """Wrap a handler so that its error fails one workflow, and not the engine."""

        def changed(new: Obj | None, old: Obj | None) -> None:
            try:
                handler(new, old)
            except Exception as error:  # noqa: BLE001  # any content
                self._report_malformed(new or old or {}, error)

        return changed

    def _workflow_changed(self, new: Obj | None, old: Obj | None) -> None:
        key = workflow_key(new or old or {})
        tree = self._repository.trees.get(key)
        if new is None:
            if tree:
                self._processor.forget(tree)
            return
        if tree is None:
            if phase_of(new) != INIT:
                return
            tree = self._add_workflow(new)
            self._trigger.notify(NodeEvent(key, ROOT, EventType.CREATED))
        elif not tree.root.is_over:
            tree.root.obj = new
            if old and old["spec"] != new["spec"]:
                self._read_again(tree, new)
        if tree.root.is_over or tree.root.ending is EventType.ABORTED:
            return
        if _is_aborted(new) and not (old and _is_aborted(old)):
            why = tree.aborted_by
            self._reporter.report_abort(tree.root, why)
            self._trigger.notify(
                NodeEvent(key, ROOT, EventType.ABORTED, why or "the workflow was aborted")
            )
        elif _is_deleted(new) and not (old and _is_deleted(old)):
            self._trigger.notify(
                NodeEvent(key, ROOT, EventType.ABORTED, "the workflow is being deleted")
            )

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Send ABORTED to a node that was annotated or deleted by a user. Changes by the engine
        itself, and changes of ended nodes, are ignored.
        """
        metadata = (new or old or {})["metadata"]
        if new and (not _is_aborted(new) or (old and _is_aborted(old))):
            return
        key = WorkflowKey(
            metadata["namespace"], (metadata.get("labels") or {}).get(WORKFLOW_LABEL, "")
        )
        tree = self._repository.trees.get(key)
        node = tree.nodes.get(metadata["name"]) if tree else None
        if tree is None or node is None or node.is_over:
            return
        if new:
            self._reporter.report_abort(node)
        why = _named(node, "it was aborted") if new else self._deletion_message(tree, node)
        self._trigger.notify(NodeEvent(key, node.name, EventType.ABORTED, why))

    def _deletion_message(self, tree: Tree, node: TreeNode) -> str:
        """Return the message of a deleted node, named after the highest deleted node above it.

        A deletion takes along everything below, and the nodes below may vanish first.
        """
        while node.parent:
            above = tree.nodes[node.parent]
            obj = self._nodes.get(above.name, above.obj["metadata"]["namespace"])
            if obj is not None and not _is_deleted(obj):
                break
            node = above
        return _named(node, NODE_DELETED)


def _named(node: TreeNode, why: str) -> str:
    """Prefix the message with the template's name; nodes that are ended by it have the same
    message.
    """
    return f"{node.template.name}: {why}"


def _is_aborted(obj: Obj) -> bool:
    return bool((obj["metadata"].get("annotations") or {}).get(ABORT) == "true")


def _is_deleted(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]
