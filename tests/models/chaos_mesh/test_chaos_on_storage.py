"""NetworkChaos between storage agents, on the host network, cuts the replication links."""

import contextlib

from mesh_cluster import MeshCluster

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import PODS
from pytest_kscen.objects.storage import NAMESPACE
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner


def agents(mesh_cluster, nodes):
    pods = mesh_cluster.call(mesh_cluster.api.list(PODS, NAMESPACE, labels="app=agent")).items
    return {
        "pods": {
            NAMESPACE: [pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] in nodes]
        }
    }


def test_partitioned_agents_lose_their_replicas():
    with (
        contextlib.closing(EmbeddedCluster("storage")) as cluster,
        contextlib.closing(ScenarioRunner(cluster, Plan())) as runner,
    ):
        mesh_cluster = MeshCluster("storage", cluster=cluster)
        with runner as run:
            volume = run.volumes.create(storage_class="consistency-and-availability")
            run.until(volume.ready, timeout="3m")
            first, *others = volume.nodes
            target = {"mode": "all", "selector": agents(mesh_cluster, others)}
            mesh_cluster.chaos(
                "NetworkChaos",
                selector=agents(mesh_cluster, [first]),
                action="partition",
                direction="both",
                target=target,
            )
            run.until(lambda: not volume.healthy(), timeout="2m")
            assert mesh_cluster.conditions("NetworkChaos") == "SI"
            mesh_cluster.delete("NetworkChaos")
            run.until(volume.healthy, timeout="5m")
