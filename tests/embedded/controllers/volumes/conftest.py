import pytest

from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.controllers.claim_lifecycle import EphemeralVolumes, VolumeProtection
from pytest_kscen.embedded.controllers.persistent_volumes import PersistentVolumes
from pytest_kscen.embedded.controllers.provisioner import Provisioner, storage_class
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)

RESOURCES = {
    "PersistentVolume": PERSISTENT_VOLUMES,
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "Pod": PODS,
    "StorageClass": STORAGE_CLASSES,
}


class Storage:
    """Volume controllers on an API server."""

    def __init__(self, api, runner, chance):
        self.api, self.runner = api, runner
        informers = Informers(api, runner.clock, chance)
        runner_of = {
            "binder": PersistentVolumes,
            "provisioner": Provisioner,
            "protection": VolumeProtection,
            "e": EphemeralVolumes,
        }
        controllers = [
            (name, make(ControllerContext.of(name, api, runner.clock, informers)))
            for name, make in runner_of.items()
        ]
        for name, actor in [("informers", informers), *controllers]:
            runner.start(actor.run(), name)

    def advance(self, seconds=0):
        self.runner.advance(seconds)

    def create(self, obj):
        made = self.runner.ask(self.api.create(RESOURCES[obj["kind"]], obj))
        self.advance()
        return made

    def class_(self, name="fast", **options):
        return self.create(storage_class(name, **options))

    def volume(self, name="pv", *, size="1Gi", modes=("ReadWriteOnce",), labels=None, **spec):
        metadata = {"name": name, "labels": labels or {}}
        spec = {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "hostPath": {"path": "/x"},
            **spec,
        }
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        return self.create(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
        )

    def claim(
        self, name="data", *, size="1Gi", modes=("ReadWriteOnce",), cls="", annotations=None, **spec
    ):
        metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
        spec = {
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size}},
            "storageClassName": cls,
            **spec,
        }
        return self.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": spec,
            }
        )

    def pod(self, name="p", **spec):
        metadata = {"name": name, "namespace": "default"}
        spec = {"containers": [{"name": "c", "image": "app:1"}], **spec}
        return self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def get(self, kind, name):
        namespace = "" if kind in {"PersistentVolume", "StorageClass"} else "default"
        try:
            return self.runner.ask(self.api.get(RESOURCES[kind], name, namespace))
        except NotFound:
            return None

    def phase(self, kind, name):
        found = self.get(kind, name)
        return found and (found.get("status") or {}).get("phase")

    def bound(self, claim="data"):
        """Return the phase and volume of a claim."""
        found = self.get("PersistentVolumeClaim", claim)
        return (found.get("status") or {}).get("phase", "Pending"), found["spec"].get("volumeName")

    def patch(self, kind, name, patch):
        namespace = "default" if kind in {"PersistentVolumeClaim", "Pod"} else ""
        done = self.runner.ask(self.api.patch(RESOURCES[kind], name, patch, namespace))
        self.advance()
        return done

    def delete(self, kind, name, **options):
        namespace = "default" if kind in {"PersistentVolumeClaim", "Pod"} else ""
        self.runner.ask(self.api.delete(RESOURCES[kind], name, namespace, **options))
        self.advance()

    def events(self, name):
        events = self.runner.ask(self.api.list(EVENTS)).items
        return [
            (event["reason"], event["message"])
            for event in events
            if event["involvedObject"]["name"] == name
        ]


@pytest.fixture
def storage(api, runner, chance):
    return Storage(api, runner, chance)
