"""Storage of another vendor: its definition, a health source, and a model for simulated clusters."""

from __future__ import annotations

from pytest_kscen.storage import (
    HealthSource,
    Resource,
    StorageModel,
    condition,
    create_definition,
    observed_condition,
)

TOY_VOLUMES = Resource("toy.example", "v1", "toyvolumes", "ToyVolume", namespaced=False)
REACHABLE, REDUNDANT = "Reachable", "Redundant"
TOY_HEALTH = HealthSource("toy", (REACHABLE, REDUNDANT), observed_condition, up_to_date="UpToDate")
PODS = {"app": "toy-controller"}
CONTROLLER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "toy-controller", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": PODS},
        "template": {
            "metadata": {"labels": PODS},
            "spec": {"containers": [{"name": "toy", "image": "toy.example/controller:1"}]},
        },
    },
}


class ToyModel(StorageModel):
    name = "toy"

    async def is_installed(self, api):
        definitions = Resource(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            namespaced=False,
        )
        names = [each["metadata"]["name"] for each in (await api.list(definitions)).items]
        return TOY_VOLUMES.qualified in names

    def attach(self, site, informers, clock, chance):
        site.images.register(control, image="toy.example/controller:1")

    async def install(self, api, clock):
        await create_definition(api, clock, TOY_VOLUMES)
        deployments = Resource("apps", "v1", "deployments", "Deployment")
        await api.create(deployments, CONTROLLER)


async def control(container):
    """Program of the controller's image: a volume is ready a few seconds after its creation."""
    while not await container.stopping(within=5.0):
        for volume in (await container.api.list(TOY_VOLUMES)).items:
            if condition(volume, REDUNDANT) is None:
                status = {"conditions": [stated(REACHABLE), stated(REDUNDANT)]}
                await container.api.update(
                    TOY_VOLUMES, {**volume, "status": status}, subresource="status"
                )
    return 0


def stated(name):
    return {"type": name, "status": "True", "reason": "Ready", "message": ""}


TOY_MODEL = ToyModel()
