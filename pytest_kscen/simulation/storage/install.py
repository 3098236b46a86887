"""Installing the storage: definitions first, then classes, node labels and the pods that it works through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, NODES
from pytest_kscen.objects.storage import NAMESPACE, NODE_LABEL, REPLICATED_STORAGE_CLASSES
from pytest_kscen.simulation.storage.definitions import AGENT, CONTROLLER, DEFINITIONS, REPLICATION, storage_class

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.objects.resources import Obj

PATIENCE = 120.0


async def is_installed(api: Api) -> bool:
    """Whether a storage is there already: ours from an earlier run on this cluster, or somebody's own."""
    try:
        await api.get(CUSTOM_RESOURCE_DEFINITIONS, DEFINITIONS[0]["metadata"]["name"])
    except NotFound:
        return False
    return True


async def install(api: Api, clock: Clock) -> None:
    """Returns when the storage is at work."""
    for definition in DEFINITIONS:
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for definition in DEFINITIONS:
        name = definition["metadata"]["name"]
        await wait_for(api, clock, CUSTOM_RESOURCE_DEFINITIONS, name, condition=_established, timeout=PATIENCE)
    for name, replication in REPLICATION.items():
        await api.create(REPLICATED_STORAGE_CLASSES, storage_class(name, replication))
    for node in (await api.list(NODES)).items:
        await api.patch(NODES, node["metadata"]["name"], {"metadata": {"labels": {NODE_LABEL: ""}}})
    await api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await api.create(DEPLOYMENTS, CONTROLLER)
    await api.create(DAEMON_SETS, AGENT)
    await wait_for(api, clock, DEPLOYMENTS, "controller", NAMESPACE, condition=_controllers_ready, timeout=PATIENCE)
    await wait_for(api, clock, DAEMON_SETS, "agent", NAMESPACE, condition=_agents_ready, timeout=PATIENCE)


def _established(definition: Obj | None) -> bool:
    return is_true(definition, "Established")


def _controllers_ready(deployment: Obj | None) -> bool:
    ready: int = (deployment or {}).get("status", {}).get("readyReplicas", 0)
    return ready >= int(CONTROLLER["spec"]["replicas"])


def _agents_ready(daemon_set: Obj | None) -> bool:
    status = (daemon_set or {}).get("status", {})
    wanted: int = status.get("desiredNumberScheduled", 0)
    return 0 < wanted == int(status.get("numberReady", 0))
