"""5,000 nodes and 50,000 pods: made, listed and watched, in one process's memory; its peer is the
tenth of it.

Both are this process's own work, so its processor time is what counts.
"""

from __future__ import annotations

import asyncio
import resource

from measuring import Row, Stopwatch, report

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import NODES, PODS

GOAL_BYTES = 1.5 * 1024**3


def node(number):
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05}"},
        "status": {"capacity": size, "allocatable": size},
    }


def pod(number):
    resources = {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"cpu": "200m", "memory": "256Mi"},
    }
    container = {
        "name": "main",
        "image": "app:1.0",
        "resources": resources,
        "env": [{"name": "NUMBER", "value": str(number)}],
    }
    labels = {"app": f"app-{number % 50}", "tier": "backend"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number:06}", "namespace": "default", "labels": labels},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


async def fill(api, nodes, pods):
    """Make all, with a watcher that sees each, and list them page by page."""
    seen, all_seen = 0, asyncio.Event()
    watch = api.watch(PODS, "default")

    async def reader():
        nonlocal seen
        async for _ in watch:
            seen += 1
            if seen == pods:
                all_seen.set()

    task = asyncio.ensure_future(reader())
    for number in range(nodes):
        await api.create(NODES, node(number))
    for number in range(pods):
        await api.create(PODS, pod(number), "default")
        if number % 100 == 0:
            await asyncio.sleep(0)
    await all_seen.wait()
    watch.close()
    task.cancel()
    listed, token = 0, ""
    while True:
        page = await api.list(PODS, "default", limit=500, continue_token=token)
        listed += len(page.items)
        token = page.continue_token
        if not token:
            break
    assert listed == pods


def per_object(nodes, pods) -> float:
    cluster = EmbeddedCluster("0", nodes=0)
    with Stopwatch(own_work=True) as watch:
        cluster.runner.call(fill(cluster.api(), nodes, pods))
    cluster.close()
    return watch.seconds / (nodes + pods)


if __name__ == "__main__":
    small = min(per_object(500, 5_000) for _ in range(3))
    large = per_object(5_000, 50_000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    report(
        "5,000 nodes and 50,000 pods",
        [
            Row(
                "time per object",
                f"{large * 1e6:.0f} µs",
                f"{small * 1e6:.0f} µs at a tenth",
                large / small,
                1.3,
                less_is_better=True,
            ),
            Row(
                "peak memory",
                f"{peak / 1024**3:.2f} GiB",
                "1.5 GiB",
                peak / GOAL_BYTES,
                1,
                less_is_better=True,
            ),
        ],
    )
