"""Scheduler on an API server, with operations for tests."""

from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.controllers.persistent_volumes import PersistentVolumes
from pytest_kscen.embedded.controllers.provisioner import Provisioner, storage_class
from pytest_kscen.embedded.scheduler import Scheduler
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.conditions import condition
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import (
    EVENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)


class SchedulerCluster:
    """Scheduler on an API server, with nodes that are only objects, and pods to schedule."""

    def __init__(self, api, runner, chance, options=None):
        self.api, self.runner = api, runner
        informers = Informers(api, runner.clock, chance)
        context = ControllerContext.of("default-scheduler", api, runner.clock, informers)
        options = dict(options or {})
        if make := options.pop("sink_of", None):
            options["sink"] = make(context)
        self.scheduler = Scheduler(context, chance.stream("scheduler"), **options)
        binder = PersistentVolumes(ControllerContext.of("binder", api, runner.clock, informers))
        provisioner = Provisioner(ControllerContext.of("provisioner", api, runner.clock, informers))
        actors = [
            ("informers", informers),
            ("scheduler", self.scheduler),
            ("binder", binder),
            ("provisioner", provisioner),
        ]
        for name, actor in actors:
            runner.start(actor.run(), name)

    def advance(self, seconds=0):
        self.runner.advance(seconds)

    def ask(self, coroutine):
        return self.runner.ask(coroutine)

    def node(
        self,
        name,
        *,
        cpu="4",
        memory="8Gi",
        pods="110",
        labels=None,
        taints=(),
        unschedulable=False,
    ):
        amounts = {"cpu": cpu, "memory": memory, "pods": pods}
        spec = {
            **({"taints": list(taints)} if taints else {}),
            **({"unschedulable": True} if unschedulable else {}),
        }
        metadata = {"name": name, "labels": labels or {}}
        status = {"capacity": amounts, "allocatable": amounts}
        self.ask(
            self.api.create(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": metadata,
                    "spec": spec,
                    "status": status,
                },
            )
        )
        self.advance()

    def nodes_named(self, *names, **parts):
        for name in names:
            self.node(name, **parts)

    def nodes(self, count, **parts):
        for number in range(1, count + 1):
            self.node(f"n{number}", **parts)

    def pod(self, name="p", *, cpu=None, labels=None, owner=None, container=None, **spec):
        requests = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
        owners = (
            [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": owner,
                    "controller": True,
                }
            ]
            if owner
            else []
        )
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": labels or {},
            "ownerReferences": owners,
        }
        containers = [{"name": "c", "image": "app:1", **requests, **(container or {})}]
        spec = {"containers": containers, **spec}
        self.ask(
            self.api.create(
                PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            )
        )
        self.advance()
        return self.where(name)

    def where(self, name="p"):
        """Return the node that a pod is bound to."""
        return self.get(name)["spec"].get("nodeName")

    def why(self, name="p"):
        """Return the message of the PodScheduled condition."""
        found = condition(self.get(name), "PodScheduled")
        assert (found["status"], found["reason"]) == ("False", "Unschedulable")
        return found["message"]

    def get(self, name="p"):
        return self.ask(self.api.get(PODS, name, "default"))

    def change(self, name, patch):
        self.ask(self.api.patch(NODES, name, patch))
        self.advance()

    def delete(self, name="p"):
        self.ask(self.api.delete(PODS, name, "default", grace_period=0))
        self.advance()

    def volume(self, name="pv", **spec):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            **spec,
        }
        obj = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": spec,
        }
        self.ask(self.api.create(PERSISTENT_VOLUMES, obj))
        self.advance()

    def class_(self, name, mode):
        self.ask(self.api.create(STORAGE_CLASSES, storage_class(name, mode=mode)))
        self.advance()

    def claim(self, name="data", cls=""):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": cls,
        }
        metadata = {"name": name, "namespace": "default"}
        obj = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": spec,
        }
        self.ask(self.api.create(PERSISTENT_VOLUME_CLAIMS, obj))
        self.advance()

    def claim_volume(self, name="data"):
        try:
            return self.ask(self.api.get(PERSISTENT_VOLUME_CLAIMS, name, "default"))["spec"].get(
                "volumeName"
            )
        except NotFound:
            return None

    def events(self, name="p"):
        events = self.ask(self.api.list(EVENTS)).items
        return [
            (event["reason"], event["message"])
            for event in events
            if event["involvedObject"]["name"] == name
        ]
