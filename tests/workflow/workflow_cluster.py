"""Random workflows and disturbances on a cluster with a Chaos Mesh daemon, and their invariants."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from engine_env import partition, suspend, task, template
from hypothesis import strategies as st

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.apiserver.admission import Hook
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.arguments import seconds_of_text
from pytest_kscen.objects.chaos_mesh import (
    ABORT,
    KINDS,
    NODE_LABEL,
    OVER,
    PAUSE,
    SHIPPED,
    WORKFLOW_LABEL,
    phase_of,
)
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import PODS, SERVICES
from pytest_kscen.run.workflows import install_chaos_mesh
from pytest_kscen.workflow.engine.manager import WorkflowManager
from pytest_kscen.workflow.engine.pending_writes import LONGEST_PAUSE
from pytest_kscen.workflow.engine.repository import PARENT_ANNOTATION
from pytest_kscen.workflow.engine.trees import ROOT
from pytest_kscen.workflow.schedules import ScheduleController
from pytest_kscen.workflow.status_checks import StatusCheckController

CHAOS = [KINDS[kind].resource for kind in ("NetworkChaos", "PodChaos")]
MADE = [*CHAOS, SHIPPED.schedules, SHIPPED.status_checks]
REFUSED = "refused"
LASTING = {"NetworkChaos", "PodChaos", "Schedule"}
"""What may have no deadline where something above it has one."""
DEADLINES = st.sampled_from(["1s", "5s", "20s", "90s"])
SELECTORS = st.sampled_from([{"app": "a"}, {"app": "a"}, {"app": "b"}, {"app": "nobody"}])
EXPRESSIONS = st.sampled_from(["exitCode == 0", "exitCode != 0", "", "", "stdout[5] == 'x'"])
SCHEDULES = ["@every 3s", "@every 11s", "@every 1h"]
URLS = ["http://a.default/", "http://nobody.default/"]
THERE = {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
ABSENT = {"apiVersion": "v1", "kind": "Pod", "name": "nobody"}
COMMAND = {"container": {"image": "busybox", "command": ["sh", "-c", "sleep 3"]}}
FORMS = [
    {"kubernetes": THERE},
    {"kubernetes": THERE},
    {"kubernetes": THERE},
    {"kubernetes": ABSENT},
    {"command": COMMAND},
]
DISTURBANCES = (
    *(
        "abort",
        "abort a node",
        "remove chaos",
        "stick",
        "stick",
        "remove a node",
        "pause",
        "vanish",
        "remove the workflow",
    ),
    *(
        "remove a node",
        "orphan a node",
        "orphan the workflow",
        "disown",
        "remove a check",
        "remove a schedule",
    ),
    *("strip", "orphan a schedule", "mute its nodes", "mute it", "keep", "keep", "nothing"),
)
"""What may befall a workflow; the last is for its engine alone."""
DISTURBED_RESOURCES = {
    **{what: [SHIPPED.nodes] for what in ("abort a node", "remove a node", "orphan a node")},
    "vanish": [PODS],
    "remove a check": [SHIPPED.status_checks],
    "remove a schedule": [SHIPPED.schedules],
    "orphan a schedule": [SHIPPED.schedules],
}
"""Whom it befalls, if that is not its chaos."""
COLLECTED_WITHIN = 1000.0
"""Seconds that the garbage collector may take until it tries again what it was refused."""
AWAY = st.one_of(st.none(), st.none(), st.floats(0, 40))
"""For so long there is no engine, and that is when it happens."""


@st.composite
def leaves(draw, name):
    match draw(
        st.sampled_from(
            ["Suspend", "Suspend", "partition", "partition", "kill", "task", "check", "schedule"]
        )
    ):
        case "Suspend":
            return suspend(name, draw(DEADLINES))
        case "partition":
            made = partition(name, draw(DEADLINES))
            made["networkChaos"]["selector"]["labelSelectors"] = draw(SELECTORS)
        case "kill":
            selector = {"namespaces": ["default"], "labelSelectors": draw(SELECTORS)}
            chaos = {"action": "pod-kill", "mode": "one", "selector": selector}
            made = template(name, "PodChaos", deadline=draw(DEADLINES), podChaos=chaos)
        case "check":
            http = {"url": draw(st.sampled_from(URLS)), "criteria": {"statusCode": "200"}}
            body = {
                "mode": draw(st.sampled_from(["Synchronous", "Continuous"])),
                "type": "HTTP",
                "http": http,
            }
            check = {
                **body,
                "intervalSeconds": 2,
                "failureThreshold": draw(st.sampled_from([2, 1000])),
            }
            return template(
                name,
                "StatusCheck",
                deadline=draw(DEADLINES),
                statusCheck=check,
                abortWithStatusCheck=draw(st.booleans()),
            )
        case "schedule":
            spec = partition(name)["networkChaos"]
            often = {
                "schedule": draw(st.sampled_from(SCHEDULES)),
                "concurrencyPolicy": draw(st.sampled_from(["Allow", "Forbid"])),
            }
            spawned = {
                **often,
                "type": "NetworkChaos",
                "historyLimit": 2,
                "networkChaos": {**spec, "duration": "4s"},
            }
            return template(name, "Schedule", deadline=draw(DEADLINES), schedule=spawned)
        case _:
            command = draw(st.sampled_from(["exit 0", "exit 1", "sleep 30", "echo hello"]))
            return task(name, command=command, deadline=draw(DEADLINES))
    if draw(st.integers(0, 9)) == 0:
        made["name"] = f"{name}-{REFUSED}"
    return made


@st.composite
def probes(draw):
    """Draw probes, mostly none."""
    whens = draw(
        st.lists(
            st.sampled_from(["Start", "End", "Edges", "Continuous", "OnChaos"]),
            max_size=2,
            unique=True,
        )
    )
    return [
        {
            "name": when.lower(),
            "when": when,
            **draw(st.sampled_from(FORMS)),
            "initialDelay": draw(st.sampled_from(["0s", "4s"])),
            "interval": "5s",
            "timeout": "8s",
            "failureThreshold": draw(st.integers(1, 2)),
            "stopOnFailure": draw(st.booleans()),
        }
        for when in (whens if draw(st.integers(0, 3)) == 0 else ())
    ]


@st.composite
def trees(draw):
    """Draw a Workflow's spec; every template occurs once."""
    numbers, templates = itertools.count(), []

    def grow(depth, *, is_bounded=False):
        name = f"t{next(numbers)}"
        kind = draw(st.sampled_from(["leaf", "Serial", "Parallel", "Task"])) if depth else "leaf"
        if kind == "leaf":
            made = draw(leaves(name))
            if is_bounded and made["templateType"] in LASTING and draw(st.booleans()):
                del made["deadline"]
        else:
            bound = (
                {"deadline": "5m" if kind == "Task" else draw(DEADLINES)}
                if kind == "Task" or draw(st.booleans())
                else {}
            )
            children = [
                grow(depth - 1, is_bounded=is_bounded or bool(bound))
                for _ in range(draw(st.integers(0, 3)))
            ]
            if kind == "Task":
                made = task(name, *((child, draw(EXPRESSIONS)) for child in children), **bound)
            else:
                made = template(name, kind, children=children, **bound)
        if draw(st.integers(0, 7)) == 0:
            made["retry"] = {
                "limit": draw(st.integers(1, 2)),
                "backoff": {"duration": "2s", "factor": 2},
            }
        if asked := draw(probes()):
            made["probes"] = asked
        templates.append(made)
        return made["name"]

    spec = {"entry": grow(3), "templates": templates}
    if draw(st.integers(0, 4)) == 0:
        spec["onExit"] = "bye"
        spec["probes"] = draw(probes())
        templates.append(suspend("bye", "3s"))
    if draw(st.integers(0, 4)) == 0:
        spec["parameters"] = [draw(parameters(each)) for each in templates if "deadline" in each]
    return spec


