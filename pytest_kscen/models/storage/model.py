"""Storage models: simulated storages that a run brings to a simulated cluster, by name.

`run` selects the model that has the name of the health source (--kscen-volume-health). Built-in
models are the three generations of the replicated storage; packages add others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pytest_kscen.extensions import Registry
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.models.storage.generations import GENERATIONS
from pytest_kscen.models.storage.installation import attach, install, is_installed
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.kubelet.nodes import Site
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Resource


class StorageModel(ABC):
    """A simulated storage: its definitions, its pods, and the programs that run in them.

    Methods are called once for each cluster, in their order here, before the first run.
    """

    name: str
    """Name of the health source that reads its volumes."""

    @abstractmethod
    async def is_installed(self, api: Api) -> bool:
        """Return True if such a storage is installed already: then no other method is called."""

    @abstractmethod
    def attach(self, site: Site, informers: Informers, clock: Clock, chance: Chance) -> None:
        """Register the programs of the storage's images with `site.images`.

        `informers` are those of the cluster's controllers, which live as long as the cluster.
        """

    @abstractmethod
    async def install(self, api: Api, clock: Clock) -> None:
        """Create definitions, classes, namespaces and pods; return when the pods are ready."""


async def create_definition(api: Api, clock: Clock, resource: Resource) -> None:
    """Create the definition of a resource with any spec and a status of its own.

    Returns when the API serves it; raises TimeoutError after a minute of cluster time.
    """
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    fields = {"spec": anything, "status": anything}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": fields}},
    }
    definition = {
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
            },
            "versions": [version],
        },
    }
    await api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await wait_for(
        *(api, clock, CUSTOM_RESOURCE_DEFINITIONS, resource.qualified),
        condition=lambda found: is_true(found, "Established"),
        timeout=60.0,
    )


class ReplicatedStorageModel(StorageModel):
    """Model of one generation of the replicated storage."""

    def __init__(self, generation: str) -> None:
        self.name = generation

    async def is_installed(self, api: Api) -> bool:
        """Return True if any generation is installed, by an earlier run or by others."""
        return bool(await is_installed(api))

    def attach(self, site: Site, informers: Informers, clock: Clock, chance: Chance) -> None:
        attach(site, informers, clock, chance, self.name)

    async def install(self, api: Api, clock: Clock) -> None:
        await install(api, clock, self.name)


STORAGE_MODELS: Registry[StorageModel] = Registry(
    "storage_models",
    "storage model",
    facts={},
    built_in=tuple(ReplicatedStorageModel(name) for name in GENERATIONS),
)
