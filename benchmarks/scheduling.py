"""Pods placed per second: the embedded scheduler and API in one process, beside the real
kube-scheduler on the real control plane.

Both get the same nodes, which are objects and nothing else, and the same pods, all there before the
first is placed. The clock runs until the last one is bound. With `--json FILE` the figures go into
a file too."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import signal
import sys
import time
from dataclasses import dataclass

from measuring import Row, Stopwatch, report

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner, WallRunner
from pytest_kscen.clusters.controlplane import programs, starting
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.scheduler import Scheduler
from pytest_kscen.embedded.scheduler.result_annotations import ResultAnnotator
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.informer import Informers
from pytest_kscen.kube.remote import Connection, RemoteApi, access_of, configuration_of
from pytest_kscen.objects.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES

CLASSES = {f"class-{number}": number * 100 for number in range(4)}
PATIENCE = 600.0
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


@dataclass(frozen=True)
class Load:
    """So many nodes and pods, plain or with everything that makes placing them harder."""

    nodes: int
    pods: int
    mixed: bool = False

    def node(self, number):
        name = f"node-{number:05}"
        size = {"cpu": "32", "memory": "64Gi", "pods": "110"}
        labels = {HOST: name, ZONE: f"zone-{number % 10}", "disk": ("fast", "slow")[number % 2]}
        taints = (
            [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
            if self.mixed and number % 20 == 0
            else []
        )
        soft = (
            [{"key": "old", "effect": "PreferNoSchedule"}] if self.mixed and number % 7 == 0 else []
        )
        status = {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
        }
        metadata = {"name": name, "labels": labels}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "spec": {"taints": taints + soft},
            "status": status,
        }

    def pod(self, number):
        requests = {"cpu": f"{100 + number % 7 * 50}m", "memory": f"{100 + number % 5 * 100}Mi"}
        container = {"name": "main", "image": "app:1.0", "resources": {"requests": requests}}
        app = f"app-{number % 50}"
        metadata = {"name": f"pod-{number:06}", "namespace": "default", "labels": {"app": app}}
        spec = {"containers": [container], **(mixture(number, app) if self.mixed else {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def __str__(self):
        return (
            f"{self.nodes:,} nodes, {self.pods:,} "
            f"pods{', affinity, spread, taints and priorities' if self.mixed else ''}"
        )


def mixture(number, app):
    """A quarter of the pods each: apart from their likes, spread over zones, near their likes,
    on nodes of a kind.
    """
    mine = {"labelSelector": {"matchLabels": {"app": app}}}
    spec = {"priorityClassName": f"class-{number % 4}"}
    match number // 50 % 4:
        case 0:
            apart = {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**mine, "topologyKey": HOST}]
            }
            spec["affinity"] = {"podAntiAffinity": apart}
        case 1:
            spread = {
                "maxSkew": 5,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                **mine,
            }
            spec["topologySpreadConstraints"] = [spread]
        case 2:
            near = [{"weight": 10, "podAffinityTerm": {**mine, "topologyKey": ZONE}}]
            spec["affinity"] = {
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": near}
            }
        case _:
            fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
            preferred = [{"weight": 5, "preference": fast}]
            spec["affinity"] = {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
            }
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return spec


async def fill(api, load, at_once=1):
    """Everything but the scheduler."""
    for name, value in CLASSES.items():
        await api.create(
            PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, "globalDefault": False}
        )
    for number in range(0, load.nodes, at_once):
        batch = range(number, min(number + at_once, load.nodes))
        await asyncio.gather(*(api.create(NODES, load.node(one)) for one in batch))
    for number in range(0, load.pods, at_once):
        batch = range(number, min(number + at_once, load.pods))
        await asyncio.gather(*(api.create(PODS, load.pod(one)) for one in batch))


def ours(load, *, annotated=False):
    """Seconds until all are bound, of one process that is API server and scheduler."""
    runner, chance = VirtualRunner(), Chance("scheduling")
    api = InProcessApi(ApiServer(runner.clock, chance, Kinds(builtin_kinds())))
    for name in ("default", "kube-system"):
        runner.call(api.create(NAMESPACES, {"metadata": {"name": name}}))
    runner.call(fill(api, load))
    informers = Informers(api, runner.clock, chance)
    bench = ControllerContext.of("default-scheduler", api, runner.clock, informers)
    scheduler = Scheduler(
        bench, chance.stream("scheduler"), sink=ResultAnnotator(bench) if annotated else None
    )
    with Stopwatch(collecting=True) as watch:
        runner.start(informers.run(), "informers")
        runner.start(scheduler.run(), "scheduler")
        runner.until(
            lambda: all(pod["spec"].get("nodeName") for pod in informers.of(PODS)), PATIENCE
        )
    left = [pod for pod in runner.ask(api.list(PODS)).items if not pod["spec"].get("nodeName")]
    assert not left, f"{len(left)} pods are not bound, such as {left[0]['status']}"
    runner.close()
    return watch.seconds


def theirs(load):
    """Seconds until all are bound, of the real kube-scheduler, which stands still until
    everything is there.
    """
    starting.QPS, starting.BURST = 100_000, 200_000
    runner = WallRunner()
    processes, files = starting.start_control_plane(runner)
    connection = Connection(access_of(configuration_of(files.kubeconfig)), runner.clock)
    try:
        os.kill(
            processes.pid("kube-controller-manager"), signal.SIGSTOP
        )  # which would miss the nodes' heartbeats
        scheduler = processes.pid("kube-scheduler")
        os.kill(scheduler, signal.SIGSTOP)
        api = RemoteApi(connection)
        runner.call(fill(api, load, at_once=20))
        runner.call(untaint(api, load))
        began = time.perf_counter()
        os.kill(scheduler, signal.SIGCONT)
        while runner.call(api.list(PODS, "default", fields="spec.nodeName=", limit=1)).items:
            runner.call(runner.clock.sleep(0.1))
            assert time.perf_counter() - began < PATIENCE, (
                "the real scheduler has not placed all pods"
            )
        return time.perf_counter() - began
    finally:
        runner.call(connection.close())
        processes.close()
        runner.close()


async def untaint(api, load):
    """New nodes are tainted until a kubelet has reported; these have none."""
    for number in range(load.nodes):
        made = load.node(number)
        patch = {"spec": {"taints": made["spec"]["taints"]}}
        await api.patch(NODES, made["metadata"]["name"], patch)


def per_second(load, seconds):
    return f"{load.pods / seconds:.0f} pods/s"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", help="write the figures into this file too")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument(
        "--small", action="store_true", help="leave out the cluster of 5,000 nodes"
    )
    chosen = options.parse_args()
    programs.find_programs()
    rows, figures = [], {}
    plain, mixed, large = Load(1000, 2000), Load(1000, 2000, mixed=True), Load(5000, 10000)
    for load, goal in ((plain, 1.0), (mixed, 0.5)):
        mine = min(ours(load) for _ in range(chosen.rounds))
        real = min(theirs(load) for _ in range(chosen.rounds))
        rows.append(
            Row(str(load), per_second(load, mine), per_second(load, real), real / mine, goal)
        )
        figures[str(load)] = {
            "ours": load.pods / mine,
            "kube-scheduler": load.pods / real,
            "ratio": real / mine,
            "goal": goal,
        }
    if not chosen.small:
        for annotated in (False, True):
            few, many = (ours(load, annotated=annotated) / load.pods for load in (plain, large))
            what = (
                f"time per pod, {large} to "
                f"{plain}{', with result annotations' if annotated else ''}"
            )
            rows.append(
                Row(
                    what,
                    f"{many * 1e3:.2f} ms",
                    f"{few * 1e3:.2f} ms",
                    many / few,
                    3,
                    less_is_better=True,
                )
            )
            figures[what] = {"large": many, "small": few, "ratio": many / few, "goal": 3}
    report("Scheduling", rows)
    if chosen.json:
        with pathlib.Path(chosen.json).open("w") as file:
            json.dump(figures, file, indent=2)
    sys.exit(not all(row.reached for row in rows))


if __name__ == "__main__":
    main()
