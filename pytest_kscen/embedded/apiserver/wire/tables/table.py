"""Tables: column definitions, and a row per object with as much of the object as requested.

Called by `responses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kscen.embedded.apiserver.wire.tables import (
    cluster,
    networking,
    policies,
    storage,
    workloads,
)
from pytest_kscen.embedded.apiserver.wire.tables import cluster as access
from pytest_kscen.embedded.apiserver.wire.tables import workloads as pods
from pytest_kscen.embedded.apiserver.wire.tables.columns import PLAIN_COLUMNS
from pytest_kscen.objects.errors import BadRequest

if TYPE_CHECKING:
    from pytest_kscen.embedded.apiserver.wire.tables.columns import Column
    from pytest_kscen.objects.resources import Obj, Resource

BUILTIN_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "pods"): pods.POD_COLUMNS,
    **workloads.WORKLOAD_TABLES,
    **cluster.CLUSTER_TABLES,
    **networking.TABLES,
    **storage.TABLES,
    **policies.TABLES,
    **access.ACCESS_TABLES,
}
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""Annotation that kube-apiserver drops from partial metadata."""
INCLUDED = ("", "Metadata", "Object", "None")


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """Return a built-in kind's columns; name and creation time if it has none of its own."""
    return BUILTIN_COLUMNS.get((resource.group, resource.plural), PLAIN_COLUMNS)


def partial_metadata(obj: Obj, version: str = "v1") -> Obj:
    """Return an object's metadata as PartialObjectMetadata of this version of meta.k8s.io."""
    metadata = obj.get("metadata") or {}
    if TEMPLATE_GENERATION in (metadata.get("annotations") or {}):
        left = {
            name: value
            for name, value in metadata["annotations"].items()
            if name != TEMPLATE_GENERATION
        }
        rest = {name: part for name, part in metadata.items() if name != "annotations"}
        metadata = {**rest, "annotations": left} if left else rest
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
    }


def _version_of(obj: Obj) -> Obj:
    version = obj["metadata"].get("resourceVersion")
    return {"resourceVersion": version} if version else {}


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints the tables of one answer at one instant.

    `included` is the query's includeObject. Raises BadRequest for another value than its four.
    """

    columns: tuple[Column, ...]
    now: float
    included: str = ""
    version: str = "v1"

    def __post_init__(self) -> None:
        if self.included not in INCLUDED:
            why = (
                f"includeObject: Invalid value: \"{self.included}\": must be 'Metadata', "
                "'Object', 'None', or empty"
            )
            raise BadRequest(f"Unable to convert to Table as requested: {why}")

    def of_list(self, listing: Obj) -> Obj:
        rows = [self._row(item) for item in listing["items"]]
        return self._table(
            listing["metadata"], rows, [column.definition() for column in self.columns]
        )

    def of_one(self, obj: Obj) -> Obj:
        return self._table(
            _version_of(obj), [self._row(obj)], [column.definition() for column in self.columns]
        )

    def of_event(self, type_: str, obj: Obj, *, first: bool) -> Obj:
        """Return a table of one row; only a watch's first has column definitions.

        A bookmark's cells are empty.
        """
        definitions = [column.definition() for column in self.columns] if first else None
        if type_ != "BOOKMARK":
            return self._table(_version_of(obj), [self._row(obj)], definitions)
        row = {"cells": [""] * len(self.columns), "object": partial_metadata(obj, self.version)}
        return self._table(_version_of(obj), [row], definitions)

    def _table(self, metadata: Obj, rows: list[Obj], definitions: list[Obj] | None) -> Obj:
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{self.version}",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }

    def _row(self, obj: Obj) -> Obj:
        row: dict[str, Any] = {"cells": [column.cell(obj, self.now) for column in self.columns]}
        if self.columns is pods.POD_COLUMNS and (conditions := pods.pod_row_conditions(obj)):
            row["conditions"] = conditions
        if self.included == "Object":
            row["object"] = obj
        elif self.included != "None":
            row["object"] = partial_metadata(obj, self.version)
        return row
