"""Our best nodes and refusal messages, compared with the choices of the real kube-scheduler, pod by
pod.

Each pod is then placed where the real scheduler placed it.
"""

import os
import signal

import pytest
from test_small_and_large import HOST, some_node, some_pod

from pytest_kscen.chance import Chance
from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.controlplane import starting
from pytest_kscen.clusters.controlplane.starting import ControlPlaneFiles
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.scheduler import Scheduler
from pytest_kscen.embedded.scheduler.configuration_loading import load_configuration
from pytest_kscen.embedded.scheduler.filtering import SchedulingAttempt, find_feasible_nodes
from pytest_kscen.embedded.scheduler.framework import diagnosis
from pytest_kscen.embedded.scheduler.framework.pods_and_nodes import QueuedPod
from pytest_kscen.embedded.scheduler.registry import Registry
from pytest_kscen.embedded.scheduler.scoring import total_scores
from pytest_kscen.kube.informer import Informers
from pytest_kscen.kube.remote import Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.resources import NODES, PODS, PRIORITY_CLASSES
from pytest_kscen.scheduler import CycleState, PodInfo, Status

pytestmark = pytest.mark.controlplane

NODE_COUNT, POD_COUNT, PATIENCE = 12, 60, 60


HARD, SOFT = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
CARED_FOR = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
BIG = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]}
SHAPE = [
    {"utilization": 0, "score": 10},
    {"utilization": 40, "score": 3},
    {"utilization": 100, "score": 8},
]
WEIGHTS = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}]
SPREAD = [
    {
        "maxSkew": 2,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
    }
]


def args(name, **fields):
    return {
        "name": name,
        "args": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{name}Args", **fields},
    }


PROFILES = [
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": "most",
        "pluginConfig": [
            args(
                "NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": WEIGHTS}
            )
        ],
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    },
    {
        "schedulerName": "shape",
        "pluginConfig": [
            args(
                "NodeResourcesFit",
                scoringStrategy={
                    "type": "RequestedToCapacityRatio",
                    "resources": WEIGHTS,
                    "requestedToCapacityRatio": {"shape": SHAPE},
                },
            )
        ],
        "plugins": {
            "multiPoint": {
                "enabled": [
                    {"name": "TaintToleration", "weight": 1},
                    {"name": "NodeResourcesFit", "weight": 9},
                ]
            }
        },
    },
    {
        "schedulerName": "picky",
        "pluginConfig": [
            args(
                "NodeAffinity",
                addedAffinity={
                    HARD: {"nodeSelectorTerms": [CARED_FOR]},
                    SOFT: [{"weight": 7, "preference": BIG}],
                },
            ),
            args("InterPodAffinity", hardPodAffinityWeight=50),
            args("PodTopologySpread", defaultConstraints=SPREAD, defaultingType="List"),
        ],
        "plugins": {
            "score": {
                "disabled": [{"name": "*"}],
                "enabled": [
                    {"name": name, "weight": weight}
                    for name, weight in (
                        ("NodeAffinity", 3),
                        ("NodeResourcesFit", 1),
                        ("InterPodAffinity", 4),
                        ("PodTopologySpread", 2),
                    )
                ],
            }
        },
    },
]
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Rival:
    """Real kube-scheduler on a real API server, with nodes that are only objects."""

    def __init__(self):
        self.runner = WallRunner()
        self.processes, layout = starting.start_control_plane(self.runner)
        os.kill(
            self.processes.pid("kube-controller-manager"), signal.SIGSTOP
        )  # which would miss the nodes' heartbeats
        self.connection = Connection(
            access_of(configuration_of(layout.kubeconfig)), self.runner.clock
        )
        self.api = RemoteApi(self.connection)
        for number in range(3):
            self.ask(
                self.api.create(
                    PRIORITY_CLASSES,
                    {"metadata": {"name": f"class-{number}"}, "value": number * 10},
                )
            )

    def ask(self, coroutine):
        return self.runner.call(coroutine)

    def clear(self):
        self.ask(self.api.delete_collection(PODS, "default", grace_period=0))
        self.ask(self.api.delete_collection(NODES))
        assert self.runner.until(lambda: not self.ask(self.api.list(PODS)).items, PATIENCE)

    def add_node(self, node):
        self.ask(self.api.create(NODES, node))
        taints = node["spec"].get("taints", [])
        return self.ask(
            self.api.patch(NODES, node["metadata"]["name"], {"spec": {"taints": taints}})
        )

    def placed(self, pod):
        """Return the pod once it has a node or a refusal."""
        found = self.ask(self.api.create(PODS, pod, "default"))
        name = pod["metadata"]["name"]

        def decided():
            nonlocal found
            found = self.ask(self.api.get(PODS, name, "default"))
            return found["spec"].get("nodeName") or condition(found, "PodScheduled")

        assert self.runner.until(decided, PATIENCE)
        return found

    def close(self):
        self.runner.close(self.connection.close())
        self.processes.close()


