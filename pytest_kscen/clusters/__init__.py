"""Cluster backends, which provide clusters: embedded, controlplane, kind, kubeconfig.

Called by the plugin and by commands. Every backend is a `Backend` of the registry `BACKENDS`;
its module is imported when a cluster is first opened. No test plan may be imported here.

    cluster           Cluster, the object of tests; ClusterRefused
    embedded          API server in this process, in virtual time
    controlplane/     real control plane with simulated machines
    kind, kubeconfig  clusters of others
    conformance/      one test body for the embedded and the real API server
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.extensions import Registry

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.clusters.kind import KindOptions

__all__ = ["BACKENDS", "Backend", "ClusterRefused", "ClusterRequest", "open_cluster"]

NODES = 6  # simulated ones, unless the test requests another number


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Request for a cluster, from a test's marker and the command line."""

    seed: str
    nodes: int | None = None
    """Number of nodes; None leaves it to the backend."""
    kubeconfig: pathlib.Path | None = None
    context: str | None = None
    kind: KindOptions | None = None
    """Name and image of a kind cluster; None for all other backends."""


class Backend(ABC):
    """A source of clusters. Subclass it; the class itself is registered."""

    name: ClassVar[str]
    """Value of --kscen-cluster and of @pytest.mark.cluster(backend=...)."""
    recreated: ClassVar[bool]
    """True if each test gets a new cluster with a parent of its own, deleted after the test. Other
    clusters live for the session, and options name their parent and their storage classes."""

    @classmethod
    @abstractmethod
    def open(cls, request: ClusterRequest) -> Cluster:
        """Return a running cluster, or raise ClusterRefused with what to do."""


class EmbeddedBackend(Backend):
    name = "embedded"
    recreated = True

    @classmethod
    def open(cls, request: ClusterRequest) -> Cluster:
        from pytest_kscen.clusters.embedded import EmbeddedCluster

        return EmbeddedCluster(request.seed, nodes=_simulated_nodes(request))


class ControlPlaneBackend(Backend):
    name = "controlplane"
    recreated = True

    @classmethod
    def open(cls, request: ClusterRequest) -> Cluster:
        from pytest_kscen.clusters.controlplane.cluster import ControlPlaneCluster

        return ControlPlaneCluster(request.seed, nodes=_simulated_nodes(request))


class KindBackend(Backend):
    name = "kind"
    recreated = False

    @classmethod
    def open(cls, request: ClusterRequest) -> Cluster:
        from pytest_kscen.clusters.kind import KindBackedCluster

        return KindBackedCluster(request.kind, nodes=request.nodes, seed=request.seed)


class KubeconfigBackend(Backend):
    name = "kubeconfig"
    recreated = False

    @classmethod
    def open(cls, request: ClusterRequest) -> Cluster:
        from pytest_kscen.clusters.kubeconfig import KubeconfigCluster

        return KubeconfigCluster(request.kubeconfig, request.context, seed=request.seed)


BACKENDS: Registry[type[Backend]] = Registry(
    "cluster_backends",
    "cluster backend",
    facts={"recreated": "recreated = True"},
    built_in=(EmbeddedBackend, ControlPlaneBackend, KindBackend, KubeconfigBackend),
)


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
    """Return a running cluster of this backend, or raise ClusterRefused.

    The options of its parent are checked when the parent is first requested.
    """
    if backend not in BACKENDS:
        raise ValueError(f"there is no backend {backend!r}")
    request = ClusterRequest(seed, nodes, kubeconfig, context, kind)
    cluster = BACKENDS[backend].open(request)
    cluster.parent_kubeconfig, cluster.vm_namespace = parent_kubeconfig, vm_namespace
    return cluster


def _simulated_nodes(request: ClusterRequest) -> int:
    return NODES if request.nodes is None else request.nodes
