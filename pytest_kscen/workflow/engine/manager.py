"""The workflow manager: discover workflows through the API, and process events from the trigger,
up to a limit of parallel workflows.
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
from pytest_kscen.workflow.engine.actors import Hands, Playground
from pytest_kscen.workflow.engine.cleanup import DELETED, Remains
from pytest_kscen.workflow.engine.node_probes import Hypotheses
from pytest_kscen.workflow.engine.reporting import Voice
from pytest_kscen.workflow.engine.repository import LOST, PARENT, Repository, key_of, replant
from pytest_kscen.workflow.engine.statuses import (
    LONGEST_MESSAGE,
    MISREAD,
    is_behind,
    is_settled,
    with_what_is_on,
)
from pytest_kscen.workflow.engine.templates import Definition
from pytest_kscen.workflow.engine.transitions import Turns
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.engine.triggers import OperableTrigger, Rate, Watches
from pytest_kscen.workflow.tables.machine import Event, Happening, Key
from pytest_kscen.workflow.validation import faults_of

if TYPE_CHECKING:
    from typing import Never

    from pytest_kscen.kube.actor import Actor
    from pytest_kscen.kube.cache import Handler
    from pytest_kscen.objects.chaos_mesh import EngineResources
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.workflow.engine.trees import Node, Tree
    from pytest_kscen.workflow.engine.triggers import Trigger

logger = logging.getLogger(__name__)

CONCURRENCY = 100
PATIENCE = 5.0
"""Seconds for which what nodes make and remove is asked for again: all else that happens to the
workflow waits meanwhile.
"""


class WorkflowManager:
    """The actor."""

    def __init__(
        self,
        actor: Actor,
        family: EngineResources = SHIPPED,
        *,
        concurrency: int = CONCURRENCY,
        per_second: float | None = None,
    ) -> None:
        """`per_second` holds events back that come faster."""
        self._actor = actor
        self._family = family
        self._concurrency = concurrency
        self._repository = Repository(actor, family)
        self._trigger = OperableTrigger(
            "workflows", actor.clock, Rate(actor.clock, per_second) if per_second else None
        )
        self._voice = Voice(actor)
        self._workflows = Informer(actor.api, actor.clock, family.workflows)
        self._nodes = Informer(actor.api, actor.clock, family.nodes)

    async def run(self) -> Never:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workflows.run(), name="workflows")
            group.create_task(self._nodes.run(), name="workflow nodes")
            await self._workflows.synced()
            await self._nodes.synced()
            watches = Watches(self._actor, self._family, self._trigger, group)
            playground = Playground(self._actor.with_patience(PATIENCE))
            hands = Hands(self._family, playground, watches)
            hypotheses = Hypotheses(self._actor, self._trigger, group)
            self._remains = Remains(self._actor, self._repository, self._voice, hands, group)
            self._turns = Turns(
                self._repository,
                self._trigger,
                self._voice,
                hands,
                hypotheses,
                remains=self._remains,
            )
            # Go on with all that is not over.
            found = self._found()

            def go_on(workflow: Obj | None, _: Obj | None) -> None:
                if workflow and not is_over(workflow):
                    tree = self._planted(workflow)
                    replant(self._repository, tree, found.get(tree.key, {}), self._unread)
                    self._take_up(tree, watches)

            for workflow in self._workflows:
                self._apart(go_on)(workflow, None)
            for key, below in found.items():
                self._bury(key, below)
            self._workflows.on_change(self._apart(self._workflow_changed))
            self._nodes.on_change(self._apart(self._node_changed))
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
                await self._turns.take(event)
            except Exception as error:  # noqa: BLE001  # what one workflow meets stops no other
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
                if event.happening is not Happening.FAULT:
                    self._trigger.notify(
                        Event(event.workflow, event.node, Happening.FAULT, repr(error))
                    )
            finally:
                trigger.done(event)

    # --- what the API has ---

    def _found(self) -> dict[Key, dict[str, list[Obj]]]:
        """The nodes that the engine has made: by their workflows' names and their parents', in
        the order in which it did.
        """
        found: dict[Key, dict[str, list[Obj]]] = {}
        for obj in sorted(
            self._nodes, key=lambda each: str((each.get("spec") or {}).get("startTime"))
        ):
            metadata = obj["metadata"]
            try:
                key, parent = (
                    Key(metadata["namespace"], metadata["labels"][WORKFLOW_LABEL]),
                    metadata["annotations"][PARENT],
                )
                found.setdefault(key, {}).setdefault(parent, []).append(obj)
            except MISREAD as error:
                self._unread(obj, error)
        return found

    def _unread(self, obj: Obj, error: Exception) -> None:
        """A node that is not of the engine's making, or that somebody has changed; a workflow
        fails by that.
        """
        key, kind = key_of(obj), obj["kind"]
        self._actor.log(
            logging.WARNING, "cannot be read", kind=kind, object=str(key), error=repr(error)
        )
        if kind == self._family.workflows.kind:
            self._trigger.notify(Event(key, ROOT, Happening.FAULT, f"it cannot be read: {error!r}"))

    def _take_up(self, tree: Tree, watches: Watches) -> None:
        for node in (tree.root, *tree.nodes.values()):
            if is_behind(node):
                self._turns.debts.take_up(tree, node)
            if node.has_left:
                self._remains.remove(tree, [node])
            if not node.is_over:
                if node is not tree.root or node.phase != INIT:  # which was told as it was planted
                    self._voice.found(tree, node)
                # What becomes of what it has made.
                if node.template.is_chaos:
                    watches.begin(node.template.chaos_kind.resource)
                elif node.template.type == TASK:
                    watches.begin(PODS)
                elif node.template.type == STATUS_CHECK:
                    watches.begin(self._family.status_checks)
                elif node.template.type == SCHEDULE:
                    watches.begin(self._family.schedules)
                lost = Event(
                    tree.key, node.name, Happening.ABORTED, node.trouble or self._lost(tree, node)
                )
                self._trigger.notify(
                    lost if node.is_lost else Event(tree.key, node.name, Happening.RESUMED)
                )

    def _bury(self, key: Key, below: dict[str, list[Obj]]) -> None:
        """Nodes whose workflow was deleted, or is over: what those that were on, or could not
        remove it in time, have left.
        """
        tree = self._repository.trees.get(key)
        stray = self._repository.headless(key)
        for obj in (obj for children in below.values() for obj in children):
            if not (tree and obj["metadata"]["name"] in tree.nodes):
                with contextlib.suppress(*MISREAD):
                    if not is_settled(obj):
                        self._repository.graft(stray, obj)
        why = "its workflow was over" if self._workflows.get(key.name, key.namespace) else DELETED
        self._remains.remove(stray, stray.nodes.values(), why)

    def _planted(self, workflow: Obj) -> Tree:
        """What nobody can read of it is its end, and that of what is below it."""
        try:
            tree = self._repository.plant(workflow)
        except MISREAD as error:
            tree = self._repository.plant(with_what_is_on(workflow))
            self._unread(workflow, error)
        try:
            self._judge(tree, workflow)
        except Exception as error:  # noqa: BLE001  # whatever stands in it
            self._unread(workflow, error)
        return tree

    def _judge(self, tree: Tree, workflow: Obj) -> None:
        """One that can only hang or fail fails at once: not every API has somebody who refuses
        it.
        """
        if tree.root.phase == INIT:
            self._voice.phase(tree, tree.root)
            if wrong := [str(fault) for fault in faults_of(workflow) if fault.is_error]:
                self._trigger.notify(
                    Event(tree.key, ROOT, Happening.FAULT, "; ".join(wrong)[:LONGEST_MESSAGE])
                )
                return
        self._read(tree, workflow)

    def _read(self, tree: Tree, workflow: Obj) -> None:
        try:
            tree.definition = Definition.of(workflow["spec"])
        except MISREAD as error:
            self._trigger.notify(
                Event(tree.key, ROOT, Happening.FAULT, f"its templates cannot be read: {error}")
            )

    def _read_again(self, tree: Tree, workflow: Obj) -> None:
        """What has begun goes on as it was begun; whoever has changed that is told."""
        before = tree.definition
        self._read(tree, workflow)
        if tree.definition is not before:
            now = tree.definition.templates
            on = (node.template.name for node in tree.nodes.values() if not node.is_over)
            self._voice.spec_changed(
                tree,
                [name for name in dict.fromkeys(on) if before.templates.get(name) != now.get(name)],
            )

    def _apart(self, handler: Handler) -> Handler:
        """The same, but what it cannot make sense of ends one workflow, and not the engine."""

        def changed(new: Obj | None, old: Obj | None) -> None:
            try:
                handler(new, old)
            except Exception as error:  # noqa: BLE001  # whatever stands in it
                self._unread(new or old or {}, error)

        return changed

    def _workflow_changed(self, new: Obj | None, old: Obj | None) -> None:
        key = key_of(new or old or {})
        tree = self._repository.trees.get(key)
        if new is None:
            if tree:
                self._turns.forget(tree)
            return
        if tree is None:
            if phase_of(new) != INIT:
                return
            tree = self._planted(new)
            self._trigger.notify(Event(key, ROOT, Happening.CREATED))
        elif not tree.root.is_over:
            tree.root.obj = new
            if old and old["spec"] != new["spec"]:
                self._read_again(tree, new)
        if tree.root.is_over or tree.root.ending is Happening.ABORTED:
            return
        if _is_aborted(new) and not (old and _is_aborted(old)):
            why = tree.aborted_by
            self._voice.ended_from_outside(tree.root, why)
            self._trigger.notify(
                Event(key, ROOT, Happening.ABORTED, why or "the workflow was aborted")
            )
        elif _is_deleted(new) and not (old and _is_deleted(old)):
            self._trigger.notify(
                Event(key, ROOT, Happening.ABORTED, "the workflow is being deleted")
            )

    def _node_changed(self, new: Obj | None, old: Obj | None) -> None:
        """Somebody aborts it, or removes it, which is as good."""
        metadata = (new or old or {})["metadata"]
        if new and (not _is_aborted(new) or (old and _is_aborted(old))):
            return
        key = Key(metadata["namespace"], (metadata.get("labels") or {}).get(WORKFLOW_LABEL, ""))
        tree = self._repository.trees.get(key)
        node = tree.nodes.get(metadata["name"]) if tree else None
        if tree is None or node is None or node.is_over:
            return
        if new:
            self._voice.ended_from_outside(node)
        why = _named(node, "it was aborted") if new else self._lost(tree, node)
        self._trigger.notify(Event(key, node.name, Happening.ABORTED, why))

    def _lost(self, tree: Tree, node: Node) -> str:
        """Whoever is deleted takes along what is below, and that may go first."""
        while node.parent and (above := tree.nodes[node.parent]) and self._goes(above):
            node = above
        return _named(node, LOST)

    def _goes(self, node: Node) -> bool:
        obj = self._nodes.get(node.name, node.obj["metadata"]["namespace"])
        return obj is None or _is_deleted(obj)


def _named(node: Node, why: str) -> str:
    """Whom that befell: what is above, below and beside it is ended with the same words."""
    return f"{node.template.name}: {why}"


def _is_aborted(obj: Obj) -> bool:
    return bool((obj["metadata"].get("annotations") or {}).get(ABORT) == "true")


def _is_deleted(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]
