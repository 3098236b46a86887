"""Where clusters come from: embedded, controlplane, kind, kubeconfig. No test plan may enter here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clusters.refusal import ClusterRefused

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.clusters.kind.wish import KindWish

__all__ = ["ClusterRefused", "open_cluster"]

NODES = 6  # simulated ones, unless the test asks for another number


def open_cluster(
    backend: str,
    *,
    seed: str,
    nodes: int | None = None,
    kubeconfig: pathlib.Path | None = None,
    context: str | None = None,
    kind: KindWish | None = None,
) -> Cluster:
    """A running cluster of this backend, or a ClusterRefused; each is imported when it is first wanted."""
    if backend == "embedded":
        from pytest_kscen.clusters.embedded import EmbeddedCluster

        return EmbeddedCluster(seed, nodes=NODES if nodes is None else nodes)
    if backend == "controlplane":
        from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

        return ControlPlaneCluster(seed, nodes=NODES if nodes is None else nodes)
    if backend == "kind":
        from pytest_kscen.clusters.kind.cluster import KindBackedCluster

        return KindBackedCluster(kind, nodes=nodes, seed=seed)
    if backend == "kubeconfig":
        from pytest_kscen.clusters.kubeconfig import KubeconfigCluster

        return KubeconfigCluster(kubeconfig, context, seed=seed)
    raise ValueError(f"there is no backend {backend!r}")