@st.composite
def parameters(draw, made):
    """Draw a parameter that overrides a duration."""
    return {
        "name": made["name"],
        "value": draw(DEADLINES),
        "paths": [f"templates[{made['name']}].deadline"],
    }


disturbances = st.lists(
    st.tuples(st.sampled_from(DISTURBANCES), st.floats(0, 60), st.integers(0, 100), AWAY),
    max_size=3,
)


class WorkflowCluster:
    def __init__(self, seed="forest"):
        self.cluster = EmbeddedCluster(seed, nodes=2)
        install_chaos_mesh(self.cluster)
        self.runner, self.api = self.cluster.runner, self.cluster.api("test")
        self.journal = Journal(self.runner.clock)
        self.cluster.admission.add(
            Hook("refuses", validate=_refuse, resources=CHAOS, operations=["CREATE"])
        )
        self.muted, self.kept, self.patient_until, self.patience = None, None, 0.0, 0.0
        self.cluster.admission.add(
            Hook(
                "mutes",
                validate=self._refuse_statuses,
                resources=[SHIPPED.nodes, SHIPPED.workflows],
                subresources=("status",),
            )
        )
        self.cluster.admission.add(
            Hook(
                "keeps",
                validate=self._refuse_removals,
                resources=[*MADE, PODS],
                operations=["DELETE"],
            )
        )
        self.numbers, self.over = itertools.count(1), set()
        self.journal.follow(self._record_entry)
        for app, number in itertools.product("ab", (1, 2)):
            self._pod(app, f"{app}-{number}")
        body = {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}}
        self.call(
            self.api.create(SERVICES, {"metadata": {"name": "a", "namespace": "default"}, **body})
        )
        self.engine = None
        self.start()
        for controller in (StatusCheckController, ScheduleController):
            self.runner.start(
                controller(self.actor(controller.__name__), SHIPPED).run(), controller.__name__
            )

    def _pod(self, app, name):
        spec = {"containers": [{"name": "c", "image": "pause", "ports": [{"containerPort": 8080}]}]}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
        }
        labels = {"app": app, "set": name}
        body["spec"] = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
        resource = self.call(self.api.resource_of("apps/v1", "ReplicaSet"))
        self.call(self.api.create(resource, body))

    def call(self, coroutine):
        return self.runner.call(coroutine)

    def actor(self, name="workflow-engine"):
        clock, chance = self.runner.clock, self.cluster.chance
        return RunContext(self.cluster.api, clock, chance, self.journal, "run").actor(
            name, temporary=True
        )

    def start(self, actor=None):
        async def begin():
            return asyncio.get_running_loop().create_task(
                WorkflowManager(actor or self.actor()).run()
            )

        self.engine = self.call(begin())

    def stop(self):
        self.engine.cancel()
        self.call(asyncio.wait([self.engine]))

    def close(self):
        self.stop()
        self.journal.close()
        self.cluster.close()

    def _refuse_statuses(self, review):
        """Refuse status writes of this workflow for a while."""
        is_meant = (
            self.muted
            and review.new["kind"] == self.muted.kind
            and self.runner.clock.now() < self.patient_until
        )
        return "mute" if is_meant else ""

    def _refuse_removals(self, review):
        """Refuse removals of objects of this workflow's nodes for a while."""
        labels = review.obj["metadata"].get("labels") or {}
        is_meant = (
            self.kept == labels.get(WORKFLOW_LABEL, "")
            and self.runner.clock.now() < self.patient_until
        )
        return "kept" if is_meant else ""

    # --- one workflow ---

    def create_workflow(self, spec, name=""):
        name = name or f"w{next(self.numbers)}"
        self.call(
            self.api.create(
                SHIPPED.workflows,
                {"metadata": {"name": name, "namespace": "default"}, "spec": spec},
            )
        )
        return name

    def disturb(self, name, what, number):
        """Apply one disturbance, if it is possible in the workflow's state."""
        with contextlib.suppress(ApiError):
            match what:
                case "nothing":
                    pass
                case "mute its nodes" | "mute it":
                    self.muted = SHIPPED.workflows if what == "mute it" else SHIPPED.nodes
                    self.patient_until = self.runner.clock.now() + 5 * number
                case "keep":
                    self.kept, self.patient_until = name, self.runner.clock.now() + 5 * number
                    self.patience = COLLECTED_WITHIN
                case "abort":
                    self._patch(SHIPPED.workflows, name, {"annotations": {ABORT: "true"}})
                case "remove the workflow" | "orphan the workflow":
                    self._delete(SHIPPED.workflows, name, what)
                    self.over.add(name)
                case _:
                    found = self.of(name, *DISTURBED_RESOURCES.get(what, CHAOS))
                    if found:
                        self._disturb_one(found[number % len(found)], what)

    def _disturb_one(self, obj, what):
        kind, name = obj["kind"], obj["metadata"]["name"]
        resource = KINDS[kind].resource if kind in KINDS else DISTURBED_RESOURCES[what][0]
        stuck = {"finalizers": [*obj["metadata"].get("finalizers", ()), "example.com/stuck"]}
        changes = {
            "abort a node": {"annotations": {ABORT: "true"}},
            "pause": {"annotations": {PAUSE: "true"}},
            "stick": stuck,
            "disown": {"ownerReferences": None},
            "strip": {"labels": {NODE_LABEL: None}},
        }
        if what in changes:
            self._patch(resource, name, changes[what])
        elif what == "vanish":
            self.call(self.api.delete(PODS, name, "default", grace_period=0))
        else:
            self._delete(resource, name, what)

    def disturb_without_engine(self, name, what, number, seconds):
        """Apply one disturbance while no engine runs."""
        self.stop()
        self.disturb(name, what, number)
        self.runner.advance(seconds)
        self.start()

    def _patch(self, resource, name, metadata):
        self.call(self.api.patch(resource, name, {"metadata": metadata}, "default"))

    def _delete(self, resource, name, what):
        how = "Orphan" if what.startswith("orphan") else "Background"
        self.call(self.api.delete(resource, name, "default", propagation=how))

    def of(self, name, *resources):
        labels = f"chaos-mesh.org/workflow={name}"
        return [
            obj
            for each in resources
            for obj in self.call(self.api.list(each, "default", labels=labels)).items
        ]

    def nodes(self, name):
        return self.of(name, SHIPPED.nodes)

    def chaos(self, name):
        return self.of(name, *CHAOS)

    def workflow(self, name):
        found = self.call(
            self.api.list(SHIPPED.workflows, "default", fields=f"metadata.name={name}")
        ).items
        return found[0] if found else None

    def _record_entry(self, entry):
        if entry.what == "workflow-phase" and entry.data["phase"] in OVER:
            self.over.add(entry.data["workflow"])

    def end(self, name):
        """Wait for the end; return the workflow, unless it was deleted, and its nodes by name."""
        assert self.runner.until(lambda: name in self.over, 7200), self.shown(name)
        if self.muted or self.kept:
            self.runner.advance(
                max(self.patient_until - self.runner.clock.now(), 0) + LONGEST_PAUSE + 1
            )
            self.muted = self.kept = None
        workflow = self.workflow(name)
        is_kept = workflow and "deletionTimestamp" not in workflow["metadata"]
        return workflow if is_kept else None, {
            node["metadata"]["name"]: node for node in self.nodes(name)
        }

    def shown(self, name):
        return [
            (node["metadata"]["name"], phase_of(node), node.get("status", {}).get("message"))
            for node in self.nodes(name)
        ]

    def free(self, name):
        """Release held objects and wait until all are deleted."""
        for obj in self.chaos(name):
            loose = [
                each
                for each in obj["metadata"].get("finalizers", ())
                if each != "example.com/stuck"
            ]
            with contextlib.suppress(ApiError):
                patch = {"metadata": {"finalizers": loose}}
                self.call(
                    self.api.patch(
                        KINDS[obj["kind"]].resource, obj["metadata"]["name"], patch, "default"
                    )
                )
        with contextlib.suppress(ApiError):
            self.call(self.api.delete(SHIPPED.workflows, name, "default", propagation="Background"))
        self.runner.advance(60)
        if self._made():
            self.runner.advance(self.patience)
        assert self._made() == []
        self.patience = 0.0
        for obj in self.of(name, SHIPPED.nodes, PODS):  # what somebody has orphaned
            assert phase_of(obj) in (*OVER, "Succeeded"), self.shown(name)
            with contextlib.suppress(NotFound):
                self._delete(
                    PODS if obj["kind"] == "Pod" else SHIPPED.nodes, obj["metadata"]["name"], ""
                )
        self.runner.advance(60)
        assert (self.workflow(name), self.of(name, SHIPPED.nodes, PODS)) == (None, [])

    def _made(self):
        return [
            obj["metadata"]["name"]
            for resource in MADE
            for obj in self.call(self.api.list(resource, "default")).items
        ]


