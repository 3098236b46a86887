import pytest

from pytest_kscen.chance import Chance
from pytest_kscen.clock import VirtualRunner
from pytest_kscen.embedded.apiserver.builtin_kinds import builtin_kinds
from pytest_kscen.embedded.apiserver.kinds import Kind, Kinds, Rules, Subresource, content_changed
from pytest_kscen.embedded.apiserver.server import ApiServer
from pytest_kscen.kube.api import Options, Request
from pytest_kscen.kube.in_process import InProcessApi
from pytest_kscen.objects.resources import Resource

THINGS = Resource("example.com", "v1", "things", "Thing")
OLD_THINGS = Resource("example.com", "v1beta1", "things", "Thing")
ODDS = Resource("example.com", "v1", "odds", "Odd")
WORLDS = Resource("example.com", "v1", "worlds", "World", namespaced=False)
PARTS = {
    "status": Subresource(("get", "patch", "update")),
    "scale": Subresource(("get", "patch", "update")),
}


@pytest.fixture
def runner():
    runner = VirtualRunner()
    yield runner
    runner.close()


class BareServer:
    """API server without controllers and admission plugins, called synchronously."""

    def __init__(self, runner):
        self.runner = runner
        self.thing, self.old_thing, self.odd, self.world = THINGS, OLD_THINGS, ODDS, WORLDS
        rules = Rules(
            generation=content_changed, fields={"spec.size": lambda obj: str(obj["spec"]["size"])}
        )
        kinds = [
            Kind(resource, subresources=PARTS, rules=rules, custom=True)
            for resource in (THINGS, OLD_THINGS)
        ]
        odd = Rules(
            generation=None,
            qualified_finalizers=True,
            unconditional_update=False,
            create_on_update=True,
        )
        kinds += [Kind(ODDS, rules=odd), Kind(WORLDS, rules=Rules(generation=None))]
        self.server = ApiServer(runner.clock, Chance("verbs"), Kinds([*builtin_kinds(), *kinds]))
        self.core, self.store = self.server.core, self.server.core.store
        self.api = InProcessApi(self.server)

    def ask(
        self, verb, resource, name="", *, namespace="default", body=None, subresource="", **options
    ):
        namespace = namespace if resource.namespaced else ""
        parts = {name: options.pop(name) for name in ("patch_type",) if name in options}
        request = Request(
            verb, resource, namespace, name, subresource, body, Options(**options), **parts
        )
        answer = self.runner.ask(self.server.handle(request))
        self.code, self.warnings = answer.code, request.warnings
        return answer.body

    def create(self, resource, name="", **more):
        options = {part: more.pop(part) for part in ("dry_run", "namespace") if part in more}
        metadata = {**({"name": name} if name else {}), **more.pop("metadata", {})}
        return self.ask("create", resource, body={"metadata": metadata, **more}, **options)

    def get(self, resource, name, **more):
        return self.ask("get", resource, name, **more)

    def update(self, resource, body, **more):
        return self.ask("update", resource, body["metadata"]["name"], body=body, **more)

    def patch(self, resource, name, body, **more):
        return self.ask(
            "patch",
            resource,
            name,
            body=body,
            **{"patch_type": "application/merge-patch+json", **more},
        )

    def delete(self, resource, name, **more):
        return self.ask("delete", resource, name, **more)

    def list(self, resource, **more):
        return self.ask("list", resource, **more)

    def names(self, resource, **more):
        return [item["metadata"]["name"] for item in self.list(resource, **more)["items"]]

    def watch(self, resource, *, namespace="default", unlimited=False, **options):
        async def opened():
            where = namespace if resource.namespaced else ""
            return self.server.watch(
                Request("watch", resource, where, options=Options(**options), unlimited=unlimited)
            )

        return WatchReader(self.runner, self.runner.ask(opened()))


class WatchReader:
    """Reader of a watch that never waits."""

    def __init__(self, runner, watch):
        self.runner, self.watch = runner, watch
        self.ended, self.events = False, []
        self._reads = runner.loop.create_task(self._read())

    async def _read(self):
        async for event in self.watch:
            self.events.append(event)
        self.ended = True

    def new(self):
        """Return the events since the last call."""
        self.runner.advance(0)
        events, self.events = self.events, []
        return events

    def received(self):
        return [
            (event.type, event.object.get("metadata", {}).get("name", event.object.get("reason")))
            for event in self.new()
        ]


@pytest.fixture
def site(runner):
    async def made():
        return BareServer(runner)

    return runner.call(made())
