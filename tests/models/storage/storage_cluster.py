"""Cluster with a simulated storage: helpers for volumes, pods and conditions."""

from __future__ import annotations

from pytest_kscen.embedded.kubelet.network import Impairment
from pytest_kscen.models.storage import attach, install
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import NODES, PODS
from pytest_kscen.objects.storage import (
    NAMESPACE,
    NODE_LABEL,
    REPLICATED_VOLUME_ATTACHMENTS,
    REPLICATED_VOLUME_REPLICAS,
    REPLICATED_VOLUMES,
)

RV, RVR, RVA = REPLICATED_VOLUMES, REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUME_ATTACHMENTS
LONG = 60


class StorageCluster:
    """Cluster with an installed storage."""

    def __init__(self, cluster, generation):
        self.cluster, self.site, self.runner = cluster, cluster.site, cluster.runner
        self.api = cluster.api("test")
        self.system = attach(
            cluster.site, cluster.site.informers, self.runner.clock, cluster.chance, generation
        )
        self.call(install(cluster.api("installer"), self.runner.clock, generation))
        self.began = self.runner.clock.now()

    @property
    def node_names(self):
        return [machine.name for machine in self.site.machines]

    def add_node(self, name):
        self.call(self.api.create(NODES, {"metadata": {"name": name, "labels": {NODE_LABEL: ""}}}))

    @property
    def now(self):
        return round(self.runner.clock.now() - self.began, 3)

    def call(self, coroutine):
        return self.runner.call(coroutine)

    def advance(self, seconds):
        self.runner.advance(seconds)

    def until(self, condition, timeout=LONG):
        """Advance until the condition holds; return the seconds it took."""
        before = self.now
        while not condition():
            assert self.now < before + timeout, "it did not come true"
            self.runner.advance(0.25)
        return round(self.now - before, 3)

    # --- objects ---

    def create(self, resource, name, **spec):
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        return self.call(self.api.create(resource, body))

    def get(self, resource, name):
        try:
            return self.call(self.api.get(resource, name))
        except NotFound:
            return None

    def delete(self, resource, name):
        self.call(self.api.delete(resource, name))

    def volume(self, name="v", storage_class="consistency-and-availability", size="100Mi", **more):
        return self.create(RV, name, size=size, replicatedStorageClassName=storage_class, **more)

    def ready_volume(self, name="v", storage_class="consistency-and-availability", **more):
        self.volume(name, storage_class, **more)
        self.until(lambda: self.is_whole(name))
        return self.replicas(name)

    def attach(self, node, volume="v"):
        return self.create(RVA, f"rva-{volume}-{node}", replicatedVolumeName=volume, nodeName=node)

    def detach(self, node, volume="v"):
        self.delete(RVA, f"rva-{volume}-{node}")

    def replica(self, number, volume="v", type_="Access", **spec):
        return self.create(
            RVR, f"{volume}-{number}", replicatedVolumeName=volume, type=type_, **spec
        )

    # --- looking ---

    def replicas(self, volume="v", type_=""):
        found = self.call(self.api.list(RVR)).items
        mine = [one for one in found if one["spec"]["replicatedVolumeName"] == volume]
        mine.sort(key=lambda one: int(one["metadata"]["name"].rpartition("-")[2]))
        return [one for one in mine if one["spec"]["type"] == (type_ or one["spec"]["type"])]

    def kinds(self, volume="v"):
        """Count replicas that are not being deleted by type, for example 2D1T."""
        living = [
            one for one in self.replicas(volume) if "deletionTimestamp" not in one["metadata"]
        ]
        counts = {
            letter: sum(one["spec"]["type"][0] == letter for one in living) for letter in "DAT"
        }
        return "".join(f"{count}{letter}" for letter, count in counts.items() if count)

    def nodes(self, volume="v", type_=""):
        return [one["spec"].get("nodeName", "") for one in self.replicas(volume, type_)]

    def status(self, resource, name):
        return (self.get(resource, name) or {}).get("status") or {}

    def conditions_of(self, resource, name):
        """Return conditions as Type: (status, reason)."""
        return {
            one["type"]: (one["status"], one["reason"])
            for one in self.status(resource, name).get("conditions", ())
        }

    def of_volume(self, name="v"):
        return self.conditions_of(RV, name)

    def of_attachment(self, node, volume="v"):
        return self.conditions_of(RVA, f"rva-{volume}-{node}")

    def is_whole(self, name="v"):
        conditions_of = self.of_volume(name)
        return len(conditions_of) >= 2 and all(
            status == "True" for status, _ in conditions_of.values()
        )

    # --- the network ---

    def cut_replication(self):
        """Cut all replication links; the API stays reachable."""
        self.cut = True
        self.site.network.add_filter(
            lambda flow: Impairment(blocked=self.cut and flow.port in range(7000, 8000))
        )

    def heal_replication(self):
        self.cut = False
        self.site.network.changed()

    # --- pods ---

    def pods(self, app, node=""):
        found = self.call(self.api.list(PODS, NAMESPACE, labels=f"app={app}")).items
        return [pod for pod in found if node in ("", pod["spec"].get("nodeName"))]

    def kill(self, pod):
        """Delete by force: processes end at once."""
        self.call(self.api.delete(PODS, pod["metadata"]["name"], NAMESPACE, grace_period=0))
