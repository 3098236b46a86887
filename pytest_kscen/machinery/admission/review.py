"""A write that wants to be let in, and what a gatekeeper is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kscen.objects.errors import Forbidden, forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kscen.kube.requests import Request
    from pytest_kscen.machinery.admission.chain import Plan
    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.resources import Obj, Resource

    Place = tuple[str, str, str, str]

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@dataclass(slots=True)
class Review:
    """`new` is None for a deletion. Who changes it replaces the parts that it changes: some are a stored object's."""

    operation: str
    request: Request
    core: Core
    new: Obj | None
    old: Obj | None
    plan: Plan | None = None  # the chain's own: who looks at it

    @property
    def obj(self) -> Obj:
        """The new object; the old one of a deletion."""
        found = self.new if self.new is not None else self.old
        return {"metadata": {}} if found is None else found

    @property
    def name(self) -> str:
        metadata = self.obj["metadata"]
        return str(self.request.name or metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """Where it happens; for a namespace itself, its name."""
        resource = self.request.resource
        return self.name if (resource.group, resource.plural) == ("", "namespaces") else self.request.namespace

    def forbidden(self, why: str) -> Forbidden:
        name = self.name or self.obj["metadata"].get("generateName") or ""
        return forbidden(self.request.resource, name, why)


class Gate(NamedTuple):
    """What Kubernetes itself does with some kinds of writes. Neither function waits; a refusal is an ApiError."""

    resources: Sequence[Resource] = ()  # none: all
    mutate: Callable[[Review], None] | None = None
    validate: Callable[[Review], None] | None = None
    operations: Collection[str] = (CREATE, UPDATE)
    subresources: Collection[str] | None = ("",)  # None: all

    def concerns(self, place: Place) -> bool:
        group, plural, subresource, operation = place
        return (
            operation in self.operations
            and (self.subresources is None or subresource in self.subresources)
            and (not self.resources or any((each.group, each.plural) == (group, plural) for each in self.resources))
        )
