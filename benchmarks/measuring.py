"""Measure and print for all benchmarks: a peer in the same run, best of rounds, ratio and goal."""

from __future__ import annotations

import contextlib
import gc
import platform
import sys
import time
from dataclasses import dataclass
from typing import Self


class Stopwatch:
    """Seconds of a with-block: by the wall, or of this process's own work; without the garbage
    collector's whims, or with.
    """

    seconds = 0.0

    def __init__(self, *, own_work: bool = False, collecting: bool = False) -> None:
        self._clock = time.process_time if own_work else time.perf_counter
        self._collecting = collecting

    def __enter__(self) -> Self:
        gc.collect()
        if not self._collecting:
            gc.disable()
        self._began = self._clock()
        return self

    def __exit__(self, *_) -> None:
        self.seconds = self._clock() - self._began
        gc.enable()


@dataclass(frozen=True)
class Row:
    """One line of the table; a ratio above its goal is good, or below it where less is better."""

    what: str
    ours: str
    peer: str
    ratio: float
    goal: float
    less_is_better: bool = False

    @property
    def reached(self) -> bool:
        return self.ratio <= self.goal if self.less_is_better else self.ratio >= self.goal


def report(title: str, rows: list[Row]) -> None:
    print(f"\n## {title}\n\n| what | ours | peer | ratio | goal | |\n|---|---|---|---|---|---|")
    for row in rows:
        sign = "≤" if row.less_is_better else "≥"
        print(
            f"| {row.what} | {row.ours} | {row.peer} | {row.ratio:.2f} | {sign} "
            f"{row.goal:g} | {'yes' if row.reached else 'NO'} |"
        )
    version = f"Python {sys.version.split()[0]}, {platform.machine()}"
    print(f"\n{version}")


def best(rounds: int, measure) -> float:
    """The least of several measurements in seconds."""
    return min(measure() for _ in range(rounds))


@contextlib.contextmanager
def control_plane(nodes: int = 0):
    """The real thing, as the peer of the run."""
    from pytest_kscen.clusters import open_cluster

    with Stopwatch() as watch:
        cluster = open_cluster("controlplane", seed="0", nodes=nodes)
    cluster.started_in = watch.seconds
    try:
        yield cluster
    finally:
        cluster.close()
