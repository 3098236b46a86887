"""Cluster backends behind one protocol, and the conformance kit.

Plans, chaos and scenarios may not be imported here. Inside:

    cluster             Cluster protocol, base class, ClusterRefused
    embedded            in-process cluster in virtual time, with simulated_parent
    controlplane/       real control plane as local processes
    kind, kubeconfig    cluster in containers, and a user's cluster
    conformance/        cases that any API server must pass, and differential tests
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.clusters.cluster import ClusterRefused

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.clusters.kind import KindOptions

__all__ = ["ClusterRefused", "open_cluster"]

NODES = 6  # simulated ones, unless the test asks for another number


def open_cluster(
    backend: str,
    *,
    seed: str,
    nodes: int | None = None,
    kubeconfig: pathlib.Path | None = None,
    context: str | None = None,
    kind: KindOptions | None = None,
    parent_kubeconfig: pathlib.Path | None = None,
    vm_namespace: str = "",
) -> Cluster:
    """Return a running cluster of this backend, or raise ClusterRefused. The parent's settings are
    only checked when its `parent()` is first called. Each backend is imported on first use.
    """
    cluster = _open(backend, seed, nodes, kubeconfig, context, kind)
    cluster.parent_kubeconfig, cluster.vm_namespace = parent_kubeconfig, vm_namespace
    return cluster


def _open(  # noqa: PLR0917  # as its only caller has them
    backend: str,
    seed: str,
    nodes: int | None,
    kubeconfig: pathlib.Path | None,
    context: str | None,
    kind: KindOptions | None,
) -> Cluster:
    """Each backend is imported when it is first wanted."""
    if backend == "embedded":
        from pytest_kscen.clusters.embedded import EmbeddedCluster

        return EmbeddedCluster(seed, nodes=NODES if nodes is None else nodes)
    if backend == "controlplane":
        from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

        return ControlPlaneCluster(seed, nodes=NODES if nodes is None else nodes)
    if backend == "kind":
        from pytest_kscen.clusters.kind import KindBackedCluster

        return KindBackedCluster(kind, nodes=nodes, seed=seed)
    if backend == "kubeconfig":
        from pytest_kscen.clusters.kubeconfig import KubeconfigCluster

        return KubeconfigCluster(kubeconfig, context, seed=seed)
    raise ValueError(f"there is no backend {backend!r}")
