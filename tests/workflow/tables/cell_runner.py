"""Execute one table cell: a node in a phase receives an event; effects are returned as text.

What follows is said in a few words: the phases that the node goes through, who is told what, what
is told later and when, and what is made and removed.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from engine_env import partition, suspend, task, template

from pytest_kscen.clock import timestamp_of
from pytest_kscen.objects.chaos_mesh import CHAOS_INJECTED, KINDS, SHIPPED
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS, owner_reference
from pytest_kscen.workflow.engine.actors import ActorClients, NodeObjects
from pytest_kscen.workflow.engine.cleanup import LeftoverCleaner
from pytest_kscen.workflow.engine.node_probes import ProbeCoordinator
from pytest_kscen.workflow.engine.processor import EventProcessor
from pytest_kscen.workflow.engine.reporting import EventReporter
from pytest_kscen.workflow.engine.repository import PARENT_ANNOTATION, Repository
from pytest_kscen.workflow.engine.templates import Definition
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.engine.triggers import OperableTrigger
from pytest_kscen.workflow.tables.machine import EventType, NodeEvent

CHECK = {
    "mode": "Synchronous",
    "type": "HTTP",
    "http": {"url": "http://here", "criteria": {"statusCode": "200"}},
}
SUBJECTS = {
    "Serial": template("it", "Serial", children=["a", "b"], deadline="100s"),
    "Parallel": template("it", "Parallel", children=["a", "b"], deadline="100s"),
    "Suspend": suspend("it", "100s"),
    "Chaos": partition("it", "100s"),
    "Schedule": template(
        "it", "Schedule", deadline="100s", schedule={"schedule": "@every 1m", "type": "PodChaos"}
    ),
    "Task": task("it", ("a", "exitCode == 0"), ("b", ""), deadline="100s"),
    "StatusCheck": template("it", "StatusCheck", statusCheck=CHECK, deadline="100s"),
    "aborting StatusCheck": template(
        "it", "StatusCheck", statusCheck=CHECK, deadline="100s", abortWithStatusCheck=True
    ),
    "continuous StatusCheck": template(
        "it", "StatusCheck", statusCheck={**CHECK, "mode": "Continuous"}, deadline="100s"
    ),
}
MADE = {"Chaos": KINDS["NetworkChaos"].resource, "Schedule": SHIPPED.schedules, "Task": PODS}
UNSEEN = {"workflownodes", "workflows", "events"}


class NoWatcher:
    """Watcher without effects; watches are outside the tables."""

    async def follow(self, resource):
        pass

    def is_synced(self, resource):
        return True

    def why_not_injected(self, tree, node):
        return "so it says"

    def why_pod_is_late(self, tree, node):
        return ""


class NoCleanup(LeftoverCleaner):
    """Cleaner without effects; cleanup is outside the tables."""

    def leave(self, tree, node):
        pass


class CellRunner:
    def __init__(self, engine_env):
        self.engine_env = engine_env
        self.numbers = itertools.count(1)
        self.entries = []
        engine_env.journal.follow(self.entries.append)

    def play(
        self,
        machine,
        phase,
        event,
        *,
        children=(),
        exists=True,
        engine=None,
        held=False,
        aborted=False,
        exit="",
        waiting=None,
    ):
        """`children` are the phases of those that were made, in order; `engine` is what the engine
        has written beside.

        `held` says that its chaos was in effect; `waiting` is what has happened to it too, and
        comes next."""
        self.engine_env.runner.advance(1)
        subject = (
            self._workflow(phase, children, aborted=aborted, exit=exit)
            if machine == "Workflow"
            else None
        )
        subject = subject or self._node(
            machine, phase, children, engine or {}, exists=exists, held=held
        )
        self.entries.clear()
        if waiting:
            subject.trigger.notify(NodeEvent(subject.tree.key, subject.name, waiting))
        self.engine_env.call(
            subject.processor.take(NodeEvent(subject.tree.key, subject.name, event))
        )
        return "; ".join(self._followed(subject)) or "-"

    # --- before ---

    def _create_objects(self, *, exit="", aborted=False, phase="Running", machine="Suspend"):
        number = next(self.numbers)
        templates = [
            template("top", "Parallel", children=["it"]),
            SUBJECTS[machine],
            suspend("a"),
            suspend("b"),
            suspend("bye"),
        ]
        workflow = self.engine_env.create_workflow(
            "top", *templates, name=f"w{number}", **({"onExit": exit} if exit else {})
        )
        conditions = [{"type": "Aborted", "status": "True", "reason": ""}] if aborted else []
        status = {
            "phase": phase,
            "conditions": conditions,
            "startTime": timestamp_of(self.engine_env.clock.now()),
        }
        workflow = self._status(SHIPPED.workflows, workflow, status)
        actor = self.engine_env.actor()
        repository = Repository(actor, SHIPPED)
        trigger = OperableTrigger("cells", actor.clock)
        clients = ActorClients(SHIPPED, NodeObjects(actor), NoWatcher())
        probe_coordinator, reporter = ProbeCoordinator(actor, trigger, None), EventReporter(actor)
        cleaner = NoCleanup(actor, repository, reporter, clients, None)
        processor = EventProcessor(
            repository, trigger, reporter, clients, probe_coordinator, cleaner=cleaner
        )
        tree = repository.add_tree(workflow)
        tree.definition = Definition.of(workflow["spec"])
        return SimpleNamespace(
            number=number,
            repository=repository,
            trigger=trigger,
            processor=processor,
            tree=tree,
            workflow=workflow,
        )

    def _workflow(self, phase, children, *, aborted, exit):
        planted = self._create_objects(phase=phase, exit=exit, aborted=aborted)
        for name, child in zip(("top", "bye"), children, strict=False):
            planted.tree.root.children.append(
                self._add_children(planted, name, ROOT, planted.workflow, child).name
            )
        planted.name = ROOT
        return planted

    def _node(self, machine, phase, children, engine, *, exists, held):
        planted = self._create_objects(machine=machine)
        top = self._add_children(planted, "top", ROOT, planted.workflow, "WaitingForChild")
        planted.tree.root.children.append(top.name)
        now = self.engine_env.clock.now()
        body = {
            key: value
            for key, value in SUBJECTS[machine].items()
            if key not in ("name", "templateType", "deadline")
        }
        names = [f"{name}-{planted.number}" for name in ("a", "b")[: len(children)]]
        shown = [{"name": name} for name in names]
        status = {
            "engine": {"heldUntil": timestamp_of(now + 40, micro=True), **engine},
            "finishedChildren": shown,
        }
        status["engine"] = {
            name: value for name, value in status["engine"].items() if value is not None
        }
        status["conditions"] = (
            [{"type": CHAOS_INJECTED, "status": "True", "reason": ""}] if held else []
        )
        it = self._add_children(
            planted,
            "it",
            top.name,
            top.obj,
            phase,
            kind=SUBJECTS[machine]["templateType"],
            status=status,
            deadline=100,
            **body,
        )
        top.children.append(it.name)
        for name, child in zip(("a", "b"), children, strict=False):
            self._add_children(planted, name, it.name, it.obj, child)
        if (
            phase not in ("Init", "Succeed", "Failed")
            and exists
            and machine.split()[-1] in (*MADE, "StatusCheck")
        ):
            self._make(planted, it, machine)
        planted.name = it.name
        return planted

    def _add_children(
        self,
        planted,
        name,
        parent,
        owner,
        phase,
        *,
        kind="Suspend",
        status=None,
        deadline=10,
        **spec,
    ):
        number, now = planted.number, self.engine_env.clock.now()
        times = {
            "startTime": timestamp_of(now, micro=True),
            "deadline": timestamp_of(now + deadline, micro=True),
        }
        metadata = {
            "name": f"{name}-{number}",
            "namespace": "default",
            "labels": {"chaos-mesh.org/workflow": planted.tree.key.name},
            "annotations": {PARENT_ANNOTATION: parent},
            "ownerReferences": [owner_reference(owner)],
        }
        spec = {
            "templateName": name,
            "workflowName": planted.tree.key.name,
            "type": kind,
            **times,
            **spec,
        }
        made = self.engine_env.create(SHIPPED.nodes, {"metadata": metadata, "spec": spec})
        made = self._status(SHIPPED.nodes, made, {"phase": phase, **(status or {})})
        return planted.repository.add_node(planted.tree, made)

    def _make(self, planted, it, machine):
        clients, tree = planted.processor.clients, planted.tree
        resource = MADE.get(machine, SHIPPED.status_checks)
        body = (
            {"spec": it.template.chaos}
            if machine == "Chaos"
            else {"spec": it.template.body.get("schedule") or CHECK}
        )
        if machine == "Task":
            self.engine_env.call(clients.node_objects.create(CONFIG_MAPS, tree, it, {"data": {}}))
            body = {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }
            }
        made = self.engine_env.call(clients.node_objects.create(resource, tree, it, body))
        if machine == "Task":
            ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
            self._status(PODS, made, {"phase": "Succeeded", "containerStatuses": [ended]})
            self.engine_env.logs.begin(made, "main").write("done\n")

    def _status(self, resource, obj, status):
        name, api = obj["metadata"]["name"], self.engine_env.api
        return self.engine_env.call(
            api.patch(resource, name, {"status": status}, "default", subresource="status")
        )

    # --- after ---

    def _followed(self, subject):
        for entry in self.entries:
            data = entry.data
            if entry.what == "workflow-node" and data["node"] != subject.name:
                yield f"made {data['template']}"
            elif entry.what in {"workflow-node", "workflow-phase"}:
                yield data["phase"]
            elif (
                entry.what == "wrote" and (resource := data["resource"].split(".")[0]) not in UNSEEN
            ):
                yield f"{data['verb']} {resource}"
            elif (
                entry.what == "wrote"
                and data["resource"].startswith("workflows.")
                and "subresource" not in data
            ):
                yield "aborted the workflow"
        reported = list(self._told(subject))
        yield from reported
        yield from self._later(subject)
        node = subject.tree.node(subject.name)
        if node.is_unsaved:
            assert reported == [f"itself told {EventType.PICK}"], (
                "what comes of that is written, and the phase with it"
            )
            self.engine_env.call(
                subject.processor.take(NodeEvent(subject.tree.key, subject.name, EventType.PICK))
            )
        assert not node.is_unsaved
        assert self.engine_env.call(self._stored_status(subject)) == node.phase

    async def _stored_status(self, subject):
        resource = SHIPPED.workflows if subject.name == ROOT else SHIPPED.nodes
        name = subject.tree.key.name if subject.name == ROOT else subject.name
        return (await self.engine_env.api.get(resource, name, "default"))["status"]["phase"]

    def _told(self, subject):
        while subject.trigger.waits(subject.tree.key):
            event = self.engine_env.call(subject.trigger.acquire())
            subject.trigger.done(event)
            yield f"{self._recipient(subject, event.node)} told {event.event_type}"

    def _later(self, subject):
        for instant, _, event in sorted(subject.trigger._later):
            node = subject.tree.node(subject.name)
            counts = "" if event.phase_count in (-1, node.phase_count) else " in vain"
            yield f"{event.event_type} in {instant - self.engine_env.clock.now():g} s{counts}"

    def _recipient(self, subject, name):
        node = subject.tree.node(subject.name)
        if name == subject.name:
            return "itself"
        return "parent" if name == node.parent else subject.tree.node(name).template.name
