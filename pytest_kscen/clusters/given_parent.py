"""The parent of a real cluster: named by a kubeconfig and a namespace, and looked at before anything is done in it."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from pytest_kscen.clusters import contexts
from pytest_kscen.clusters.kubeconfig import KubeconfigCluster
from pytest_kscen.clusters.refusal import ClusterRefused
from pytest_kscen.kube.actor import Parent
from pytest_kscen.objects.errors import ApiError, NotFound
from pytest_kscen.objects.resources import NODES
from pytest_kscen.objects.virtualization import VIRTUAL_MACHINES

if TYPE_CHECKING:
    import pathlib

    from pytest_kscen.clusters.live import LiveCluster
    from pytest_kscen.kube.api import Api

AGENT = "pytest-kscen"
SHOWN = 5  # names in a message
OPTIONS = {
    "--parent-kubeconfig FILE": "that of the cluster that runs its nodes as virtual machines",
    "--vm-namespace NAME": "where in it those are",
}

logger = logging.getLogger(__name__)


class GivenParent(KubeconfigCluster):
    """A connection to it, in the loop of the cluster that it is the parent of. Nothing in it is ours."""

    def __init__(self, nested: LiveCluster, path: pathlib.Path | None, namespace: str) -> None:
        missing = [name for name, given in zip(OPTIONS, (path, namespace), strict=True) if not given]
        if missing:
            what = " and ".join(f"{name} ({OPTIONS[name]})" for name in missing)
            raise ClusterRefused(f"the parent of the {nested.backend} cluster is not known: give {what}")
        super().__init__(path, seed=nested.chance.seed, flags=contexts.PARENT, runner=nested.runner)
        try:
            found = self.runner.call(self._look_at(nested.api(AGENT), namespace))
        except BaseException:
            self.runner.call(self._put_away())
            raise
        self.as_parent = Parent(self.api, namespace, owned=False, machines=found)

    async def _look_at(self, nested: Api, namespace: str) -> frozenset[str]:
        """The virtual machines that are nodes of the tested cluster; others are somebody else's, and are left alone."""
        api = self.api(AGENT)
        try:
            machines = [vm["metadata"]["name"] for vm in (await api.list(VIRTUAL_MACHINES, namespace)).items]
        except NotFound:
            raise self._refusal(
                f"knows no {VIRTUAL_MACHINES.qualified}: it is not the one that runs the virtual machines"
            ) from None
        except ApiError as error:
            raise self._refusal(f"does not let us see its {VIRTUAL_MACHINES.qualified}: {error.message.rstrip('.')}") from error
        if not machines:
            raise self._refusal(
                f"has no virtual machines in the namespace {namespace!r}{await _where_else(api)}: see --vm-namespace"
            )
        try:
            nodes = [node["metadata"]["name"] for node in (await nested.list(NODES)).items]
        except ApiError as error:
            raise ClusterRefused(f"the tested cluster does not let us see its nodes: {error.message.rstrip('.')}") from error
        ours = [name for name in machines if name in nodes]
        if not ours:
            raise self._refusal(
                f"has no virtual machine in the namespace {namespace!r} that is a node of the tested cluster (there are "
                f"{_some(machines)}; its nodes are {_some(nodes)}): see --vm-namespace"
            )
        if strangers := [name for name in machines if name not in ours]:
            logger.info(
                "virtual machines in %s that are no nodes of the tested cluster are left alone: %s", namespace, _some(strangers)
            )
        return frozenset(ours)

    def _refusal(self, why: str, look: str = "get virtualmachines -A") -> ClusterRefused:
        return super()._refusal(why, look)

    def close(self) -> None:
        """What does not need the loop, which has ended."""
        self._close_client()
        self._remove_copy()


async def _where_else(api: Api) -> str:
    """The namespaces that have some, if we may know."""
    with contextlib.suppress(ApiError):
        if found := sorted({vm["metadata"]["namespace"] for vm in (await api.list(VIRTUAL_MACHINES)).items}):
            return f" (there are some in {_some(found)})"
    return ""


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
