import pytest
from controller_cluster import ControllerCluster

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.controller import ControllerContext
from pytest_kscen.embedded.kubelet.nodes import Kubelets
from pytest_kscen.embedded.kubelet.nodes import Site as BuiltSite
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.kube.informer import Informers
from pytest_kscen.objects.resources import EVENTS, NAMESPACES, NODES, PODS


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


@pytest.fixture
def chance():
    return Chance("simulation")


@pytest.fixture
def api(runner, chance):
    """Return an API server with the initial namespaces and without controllers."""
    api = InProcessApi(ApiServer(runner.clock, chance, Kinds(builtin_kinds())))
    for name in ("default", "kube-node-lease", "kube-system"):
        runner.call(
            api.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        )
    return api


class Site:
    """Machines and kubelets on an API server, with operations for tests."""

    def __init__(self, api, runner, chance, nodes, controllers):
        self.api, self.runner, self.clock = api, runner, runner.clock
        site = BuiltSite.of(self.clock, chance, nodes=nodes)
        self.machines, self.images, self.logs = site.machines, site.images, site.logs
        self.network, self.hosts = site.network, site.hosts
        informers = Informers(api, self.clock, chance)
        self.kubelets = Kubelets(ControllerContext.of("kubelet", api, self.clock, informers), site)
        others = [
            (name, make(ControllerContext.of(name, api, self.clock, informers)))
            for name, make in controllers.items()
        ]
        for name, actor in [("informers", informers), ("kubelets", self.kubelets), *others]:
            runner.start(actor.run(), name)
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
        return any(
            pod["metadata"]["name"] == name
            for pod in self.call(self.api.list(PODS, "default")).items
        )

    def create(self, name="p", *, node="node-1", annotations=None, **spec):
        containers = spec.pop("containers", None) or [
            {"name": "c", **spec.pop("container", {"image": "app:1"})}
        ]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
            "spec": {**({"nodeName": node} if node else {}), "containers": containers, **spec},
        }
        return self.call(self.api.create(PODS, pod))

    def delete(self, name="p", **options):
        return self.call(self.api.delete(PODS, name, "default", **options))

    def power_off(self, name="node-1"):
        self.machines.power_off(name)

    def power_on(self, name="node-1"):
        self.machines.power_on(name)

    def reconnect(self, name="node-1"):
        self.machines.reconnect(name)

    def log(self, name="p", container="c", **options):
        return self.call(
            self.logs.read(
                "default", name, container, {key: str(value) for key, value in options.items()}
            )
        )

    def events(self, name="p"):
        events = self.call(self.api.list(EVENTS)).items
        mine = [event for event in events if event["involvedObject"]["name"] == name]
        return [
            (event["reason"], event["message"])
            for event in sorted(mine, key=lambda one: int(one["metadata"]["resourceVersion"]))
        ]

    def until(self, held, timeout=3600):
        """Return the second of the cluster's life in which this first holds."""
        assert self.runner.until(held, timeout)
        return self.now


@pytest.fixture
def build(api, runner, chance):
    return lambda nodes=1, **controllers: Site(api, runner, chance, nodes, controllers)


@pytest.fixture
def site(build):
    return build()


@pytest.fixture
def world(api, runner, chance):
    return ControllerCluster(api, runner, chance)


@pytest.fixture
def template():
    def template(image="app", *, labels=None, **spec):
        return {
            "metadata": {"labels": labels or {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": image}], **spec},
        }

    return template
