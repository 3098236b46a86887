"""Simulated machines come with a simulated Chaos Mesh. On a cluster that was handed to us the real one acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kscen.clusters.cluster import Cluster

SIMULATED = ("embedded", "controlplane")


def bring_chaos_mesh(cluster: Cluster) -> None:
    """Once for each cluster, by whoever comes first: the definitions of chaos and of workflows, and who acts on them."""
    if cluster.backend not in SIMULATED or cluster.site.has_chaos_mesh:  # type: ignore[attr-defined]  # what simulated clusters have
        return
    from pytest_kscen.simulation.chaos_mesh import actors, install

    runner, site = cluster.runner, cluster.site  # type: ignore[attr-defined]  # as above
    runner.call(install(cluster.api("chaos-mesh-installer"), runner.clock))
    for name, life in actors(cluster.api, runner.clock, cluster.chance, site):
        runner.start(life, name)
    site.has_chaos_mesh = True
