"""What every verb works with: the store, the kinds, time, chance and the gatekeepers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kscen.clock import timestamp_of
from pytest_kscen.machinery.admission import Admission
from pytest_kscen.machinery.store import Key, Store

if TYPE_CHECKING:
    from pytest_kscen.chance import Chance
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.kinds import Kind, Kinds


@dataclass(slots=True)
class Core:
    """The insides of one API server."""

    clock: Clock
    chance: Chance
    kinds: Kinds
    store: Store = field(default_factory=Store)
    admission: Admission = field(default_factory=Admission)

    def now(self) -> str:
        return timestamp_of(self.clock.now())

    def uid(self) -> str:
        return self.chance.stream("uid").uid()

    def kind_of(self, request: Request) -> Kind:
        resource = request.resource
        return self.kinds.at(resource.group, resource.version, resource.plural)


def key_of(request: Request, name: str) -> Key:
    resource = request.resource
    return Key(resource.group, resource.plural, request.namespace if resource.namespaced else "", name)
