"""Storage classes, the attributes of volumes, and what room there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kscen.machinery.kinds import Rules
from pytest_kscen.machinery.rules import checks
from pytest_kscen.machinery.rules.filling import fill
from pytest_kscen.objects import names, quantities
from pytest_kscen.objects.errors import Cause

if TYPE_CHECKING:
    from pytest_kscen.machinery.rules.checks import Causes
    from pytest_kscen.objects.resources import Obj

GROUP = "storage.k8s.io"
LARGEST_PARAMETERS = 256 * 1024
MOST_PARAMETERS = 512
FIXED_OF_CLASSES = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def default_class(obj: Obj) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def validate_class(obj: Obj) -> Causes:
    yield from _provisioner("provisioner", obj.get("provisioner", ""))
    yield from _parameters(obj.get("parameters") or {}, needed=False)
    if obj.get("reclaimPolicy"):
        yield from checks.one_of("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    yield from checks.one_of("volumeBindingMode", obj.get("volumeBindingMode", ""), modes)
    yield from _topologies("allowedTopologies", obj.get("allowedTopologies") or [])


def _provisioner(path: str, name: str) -> Causes:
    if not name:
        yield Cause.required(path)
    else:
        for words in names.label_key(name.lower()):
            yield Cause.invalid(path, name.lower(), words)


def _parameters(given: Obj, *, needed: bool) -> Causes:
    if len(given) > MOST_PARAMETERS:
        yield Cause.too_long("parameters", MOST_PARAMETERS)
    elif sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > LARGEST_PARAMETERS:
        yield Cause.too_long("parameters", LARGEST_PARAMETERS)
    elif "" in given:
        yield Cause.invalid("parameters", "", "field can not be empty.")
    elif needed and not given:
        yield Cause.required("parameters", "must contain at least one key/value pair")


def _topologies(path: str, given: list[Obj]) -> Causes:
    seen: list[Any] = []
    for place, term in enumerate(given):
        here, parts = f"{path}[{place}].matchLabelExpressions", term.get("matchLabelExpressions") or []
        for number, part in enumerate(parts):
            values = part.get("values") or []
            if not values:
                yield Cause.required(f"{here}[{number}].values")
            yield from checks.unique(f"{here}[{number}].values", values)
            yield from checks.named(f"{here}[{number}].key", part.get("key", ""), names.label_key)
            if part.get("key") in [other.get("key") for other in parts[:number]]:
                yield Cause.duplicate(f"{here}[{number}].key", part.get("key", ""))
        terms = {part.get("key"): set(part.get("values") or ()) for part in parts}
        if not terms or terms in seen:
            yield Cause.duplicate(here, "")
        seen.append(terms)


def update_class(new: Obj, old: Obj) -> Causes:
    yield from validate_class(new)
    for field in FIXED_OF_CLASSES:
        yield from checks.immutable(field, new.get(field), old.get(field))


def validate_capacity(obj: Obj) -> Causes:
    yield from checks.selector("nodeTopology", obj.get("nodeTopology"))
    yield from checks.named("storageClassName", obj.get("storageClassName", ""), names.dns1123_subdomain)
    if "capacity" in obj and quantities.nanos(obj["capacity"]) < 0:
        yield Cause.invalid("capacity", obj["capacity"], checks.NOT_NEGATIVE)


def update_capacity(new: Obj, old: Obj) -> Causes:
    yield from validate_capacity(new)
    for field in ("nodeTopology", "storageClassName"):
        yield from checks.immutable(field, new.get(field), old.get(field))


def validate_attributes(obj: Obj) -> Causes:
    yield from _provisioner("driverName", obj.get("driverName", ""))
    yield from _parameters(obj.get("parameters") or {}, needed=True)


def update_attributes(new: Obj, old: Obj) -> Causes:
    for field in ("driverName", "parameters"):
        if new.get(field) != old.get(field):
            yield Cause.forbidden(field, f"updates to {field} are forbidden.")
    yield from validate_attributes(new)


RULES = {
    (GROUP, "storageclasses"): Rules(
        default=default_class,
        validate=validate_class,
        validate_update=update_class,
        qualified_finalizers=True,
        generation=None,
    ),
    (GROUP, "csistoragecapacities"): Rules(
        validate=validate_capacity,
        validate_update=update_capacity,
        qualified_finalizers=True,
        generation=None,
        unconditional_update=False,
    ),
    (GROUP, "volumeattributesclasses"): Rules(
        validate=validate_attributes,
        validate_update=update_attributes,
        qualified_finalizers=True,
        generation=None,
    ),
}
