"""What the server knows of each kind it serves: how it is addressed, decoded, defaulted,
validated and shown.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kscen.objects.errors import NotFound, conflict
from pytest_kscen.objects.names import dns1123_subdomain
from pytest_kscen.objects.selectors import field_at, with_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.patching.managed_fields import Writer
    from pytest_kscen.embedded.apiserver.patching.shapes import Shape
    from pytest_kscen.embedded.apiserver.subresources.routing import Handler
    from pytest_kscen.kube.api import Options, Request
    from pytest_kscen.objects.errors import Cause
    from pytest_kscen.objects.names import Check
    from pytest_kscen.objects.resources import Obj, Resource


ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Schema(Protocol):
    """The shape of a kind."""

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        """A new object with unknown fields dropped and the schema's defaults filled in.

        Parts that are the old object's own (the same object in memory) were decoded before and are
        shared. Wrong types are a BadRequest; unknown fields are dropped (Ignore), warned of (Warn)
        or a BadRequest (Strict)."""

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> Iterable[Cause]:
        """What is wrong with a decoded object, as far as this write touches it."""


class Shapeless:
    """A schema that lets everything through."""

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:  # noqa: ARG002
        return copy.deepcopy(obj)

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> Iterable[Cause]:  # noqa: ARG002
        return ()


def _nothing(*_: Any) -> None: ...


def _no_causes(*_: Any) -> Iterable[Cause]:
    return ()


def _no_words(*_: Any) -> Iterable[str]:
    return ()


def content_changed(new: Obj, old: Obj) -> bool:
    """What moves most kinds' generation: any change but to metadata and status."""
    return any(
        new.get(name) is not old.get(name) and new.get(name) != old.get(name)
        for name in {**new, **old}
        if name not in {"metadata", "status"}
    )


def status_alone(new: Obj, old: Obj, _core: Core) -> None:
    """What a write to `status` leaves of the rest: nothing, not even of the metadata but for
    what can only be refused.
    """
    _leave_status(new, old, ("resourceVersion", "managedFields", "uid", "generateName"))


def custom_status_alone(new: Obj, old: Obj, _core: Core) -> None:
    _leave_status(new, old, ("resourceVersion", "managedFields"))


def _leave_status(new: Obj, old: Obj, names: Iterable[str]) -> None:
    status, given = new.get("status"), new["metadata"]
    metadata = {**old["metadata"]}
    for name in names:
        if name in given:
            metadata[name] = given[name]
    new.clear()
    new.update(old)
    new["metadata"] = metadata
    if status is None:
        new.pop("status", None)
    else:
        new["status"] = status


@dataclass(frozen=True, slots=True)
class Part:
    """A writable subresource: `prepare` puts back what it may not change, `validate` judges the
    result.
    """

    prepare: Callable[[Obj, Obj, Core], None] = status_alone
    validate: Callable[[Obj, Obj], Iterable[Cause]] = _no_causes
    keeps_metadata: bool = (
        False  # whatever the server sets in it, and whatever is judged, `prepare` leaves as it was
    )
    judges_finalizers: bool = True  # if its kind does


