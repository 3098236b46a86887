"""The vectorized path for large clusters and the per-node path give equal results and draws."""

import subprocess
import sys

import pytest
from scheduler_cluster import SchedulerCluster

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.scheduler.filtering import feasible_nodes_to_find
from pytest_kscen.embedded.scheduler.framework.configuration import SchedulerConfiguration
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NODE_COUNT, POD_COUNT = 12, 60
IMAGES = {1: 150, 2: 900}


def some_node(chance, number):
    taints = [
        {
            "key": "k",
            "value": chance.choice("ab"),
            "effect": chance.choice(["NoSchedule", "PreferNoSchedule"]),
        }
        for _ in range(chance.below(2))
    ]
    labels = {
        HOST: f"n{number}",
        ZONE: f"z{number % 3}",
        "disk": chance.choice(["fast", "slow"]),
        "size": str(chance.below(9)),
    }
    amounts = {
        "cpu": str(chance.whole(2, 6)),
        "memory": f"{chance.whole(2, 8)}Gi",
        "pods": str(chance.whole(4, 8)),
    }
    images = [
        {"names": [f"app:{tag}"], "sizeBytes": size * 2**20}
        for tag, size in IMAGES.items()
        if chance.below(2)
    ]
    return {
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {"taints": taints, **({"unschedulable": True} if chance.below(10) == 0 else {})},
        "status": {"capacity": amounts, "allocatable": amounts, "images": images},
    }


def some_pod(chance, number, *, kinds=8, classes=3):
    app = f"a{chance.below(4)}"
    asked = (
        {"cpu": f"{chance.whole(1, 12)}00m", "memory": f"{chance.whole(1, 10)}00Mi"}
        if chance.below(4)
        else {}
    )
    container = {
        "name": "c",
        "image": f"app:{chance.whole(1, 3)}",
        "resources": {"requests": asked},
    }
    if chance.below(8) == 0:
        container["ports"] = [{"containerPort": 80, "hostPort": chance.whole(80, 82)}]
    spec = {"containers": [container], "priorityClassName": f"class-{chance.below(classes)}"}
    mine = {"labelSelector": {"matchLabels": {"app": app}}}
    term = {
        "matchExpressions": [
            {"key": "disk", "operator": chance.choice(["In", "NotIn"]), "values": ["fast"]}
        ]
    }
    bigger = {
        "matchExpressions": [{"key": "size", "operator": "Gt", "values": [str(chance.below(7))]}]
    }
    anti, near = (
        {**mine, "topologyKey": HOST},
        {"weight": chance.whole(1, 100), "podAffinityTerm": {**mine, "topologyKey": ZONE}},
    )
    hard, soft = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    match chance.below(kinds):
        case 0:
            spec["affinity"] = {"nodeAffinity": {hard: {"nodeSelectorTerms": [term, bigger]}}}
        case 1:
            spec["affinity"] = {
                "nodeAffinity": {soft: [{"weight": chance.whole(1, 100), "preference": bigger}]}
            }
        case 2:
            spec["tolerations"] = [{"key": "k", "operator": "Equal", "value": "a"}]
        case 3:
            spec["nodeSelector"] = {"disk": "fast"}
        case 4:
            spec["affinity"] = {"podAntiAffinity": {hard: [anti]}}
        case 5:
            spec["affinity"] = {"podAffinity": {soft: [near]}}
        case 6:
            how = chance.choice(["DoNotSchedule", "ScheduleAnyway"])
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": how, **mine}
            ]
    return {
        "metadata": {"name": f"p{number}", "namespace": "default", "labels": {"app": app}},
        "spec": spec,
    }


def placements(seed, large, nodes=NODE_COUNT, percentage=0):
    """Return the node of each pod in the end, or the reason why it has none."""
    runner, chance = VirtualRunner(), Chance(seed)
    api = InProcessApi(ApiServer(runner.clock, chance, Kinds(builtin_kinds())))
    for name in ("default", "kube-system"):
        runner.call(api.create(NAMESPACES, {"metadata": {"name": name}}))
    for number in range(3):
        runner.call(
            api.create(
                PRIORITY_CLASSES, {"metadata": {"name": f"class-{number}"}, "value": number * 10}
            )
        )
    draws = Chance(seed).stream("objects")
    for number in range(nodes):
        runner.call(api.create(NODES, some_node(draws, number)))
    cluster = SchedulerCluster(
        api, runner, chance, {"configuration": SchedulerConfiguration(percentage=percentage)}
    )
    cluster.scheduler._handle.snapshot.large = large
    cluster.advance()
    for number in range(POD_COUNT):
        runner.ask(api.create(PODS, some_pod(draws, number)))
        if draws.below(4) == 0:
            cluster.advance()
        if draws.below(10) == 0:
            gone = draws.choice(runner.ask(api.list(PODS)).items)["metadata"]["name"]
            runner.ask(api.delete(PODS, gone, "default", grace_period=0))
    cluster.advance(30)
    pods = runner.ask(api.list(PODS)).items
    runner.close()
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName")
        or (condition(pod, "PodScheduled") or {}).get("message")
        for pod in pods
    }


@pytest.mark.parametrize("seed", range(12))
def test_small_and_large_paths_agree(seed):
    one_by_one, at_once = placements(seed, 10**9), placements(seed, 1)
    assert one_by_one == at_once
    assert any(where.startswith("n") for where in one_by_one.values())


@pytest.mark.parametrize(("nodes", "percentage"), [(150, 0), (260, 40), (130, 100)])
def test_paths_agree_with_node_sampling(nodes, percentage):
    assert placements(7, 10**9, nodes, percentage) == placements(7, 1, nodes, percentage)


@pytest.mark.parametrize(
    ("nodes", "percentage", "wanted"),
    [
        (99, 0, 99),
        (100, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (6000, 0, 300),
        (1000, 30, 300),
        (200, 10, 100),
        (500, 100, 500),
    ],
)
def test_node_sample_size(nodes, percentage, wanted):
    assert feasible_nodes_to_find(nodes, percentage) == wanted


SMALL = """
import sys
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import PODS
cluster = EmbeddedCluster("0", nodes=6)
api = cluster.api()
pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}
cluster.runner.call(api.create(PODS, pod, "default"))
cluster.advance(10)
print(cluster.runner.call(api.get(PODS, "p", "default"))["spec"]["nodeName"][:5], "numpy" in sys.modules)
"""


def test_small_cluster_builds_no_columns():
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True)
    assert done.stdout == "node- False\n"
