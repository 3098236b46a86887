"""The KEP's example: a user's controller creates a thousand nodes before pods are placed."""

import asyncio

import pytest

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, Resource
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner
from tests.scenario.objects import create, done, node, pod, scenario

NODE_SETS = Resource("example.com", "v1", "nodesets", "NodeSet", namespaced=False)
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NODE_SETS.qualified},
    "spec": {
        "group": NODE_SETS.group,
        "scope": "Cluster",
        "names": {"plural": NODE_SETS.plural, "kind": NODE_SETS.kind},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


class NodeSetWaiter:
    """Waiter that finishes when all nodes exist."""

    name = "nodeset-controller"
    resources = (NODE_SETS, NODES)

    def unfinished(self, cluster):
        wanted = sum(each["spec"]["replicas"] for each in cluster[NODE_SETS])
        return [] if len(cluster[NODES].objects) >= wanted else [f"{wanted} nodes are wanted"]

    def quiet(self, cluster):
        return 0.0

    async def is_idle(self):
        return True


async def make_nodes(api, pace):
    async for event in api.watch(NODE_SETS):
        if event.type == "ADDED":
            for number in range(event.object["spec"]["replicas"]):
                await asyncio.sleep(pace)
                await api.create(NODES, node(f"node-{number:04}", cpu=str(2 + number % 3)))


def places(seed, nodes, pace):
    cluster = EmbeddedCluster(seed, nodes=0)
    runner = ScenarioRunner(cluster, Plan())
    try:
        cluster.runner.call(cluster.api().create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION))
        cluster.advance(1)
        runner.controllers.add(NodeSetWaiter())
        cluster.runner.start(
            make_nodes(cluster.api("nodeset-controller"), pace), "nodeset-controller"
        )
        node_set = {
            "apiVersion": "example.com/v1",
            "kind": "NodeSet",
            "metadata": {"name": "all"},
            "spec": {"replicas": nodes},
        }
        pods = [create(2, pod(f"pod-{number}", f"{100 + number * 50}m")) for number in range(8)]
        played = runner.play(scenario(create(1, node_set), create(1, pod("early")), *pods, done(3)))
        assert played.phase == "Succeeded", played.message
        return {
            event.pod_scheduled.pod.name: event.pod_scheduled.bound_to
            for event in played.timeline.of("podScheduled")
        }
    finally:
        runner.close()
        cluster.close()


@pytest.mark.parametrize("pace", [0.0, 0.003, 0.05])
def test_speed_of_node_creation_does_not_matter(pace):
    assert places(7, 60, pace) == places(7, 60, 0.001)


if __name__ == "__main__":
    first = places(7, 1000, 0.001)
    print(
        sum(places(7, 1000, 0.001 * run) == first for run in range(20)),
        "of 20 are placed as the first",
    )
