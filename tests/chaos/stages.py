"""A stage whose two clusters are one embedded API server with virtual machines that nothing lives behind."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import Parent, Stage
from pytest_kscen.objects.cilium import CILIUM_NETWORK_POLICIES
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pytest_kscen.objects.storage import REPLICATED_VOLUME_REPLICAS, REPLICATED_VOLUMES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINE_OPERATIONS, VIRTUAL_MACHINES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj, Resource

VMS = "vms"
DEFINED = (
    CILIUM_NETWORK_POLICIES,
    VIRTUAL_MACHINES,
    VIRTUAL_MACHINE_OPERATIONS,
    REPLICATED_VOLUMES,
    REPLICATED_VOLUME_REPLICAS,
)


class Staged:
    """The stage, its journal, and short words for what tests do with it."""

    def __init__(self, cluster: EmbeddedCluster, *, owned: bool = True) -> None:
        self.cluster = cluster
        self.runner = cluster.runner
        self.journal = Journal(cluster.runner.clock)
        parent = Parent(cluster.api, VMS, owned)
        self.stage = Stage(cluster.api, cluster.runner.clock, cluster.chance, self.journal, "run-1", owned, parent)
        self.api: Api = cluster.api("test")

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.call(coroutine)

    def told(self, *what: str) -> list[tuple[float, str, dict[str, Any]]]:
        return [(entry.at, entry.what, entry.data) for entry in self.journal if entry.what in what]

    def names(self, resource: Resource, namespace: str = "") -> list[str]:
        return [item["metadata"]["name"] for item in self.call(self.api.list(resource, namespace)).items]

    def make(self, resource: Resource, name: str, namespace: str = "", **rest: Any) -> Obj:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}
        return self.call(self.api.create(resource, obj))

    def machine(self, name: str, ip: str = "10.0.0.1") -> None:
        self.make(VIRTUAL_MACHINES, name, VMS, status={"phase": "Running", "ipAddress": ip})

    def replica(self, volume: str, number: int, node: str, *, port: int = 0, **status: Any) -> Obj:
        address = {"drbd": {"config": {"address": {"ipv4": "10.0.0.1", "port": port}}}} if port else {}
        return self.make(
            REPLICATED_VOLUME_REPLICAS,
            f"{volume}-{number}",
            spec={"replicatedVolumeName": volume, "nodeName": node, "type": "Diskful"},
            status={**address, **status},
        )


@contextlib.contextmanager
def staged(machines: int = 4, *, nodes: int = 0, seed: int = 0, owned: bool = True) -> Iterator[Staged]:
    cluster = EmbeddedCluster(seed, nodes=nodes)
    stage = Staged(cluster, owned=owned)
    try:
        stage.make(NAMESPACES, VMS)
        for resource in DEFINED:
            stage.call(stage.api.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(resource)))
        stage.runner.advance(1)
        for number in range(1, machines + 1):
            stage.machine(f"node-{number}", f"10.0.0.{number}")
        yield stage
    finally:
        cluster.close()
        stage.journal.close()


def _definition(resource: Resource) -> Obj:
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [{"name": resource.version, "served": True, "storage": True, "schema": anything}],
        },
    }
