"""Run context whose two clusters are one embedded API server with inert virtual machines."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pytest_kscen.chaos.incidents import cause_incident
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import ParentCluster, RunContext
from pytest_kscen.objects.resources import (
    CILIUM_NETWORK_POLICIES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
)
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


class ChaosCluster:
    """Run context, journal and helpers for tests of chaos."""

    def __init__(self, cluster: EmbeddedCluster, *, owned: bool = True) -> None:
        self.cluster = cluster
        self.runner = cluster.runner
        self.journal = Journal(cluster.runner.clock)
        parent = ParentCluster(cluster.api, VMS, owned)
        self.context = RunContext(
            cluster.api, cluster.runner.clock, cluster.chance, self.journal, "run-1", owned, parent
        )
        self.api: Api = cluster.api("test")

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.call(coroutine)

    def journal_records(self, *what: str) -> list[tuple[float, str, dict[str, Any]]]:
        return [(entry.at, entry.what, entry.data) for entry in self.journal if entry.what in what]

    def names(self, resource: Resource, namespace: str = "") -> list[str]:
        return [
            item["metadata"]["name"] for item in self.call(self.api.list(resource, namespace)).items
        ]

    def make(self, resource: Resource, name: str, namespace: str = "", **rest: Any) -> Obj:
        metadata = {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            **rest.pop("metadata", {}),
        }
        obj = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            **rest,
        }
        return self.call(self.api.create(resource, obj))

    def delete(self, resource: Resource, name: str) -> None:
        self.call(self.api.delete(resource, name))
        self.runner.advance(0)

    def machine(self, name: str, ip: str = "10.0.0.1") -> None:
        self.make(VIRTUAL_MACHINES, name, VMS, status={"phase": "Running", "ipAddress": ip})

    def replica(self, volume: str, number: int, node: str, *, port: int = 0, **status: Any) -> Obj:
        address = (
            {"drbd": {"config": {"address": {"ipv4": "10.0.0.1", "port": port}}}} if port else {}
        )
        return self.make(
            REPLICATED_VOLUME_REPLICAS,
            f"{volume}-{number}",
            spec={"replicatedVolumeName": volume, "nodeName": node, "type": "Diskful"},
            status={**address, **status},
        )


class Storage:
    """Volumes whose state a test sets, in the format of either generation."""

    def __init__(self, world: ChaosCluster) -> None:
        self.world = world

    def volume(self, name: str, *nodes: str) -> None:
        self.world.make(REPLICATED_VOLUMES, name, status=status(IOReady="True", Quorum="True"))
        for number, node in enumerate(nodes):
            peers = [f"{name}-{other}" for other in range(len(nodes)) if other != number]
            self.world.replica(
                name,
                number,
                node,
                peers=[{"name": peer, "connectionState": "Connected"} for peer in peers],
            )

    def link(self, replica: str, peer: str, state: str) -> None:
        self.set(
            REPLICATED_VOLUME_REPLICAS,
            replica,
            {"peers": [{"name": peer, "connectionState": state}]},
        )

    def health(self, volume: str, **conditions: str) -> None:
        self.set(REPLICATED_VOLUMES, volume, status(**conditions))

    def machine(self, name: str, phase: str) -> None:
        self.set(VIRTUAL_MACHINES, name, {"phase": phase}, VMS)

    def set(self, resource, name, state, namespace=""):
        self.world.call(self.world.api.patch(resource, name, {"status": state}, namespace))
        self.world.runner.advance(0)

    def cause(self, fault, seconds=8):
        """Cause the fault and advance the clock by `seconds`."""
        incident = self.world.call(cause_incident(self.world.context, fault))
        self.world.runner.advance(seconds)
        return incident


def status(**conditions):
    return {
        "conditions": [
            {"type": name, "status": value, "reason": f"Is{value}"}
            for name, value in conditions.items()
        ]
    }


def possible_effect_records(world):
    return [
        (data["incident"], data["effect"])
        for _, _, data in world.journal_records("incident-possible-effect")
    ]


@contextlib.contextmanager
def chaos_cluster(
    machines: int = 4, *, nodes: int = 0, seed: int = 0, owned: bool = True
) -> Iterator[ChaosCluster]:
    cluster = EmbeddedCluster(seed, nodes=nodes)
    world = ChaosCluster(cluster, owned=owned)
    try:
        world.make(NAMESPACES, VMS)
        for resource in DEFINED:
            world.call(world.api.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(resource)))
        world.runner.advance(1)
        for number in range(1, machines + 1):
            world.machine(f"node-{number}", f"10.0.0.{number}")
        yield world
    finally:
        cluster.close()
        world.journal.close()


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
            "versions": [
                {"name": resource.version, "served": True, "storage": True, "schema": anything}
            ],
        },
    }
