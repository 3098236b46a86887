"""An hour of all chaos on volumes that come and go, against an hour; a day of it against 24 such
hours; a hundred volumes.

Each is played in a process of its own, whose processor time counts and whose peak of memory is its
own. What is loaded and compiled once in a process, however many hours are played in it, is counted
apart: for time a minute is played before."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import warnings

from measuring import Row, Stopwatch, report

HOUR = 3600.0
ROUNDS = 3
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes that this process has in memory now."""
    return int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def play(seed: str, length: str, volumes: int = 10, machines: int = 6) -> dict:
    """Play it in this process and tell its figures."""
    from pytest_kscen.chaos.profiles import PROFILES
    from pytest_kscen.clusters.embedded import EmbeddedCluster
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.run.plan import Plan
    from pytest_kscen.run.runner import ScenarioRunner

    churn = Churn(
        max_volumes=volumes, step=(volumes // 10, volumes * 3 // 10)
    )  # for ten: from one to three, as by default
    plan = Plan(churn, tuple(profile() for profile in PROFILES.values()))
    weighed: list[int] = []

    async def weigh() -> None:
        while True:
            weighed.append(resident())
            await cluster.runner.clock.sleep(HOUR, background=True)

    with Stopwatch(own_work=True, collecting=True) as watch:
        cluster = EmbeddedCluster(seed, nodes=machines)
        cluster.runner.start(weigh(), "scales")
        runner = ScenarioRunner(
            cluster, plan, parent=lambda: cluster.parent(kubeconfig=None, namespace="")
        )
        outcome = runner.run(length)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    journal = runner.runs[0].journal
    return {
        "seconds": watch.seconds,
        "writes": cluster.server.core.store.revision + cluster._host.server.core.store.revision,
        "volumes": len(outcome.volumes),
        "incidents": len(outcome.incidents),
        "verdict": outcome.judged,
        "digest": hashlib.sha256(journal.content() + outcome.as_json()).hexdigest(),
        "journal": journal.size,
        "peak": peak,
        "weighed": weighed,
    }


def played(*arguments: str | int) -> dict:
    """The same in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, pathlib.Path(__file__).resolve(), *map(str, arguments)],
            cwd=folder,
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(done.stdout)


def least(length: str, volumes: int, machines: int) -> dict:
    """Of a few rounds the one that took the least time; of all of them the digests."""
    rounds = [played("warm", "1", length, volumes, machines) for _ in range(ROUNDS)]
    return min(rounds, key=lambda figures: figures["seconds"]) | {
        "digests": {one["digest"] for one in rounds}
    }


def line(what: str, figures: dict) -> str:
    each = figures["seconds"] / figures["writes"] * 1e6
    once = f" (and {figures['once']:.2f} s once in a process)" if "once" in figures else ""
    return (
        f"{what}: {figures['seconds']:.2f} s{once}, {figures['writes']:,} writes, "
        f"{each:.0f} µs per write, "
        f"{figures['volumes']} volumes, {figures['incidents']} incidents, {figures['verdict']}, "
        f"journal {figures['journal'] / 1024**2:.1f} MiB, peak {figures['peak'] / 1024**2:.0f} MiB"
    )


def main() -> None:
    hour = least("1h", 10, 6)
    print(line("an hour", hour))
    many = least("1h", 100, 24)
    print(line("100 volumes, 24 machines, an hour", many))
    cold_hour, day = played("cold", "1", "1h"), played("cold", "1", "24h")
    print(line("an hour, all in", cold_hour))
    print(line("a day", day))
    rows = [
        Row("an hour", f"{hour['seconds']:.2f} s", "3600 s", HOUR / hour["seconds"], 1000),
        Row(
            "an hour, loading included",
            f"{cold_hour['seconds']:.2f} s",
            "3600 s",
            HOUR / cold_hour["seconds"],
            1000,
        ),
        Row(
            "a day",
            f"{day['seconds']:.1f} s",
            f"{24 * hour['seconds']:.1f} s for 24 hours",
            day["seconds"] / (24 * hour["seconds"]),
            1.2,
            less_is_better=True,
        ),
        Row(
            "memory of a day while it is played",
            f"{max(day['weighed'][1:]) / 1024**2:.0f} MiB",
            f"{day['weighed'][1] / 1024**2:.0f} MiB after its first hour",
            max(day["weighed"][1:]) / day["weighed"][1],
            1.1,
            less_is_better=True,
        ),
        Row(
            "memory of a day with its outcome",
            f"{day['peak'] / 1024**2:.0f} MiB",
            f"{cold_hour['peak'] / 1024**2:.0f} MiB for an hour",
            day["peak"] / cold_hour["peak"],
            1.1,
            less_is_better=True,
        ),
        Row(
            "100 volumes, 24 machines, an hour",
            f"{many['seconds']:.1f} s",
            "3600 s",
            HOUR / many["seconds"],
            100,
        ),
        Row(
            "same seed, different bytes",
            f"{len(hour['digests'])} kinds",
            f"{ROUNDS} runs",
            len(hour["digests"]),
            1,
            less_is_better=True,
        ),
    ]
    report("Megatest with all chaos", rows)


def child(kind: str, seed: str, length: str, *counts: str) -> dict:
    """One of these processes."""
    from pytest_kscen.run.plan import PlanWarning

    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore", PlanWarning)  # the minute that warms up is too short for chaos
    once = play(seed, "1m")["seconds"] if kind == "warm" else None
    figures = play(seed, length, *map(int, counts))
    return figures if once is None else figures | {"once": once}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(child(*sys.argv[1:]), sys.stdout)
    else:
        main()
