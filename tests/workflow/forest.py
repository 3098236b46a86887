"""Random workflows on one cluster with a Chaos Mesh daemon, random things that befall them, and what must be so at the end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from hypothesis import strategies as st
from theatre import partition, suspend, task, template

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import Stage
from pytest_kscen.machinery.admission import Hook
from pytest_kscen.objects.chaos_mesh import KINDS, PAUSE
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.workflows import ABORT, OVER, SHIPPED, phase_of
from pytest_kscen.runs.chaos_mesh import bring_chaos_mesh
from pytest_kscen.workflow.manager import WorkflowManager

CHAOS = [KINDS[kind].resource for kind in ("NetworkChaos", "PodChaos")]
REFUSED = "refused"
DEADLINES = st.sampled_from(["1s", "5s", "20s", "90s"])
SELECTORS = st.sampled_from([{"app": "a"}, {"app": "a"}, {"app": "b"}, {"app": "nobody"}])
EXPRESSIONS = st.sampled_from(["exitCode == 0", "exitCode != 0", "", "", "stdout[5] == 'x'"])
MISFORTUNES = ("abort", "abort a node", "remove chaos", "stick", "stick", "remove a node", "pause", "vanish", "remove the workflow")


@st.composite
def leaves(draw, name):
    match draw(st.sampled_from(["Suspend", "Suspend", "partition", "partition", "kill", "task"])):
        case "Suspend":
            return suspend(name, draw(DEADLINES))
        case "partition":
            made = partition(name, draw(DEADLINES))
            made["networkChaos"]["selector"]["labelSelectors"] = draw(SELECTORS)
        case "kill":
            selector = {"namespaces": ["default"], "labelSelectors": draw(SELECTORS)}
            chaos = {"action": "pod-kill", "mode": "one", "selector": selector}
            made = template(name, "PodChaos", deadline=draw(DEADLINES), podChaos=chaos)
        case _:
            command = draw(st.sampled_from(["exit 0", "exit 1", "sleep 30", "echo hello"]))
            return task(name, command=command, deadline=draw(DEADLINES))
    if draw(st.integers(0, 9)) == 0:
        made["name"] = f"{name}-{REFUSED}"
    return made


@st.composite
def trees(draw):
    """A Workflow's spec. Every template comes once."""
    numbers, templates = itertools.count(), []

    def grow(depth):
        name = f"t{next(numbers)}"
        kind = draw(st.sampled_from(["leaf", "Serial", "Parallel", "Task"])) if depth else "leaf"
        if kind == "leaf":
            made = draw(leaves(name))
        else:
            children = [grow(depth - 1) for _ in range(draw(st.integers(0, 3)))]
            if kind == "Task":
                made = task(name, *((child, draw(EXPRESSIONS)) for child in children), deadline="5m")
            else:
                made = template(name, kind, children=children)
            if kind != "Task" and draw(st.booleans()):
                made["deadline"] = draw(DEADLINES)
        if draw(st.integers(0, 7)) == 0:
            made["retry"] = {"limit": draw(st.integers(1, 2)), "backoff": {"duration": "2s", "factor": 2}}
        templates.append(made)
        return made["name"]

    spec = {"entry": grow(3), "templates": templates}
    if draw(st.integers(0, 4)) == 0:
        spec["onExit"] = "bye"
        templates.append(suspend("bye", "3s"))
    return spec


misfortunes = st.lists(st.tuples(st.sampled_from(MISFORTUNES), st.floats(0, 60), st.integers(0, 100)), max_size=3)


