"""The gatekeepers between a decoded object and the store: first those that change it, then those that only judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj


@dataclass(slots=True)
class Review:
    """A write that wants to be let in. `new` is None for a deletion; a mutating gatekeeper changes it in place."""

    operation: str  # CREATE, UPDATE, DELETE, CONNECT
    request: Request
    core: Core
    new: Obj | None
    old: Obj | None


class Gatekeeper(Protocol):
    """Refuses by raising an ApiError."""

    async def mutate(self, review: Review) -> None: ...

    async def validate(self, review: Review) -> None: ...


@dataclass(slots=True)
class Admission:
    """The chain."""

    gatekeepers: list[Gatekeeper] = field(default_factory=list)

    async def mutate(self, review: Review) -> None:
        for gatekeeper in self.gatekeepers:
            await gatekeeper.mutate(review)

    async def validate(self, review: Review) -> None:
        for gatekeeper in self.gatekeepers:
            await gatekeeper.validate(review)
