"""Where clusters come from: embedded, controlplane, kind, kubeconfig. No test plan may enter here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.clusters.cluster import Cluster


def open_cluster(
    backend: str,
    *,
    seed: str,
    nodes: int = 6,
    kubeconfig: pathlib.Path | None = None,
    context: str | None = None,
) -> Cluster:
    """A running cluster of this backend; each is imported when it is first wanted."""
    if backend == "embedded":
        from pytest_kscen.clusters.embedded import EmbeddedCluster

        return EmbeddedCluster(seed, nodes=nodes)
    raise ValueError(backend)
