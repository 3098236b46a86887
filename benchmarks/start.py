"""Compare the start of an embedded cluster with that of the real control plane."""

from __future__ import annotations

from measuring import Row, Stopwatch, best, control_plane, report

from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.objects.resources import NODES

GOAL_SECONDS = 0.030


def fresh(nodes=6):
    with Stopwatch() as watch:
        cluster = EmbeddedCluster("0", nodes=nodes)
        listing = cluster.runner.call(cluster.api().list(NODES))
    assert len(listing.items) == nodes
    cluster.close()
    return watch.seconds


if __name__ == "__main__":
    fresh()
    ours = best(20, fresh)
    with control_plane(nodes=6) as real:
        theirs = real.started_in
    report(
        "A fresh cluster with six nodes",
        [
            Row(
                "ready, first request answered",
                f"{ours * 1000:.1f} ms",
                "30 ms",
                ours / GOAL_SECONDS,
                1,
                less_is_better=True,
            ),
            Row(
                "against the real control plane",
                f"{ours * 1000:.1f} ms",
                f"{theirs:.1f} s",
                theirs / ours,
                100,
            ),
        ],
    )
