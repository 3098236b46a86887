"""Single plugins on a snapshot of nodes and pods; per-node and vectorized results must agree."""

import numpy as np

from pytest_kscen.chance import Chance
from pytest_kscen.embedded.child_tasks import ChildTasks
from pytest_kscen.embedded.scheduler.framework.handle import TieBreaker, WaitingPods
from pytest_kscen.embedded.scheduler.framework.plugin import overrides
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import NominatedPods
from pytest_kscen.scheduler import CycleState, Handle, PodInfo, Snapshot

GI, MI = 1024**3, 1024**2


def pod(name="p", *, requests=None, labels=None, owner=None, container=None, **spec):
    resources = {"resources": {"requests": requests}} if requests else {}
    containers = spec.pop("containers", None) or [
        {"name": "c", "image": "app", **resources, **(container or {})}
    ]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return PodInfo({"metadata": metadata, "spec": {"containers": containers, **spec}})


def node(
    name, *, cpu="4", memory="8Gi", pods="110", labels=None, taints=(), images=(), more=None, **spec
):
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}
    listed = [{"names": [image], "sizeBytes": size} for image, size in images]
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": amounts, "images": listed},
    }


class PluginHarness:
    """Snapshot of nodes with pods, and one plugin."""

    def __init__(self, plugin, *nodes, args=None):
        self.snapshot = Snapshot(large=1)
        for one in nodes:
            self.snapshot.update_node(one["metadata"]["name"], one)
        self.handle = Handle(
            context=None,
            chance=(chance := Chance(1).stream("stage")),
            ties=TieBreaker(chance),
            snapshot=self.snapshot,
            nominated=NominatedPods(),
            waiting=WaitingPods(),
            queue=None,
            child_tasks=ChildTasks(),
        )
        self.plugin = plugin(args or {}, self.handle)

    def put(self, on, *pods):
        for one in pods:
            self.snapshot.assign_pod(one, on)
        return self

    def verdicts(self, one):
        """Return the refusal message of each node, or None; the vectorized filter must agree."""
        self.snapshot.refresh()
        state, nodes = CycleState(), self.snapshot.nodes
        answer = self.plugin.pre_filter(state, one, nodes)
        if answer is not None:
            return answer
        found = [self.plugin.filter(state, one, node) for node in nodes]
        if overrides(self.plugin, "filter_many"):
            wrong = self.plugin.filter_many(
                state, one, self.snapshot.table, self.snapshot.table.order
            )
            assert [status is not None for status in found] == (
                [False] * len(nodes) if wrong is None else wrong.tolist()
            )
        return [status and status.message for status in found]

    def scores(self, one):
        """Return the normalized scores, or the answer of pre_score; the vectorized score must
        agree.
        """
        self.snapshot.refresh()
        state, nodes, table = CycleState(), self.snapshot.nodes, self.snapshot.table
        answer = self.plugin.pre_score(state, one, nodes)
        if answer is not None:
            return answer
        raw = [self.plugin.score(state, one, node) for node in nodes]
        found = self.plugin.normalize(state, one, list(raw))
        if overrides(self.plugin, "score_many"):
            many = self.plugin.score_many(state, one, table, table.order)
            assert many.dtype == np.int64
            assert raw == many.tolist()
            if overrides(self.plugin, "normalize_many"):
                assert found == self.plugin.normalize_many(state, one, many).tolist()
        return found
