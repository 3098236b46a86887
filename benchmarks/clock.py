"""Compare virtual sleeps with simpy's."""

from __future__ import annotations

import asyncio

import simpy
from measuring import Row, Stopwatch, best, report

from pytest_kscen.clock import VirtualRunner


def distinct_ours(count=100_000):
    runner = VirtualRunner()

    async def all_of_them():
        await asyncio.gather(*[runner.clock.sleep(index * 0.001) for index in range(count)])

    with Stopwatch() as watch:
        runner.call(all_of_them())
    runner.close()
    return watch.seconds


def distinct_simpy(count=100_000):
    environment = simpy.Environment()

    def sleeper(seconds):
        yield environment.timeout(seconds)

    with Stopwatch() as watch:
        for index in range(count):
            environment.process(sleeper(index * 0.001))
        environment.run()
    return watch.seconds


def repeated_ours(tasks=100, sleeps=1000):
    runner = VirtualRunner()

    async def sleeper():
        for _ in range(sleeps):
            await runner.clock.sleep(1)

    async def all_of_them():
        await asyncio.gather(*[sleeper() for _ in range(tasks)])

    with Stopwatch() as watch:
        runner.call(all_of_them())
    runner.close()
    return watch.seconds


def repeated_simpy(tasks=100, sleeps=1000):
    environment = simpy.Environment()

    def sleeper():
        for _ in range(sleeps):
            yield environment.timeout(1)

    with Stopwatch() as watch:
        for _ in range(tasks):
            environment.process(sleeper())
        environment.run()
    return watch.seconds


if __name__ == "__main__":
    pairs = (
        ("100,000 sleeps at distinct times", distinct_ours, distinct_simpy, 3.0),
        ("100 tasks of 1,000 sleeps", repeated_ours, repeated_simpy, 6.5),
    )
    rows = []
    for what, ours, peer, goal in pairs:
        mine, theirs = best(5, ours), best(5, peer)
        rows.append(
            Row(
                what,
                f"{mine:.3f} s",
                f"simpy {theirs:.3f} s",
                mine / theirs,
                goal,
                less_is_better=True,
            )
        )
    report("Virtual time", rows)
