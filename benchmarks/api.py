"""Compare `kube.Api` in-process with kmock, and the remote client with the real kube-apiserver."""

from __future__ import annotations

import asyncio
import time

import kmock
from measuring import Row, control_plane, report

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import CONFIG_MAPS

OBJECTS = 10_000
PATH = "/api/v1/namespaces/default/configmaps"
BATCH = 1_000
WATCHERS = 100
EVENTS = 50
COUNTS = {"create": 2_000, "get": 2_000, "patch": 2_000, "list": 20, "watch": WATCHERS * EVENTS}


def config(name):
    data = {f"key-{number}": "x" * 40 for number in range(10)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench"}},
        "data": data,
    }


async def timed(steps):
    began = time.perf_counter()
    await steps
    return time.perf_counter() - began


async def measure(api, namespace="default", objects=OBJECTS, scale=1):
    """Requests per second of each kind, with this many objects there."""
    for number in range(objects):
        await api.create(CONFIG_MAPS, config(f"base-{number:05}"), namespace)
    counts = {name: max(1, count // scale) for name, count in COUNTS.items()}

    async def creates():
        for number in range(counts["create"]):
            await api.create(CONFIG_MAPS, config(f"new-{number:05}"), namespace)

    async def gets():
        for number in range(counts["get"]):
            await api.get(CONFIG_MAPS, f"base-{number % objects:05}", namespace)

    async def patches():
        for number in range(counts["patch"]):
            await api.patch(
                CONFIG_MAPS,
                f"base-{number % objects:05}",
                {"data": {"key-1": str(number)}},
                namespace,
            )

    async def lists():
        for _ in range(counts["list"]):
            listing = await api.list(CONFIG_MAPS, namespace, limit=BATCH)
            assert len(listing.items) == BATCH

    rates = {}
    for name, steps in (("create", creates), ("get", gets), ("patch", patches), ("list", lists)):
        rates[name] = counts[name] / await timed(steps())
    rates["watch"] = await fan_out(api, namespace, max(1, EVENTS // scale))
    return rates


async def fan_out(api, namespace, events):
    """Deliveries per second to a hundred watchers."""
    start = (await api.list(CONFIG_MAPS, namespace, limit=1)).resource_version
    seen, all_seen = 0, asyncio.Event()
    watches = [api.watch(CONFIG_MAPS, namespace, resource_version=start) for _ in range(WATCHERS)]

    async def reader(watch):
        nonlocal seen
        async for _ in watch:
            seen += 1
            if seen == events * WATCHERS:
                all_seen.set()

    readers = [asyncio.ensure_future(reader(watch)) for watch in watches]
    await asyncio.sleep(0.2)
    began = time.perf_counter()
    for number in range(events):
        await api.patch(CONFIG_MAPS, "base-00000", {"data": {"watched": f"{number}"}}, namespace)
    await all_seen.wait()
    rate_seen = seen / (time.perf_counter() - began)
    for task, watch in zip(readers, watches, strict=True):
        watch.close()
        task.cancel()
    return rate_seen


async def measure_kmock(requests=200):
    """Its own client against its own server, for its first 200 requests of each kind."""
    rates = {}
    resource = kmock.resource("", "v1", "configmaps")

    async def session(steps, prepare=0):
        async with kmock.KubernetesEmulator() as emulator, kmock.Server(emulator):
            emulator.resources[resource] = kmock.ResourceInfo(namespaced=True, kind="ConfigMap")
            for number in range(prepare):
                emulator.objects[resource, "default", f"base-{number:05}"] = config(
                    f"base-{number:05}"
                )
            began = time.perf_counter()
            for number in range(requests):
                answer = await steps(emulator, number)
                assert answer.status < 300, await answer.text()
                await answer.read()
            return requests / (time.perf_counter() - began)

    rates["create"] = await session(
        lambda server, number: server.post(PATH, json=config(f"new-{number:05}"))
    )
    rates["get"] = await session(
        lambda server, number: server.get(f"{PATH}/base-{number:05}"), prepare=requests
    )
    headers = {"Content-Type": "application/merge-patch+json"}
    rates["patch"] = await session(
        lambda server, number: server.patch(
            f"{PATH}/base-{number:05}", json={"data": {"key-1": "x"}}, headers=headers
        ),
        prepare=requests,
    )
    requests = 20
    rates["list"] = await session(lambda server, _: server.get(PATH), prepare=BATCH)
    return rates


if __name__ == "__main__":
    embedded = EmbeddedCluster("0", nodes=0)
    ours = embedded.runner.call(measure(embedded.api()))
    embedded.close()
    mock = asyncio.run(measure_kmock())
    with control_plane() as real:
        theirs = real.runner.call(measure(real.api(), scale=5))
    names = {"list": "list of 1,000", "watch": "watch, deliveries to 100"}
    rows = [
        Row(
            f"{names.get(name, name)}, kmock",
            f"{ours[name]:,.0f}/s",
            f"{mock[name]:,.0f}/s",
            ours[name] / mock[name],
            10,
        )
        for name in mock
    ]
    rows += [
        Row(
            f"{names.get(name, name)}, kube-apiserver",
            f"{ours[name]:,.0f}/s",
            f"{theirs[name]:,.0f}/s",
            ours[name] / theirs[name],
            20,
        )
        for name in ours
    ]
    report(f"kube.Api in-process at {OBJECTS:,} objects", rows)
