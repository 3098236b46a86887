"""From an established definition to the kinds that it brings, one for each version that is served."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from pytest_kscen.machinery.crds.instances import instance_rules
from pytest_kscen.machinery.kinds import Kind, Subresource
from pytest_kscen.machinery.schema.custom import CustomSchema
from pytest_kscen.machinery.schema.leaves import NOTHING
from pytest_kscen.objects.resources import Resource

if TYPE_CHECKING:
    from pytest_kscen.machinery.crds.instances import Settle
    from pytest_kscen.objects.resources import Obj

REMEMBERED = 256
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")  # in discovery's order
_schemas: OrderedDict[bytes, CustomSchema] = OrderedDict()


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """A version besides the one in which objects are stored: what that one does not know is lost."""

    home: tuple[str, str]
    api_version: str
    stored_version: str
    stored_schema: CustomSchema

    def keep(self, obj: Obj) -> Obj:
        kept = self.stored_schema.decode(obj, None, strictness="Ignore", warnings=[])
        return {**kept, "apiVersion": self.stored_version, "metadata": obj["metadata"]}

    def show(self, obj: Obj) -> Obj:
        return {**obj, "apiVersion": self.api_version}


def kinds_of(definition: Obj, settle: Settle) -> list[Kind]:
    served = [version for version in definition["spec"]["versions"] if version["served"]]
    return [_kind(definition, version, settle) for version in served]


def _conversion(definition: Obj, version: Obj) -> OtherVersion | None:
    if version.get("storage"):
        return None
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    stored = next(each for each in spec["versions"] if each.get("storage"))
    home, group = (spec["group"], names["plural"]), spec["group"]
    return OtherVersion(home, f"{group}/{version['name']}", f"{group}/{stored['name']}", _schema(names["kind"], stored))


def _kind(definition: Obj, version: Obj, settle: Settle) -> Kind:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    parts = version.get("subresources") or NOTHING
    schema = _schema(names["kind"], version)
    resource = Resource(spec["group"], version["name"], names["plural"], names["kind"], namespaced=spec["scope"] == "Namespaced")
    return Kind(
        resource,
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=VERBS,
        subresources=_subresources(parts),
        schema=schema,
        rules=instance_rules(resource, version, settle, has_status="status" in parts),
        custom=True,
        structure=schema.structure,
        conversion=_conversion(definition, version),
    )


def _subresources(parts: Obj) -> dict[str, Subresource]:
    verbs = ("get", "patch", "update")
    found = {"status": Subresource(verbs)} if "status" in parts else {}
    if scale := parts.get("scale"):
        paths = (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
        wanted, present, selector = (path.removeprefix(".") for path in paths)
        found["scale"] = Subresource(verbs, "Scale", "autoscaling/v1", (wanted, present, selector))
    return found


def _schema(kind: str, version: Obj) -> CustomSchema:
    """The schema, compiled once in this process however often it is defined again."""
    structure = (version.get("schema") or NOTHING).get("openAPIV3Schema") or NOTHING
    scale = (version.get("subresources") or NOTHING).get("scale") or NOTHING
    key = orjson.dumps([kind, version["name"], structure, scale])
    if key not in _schemas:
        _schemas[key] = CustomSchema(kind, version["name"], structure, scale)
        if len(_schemas) > REMEMBERED:
            _schemas.popitem(last=False)
    return _schemas[key]
