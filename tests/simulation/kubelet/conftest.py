import pytest

from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.resources import CONFIG_MAPS, EVENTS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS
from pytest_kscen.simulation.bench import Bench
from pytest_kscen.simulation.kubelet.kubelets import Kubelets
from pytest_kscen.simulation.site import Site as BuiltSite


class Site:
    """Machines and kubelets on an API server, and what a test wants to do with them."""

    def __init__(self, api, runner, chance, nodes):
        self.api, self.runner, self.clock = api, runner, runner.clock
        site = BuiltSite.of(self.clock, chance, nodes=nodes)
        self.machines, self.images, self.logs = site.machines, site.images, site.logs
        informers = Informers(api, self.clock, chance)
        self.kubelets = Kubelets(Bench.of("kubelet", api, self.clock, informers), site)
        runner.start(informers.run(), "informers")
        runner.start(self.kubelets.run(), "kubelets")
        self.advance(0)

    def advance(self, seconds):
        self.runner.advance(seconds)

    @property
    def now(self):
        return round(self.clock.now() - 1767225600, 6)

    def call(self, coroutine):
        return self.runner.ask(coroutine)

    def node(self, name="node-1"):
        return self.call(self.api.get(NODES, name))

    def pod(self, name="p"):
        return self.call(self.api.get(PODS, name, "default"))

    def status(self, name="p"):
        return self.pod(name)["status"]

    def container(self, name="p", container="c"):
        status = self.status(name)
        found = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        return next(one for one in found if one["name"] == container)

    def exists(self, name="p"):
        return any(pod["metadata"]["name"] == name for pod in self.call(self.api.list(PODS, "default")).items)

    def create(self, name="p", *, node="node-1", annotations=None, **spec):
        containers = spec.pop("containers", None) or [{"name": "c", **spec.pop("container", {"image": "app:1"})}]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
            "spec": {"nodeName": node, "containers": containers, **spec},
        }
        return self.call(self.api.create(PODS, pod))

    def delete(self, name="p", **options):
        return self.call(self.api.delete(PODS, name, "default", **options))

    def power_off(self, name="node-1"):
        self.machines.power_off(name)

    def power_on(self, name="node-1"):
        self.call(self._inside(self.machines.power_on, name))

    def reconnect(self, name="node-1"):
        self.call(self._inside(self.machines.reconnect, name))

    @staticmethod
    async def _inside(verb, *args):
        verb(*args)

    def log(self, name="p", container="c", **options):
        return self.call(self.logs.read("default", name, container, {key: str(value) for key, value in options.items()}))

    def events(self, name="p"):
        events = self.call(self.api.list(EVENTS)).items
        mine = [event for event in events if event["involvedObject"]["name"] == name]
        return [
            (event["reason"], event["message"]) for event in sorted(mine, key=lambda one: int(one["metadata"]["resourceVersion"]))
        ]

    def until(self, held, timeout=3600):
        """When, in seconds of the cluster's life, this first holds."""
        assert self.runner.until(held, timeout)
        return self.now


@pytest.fixture
def build(api, runner, chance):
    return lambda nodes=1: Site(api, runner, chance, nodes)


@pytest.fixture
def site(build):
    return build()


@pytest.fixture
def make(site):
    """Make an object in the default namespace; what is returned changes its status."""

    def make_(kind, name, **parts):
        resource = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS, "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS}[kind]
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, **parts}
        made = site.call(site.api.create(resource, obj))
        return lambda status: site.call(site.api.update(resource, {**made, "status": status}, subresource="status"))

    return make_
