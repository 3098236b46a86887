"""What the server knows of each kind it serves: how it is addressed, decoded, defaulted, validated and shown."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.objects.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kscen.machinery.core import Core
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.resources import Obj, Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Schema(Protocol):
    """The shape of a kind."""

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        """A new object with unknown fields dropped and the schema's defaults filled in.

        Parts that are the old object's own (the same object in memory) were decoded before and are shared. Wrong
        types are a BadRequest; unknown fields are dropped (Ignore), warned of (Warn) or a BadRequest (Strict).
        """

    def validate(self, new: Obj, old: Obj | None) -> Iterable[Cause]:
        """What is wrong with a decoded object."""


class Shapeless:
    """A schema that lets everything through."""

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:  # noqa: ARG002
        return copy.deepcopy(obj)

    def validate(self, new: Obj, old: Obj | None) -> Iterable[Cause]:  # noqa: ARG002
        return ()


def _nothing(*_: Any) -> None: ...


def _no_causes(*_: Any) -> Iterable[Cause]:
    return ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What a kind does that its schema cannot say. The first three change an object that nobody else has seen yet."""

    default: Callable[[Obj], None] = _nothing
    prepare_create: Callable[[Obj, Core], None] = _nothing
    prepare_update: Callable[[Obj, Obj, Core], None] = _nothing
    validate: Callable[[Obj], Iterable[Cause]] = _no_causes
    validate_update: Callable[[Obj, Obj], Iterable[Cause]] = _no_causes
    grace_period: Callable[[Obj], int] | None = None


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with an address of its own; its kind is the object's unless named."""

    verbs: tuple[str, ...]
    kind: str = ""
    api_version: str = ""


@dataclass(slots=True)
class Kind:
    """One resource in one version."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    schema: Schema = field(default_factory=Shapeless)
    rules: Rules = Rules()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


class Kinds:
    """All kinds that are served, by group, version and plural."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        resource = kind.resource
        self._by_path[resource.group, resource.version, resource.plural] = kind
        self._by_kind[resource.api_version, resource.kind] = kind

    def remove(self, resource: Resource) -> None:
        del self._by_path[resource.group, resource.version, resource.plural]
        del self._by_kind[resource.api_version, resource.kind]

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._by_path.values()))

    def at(self, group: str, version: str, plural: str) -> Kind:
        kind = self._by_path.get((group, version, plural))
        if kind is None:
            raise NotFound("the server could not find the requested resource", details={})
        return kind

    def named(self, api_version: str, kind: str) -> Kind:
        found = self._by_kind.get((api_version, kind))
        if found is None:
            raise NotFound(f'no matches for kind "{kind}" in version "{api_version}"')
        return found