class Forest:
    def __init__(self, seed="forest"):
        self.cluster = EmbeddedCluster(seed, nodes=2)
        bring_chaos_mesh(self.cluster)
        self.runner, self.api = self.cluster.runner, self.cluster.api("test")
        self.journal = Journal(self.runner.clock)
        self.cluster.admission.add(Hook("refuses", validate=_refuse, resources=CHAOS, operations=["CREATE"]))
        self.numbers, self.over = itertools.count(1), set()
        self.journal.follow(self._hear)
        for app, number in itertools.product("ab", (1, 2)):
            self._pod(app, f"{app}-{number}")
        self.engine = None
        self.start()

    def _pod(self, app, name):
        spec = {"containers": [{"name": "c", "image": "pause"}]}
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": "default"}}
        labels = {"app": app, "set": name}
        body["spec"] = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
        resource = self.call(self.api.resource_of("apps/v1", "ReplicaSet"))
        self.call(self.api.create(resource, body))

    def call(self, coroutine):
        return self.runner.call(coroutine)

    def actor(self):
        clock, chance = self.runner.clock, self.cluster.chance
        return Stage(self.cluster.api, clock, chance, self.journal, "run").actor("workflow-engine", passing=True)

    def start(self, actor=None):
        async def begin():
            return asyncio.get_running_loop().create_task(WorkflowManager(actor or self.actor()).run())

        self.engine = self.call(begin())

    def stop(self):
        self.engine.cancel()
        self.call(asyncio.wait([self.engine]))

    def close(self):
        self.stop()
        self.journal.close()
        self.cluster.close()

    # --- one workflow ---

    def put_on(self, spec, name=""):
        name = name or f"w{next(self.numbers)}"
        self.call(self.api.create(SHIPPED.workflows, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
        return name

    def befall(self, name, what, number):
        """One misfortune, if it can befall this workflow as it is now."""
        chosen = {"abort a node": self.nodes(name), "remove a node": self.nodes(name), "vanish": self.of(name, PODS)}
        found = chosen.get(what, self.chaos(name))
        obj = found[number % len(found)] if found else None
        with contextlib.suppress(ApiError):
            match what:
                case "abort":
                    self._annotate(SHIPPED.workflows, name, {ABORT: "true"})
                case "remove the workflow":
                    self.call(self.api.delete(SHIPPED.workflows, name, "default", propagation="Background"))
                    self.over.add(name)
                case _ if obj is None:
                    pass
                case "abort a node":
                    self._annotate(SHIPPED.nodes, obj["metadata"]["name"], {ABORT: "true"})
                case "pause":
                    self._annotate(KINDS[obj["kind"]].resource, obj["metadata"]["name"], {PAUSE: "true"})
                case "stick":
                    held = {"metadata": {"finalizers": [*obj["metadata"].get("finalizers", ()), "example.com/stuck"]}}
                    self.call(self.api.patch(KINDS[obj["kind"]].resource, obj["metadata"]["name"], held, "default"))
                case "vanish":
                    self.call(self.api.delete(PODS, obj["metadata"]["name"], "default", grace_period=0))
                case "remove a node":
                    self.call(self.api.delete(SHIPPED.nodes, obj["metadata"]["name"], "default"))
                case "remove chaos":
                    self.call(self.api.delete(KINDS[obj["kind"]].resource, obj["metadata"]["name"], "default"))

    def _annotate(self, resource, name, annotations):
        self.call(self.api.patch(resource, name, {"metadata": {"annotations": annotations}}, "default"))

    def of(self, name, resource):
        return self.call(self.api.list(resource, "default", labels=f"chaos-mesh.org/workflow={name}")).items

    def nodes(self, name):
        return self.of(name, SHIPPED.nodes)

    def chaos(self, name):
        return [obj for resource in CHAOS for obj in self.of(name, resource)]

    def workflow(self, name):
        found = self.call(self.api.list(SHIPPED.workflows, "default", fields=f"metadata.name={name}")).items
        return found[0] if found else None

    def _hear(self, entry):
        if entry.what == "workflow-phase" and entry.data["phase"] in OVER:
            self.over.add(entry.data["workflow"])

    def end(self, name):
        """Until it is over; what is then there: the workflow, and its nodes by name."""
        assert self.runner.until(lambda: name in self.over, 7200), self.shown(name)
        return self.workflow(name), {node["metadata"]["name"]: node for node in self.nodes(name)}

    def shown(self, name):
        return [(node["metadata"]["name"], phase_of(node), node["status"].get("message")) for node in self.nodes(name)]

    def free(self, name):
        """What was stuck is let go, and all of it goes."""
        for obj in self.chaos(name):
            loose = [each for each in obj["metadata"].get("finalizers", ()) if each != "example.com/stuck"]
            with contextlib.suppress(ApiError):
                patch = {"metadata": {"finalizers": loose}}
                self.call(self.api.patch(KINDS[obj["kind"]].resource, obj["metadata"]["name"], patch, "default"))
        with contextlib.suppress(ApiError):
            self.call(self.api.delete(SHIPPED.workflows, name, "default", propagation="Background"))
        self.runner.advance(60)
        assert (self.workflow(name), self.nodes(name), self.chaos(name), self.of(name, PODS)) == (None, [], [], [])


def _refuse(review):
    return "not here" if REFUSED in review.name else ""


def counted(workflow, nodes):
    """The nodes that count: not what was begun in attempts that failed, and were made again."""
    entry = workflow["status"].get("entryNode")
    roots = [name for name, node in nodes.items() if node["metadata"]["ownerReferences"][0]["kind"] == "Workflow"]
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
