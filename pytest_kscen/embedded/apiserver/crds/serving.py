"""Kinds of an established definition, one per served version, and the negotiation of its names.

Called by `rules`. The functions about names and conditions are pure.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pytest_kscen.embedded.apiserver.kinds import (
    Kind,
    Rules,
    Subresource,
    SubresourceRules,
    content_changed,
    prepare_custom_status,
)
from pytest_kscen.embedded.apiserver.schema.custom import CustomSchema
from pytest_kscen.embedded.apiserver.schema.scalars import EMPTY
from pytest_kscen.objects.errors import forbidden, quoted
from pytest_kscen.objects.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pytest_kscen.objects.selectors import field_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kscen.embedded.apiserver.core import Core
    from pytest_kscen.embedded.apiserver.store import Key
    from pytest_kscen.objects.resources import Obj

    Reconcile = Callable[[Core], None]


TERMINATING_REFUSAL = "create not allowed while custom resource definition is terminating"


def instance_rules(
    resource: Resource, version: Obj, reconcile: Reconcile, *, has_status: bool
) -> Rules:
    key = (
        CUSTOM_RESOURCE_DEFINITIONS.group,
        CUSTOM_RESOURCE_DEFINITIONS.plural,
        "",
        resource.qualified,
    )
    paths = [given["jsonPath"].removeprefix(".") for given in version.get("selectableFields") or ()]

    def refuse_while_terminating(obj: Obj, core: Core) -> None:
        if _is_terminating(core, key):
            raise forbidden(resource, obj["metadata"]["name"], TERMINATING_REFUSAL)

    def finish_definition(core: Core) -> None:
        """Reconcile once the last instance of a definition under deletion is gone."""
        if _is_terminating(core, key):
            reconcile(core)

    return Rules(
        prepare_create=refuse_while_terminating,
        parts={"status": SubresourceRules(prepare_custom_status, keeps_metadata=True)},
        fields={path: _selectable_field(path) for path in paths},
        # Without the status subresource, the status counts as content.
        generation=content_changed
        if has_status
        else lambda new, old: any(
            new.get(name) != old.get(name) for name in {**new, **old} if name != "metadata"
        ),
        unconditional_update=False,
        after_delete=finish_definition,
    )


def _is_terminating(core: Core, key: Key) -> bool:
    definition = core.store.get(key)
    return definition is not None and "deletionTimestamp" in definition["metadata"]


def _selectable_field(path: str) -> Callable[[Obj], str]:
    def value(obj: Obj) -> str:
        found: Any = field_at(obj, path)
        if isinstance(found, bool):
            return str(found).lower()
        return "" if found is None else str(found)

    return value


MAX_CACHED_SCHEMAS = 256
VERBS = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)  # in the order of discovery
_schema_cache: OrderedDict[bytes, CustomSchema] = OrderedDict()


@dataclass(frozen=True, slots=True)
class UnstoredVersion:
    """Conversion between a served version and the stored one, without a webhook. Fields that the
    stored version does not know are lost.
    """

    home: tuple[str, str]
    api_version: str
    stored_version: str
    stored_schema: CustomSchema

    def to_stored(self, obj: Obj) -> Obj:
        kept = self.stored_schema.decode(obj, None, strictness="Ignore", warnings=[])
        return {**kept, "apiVersion": self.stored_version, "metadata": obj["metadata"]}

    def to_served(self, obj: Obj) -> Obj:
        return {**obj, "apiVersion": self.api_version}


def kinds_of(definition: Obj, reconcile: Reconcile) -> list[Kind]:
    """Return the kind of each served version. Served versions that are not stored are converted."""
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    kinds = []
    for version in spec["versions"]:
        if not version["served"]:
            continue
        parts = version.get("subresources") or EMPTY
        schema = _schema_of(names["kind"], version)
        resource = Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec["scope"] == "Namespaced",
        )
        conversion = None
        if not version.get("storage"):
            stored = next(each for each in spec["versions"] if each.get("storage"))
            conversion = UnstoredVersion(
                (spec["group"], names["plural"]),
                resource.api_version,
                f"{spec['group']}/{stored['name']}",
                _schema_of(names["kind"], stored),
            )
        kind = Kind(
            resource,
            singular=names.get("singular", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            verbs=VERBS,
            subresources=_subresources(parts),
            schema=schema,
            rules=instance_rules(resource, version, reconcile, has_status="status" in parts),
            custom=True,
            structure=schema.structure,
            conversion=conversion,
        )
        kinds.append(kind)
    return kinds


def _subresources(parts: Obj) -> dict[str, Subresource]:
    verbs = ("get", "patch", "update")
    found = {"status": Subresource(verbs)} if "status" in parts else {}
    if scale := parts.get("scale"):
        paths = (
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath", ""),
        )
        wanted, present, selector = (path.removeprefix(".") for path in paths)
        found["scale"] = Subresource(verbs, "Scale", "autoscaling/v1", (wanted, present, selector))
    return found


def _schema_of(kind: str, version: Obj) -> CustomSchema:
    """Return the compiled schema of a version. Equal schemas share one object, up to 256 in this
    process.
    """
    structure = (version.get("schema") or EMPTY).get("openAPIV3Schema") or EMPTY
    scale = (version.get("subresources") or EMPTY).get("scale") or EMPTY
    key = orjson.dumps([kind, version["name"], structure, scale])
    if key not in _schema_cache:
        _schema_cache[key] = CustomSchema(kind, version["name"], structure, scale)
        if len(_schema_cache) > MAX_CACHED_SCHEMAS:
            _schema_cache.popitem(last=False)
    return _schema_cache[key]


NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
SINGLE_NAMES = {
    "plural": ("PluralConflict", "resources"),
    "singular": ("SingularConflict", "resources"),
    "kind": ("KindConflict", "kinds"),
    "listKind": ("ListKindConflict", "kinds"),
}


def condition_of(definition: Obj, type_: str) -> Obj:
    conditions = (definition.get("status") or EMPTY).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == type_), EMPTY)


def is_true(definition: Obj, type_: str) -> bool:
    return bool(condition_of(definition, type_).get("status") == "True")


def with_condition(status: Obj, now: str, type_: str, *result: str) -> Obj:
    """Return a status with this condition: status, reason and message.

    The transition time changes only if the condition's status does.
    """
    conditions = list(status.get("conditions") or ())
    value, reason, message = result
    new = {
        "type": type_,
        "status": value,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    for index, old in enumerate(conditions):
        if old["type"] == type_:
            since = old["lastTransitionTime"] if old["status"] == value else now
            conditions[index] = {**new, "lastTransitionTime": since}
            break
    else:
        conditions.append(new)
    return {**status, "conditions": conditions}


def accept_names(definition: Obj, others: Iterable[Obj], now: str) -> Obj:
    """Return the status of a definition after negotiating its names with the group's other
    definitions.

    The same status is returned if nothing changed. Sets NamesAccepted and, once, Established.
    """
    wanted, status = definition["spec"]["names"], definition.get("status") or EMPTY
    had = status.get("acceptedNames") or EMPTY
    if _same_names(wanted, had):
        return status
    definitions = [*others, definition]
    names = [(each.get("status") or EMPTY).get("acceptedNames") or EMPTY for each in definitions]
    taken: dict[str, set[str]] = {
        "resources": {*_names_in(names, ("plural", "singular", "shortNames"))},
        "kinds": {*_names_in(names, ("kind", "listKind"))},
    }
    accepted, conflict = _accept_each_name(wanted, had, taken)
    result = ("False", *conflict) if conflict else ("True", "NoConflicts", "no conflicts found")
    before = condition_of(definition, NAMES_ACCEPTED)
    if (
        _same_names(accepted, had)
        and (before.get("status"), before.get("reason"), before.get("message")) == result
    ):
        return status
    status = with_condition({**status, "acceptedNames": accepted}, now, NAMES_ACCEPTED, *result)
    if is_true(definition, ESTABLISHED):
        return status
    if conflict:
        old = condition_of(definition, ESTABLISHED)
        old_condition = (
            (old["status"], old["reason"], old["message"])
            if old
            else ("False", "NotAccepted", "not all names are accepted")
        )
        return with_condition(status, now, ESTABLISHED, *old_condition)
    return with_condition(
        status, now, ESTABLISHED, "False", "Installing", "the initial names have been accepted"
    )


def mark_established(status: Obj, now: str) -> Obj:
    return with_condition(
        status,
        now,
        ESTABLISHED,
        "True",
        "InitialNamesAccepted",
        "the initial names have been accepted",
    )


def _same_names(one: Obj, other: Obj) -> bool:
    return {name: value for name, value in one.items() if value} == {
        name: value for name, value in other.items() if value
    }


def _names_in(all_names: Iterable[Obj], fields: tuple[str, ...]) -> Iterator[str]:
    for names in all_names:
        for field in fields:
            value: Any = names.get(field)
            yield from value if isinstance(value, list) else [value] if value else ()


def _accept_each_name(
    wanted: Obj, had: Obj, taken: dict[str, set[str]]
) -> tuple[Obj, tuple[str, str] | None]:
    """Return the accepted names and the last conflict, as reason and message. A refused name keeps
    its old value.
    """
    accepted, conflict = dict(had), None
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        if field == "shortNames":
            own = had.get(field) or ()
            refused = [
                name
                for name in wanted.get(field) or ()
                if name not in own and name in taken["resources"]
            ]
            reason = "ShortNamesConflict"
        else:
            reason, among = SINGLE_NAMES[field]
            name = wanted[field]
            refused = [name] if name != had.get(field) and name in taken[among] else []
        if refused:
            texts = [f"{quoted(name)} is already in use" for name in refused]
            conflict = reason, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        elif wanted.get(field):
            accepted[field] = wanted[field]
        else:
            accepted.pop(field, None)
    accepted.pop("categories", None)
    return {
        **accepted,
        **({"categories": wanted["categories"]} if wanted.get("categories") else {}),
    }, conflict
