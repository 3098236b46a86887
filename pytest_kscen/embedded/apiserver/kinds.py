"""Descriptions of served kinds: address, schema, rules, subresources and stored version.

`Kinds` is the registry that the server, discovery and OpenAPI read; built-in kinds and
CustomResourceDefinitions add to it. Must not import the verbs.
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
    """Schema of a kind: decodes untyped JSON and validates the result.

    Implemented by built-in schemas, custom schemas and `AnySchema`.
    """

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        """Return a new object with unknown fields dropped and the schema's defaults filled in.

        Parts that are the old object's own (identical in memory) count as decoded and are shared.
        Wrong types raise BadRequest; unknown fields are dropped (Ignore), warned of (Warn) or raise
        BadRequest (Strict).
        """

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> Iterable[Cause]:
        """Return the errors of a decoded object in the parts that this write touches."""


class AnySchema:
    """Schema that accepts every object and copies it unchanged."""

    def decode(self, obj: Obj, old: Obj | None, *, strictness: str, warnings: list[str]) -> Obj:
        del old, strictness, warnings
        return copy.deepcopy(obj)

    def validate(self, new: Obj, old: Obj | None, subresource: str = "") -> Iterable[Cause]:
        del new, old, subresource
        return ()


def _no_change(*_: Any) -> None: ...


def _no_causes(*_: Any) -> Iterable[Cause]:
    return ()


def content_changed(new: Obj, old: Obj) -> bool:
    """Return True if anything but metadata and status changed: the usual rule of `generation`.

    Parts that are the same instance are not compared.
    """
    return any(
        new.get(name) is not old.get(name) and new.get(name) != old.get(name)
        for name in {**new, **old}
        if name not in {"metadata", "status"}
    )


def prepare_status(new: Obj, old: Obj, _core: Core) -> None:
    """Restrict a write of `status` to the status.

    The rest is restored from the old object, except metadata fields that can only cause a refusal.
    """
    _leave_status(new, old, ("resourceVersion", "managedFields", "uid", "generateName"))


def prepare_custom_status(new: Obj, old: Obj, _core: Core) -> None:
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
class SubresourceRules:
    """Rules of a writable subresource.

    `prepare` restores what the subresource may not change, `validate` returns the result's errors.
    """

    prepare: Callable[[Obj, Obj, Core], None] = prepare_status
    validate: Callable[[Obj, Obj], Iterable[Cause]] = _no_causes
    keeps_metadata: bool = False  # `prepare` leaves metadata as it was, so it need not be validated
    validates_finalizers: bool = True  # only if the kind does


@dataclass(frozen=True, slots=True)
class Rules:
    """Behaviour of a kind beyond its schema.

    `default` and the `prepare` functions change an object that is not shared yet, but parts of it
    may be a stored object's: those are replaced, never changed. `validate` checks a new object;
    `validate_update` checks everything about an update, in place of `validate`. Metadata is checked
    by the verbs, with `name` and, for core kinds, the rule that finalizers are qualified or well
    known.
    """

    default: Callable[[Obj], None] = _no_change
    prepare_create: Callable[[Obj, Core], None] = _no_change
    prepare_update: Callable[[Obj, Obj, Core], None] = _no_change
    validate: Callable[[Obj], Iterable[Cause]] = _no_causes
    validate_update: Callable[[Obj, Obj], Iterable[Cause]] = _no_causes
    parts: Mapping[str, SubresourceRules] = field(
        default_factory=lambda: {"status": SubresourceRules()}
    )
    owned_empty_lists: tuple[str, ...] = ()
    """Paths of lists that an empty write owns, though an empty list is not stored."""
    warn: Callable[[Obj, Obj | None], Iterable[str]] = lambda *_: ()
    grace_period: Callable[[Obj, int | None], int] | None = None
    """Seconds for graceful deletion, given the object and the requested ones."""
    name: Check = dns1123_subdomain
    qualified_finalizers: bool = False
    metadata_last: bool = False
    """Metadata of a new object is validated only if all else is valid."""
    fields: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    """Field selectors in addition to metadata's."""
    generation: Callable[[Obj, Obj], bool] | None = content_changed
    """Returns True if an update increases the generation; None if the kind has none."""
    first_generation: int | None = 1
    """Generation of a new object; None leaves the creator's."""
    unconditional_update: bool = True
    """An update needs no resourceVersion."""
    create_on_update: bool = False
    terminate: Callable[[Obj, Options, float], Obj] | None = None
    """Marks an object whose deletion takes several steps."""
    afterwards: Callable[[Core], None] | None = None
    """Called after every write, before it is answered."""
    after_delete: Callable[[Core], None] | None = None
    """Called after an object was removed."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """Subresource of a kind: its verbs, and the kind of its body, the object's own unless named.

    `paths` belong to `scale`: the fields of desired replicas, observed replicas and selector.
    """

    verbs: tuple[str, ...]
    kind: str = ""
    api_version: str = ""
    paths: tuple[str, str, str] = ("spec.replicas", "status.replicas", "spec.selector")


class Conversion(Protocol):
    """Conversion between a served version and the one stored under another kind.

    Both methods return new objects. `home` is the group and plural under which the store holds
    them.
    """

    @property
    def home(self) -> tuple[str, str]: ...

    def to_stored(self, obj: Obj) -> Obj: ...

    def to_served(self, obj: Obj) -> Obj: ...


@dataclass(slots=True)
class Kind:
    """Resource in one version, with everything the server needs to serve it.

    `shape`, `writers` and `handlers` are caches filled on first use by patching and the server.
    """

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    schema: Schema = field(default_factory=AnySchema)
    rules: Rules = Rules()
    custom: bool = False  # defined by a CustomResourceDefinition
    structure: Obj | None = None  # a custom kind's openAPIV3Schema; None for built-in kinds
    shape: Shape | None = field(default=None, compare=False, repr=False)
    """Cache of `patching.shapes.shape_of`."""
    writers: dict[tuple[str, ...], Writer] = field(default_factory=dict, compare=False, repr=False)
    """Cache of `patching.managers.writer_of`."""
    handlers: dict[tuple[str, str], Handler] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    """Handlers by verb and subresource, looked up at the first request."""
    conversion: Conversion | None = None
    api_version: str = field(init=False)
    home: tuple[str, str] = field(init=False)  # group and plural of the stored kind
    is_stored: bool = field(init=False)  # False for reviews and the like, which are answered only

    def __post_init__(self) -> None:
        resource = self.resource
        self.api_version = resource.api_version
        self.is_stored = "watch" in self.verbs
        self.home = self.conversion.home if self.conversion else (resource.group, resource.plural)

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    def to_served(self, obj: Obj) -> Obj:
        """Return a stored object converted to this version; itself if it has this version."""
        if obj["apiVersion"] == self.api_version:
            return obj
        return (
            self.conversion.to_served(obj)
            if self.conversion
            else {**obj, "apiVersion": self.api_version}
        )

    def to_stored(self, obj: Obj) -> Obj:
        """Return an object of this version in its stored form; without a conversion it is stored as
        is.
        """
        for path in self.rules.owned_empty_lists:
            if field_at(obj, path) == []:
                obj = with_value(obj, path, None)
        return self.conversion.to_stored(obj) if self.conversion else obj


_VERSION = re.compile(r"v(?P<major>\d+)((?P<stage>alpha|beta)(?P<minor>\d+))?")
_STAGES = {"alpha": 1, "beta": 2, None: 3}


def stability(version: str) -> tuple[int, int, int]:
    """Return the sort key of Kubernetes' version order.

    Ascending: other names, v1alpha1, v1beta2, v1, v2, v10.
    """
    found = _VERSION.fullmatch(version)
    return (
        (_STAGES[found["stage"]], int(found["major"]), int(found["minor"] or 0))
        if found
        else (0, 0, 0)
    )


class Kinds:
    """Registry of all served kinds by group, version and plural, and by apiVersion and kind.

    Custom kinds are added and removed while the server runs. Lookups of unknown kinds raise
    NotFound with Kubernetes' messages.
    """

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
        """Return each resource once, in its most stable and then newest version.

        `ApiServer.resources` returns these to clients in this process.
        """
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


# Keys of objects in etcd, which only messages show.


ETCD_FOLDERS = {
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("", "endpoints"): "services/endpoints",
    ("", "replicationcontrollers"): "controllers",
    ("networking.k8s.io", "ingresses"): "ingress",
}
GROUPED_IN_ETCD = {"apiextensions.k8s.io", "apiregistration.k8s.io"}


def etcd_path(kind: Kind, request: Request) -> str:
    group, plural = kind.home
    root = "" if request.options.dry_run else "/registry"
    folder = (
        f"{group}/{plural}"
        if kind.custom or group in GROUPED_IN_ETCD
        else ETCD_FOLDERS.get(kind.home, plural)
    )
    return "/".join([root, folder, *(part for part in (request.namespace, request.name) if part)])


def refuse_other_uid(kind: Kind, request: Request, new: Obj, old: Obj | None) -> None:
    """Raise Conflict if an update states a uid that is not the stored object's.

    The message is etcd's precondition failure, with the object's key.
    """
    uid, stored_uid = new.get("uid"), old["metadata"]["uid"] if old else ""
    if uid and uid != stored_uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}"
        where = f"Key: {etcd_path(kind, request)}, ResourceVersion: 0, AdditionalErrorMsg"
        raise conflict(
            kind.resource, request.name, f"StorageError: invalid object, Code: 4, {where}: {why}"
        )
