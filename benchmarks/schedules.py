"""Measure Schedules in simulated time: hourly, every minute, and extrapolated to a year.

Each spawns chaos that the simulated Chaos Mesh takes up, and keeps the last three. The peer is the
same cluster asked by a plain loop, as often, for what a Schedule cannot do without: an object made,
a status written, an old object deleted.
"""

from __future__ import annotations

import argparse

from measuring import Row, Stopwatch, report

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.chaos_mesh import KINDS, SHIPPED
from pytest_kscen.run.workflows import install_chaos_mesh
from pytest_kscen.workflow.schedules import ScheduleController

HOUR, DAY = 3600, 86400
KEPT = 3
GOAL = 2.0
CHAOS = {"action": "pod-kill", "mode": "all", "selector": {"labelSelectors": {"app": "a"}}}
RESOURCE = KINDS["PodChaos"].resource


def opened():
    cluster = EmbeddedCluster("0", nodes=0)
    install_chaos_mesh(cluster)
    return cluster


def scheduled(line, seconds):
    """Seconds of our own work, and how many were spawned."""
    cluster = opened()
    runner = cluster.runner
    journal = Journal(runner.clock)
    spawned = []
    journal.follow(
        lambda entry: spawned.append(entry.at) if entry.what == "schedule-spawned" else None
    )
    stage = RunContext(cluster.api, runner.clock, cluster.chance, journal, "run")
    runner.start(ScheduleController(stage.actor("schedules"), SHIPPED).run(), "schedules")
    spec = {"schedule": line, "type": "PodChaos", "podChaos": CHAOS, "historyLimit": KEPT}
    metadata = {"name": "tick", "namespace": "default"}
    runner.call(
        cluster.api("bench").create(SHIPPED.schedules, {"metadata": metadata, "spec": spec})
    )
    with Stopwatch(own_work=True) as watch:
        cluster.advance(seconds)
    journal.close()
    cluster.close()
    return watch.seconds, len(spawned)


def plain(count, period):
    """The same writes, one after the other."""
    cluster = opened()
    api = cluster.api("bench")
    metadata = {"name": "tick", "namespace": "default"}
    spec = {"schedule": "@yearly", "type": "PodChaos", "podChaos": CHAOS}
    cluster.runner.call(api.create(SHIPPED.schedules, {"metadata": metadata, "spec": spec}))

    async def write():
        for number in range(count):
            about = {
                "name": f"tick-{number}",
                "namespace": "default",
                "labels": {"managed-by": "tick"},
            }
            await api.create(RESOURCE, {"metadata": about, "spec": CHAOS})
            status = {"active": [{"name": about["name"]}]}
            await api.patch(
                SHIPPED.schedules, "tick", {"status": status}, "default", subresource="status"
            )
            if number >= KEPT:
                await api.delete(RESOURCE, f"tick-{number - KEPT}", "default")
            await cluster.runner.clock.sleep(period)

    with Stopwatch(own_work=True) as watch:
        cluster.runner.call(write())
    cluster.close()
    return watch.seconds


def row(what, line, period, count):
    took, spawned = scheduled(line, count * period + 1)
    assert spawned in {count, count - 1}
    least = plain(count, period)
    ours = (
        f"{took / count * 1e3:.1f} ms for each of {count}; "
        f"{took / count * 365 * DAY / period:,.0f} s for a year"
    )
    return Row(what, ours, f"{least / count * 1e3:.1f} ms", took / least, GOAL, less_is_better=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument(
        "--count", type=int, default=500, help="how many are spawned (default 500)"
    )
    count = arguments.parse_args().count
    rows = [row("every hour", "@hourly", HOUR, count), row("every minute", "* * * * *", 60, count)]
    report("Schedules in simulated time", rows)