def has_seen_all(rival):
    """Wait until it knows the nodes: the last has room for one pod, which it places when it has
    seen that one without taints.

    How many nodes have an image is as of a node's last change: each changes once more when all are
    there."""
    for node in rival.ask(rival.api.list(NODES)).items:
        rival.ask(
            rival.api.patch(
                NODES, node["metadata"]["name"], {"metadata": {"annotations": {"all": "there"}}}
            )
        )
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    labels = {HOST: "last"}
    rival.add_node(
        {
            "metadata": {"name": "last", "labels": labels},
            "spec": {},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
    )
    spec = {"containers": [{"name": "c", "image": "app:1"}], "nodeSelector": labels}
    probe = {"metadata": {"name": "probe", "namespace": "default"}, "spec": spec}
    rival.ask(rival.api.create(PODS, probe))
    assert rival.runner.until(
        lambda: rival.ask(rival.api.get(PODS, "probe", "default"))["spec"].get("nodeName"), PATIENCE
    )


@pytest.fixture(scope="module")
def rival():
    written = ControlPlaneFiles.scheduler_configuration
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ControlPlaneFiles,
            "scheduler_configuration",
            lambda self: {**written(self), "profiles": PROFILES},
        )
        rival = Rival()
    yield rival
    rival.close()


class Ours:
    """Our scheduler with a closed gate: it evaluates pods and binds none."""

    def __init__(self, rival):
        self.rival = rival
        clock = rival.runner.clock
        chance = Chance(1)
        self.informers = Informers(rival.api, clock, chance)
        bench = ControllerContext.of("default-scheduler", rival.api, clock, self.informers)
        configuration = load_configuration({**HEAD, "profiles": PROFILES}, Registry())
        self.scheduler = Scheduler(bench, chance.stream("scheduler"), configuration=configuration)
        self.task = rival.runner.loop.create_task(self.informers.run())
        rival.ask(self.scheduler._handlers.synced())

    def opinion(self, pod):
        """Return the best nodes, or the refusal message."""
        return self.rival.ask(opinion(self.scheduler, pod))

    def has_seen(self, pod):
        """Wait until our scheduler has the outcome of a pod."""
        uid, where = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        pods, snapshot = self.informers.of(PODS), self.scheduler._handle.snapshot
        gone = lambda: pods.get(pod["metadata"]["name"], "default") is None  # noqa: E731
        assert self.rival.runner.until(
            lambda: snapshot.node_of(uid) == where if where else gone(), PATIENCE
        )

    def close(self):
        self.task.cancel()


async def opinion(scheduler, obj):
    profile = scheduler._profiles[obj["spec"].get("schedulerName", "default-scheduler")]
    snapshot = profile.handle.snapshot
    pod = PodInfo(obj)
    state = CycleState()
    this = SchedulingAttempt(profile, QueuedPod(pod, 0, 0), pod, state)
    snapshot.refresh()
    narrowed = profile.pre_filter(state, pod, snapshot.nodes)
    assert not isinstance(narrowed, Status), narrowed
    found = find_feasible_nodes(this, snapshot.nodes, 0, len(snapshot.nodes))
    if not found.nodes:
        _, rescue = await profile.post_filter(state, pod, found.statuses)
        return diagnosis.fit_error_message(
            len(snapshot.nodes), found.statuses.values(), rescue.message
        )
    if len(found.nodes) == 1:
        return {found.nodes[0].name}
    assert profile.pre_score(state, pod, found.nodes) is None
    sums = list(total_scores(this, found.nodes))
    return {node.name for node, total in zip(found.nodes, sums, strict=True) if total == max(sums)}


def with_priority(pod):
    """Set the priority as admission does."""
    return {
        **pod,
        "spec": {**pod["spec"], "priority": int(pod["spec"]["priorityClassName"][-1]) * 10},
    }


@pytest.fixture
def ours(rival):
    made = []

    def make():
        made.append(Ours(rival))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("profile", [profile["schedulerName"] for profile in PROFILES])
def test_kube_scheduler_chooses_one_of_our_best_nodes(rival, ours, profile, seed):
    """Of resources, ports, taints, selectors, images, affinities to nodes and between pods, and
    spreading.
    """
    draws = Chance(seed).stream("objects")
    rival.clear()
    for number in range(NODE_COUNT):
        rival.add_node(some_node(draws, number))
    has_seen_all(rival)
    mine, ties = ours(), 0
    for number in range(POD_COUNT):
        pod = some_pod(draws, number, kinds=8, classes=1)
        pod["spec"]["schedulerName"] = profile
        best = mine.opinion(with_priority(pod))
        found = rival.placed(pod)
        where = found["spec"].get("nodeName")
        if where is None:
            assert condition(found, "PodScheduled")["message"] == best, number
            rival.ask(rival.api.delete(PODS, pod["metadata"]["name"], "default", grace_period=0))
        else:
            assert isinstance(best, set), (number, best)
            assert where in best, (number, pod)
            ties += len(best) > 1
        mine.has_seen(found)
    assert ties < POD_COUNT / 2