def _refuse(review):
    return "not here" if REFUSED in review.name else ""


def durations_of(spec):
    """Return declared durations in seconds by template, with parameters applied; None without one."""
    given = {each["name"]: each["value"] for each in spec.get("parameters", ())}
    message = {
        each["name"]: given.get(each["name"], each.get("deadline")) for each in spec["templates"]
    }
    return {name: seconds_of_text(length) if length else None for name, length in message.items()}


def counted_nodes(workflow, nodes):
    """Return nodes except those of failed attempts that were repeated."""
    entry = workflow["status"].get("entryNode")
    roots = [
        name
        for name, node in nodes.items()
        if node["metadata"]["annotations"][PARENT_ANNOTATION] == ROOT
    ]
    queue, found = [name for name in (entry, *roots) if name in nodes], {}
    while queue:
        name = queue.pop()
        found[name] = nodes[name]
        status = nodes[name].get("status", {})
        queue += [
            each["name"]
            for kind in ("activeChildren", "finishedChildren")
            for each in status.get(kind) or ()
            if each["name"] in nodes
        ]
    return found


@contextlib.contextmanager
def recorded_entries(name):
    """Yield a cluster with `entries`, the recorded journal entries."""
    workflow_cluster = WorkflowCluster(name)
    workflow_cluster.entries = []
    workflow_cluster.journal.follow(workflow_cluster.entries.append)
    yield workflow_cluster
    workflow_cluster.close()


def start_long_partition(workflow_cluster):
    """Start a workflow, wait until its chaos is active, and return its name."""
    cut = partition("cut", "1h")
    cut["networkChaos"]["selector"]["labelSelectors"] = {"app": "a"}
    name = workflow_cluster.create_workflow(
        {"entry": "all", "templates": [template("all", "Serial", children=["cut"]), cut]}
    )
    workflow_cluster.runner.advance(5)
    assert len(workflow_cluster.chaos(name)) == 1
    return name


def refuse_writes(workflow_cluster, resource):
    hook = Hook("keeps", validate=lambda _: "not yet", resources=[resource], operations=["DELETE"])
    workflow_cluster.cluster.admission.add(hook)
    return hook


@contextlib.contextmanager
def refuse_two_removals(workflow_cluster, resource):
    """Refuse the first two removals; return the list of all requested ones."""
    asked = []

    def refuse(review):
        asked.append(review.name)
        return "not yet" if len(asked) < 3 else None

    hook = Hook("keeps", validate=refuse, resources=[resource], operations=["DELETE"])
    workflow_cluster.cluster.admission.add(hook)
    yield asked
    workflow_cluster.cluster.admission.remove(hook)
