"""Cluster with controllers only: tests place and run its pods."""

from __future__ import annotations

from pytest_kscen.clock import timestamp_of
from pytest_kscen.embedded.actors import CONTROLLERS
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.controllers.workloads.daemonset_plan import node_of
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.errors import Conflict, NotFound
from pytest_kscen.objects.resources import EVENTS, PODS, Resource

START = 1767225600.0
OURS = (
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "disruption-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "cronjob-controller",
    "job-controller",
    "orphaned-job-pods-controller",
    "ttl-after-finished-controller",
)


class PodRunner:
    """Bind every pod immediately, make it ready after `boot` seconds, end it as `life` returns, and
    remove it when deleted.
    """

    def __init__(self, world):
        self.world, self.api, self.clock = world, world.api, world.runner.clock
        self.boot, self.takedown = 1.0, 0.0
        self.life = lambda pod: None  # seconds until it ends, and its exit code
        self.count = 0

    async def run(self):
        async for event in self.api.watch(PODS):
            if event.type == "ADDED":
                self._spawn(self._live(event.object))
            elif event.type == "MODIFIED" and event.object["metadata"].get("deletionTimestamp"):
                self._spawn(self._remove_pod(event.object))

    def _spawn(self, coroutine):
        self.world.runner.loop.create_task(self._ignore_not_found(coroutine), name="pod-runner")

    @staticmethod
    async def _ignore_not_found(coroutine):
        try:
            await coroutine
        except (NotFound, Conflict):
            return

    async def _live(self, pod):
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        binding = {
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": node_of(pod) or "n1"},
        }
        await self.api.create(PODS, binding, namespace, name=name, subresource="binding")
        if self.boot is None:
            return
        await self.clock.sleep(self.boot)
        self.count += 1
        ip = f"10.1.0.{self.count}"
        await self.tell(pod, "Running", ready=True, podIP=ip, podIPs=[{"ip": ip}])
        if end := self.life(pod):
            await self.clock.sleep(end[0])
            await self.end(pod, end[1])

    async def tell(self, pod, phase, *, ready, **more):
        since = timestamp_of(self.clock.now())
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
        patch = {"status": {"phase": phase, "conditions": [condition], **more}}
        await self.api.patch(
            PODS, pod["metadata"]["name"], patch, pod["metadata"]["namespace"], subresource="status"
        )

    async def end(self, pod, code):
        terminated = {"exitCode": code, "finishedAt": timestamp_of(self.clock.now())}
        container = {"name": "c", "image": "app", "imageID": "", "ready": False, "restartCount": 0}
        statuses = [{**container, "state": {"terminated": terminated}}]
        await self.tell(
            pod, "Failed" if code else "Succeeded", ready=False, containerStatuses=statuses
        )

    async def _remove_pod(self, pod):
        if self.takedown:
            await self.clock.sleep(self.takedown)
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        await self.api.delete(
            PODS, name, namespace, grace_period=0, precondition_uid=pod["metadata"]["uid"]
        )


class ControllerCluster:
    """API server with controllers, and operations for tests."""

    def __init__(self, api, runner, chance):
        self.api, self.runner = api, runner
        informers = Informers(api, runner.clock, chance)
        cast = {
            name: CONTROLLERS[name](ControllerContext.of(name, api, runner.clock, informers))
            for name in OURS
        }
        self.pod_runner = PodRunner(self)
        for name, actor in {"informers": informers, **cast, "pod-runner": self.pod_runner}.items():
            runner.start(actor.run(), name)
        self.advance(0)

    @property
    def now(self):
        return round(self.runner.clock.now() - START, 3)

    def advance(self, seconds=0):
        self.runner.advance(seconds)
        self.runner.advance(0)  # what this last instant brings about

    def ask(self, coroutine):
        return self.runner.ask(coroutine)

    def create(self, resource: Resource, name, spec=None, namespace="default", **more):
        metadata = {"name": name, **more.pop("metadata", {})}
        body = {"metadata": metadata, **({"spec": spec} if spec is not None else {}), **more}
        made = self.ask(self.api.create(resource, body, namespace if resource.namespaced else ""))
        self.advance(0)
        return made

    def get(self, resource, name, namespace="default"):
        return self.ask(self.api.get(resource, name, namespace if resource.namespaced else ""))

    def status(self, resource, name):
        return self.get(resource, name).get("status") or {}

    def list(self, resource, namespace="default", **options):
        return self.ask(
            self.api.list(resource, namespace if resource.namespaced else "", **options)
        ).items

    def names(self, resource, namespace="default", **options):
        return [obj["metadata"]["name"] for obj in self.list(resource, namespace, **options)]

    def patch(self, resource, name, patch, namespace="default"):
        patched = self.ask(
            self.api.patch(resource, name, patch, namespace if resource.namespaced else "")
        )
        self.advance(0)
        return patched

    def delete(self, resource, name, namespace="default", **options):
        self.ask(
            self.api.delete(resource, name, namespace if resource.namespaced else "", **options)
        )
        self.advance(0)

    def pods(self, **labels):
        return self.list(PODS, labels=",".join(f"{key}={value}" for key, value in labels.items()))

    def unready(self, name):
        pod = self.get(PODS, name)
        self.ask(self.pod_runner.tell(pod, "Running", ready=False))
        self.advance(0)

    def ready(self, name):
        self.ask(self.pod_runner.tell(self.get(PODS, name), "Running", ready=True))
        self.advance(0)

    def end(self, name, code=0):
        self.ask(self.pod_runner.end(self.get(PODS, name), code))
        self.advance(0)

    def events(self, about, *reasons):
        """Return the events of an object in the order of their first occurrence."""
        found = [event for event in self.list(EVENTS) if event["involvedObject"]["name"] == about]
        found.sort(
            key=lambda event: (event["firstTimestamp"], int(event["metadata"]["resourceVersion"]))
        )
        return [event["message"] for event in found if not reasons or event["reason"] in reasons]

    def conditions(self, resource, name):
        return {
            row["type"]: (row["status"], row["reason"])
            for row in self.status(resource, name).get("conditions", ())
        }
