"""Single plugin on a cluster laid out by the test; no scheduler runs."""

import numpy as np

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.scheduler.framework.attempt import CycleState
from pytest_kscen.embedded.scheduler.framework.handle import Handle, TieBreaker, WaitingPods
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NominatedPods, PodInfo
from pytest_kscen.embedded.scheduler.framework.snapshot import Snapshot
from pytest_kscen.embedded.scheduler.framework.status import Code
from pytest_kscen.embedded.scheduler.queue import SchedulingQueue
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.resources import NAMESPACES


def rows_of(nodes):
    return np.fromiter((node.row for node in nodes), np.intp)


SKIPPED = "skipped"


class Rig:
    def __init__(self, api, runner, *, large):
        self.api, self.runner = api, runner
        self.informers = Informers(api, runner.clock)
        runner.start(self.informers.run(), "informers")
        context, nominated = (
            ControllerContext.of("scheduler", api, runner.clock, self.informers),
            NominatedPods(),
        )
        self.snapshot = Snapshot(large=large)
        self.handle = Handle(
            context=context,
            chance=(chance := Chance("rig").stream("scheduler")),
            ties=TieBreaker(chance),
            snapshot=self.snapshot,
            nominated=nominated,
            waiting=WaitingPods(),
            queue=SchedulingQueue(context.now, nominated),
            child_tasks=ChildTasks(),
        )

    def make(self, plugin, **args):
        made = plugin(args, self.handle)
        for resource in made.reads:
            self.informers.of(resource)
        self.runner.advance(0)
        return made

    def create(self, resource, obj):
        self.runner.call(self.api.create(resource, obj))
        self.runner.advance(0)

    def namespace(self, name, **labels):
        self.create(
            NAMESPACES,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
        )

    def node(self, name, *, taints=(), **labels):
        labels = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        metadata = {"name": name, "labels": {"host": name, **labels}}
        status = {"capacity": amounts, "allocatable": amounts}
        self.snapshot.update_node(
            name, {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status}
        )

    def zones(self, **counts):
        """Add the given number of nodes per zone: a1, a2, b1, …"""
        for zone, count in counts.items():
            for number in range(1, count + 1):
                self.node(f"{zone}{number}", zone=zone)

    def pod(
        self, name="p", on="", *, labels=None, namespace="default", going=False, meta=None, **spec
    ):
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "labels": labels or {},
            **(meta or {}),
        }
        if going:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pod = PodInfo({"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}})
        if on:
            self.snapshot.assign_pod(pod, on)
        return pod

    def filtered(self, plugin, pod):
        """Return the refusal message per node; an empty string is acceptance."""
        self.snapshot.refresh()
        nodes, table, state = self.snapshot.nodes, self.snapshot.table, CycleState()
        status = plugin.pre_filter(state, pod, nodes)
        if status is not None and status.code is Code.SKIP:
            return dict.fromkeys(sorted(node.name for node in nodes), SKIPPED)
        statuses = {node.name: plugin.filter(state, pod, node) for node in nodes}
        if table is not None:
            wrong = plugin.filter_many(state, pod, table, rows_of(nodes))
            refused = [False] * len(nodes) if wrong is None else wrong.tolist()
            assert refused == [status is not None for status in statuses.values()]
        return {
            name: status.message if (status := statuses[name]) else "" for name in sorted(statuses)
        }

    def passed(self, plugin, pod):
        """Return the accepted nodes."""
        return " ".join(
            name for name, said in self.filtered(plugin, pod).items() if said in {"", SKIPPED}
        )

    def scored(self, plugin, pod, names=""):
        """Return the raw and the final score of each node."""
        self.snapshot.refresh()
        nodes = [node for node in self.snapshot.nodes if not names or node.name in names.split()]
        state, table = CycleState(), self.snapshot.table
        status = plugin.pre_score(state, pod, nodes)
        if status is not None and status.code is Code.SKIP:
            return SKIPPED
        raw = [plugin.score(state, pod, node) for node in nodes]
        final = plugin.normalize(state, pod, list(raw))
        if table is not None:
            many = plugin.score_many(state, pod, table, rows_of(nodes))
            assert many.tolist() == raw
            assert plugin.normalize_many(state, pod, many).tolist() == final
        return dict(
            sorted(zip((node.name for node in nodes), zip(raw, final, strict=True), strict=True))
        )
