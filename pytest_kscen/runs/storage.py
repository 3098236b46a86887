"""Simulated machines come with a simulated storage. On a cluster that was handed to us the real one is tested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.resources import NODES
from pytest_kscen.runs.preflight import PreflightRefused

if TYPE_CHECKING:
    from pytest_kscen.clusters.cluster import Cluster

SIMULATED = ("embedded", "controlplane")


def bring_storage(cluster: Cluster, generation: str) -> None:
    """Once for each cluster, by whichever run comes first."""
    if cluster.backend not in SIMULATED:
        return
    from pytest_kscen.simulation.storage import attach, install, is_installed

    runner = cluster.runner
    api = cluster.api("storage-installer")
    if not runner.call(is_installed(api)):
        if not runner.call(api.list(NODES, limit=1)).items:
            raise PreflightRefused(
                "the cluster has no nodes, and the storage lives on them: give @pytest.mark.cluster(nodes=...) some"
            )
        site = cluster.site  # type: ignore[attr-defined]  # what simulated clusters have
        attach(site, site.informers, runner.clock, cluster.chance, generation)
        runner.call(install(api, runner.clock, generation))
