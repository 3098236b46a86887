"""One seed, one story, to the byte."""

import orjson
from meshed import Mesh

from pytest_kscen.objects.resources import EVENTS, PODS


def story(seed):
    mesh = Mesh(seed)
    try:
        for name in "abcdef":
            mesh.pod(name, app="x", node=f"node-{ord(name) % 3 + 1}")
        mesh.cluster.advance(10)
        mesh.chaos(
            "NetworkChaos",
            "cut",
            app="x",
            mode="random-max-percent",
            value="90",
            action="partition",
        )
        mesh.chaos("PodChaos", "kill", app="x", mode="fixed", value="2", action="pod-kill")
        mesh.chaos("PodChaos", "fail", app="x", mode="one", action="pod-failure", duration="20s")
        mesh.chaos(
            "StressChaos",
            "burn",
            app="x",
            mode="fixed-percent",
            value="50",
            stressors={"cpu": {"workers": 1}},
        )
        mesh.cluster.advance(40)
        mesh.delete("NetworkChaos", "cut")
        mesh.cluster.advance(1)
        found = [
            mesh.see(kind, name)
            for kind, name in (("PodChaos", "kill"), ("PodChaos", "fail"), ("StressChaos", "burn"))
        ]
        return orjson.dumps(
            [found, *(mesh.call(mesh.api.list(each)).items for each in (PODS, EVENTS))]
        )
    finally:
        mesh.cluster.close()


def test_same_seed_same_bytes():
    stories = [story(seed) for seed in (1, 1, 2)]
    assert stories[0] == stories[1] != stories[2]
