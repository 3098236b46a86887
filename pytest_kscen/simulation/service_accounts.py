"""What every namespace has from birth: the service account `default` and the ConfigMap with the cluster's certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.kube.informer import Ref
from pytest_kscen.objects.errors import AlreadyExists, ApiError, NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pytest_kscen.simulation.bench import follow
from pytest_kscen.simulation.workloads.pods import in_terminating_namespace

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj, Resource
    from pytest_kscen.simulation.bench import Bench

DEFAULT_ACCOUNT = {"metadata": {"name": "default"}}
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal "
    "service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)
ROOT_CERTIFICATES = {
    "metadata": {"name": "kube-root-ca.crt", "annotations": {"kubernetes.io/description": DESCRIPTION}},
    "data": {"ca.crt": "There is no certificate: the processes of this cluster's containers are simulated.\n"},
}


class Birthright:
    """Keeps one object in every namespace; what somebody changes of its data is put back."""

    def __init__(self, bench: Bench, resource: Resource, wanted: Obj) -> None:
        self._bench = bench
        self._resource = resource
        self._wanted = wanted
        self._name = wanted["metadata"]["name"]
        self._namespaces = bench.informers.of(NAMESPACES)
        self._objects = bench.informers.of(resource)
        self._controller = bench.controller(self._reconcile, self._namespaces, self._objects)
        follow(self._controller, self._namespaces)
        self._objects.on_change(self._changed)

    async def run(self) -> None:
        await self._controller.run()

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        metadata = (new or old or {})["metadata"]
        if metadata["name"] == self._name:
            self._controller.enqueue(Ref("", metadata["namespace"]))

    async def _reconcile(self, ref: Ref) -> None:
        namespace = self._namespaces.objects.get(ref)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        there = self._objects.get(self._name, ref.name)
        try:
            if there is None:
                await self._bench.api.create(self._resource, self._wanted, ref.name)
            elif "data" in self._wanted and there.get("data") != self._wanted["data"]:
                await self._bench.api.update(self._resource, {**there, "data": self._wanted["data"]})
        except (AlreadyExists, NotFound):
            return
        except ApiError as error:
            if not in_terminating_namespace(error):
                raise


def service_accounts(bench: Bench) -> Birthright:
    """The account that pods run as unless they name another."""
    return Birthright(bench, SERVICE_ACCOUNTS, DEFAULT_ACCOUNT)


def root_certificates(bench: Bench) -> Birthright:
    """What every pod's token volume mounts."""
    return Birthright(bench, CONFIG_MAPS, ROOT_CERTIFICATES)
