"""The embedded API server's entry point: selects the handler of each request.

Clients in this process call `ApiServer.handle` and `ApiServer.watch`; HTTP requests arrive here
through `wire.Wire`. Must not contain rules of single kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.embedded.apiserver import watch
from pytest_kscen.embedded.apiserver.core import Core
from pytest_kscen.embedded.apiserver.subresources import handler_of, unstored_handler
from pytest_kscen.embedded.apiserver.verbs import creating, deleting, reading, updating
from pytest_kscen.objects.errors import MethodNotAllowed

if TYPE_CHECKING:
    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.embedded.apiserver.admission import Admission
    from pytest_kscen.embedded.apiserver.kinds import Kind, Kinds
    from pytest_kscen.kube.api import Answer, Request, Watch
    from pytest_kscen.objects.resources import Resource

VERBS = {
    "get": reading.get,
    "list": reading.list_,
    "create": creating.create,
    "update": updating.update,
    "patch": updating.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}
READ_VERBS = {"get", "list", "watch"}
STORED_VERBS = {
    "list",
    "watch",
    "delete",
}  # the verbs of a resource whose objects stay until they are deleted


class ApiServer:
    """Implementation of the `kube.api.Server` protocol on an in-memory store.

    Owns the store and its background housekeeping. Handlers are looked up at a kind's first request
    for a verb and kept on the kind.
    """

    def __init__(
        self, clock: Clock, chance: Chance, kinds: Kinds, admission: Admission | None = None
    ) -> None:
        self.core = Core(clock, chance, kinds)
        if admission is not None:
            self.core.admission = admission

    async def handle(self, request: Request) -> Answer:
        kind = self.core.kind_of(request)
        way = request.verb, request.subresource
        handler = kind.handlers.get(way)
        if handler is None:
            if request.subresource:
                handler = handler_of(kind, request)
            else:
                _refuse_verb(kind, request.verb)
                handler = VERBS[request.verb] if kind.is_stored else unstored_handler(kind, request)
            kind.handlers[way] = handler
        answer = await handler(self.core, kind, request)
        if kind.rules.afterwards and request.verb not in READ_VERBS:
            kind.rules.afterwards(self.core)
        return answer

    def watch(self, request: Request) -> Watch:
        kind = self.core.kind_of(request)
        _refuse_verb(kind, "watch")
        return watch.watch(self.core, kind, request)

    def close(self) -> None:
        self.core.store.close()

    async def resource_of(self, api_version: str, kind: str) -> Resource:
        return self.core.kinds.named(api_version, kind).resource

    async def resources(self) -> list[Resource]:
        return [
            kind.resource for kind in self.core.kinds.preferred() if {*kind.verbs} >= STORED_VERBS
        ]


def _refuse_verb(kind: Kind, verb: str) -> None:
    if verb not in kind.verbs:
        raise MethodNotAllowed(
            "the server does not allow this method on the requested resource", details={}
        )
