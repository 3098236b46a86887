"""Installing the storage: definitions first, then a pool, classes, node labels, and the pods
that it works through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.kubelet.images import simulation_program
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.models.storage.agent import StorageAgent
from pytest_kscen.models.storage.controller import LeaseLostError, StorageController
from pytest_kscen.models.storage.generations import DEFAULT, GENERATIONS
from pytest_kscen.models.storage.manifests import (
    AGENT,
    CONTROLLER,
    CONTROLLERS,
    IMAGE,
    pool,
    storage_class,
)
from pytest_kscen.models.storage.system import StorageSystem
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
)
from pytest_kscen.objects.storage import (
    NAMESPACE,
    NODE_LABEL,
    REPLICATED_STORAGE_CLASSES,
    REPLICATED_STORAGE_POOLS,
    REPLICATED_VOLUMES,
)

if TYPE_CHECKING:
    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.images import ContainerContext
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj, Resource


INSTALL_TIMEOUT = 120.0
GENERATION_ANNOTATION = "kscen.io/storage-generation"
CLASSES = {
    "none": "None",
    "availability": "Availability",
    "consistency-and-availability": "ConsistencyAndAvailability",
}


async def is_installed(api: Api) -> str:
    """The generation of the storage that is there, ours from an earlier run or somebody's own;
    empty if there is none.
    """
    try:
        definition = await api.get(CUSTOM_RESOURCE_DEFINITIONS, REPLICATED_VOLUMES.qualified)
    except NotFound:
        return ""
    if told := (definition["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION):
        return str(told)
    status = (
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].get("status")
        or {}
    )
    return "effectiveLayout" if "effectiveLayout" in (status.get("properties") or {}) else DEFAULT


async def install(api: Api, clock: Clock, generation: str = DEFAULT) -> None:
    """Returns when the storage is at work. What its pods do has to be attached before."""
    chosen = GENERATIONS[generation]
    for definition in chosen.definitions:
        marked = {**definition["metadata"], "annotations": {GENERATION_ANNOTATION: generation}}
        await api.create(CUSTOM_RESOURCE_DEFINITIONS, {**definition, "metadata": marked})
    for definition in chosen.definitions:
        name = definition["metadata"]["name"]
        await wait_for(
            api,
            clock,
            CUSTOM_RESOURCE_DEFINITIONS,
            name,
            condition=_established,
            timeout=INSTALL_TIMEOUT,
        )
    nodes = [
        node["metadata"]["name"] for node in (await api.list(NODES)).items if not _is_tainted(node)
    ]
    await _create(api, REPLICATED_STORAGE_POOLS, pool(nodes), chosen.status_of_pool(nodes))
    for name, replication in (CLASSES | chosen.classes).items():
        await _create(
            api,
            REPLICATED_STORAGE_CLASSES,
            storage_class(name, replication),
            chosen.status_of_class(replication),
        )
    for node in nodes:
        await api.patch(NODES, node, {"metadata": {"labels": {NODE_LABEL: ""}}})
    await api.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    await api.create(DEPLOYMENTS, CONTROLLER)
    await api.create(DAEMON_SETS, AGENT)
    await wait_for(
        api,
        clock,
        DEPLOYMENTS,
        "controller",
        NAMESPACE,
        condition=_controllers_ready,
        timeout=INSTALL_TIMEOUT,
    )
    await wait_for(
        api,
        clock,
        DAEMON_SETS,
        "agent",
        NAMESPACE,
        condition=_agents_ready,
        timeout=INSTALL_TIMEOUT,
    )


async def _create(api: Api, resource: Resource, obj: Obj, status: Obj) -> None:
    """With its status, wherever that is written."""
    made = await api.create(resource, {**obj, "status": status})
    if made.get("status") != status:
        await api.update(resource, {**made, "status": status}, subresource="status")


def _is_tainted(node: Obj) -> bool:
    """A node that its owner keeps for something else."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(not taint["key"].startswith("node.kubernetes.io/") for taint in taints)


def _established(definition: Obj | None) -> bool:
    return is_true(definition, "Established")


def _controllers_ready(deployment: Obj | None) -> bool:
    ready: int = (deployment or {}).get("status", {}).get("readyReplicas", 0)
    return ready >= CONTROLLERS


def _agents_ready(daemon_set: Obj | None) -> bool:
    status = (daemon_set or {}).get("status", {})
    wanted: int = status.get("desiredNumberScheduled", 0)
    return 0 < wanted == int(status.get("numberReady", 0))


# Attaching the storage to a cluster: from now on its images do what the storage's programs do.


def attach(
    site: Site, informers: Informers, clock: Clock, chance: Chance, generation: str = DEFAULT
) -> StorageSystem:
    """Once for a cluster, before the storage's pods start.

    The kernels that are returned outlive all pods.
    """
    plant = StorageSystem(site, informers, clock, chance, GENERATIONS[generation])

    async def lead(container: ContainerContext) -> int:
        return await plant.staff(container, StorageController(plant, container).run())

    async def tend(container: ContainerContext) -> int:
        return await plant.staff(container, StorageAgent(plant, container).run())

    for app, behaviour in {"controller": lead, "agent": tend}.items():
        site.images.register(
            simulation_program(behaviour, LeaseLostError),
            image=IMAGE.format(app=app),
            namespace=NAMESPACE,
        )
    return plant
