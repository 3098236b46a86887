"""An hour of all chaos on volumes that come and go, against an hour; a day of it against 24 such hours; a hundred volumes.

Each is played in a process of its own, whose processor time counts and whose peak of memory is its own.
"""

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

from measuring import Row, Stopwatch, report

HOUR = 3600.0
ROUNDS = 3
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes that this process has in memory now."""
    return int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def play(seed: str, hours: int = 1, volumes: int = 10, machines: int = 6) -> dict:
    """Play it in this process and tell its figures."""
    from pytest_kscen.chaos.profiles import PROFILES
    from pytest_kscen.clusters.embedded import EmbeddedCluster
    from pytest_kscen.megatest.churn import Churn
    from pytest_kscen.runs.plan import Plan
    from pytest_kscen.runs.runner import ScenarioRunner

    churn = Churn(max_volumes=volumes, step=(volumes // 10, volumes * 3 // 10))  # for ten: from one to three, as by default
    plan = Plan(churn, tuple(profile() for profile in PROFILES.values()))
    weighed: list[int] = []

    async def weigh() -> None:
        while True:
            weighed.append(resident())
            await cluster.runner.clock.sleep(HOUR, background=True)

    with Stopwatch(own_work=True, collecting=True) as watch:
        cluster = EmbeddedCluster(seed, nodes=machines)
        cluster.runner.start(weigh(), "scales")
        runner = ScenarioRunner(cluster, plan, parent=lambda: cluster.parent(kubeconfig=None, namespace=""))
        outcome = runner.run(f"{hours}h")
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


def line(what: str, figures: dict) -> str:
    each = figures["seconds"] / figures["writes"] * 1e6
    return (
        f"{what}: {figures['seconds']:.2f} s, {figures['writes']:,} writes, {each:.0f} µs per write, "
        f"{figures['volumes']} volumes, {figures['incidents']} incidents, {figures['verdict']}, "
        f"journal {figures['journal'] / 1024**2:.1f} MiB, peak {figures['peak'] / 1024**2:.0f} MiB"
    )


def main() -> None:
    hours = [played(1) for _ in range(ROUNDS)]
    hour = min(hours, key=lambda figures: figures["seconds"])
    print(line("an hour", hour))
    day = played(1, 24)
    print(line("a day", day))
    many = played(1, 1, 100, 24)
    print(line("100 volumes, 24 machines, an hour", many))
    rows = [
        Row("an hour", f"{hour['seconds']:.2f} s", "3600 s", HOUR / hour["seconds"], 1000),
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
            f"{hour['peak'] / 1024**2:.0f} MiB for an hour",
            day["peak"] / hour["peak"],
            1.1,
            less_is_better=True,
        ),
        Row("100 volumes, 24 machines, an hour", f"{many['seconds']:.1f} s", "3600 s", HOUR / many["seconds"], 100),
        Row(
            "same seed, different bytes",
            f"{len({one['digest'] for one in hours})} kinds",
            f"{ROUNDS} runs",
            len({one["digest"] for one in hours}),
            1,
            less_is_better=True,
        ),
    ]
    report("Megatest with all chaos", rows)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        logging.getLogger().addHandler(logging.NullHandler())
        json.dump(play(sys.argv[1], *map(int, sys.argv[2:])), sys.stdout)
    else:
        main()