@dataclass(frozen=True, slots=True)
class Rules:
    """What a kind does that its schema cannot say.

    `default` and the `prepare`s change an object that nobody else has seen yet, but parts of it may
    be a stored object's: those are replaced, never changed. `validate` judges a new object;
    `validate_update` everything about the new state of an old one (it stands instead of `validate`,
    not beside it). Metadata is the verbs' to judge, with `name` and, for the kinds of Kubernetes'
    core, the rule that a finalizer is qualified or well known."""

    default: Callable[[Obj], None] = _nothing
    prepare_create: Callable[[Obj, Core], None] = _nothing
    prepare_update: Callable[[Obj, Obj, Core], None] = _nothing
    validate: Callable[[Obj], Iterable[Cause]] = _no_causes
    validate_update: Callable[[Obj, Obj], Iterable[Cause]] = _no_causes
    parts: Mapping[str, Part] = field(default_factory=lambda: {"status": Part()})
    empties: tuple[
        str, ...
    ] = ()  # lists that who writes them empty owns, though nothing is kept of them
    warn: Callable[[Obj, Obj | None], Iterable[str]] = _no_words
    grace_period: Callable[[Obj, int | None], int] | None = (
        None  # in which an object ends, told what was asked for
    )
    name: Check = dns1123_subdomain
    qualified_finalizers: bool = False
    metadata_last: bool = (
        False  # what is wrong with a new one's metadata is told only if all else is right
    )
    fields: Mapping[str, Callable[[Obj], str]] = field(
        default_factory=dict
    )  # selectable besides metadata's
    generation: Callable[[Obj, Obj], bool] | None = (
        content_changed  # whether it moves; None: the kind has none
    )
    first_generation: int | None = 1  # None: what the creator says
    unconditional_update: bool = True  # without a resourceVersion
    create_on_update: bool = False
    terminate: Callable[[Obj, Options, float], Obj] | None = (
        None  # marks an object whose end takes steps of its own
    )
    afterwards: Callable[[Core], None] | None = (
        None  # what follows every write, before it is answered
    )
    when_gone: Callable[[Core], None] | None = None  # and what follows when one of them is gone


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with an address of its own; its kind is the object's unless named.

    `paths` are for `scale`: where replicas are wanted, where they are counted, and the selector.
    """

    verbs: tuple[str, ...]
    kind: str = ""
    api_version: str = ""
    paths: tuple[str, str, str] = ("spec.replicas", "status.replicas", "spec.selector")


class Conversion(Protocol):
    """Between a kind and another one under which the store keeps its objects."""

    @property
    def home(self) -> tuple[str, str]: ...

    def keep(self, obj: Obj) -> Obj: ...

    def show(self, obj: Obj) -> Obj: ...


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
    custom: bool = False  # defined by a CustomResourceDefinition
    structure: Obj | None = (
        None  # a custom kind's openAPIV3Schema; a built-in kind has its recorded definition
    )
    shape: Shape | None = field(
        default=None, compare=False, repr=False
    )  # what patching.shape_of has made of it
    writers: dict[tuple[str, ...], Writer] = field(
        default_factory=dict, compare=False, repr=False
    )  # and patching.writer_of
    handlers: dict[tuple[str, str], Handler] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    """Who answers, by verb and subresource; looked up when somebody first asks."""
    conversion: Conversion | None = None
    api_version: str = field(init=False)
    home: tuple[str, str] = field(
        init=False
    )  # the group and the plural under which the store keeps it
    is_stored: bool = field(init=False)  # or else only asked

    def __post_init__(self) -> None:
        resource = self.resource
        self.api_version = resource.api_version
        self.is_stored = "watch" in self.verbs
        self.home = self.conversion.home if self.conversion else (resource.group, resource.plural)

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    def shown(self, obj: Obj) -> Obj:
        """A stored object as this version has it."""
        if obj["apiVersion"] == self.api_version:
            return obj
        return (
            self.conversion.show(obj)
            if self.conversion
            else {**obj, "apiVersion": self.api_version}
        )

    def kept(self, obj: Obj) -> Obj:
        """An object of this version as the store has it; versions without a conversion are
        stored as they are written.
        """
        for path in self.rules.empties:
            if field_at(obj, path) == []:
                obj = with_value(obj, path, None)
        return self.conversion.keep(obj) if self.conversion else obj


_VERSION = re.compile(r"v(?P<major>\d+)((?P<stage>alpha|beta)(?P<minor>\d+))?")
_STAGES = {"alpha": 1, "beta": 2, None: 3}


def stability(version: str) -> tuple[int, int, int]:
    """Kubernetes' order of versions: v10, v2, v1, v1beta2, v1alpha1, and last whatever is called
    otherwise.
    """
    found = _VERSION.fullmatch(version)
    return (
        (_STAGES[found["stage"]], int(found["major"]), int(found["minor"] or 0))
        if found
        else (0, 0, 0)
    )


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

    def preferred(self) -> list[Kind]:
        """Each resource in one version: the most stable one, and of those the newest."""
        best: dict[tuple[str, str], Kind] = {}
        for kind in self:
            place = kind.resource.group, kind.resource.plural
            if place not in best or stability(kind.resource.version) > stability(
                best[place].resource.version
            ):
                best[place] = kind
        return list(best.values())

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


# Where etcd would have an object: only messages tell.


ODD = {
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("", "endpoints"): "services/endpoints",
    ("", "replicationcontrollers"): "controllers",
    ("networking.k8s.io", "ingresses"): "ingress",
}
WITH_GROUP = {"apiextensions.k8s.io", "apiregistration.k8s.io"}


def path_of(kind: Kind, request: Request) -> str:
    group, plural = kind.home
    root = "" if request.options.dry_run else "/registry"
    folder = (
        f"{group}/{plural}" if kind.custom or group in WITH_GROUP else ODD.get(kind.home, plural)
    )
    return "/".join([root, folder, *(part for part in (request.namespace, request.name) if part)])


def refuse_other_uid(kind: Kind, request: Request, new: Obj, old: Obj | None) -> None:
    """An update that names a uid is meant for that object alone."""
    uid, there = new.get("uid"), old["metadata"]["uid"] if old else ""
    if uid and uid != there:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}"
        where = f"Key: {path_of(kind, request)}, ResourceVersion: 0, AdditionalErrorMsg"
        raise conflict(
            kind.resource, request.name, f"StorageError: invalid object, Code: 4, {where}: {why}"
        )
