"""Cluster with Chaos Mesh and helpers of its tests."""

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.embedded.kubelet.network import Flow
from pytest_kscen.objects.chaos_mesh import KINDS
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import EVENTS, PODS
from pytest_kscen.run.workflows import install_chaos_mesh

CONTAINERS = [{"name": "c", "image": "pause"}]
LETTERS = {"Selected": "S", "AllInjected": "I", "AllRecovered": "R", "Paused": "P"}


class MeshCluster:
    def __init__(self, seed, nodes=3, cluster=None):
        self.cluster = cluster or EmbeddedCluster(seed, nodes=nodes)
        install_chaos_mesh(self.cluster)
        self.api = self.cluster.api("test")

    def call(self, coroutine):
        return self.cluster.runner.call(coroutine)

    def make(self, resource, metadata, spec):
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self.call(
            self.api.create(
                resource, {**head, "metadata": {"namespace": "default", **metadata}, "spec": spec}
            )
        )

    def pod(
        self,
        name,
        *,
        app=None,
        node="node-1",
        namespace="default",
        annotations=None,
        containers=CONTAINERS,
        **spec,
    ):
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": {"app": app or name},
            "annotations": annotations or {},
        }
        self.make(PODS, metadata, {"nodeName": node, "containers": containers, **spec})

    def remove(self, name):
        self.call(self.api.delete(PODS, name, "default", grace_period=0))

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in self.call(self.api.list(PODS)).items}

    def chaos(
        self, kind, name="it", *, mode="all", app="", annotations=None, finalizers=(), **spec
    ):
        if app:
            spec["selector"] = {"labelSelectors": {"app": app}}
        metadata = {
            "name": name,
            "namespace": "default",
            "annotations": annotations or {},
            "finalizers": list(finalizers),
        }
        return self.make(KINDS[kind].resource, metadata, {"mode": mode, **spec})

    def see(self, kind, name="it"):
        found = self.call(self.api.list(KINDS[kind].resource)).items
        return next((obj for obj in found if obj["metadata"]["name"] == name), None)

    def conditions(self, kind, name="it"):
        obj = self.see(kind, name)
        return "".join(letter for type_, letter in LETTERS.items() if is_true(obj, type_))

    def records(self, kind, name="it"):
        experiment = self.see(kind, name)["status"]["experiment"]
        return {record["id"]: record for record in experiment.get("containerRecords", [])}

    def phases(self, kind, name="it"):
        return {id_: record["phase"] for id_, record in self.records(kind, name).items()}

    def delete(self, kind, name="it"):
        self.call(self.api.delete(KINDS[kind].resource, name, "default"))

    def patch(self, kind, patch, name="it"):
        self.call(self.api.patch(KINDS[kind].resource, name, patch, "default"))

    def events(self, name="it"):
        found = [
            event
            for event in self.call(self.api.list(EVENTS)).items
            if event["involvedObject"]["name"] == name
        ]
        return {(event["reason"], event["message"]) for event in found}

    def impairment(self, source, target):
        ends = [self.pods()[name] for name in (source, target)]
        machines = [pod["spec"]["nodeName"] for pod in ends]
        addresses = [
            "" if pod["spec"].get("hostNetwork") else pod["status"]["podIP"] for pod in ends
        ]
        return self.cluster.site.network.impairment(
            Flow(*machines, source_address=addresses[0], target_address=addresses[1])
        )

    def cut(self, source, target):
        return self.impairment(source, target).blocked
