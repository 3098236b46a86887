"""Equal seeds give byte-equal journals."""

import orjson
from mesh_cluster import MeshCluster

from pytest_kscen.objects.resources import EVENTS, PODS


def story(seed):
    mesh_cluster = MeshCluster(seed)
    try:
        for name in "abcdef":
            mesh_cluster.pod(name, app="x", node=f"node-{ord(name) % 3 + 1}")
        mesh_cluster.cluster.advance(10)
        mesh_cluster.chaos(
            "NetworkChaos",
            "cut",
            app="x",
            mode="random-max-percent",
            value="90",
            action="partition",
        )
        mesh_cluster.chaos("PodChaos", "kill", app="x", mode="fixed", value="2", action="pod-kill")
        mesh_cluster.chaos(
            "PodChaos", "fail", app="x", mode="one", action="pod-failure", duration="20s"
        )
        mesh_cluster.chaos(
            "StressChaos",
            "burn",
            app="x",
            mode="fixed-percent",
            value="50",
            stressors={"cpu": {"workers": 1}},
        )
        mesh_cluster.cluster.advance(40)
        mesh_cluster.delete("NetworkChaos", "cut")
        mesh_cluster.cluster.advance(1)
        found = [
            mesh_cluster.see(kind, name)
            for kind, name in (("PodChaos", "kill"), ("PodChaos", "fail"), ("StressChaos", "burn"))
        ]
        return orjson.dumps(
            [
                found,
                *(mesh_cluster.call(mesh_cluster.api.list(each)).items for each in (PODS, EVENTS)),
            ]
        )
    finally:
        mesh_cluster.cluster.close()


def test_same_seed_same_bytes():
    stories = [story(seed) for seed in (1, 1, 2)]
    assert stories[0] == stories[1] != stories[2]
