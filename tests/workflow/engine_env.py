"""Environment of an engine: embedded API with the definitions of Chaos Mesh, no controllers."""

from __future__ import annotations

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kinds
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.embedded.kubelet.logs import Logs
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.models.chaos_mesh.installation import install
from pytest_kscen.objects.chaos_mesh import SHIPPED
from pytest_kscen.objects.resources import NAMESPACES


class EngineEnv:
    def __init__(self, seed="theatre"):
        self.runner, self.chance = VirtualRunner(), Chance(seed)
        self.clock, self.logs = self.runner.clock, Logs(self.runner.clock)
        self.server = ApiServer(self.clock, self.chance, Kinds(builtin_kinds()))
        self.server.core.logs = self.logs
        self.api = InProcessApi(self.server, agent="test")
        self.call(self.api.create(NAMESPACES, {"metadata": {"name": "default"}}))
        self.call(install(self.api, self.clock))
        self.journal = Journal(self.clock)

    def call(self, coroutine):
        return self.runner.call(coroutine)

    def actor(self, name="workflow-engine"):
        return RunContext(
            lambda agent: InProcessApi(self.server, agent=agent),
            self.clock,
            self.chance,
            self.journal,
            "run",
        ).actor(name)

    def create(self, resource, obj):
        return self.call(self.api.create(resource, obj, "default"))

    def create_workflow(self, entry, *templates, name="w", **spec):
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"entry": entry, "templates": list(templates), **spec},
        }
        return self.create(SHIPPED.workflows, body)

    def all(self, resource):
        return self.call(self.api.list(resource)).items

    def close(self):
        self.journal.close()
        self.server.close()
        self.runner.close()


def template(name, kind, **fields):
    return {"name": name, "templateType": kind, **fields}


def suspend(name, deadline="10s"):
    return template(name, "Suspend", deadline=deadline)


def partition(name, deadline="60s", **fields):
    spec = {
        "action": "partition",
        "mode": "all",
        "selector": {"namespaces": ["default"]},
        "direction": "to",
    }
    return template(name, "NetworkChaos", deadline=deadline, networkChaos=spec, **fields)


def task(name, *branches, command="exit 0", **fields):
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command]}
    targets = [{"target": target, "expression": expression} for target, expression in branches]
    return template(
        name, "Task", task={"container": container}, conditionalBranches=targets, **fields
    )


class ForwardingProxy:
    """Forwards undefined attributes to the API."""

    def __init__(self, api):
        self._api = api

    def __getattr__(self, name):
        return getattr(self._api, name)
