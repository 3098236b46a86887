"""Measure the official synchronous client in-process, over HTTPS and on the real kube-apiserver."""

from __future__ import annotations

import kubernetes
from measuring import Row, Stopwatch, control_plane, report

from pytest_kscen.clusters.embedded import EmbeddedCluster

PAIRS = 1_000
BODY = {"metadata": {"name": ""}, "data": {"key": "value"}}


def pairs_per_second(client, prefix) -> float:
    """Create and get pairs."""
    core = kubernetes.client.CoreV1Api(client)
    rounds = []
    for batch in range(3):
        with Stopwatch() as watch:
            for number in range(PAIRS // 3):
                name = f"{prefix}-{batch}-{number}"
                core.create_namespaced_config_map("default", {**BODY, "metadata": {"name": name}})
                core.read_namespaced_config_map(name, "default")
        rounds.append(PAIRS // 3 / watch.seconds)
    return max(rounds)


if __name__ == "__main__":
    embedded = EmbeddedCluster("0", nodes=0)
    inside = pairs_per_second(embedded.client, "inside")
    over_https = pairs_per_second(
        kubernetes.config.new_client_from_config(str(embedded.kubeconfig)), "https"
    )
    embedded.close()
    with control_plane() as real:
        theirs = pairs_per_second(real.client, "real")
    peer = f"{theirs:,.0f}/s"
    report(
        "The official sync client, create and get pairs",
        [
            Row("in-process", f"{inside:,.0f}/s", peer, inside / theirs, 3),
            Row("over HTTPS", f"{over_https:,.0f}/s", peer, over_https / theirs, 1),
        ],
    )
