"""Installation of the storage: definitions, a pool, classes, node labels, and its pods.

Called by a run, and by clusters that attach the simulated storage. The API alone is used, so
installing works on any cluster whose pods have been attached.
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
    """Return the generation of the installed storage, of an earlier run or a real one; empty if
    none is.
    """
    try:
        definition = await api.get(CUSTOM_RESOURCE_DEFINITIONS, REPLICATED_VOLUMES.qualified)
    except NotFound:
        return ""
    if noted := (definition["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION):
        return str(noted)
    status = (
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].get("status")
        or {}
    )
    return "effectiveLayout" if "effectiveLayout" in (status.get("properties") or {}) else DEFAULT


async def install(api: Api, clock: Clock, generation: str = DEFAULT) -> None:
    """Install the storage, and return when it works. Raises a timeout after two minutes for each
    step; the storage has to be attached before, or its pods never become ready.
    """
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
            condition=lambda found: is_true(found, "Established"),
            timeout=INSTALL_TIMEOUT,
        )
    nodes = [
        node["metadata"]["name"]
        for node in (await api.list(NODES)).items
        if all(  # else the node is reserved for something else by its owner
            taint["key"].startswith("node.kubernetes.io/")
            for taint in (node.get("spec") or {}).get("taints") or ()
        )
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
        condition=lambda deployment: (
            (deployment or {}).get("status", {}).get("readyReplicas", 0) >= CONTROLLERS
        ),
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
    """Create an object and write its status, with or without a status subresource."""
    made = await api.create(resource, {**obj, "status": status})
    if made.get("status") != status:
        await api.update(resource, {**made, "status": status}, subresource="status")


def _agents_ready(daemon_set: Obj | None) -> bool:
    status = (daemon_set or {}).get("status", {})
    wanted: int = status.get("desiredNumberScheduled", 0)
    return 0 < wanted == int(status.get("numberReady", 0))


def attach(
    site: Site, informers: Informers, clock: Clock, chance: Chance, generation: str = DEFAULT
) -> StorageSystem:
    """Let the storage's images run the simulated programs. Call it once for a cluster, before the
    pods start; the returned system's kernels outlive all pods.
    """
    system = StorageSystem(site, informers, clock, chance, GENERATIONS[generation])

    async def run_controller(container: ContainerContext) -> int:
        return await system.run_in_container(container, StorageController(system, container).run())

    async def run_agent(container: ContainerContext) -> int:
        return await system.run_in_container(container, StorageAgent(system, container).run())

    for app, behaviour in {"controller": run_controller, "agent": run_agent}.items():
        site.images.register(
            simulation_program(behaviour, LeaseLostError),
            image=IMAGE.format(app=app),
            namespace=NAMESPACE,
        )
    return system
